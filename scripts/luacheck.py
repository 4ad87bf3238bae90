#!/usr/bin/env python3
"""Compile the package's Lua scripts as Redis would: Lua 5.1, with what they share in front of each.

Says where a script does not compile (`file:line: message`) and exits with 1, like `luac -p`.
Needs `lupa`. Another folder can be named as the only argument.
"""

import re
import sys
from pathlib import Path

from lupa import lua51

SOURCE = Path(__file__).resolve().parent.parent / "src/incumbent"
FOLDERS = (SOURCE / "stores/redis/lua", SOURCE / "fencing")
SHARED = ("prelude.lua", "line.lua")
"""What begins other scripts, in this order."""


def problem(shared: str, path: Path) -> str | None:
    """Return the first syntax error of the script at `path` behind what is shared, or None."""
    try:
        lua51.LuaRuntime().compile(shared + path.read_text("utf-8"))
    except lua51.LuaSyntaxError as error:
        found = re.search(r":(\d+): (.*)", str(error), re.DOTALL)
        line, message = (int(found[1]), found[2]) if found else (0, str(error))
        return f"{path}:{max(line - shared.count(chr(10)), 0)}: {message}"
    return None


def check(folder: Path) -> list[str]:
    """Return one line per script in `folder` that does not compile."""
    shared = ""
    for path in [folder / name for name in SHARED if (folder / name).exists()]:
        if found := problem(shared, path):
            return [found]  # each script would only repeat it
        shared += path.read_text("utf-8") + "\n"
    scripts = [path for path in sorted(folder.glob("*.lua")) if path.name not in SHARED]
    return [found for path in scripts if (found := problem(shared, path))]


def main() -> int:
    """Check the folders; print what was found."""
    folders = [Path(sys.argv[1])] if len(sys.argv) > 1 else FOLDERS
    count = sum(len(list(folder.glob("*.lua"))) for folder in folders)
    if not count:
        print(f"no Lua scripts in {folders[0]}")
        return 0
    complaints = [complaint for folder in folders for complaint in check(folder)]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if not complaints:
        print(f"{count} Lua files compile")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
