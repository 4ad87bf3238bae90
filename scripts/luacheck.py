#!/usr/bin/env python3
"""Compile the store's Lua scripts as Redis would: Lua 5.1, the prelude in front of each.

Says where a script does not compile (`file:line: message`) and exits with 1, like `luac -p`.
Needs `lupa`. Another folder can be named as the only argument.
"""

import re
import sys
from pathlib import Path

from lupa import lua51

FOLDER = Path(__file__).resolve().parent.parent / "src/incumbent/stores/redis/lua"
PRELUDE = "prelude.lua"


def problem(source: str) -> tuple[int, str] | None:
    """Return line and message of the first syntax error in `source`, or None."""
    try:
        lua51.LuaRuntime().compile(source)
    except lua51.LuaSyntaxError as error:
        found = re.search(r":(\d+): (.*)", str(error), re.DOTALL)
        return (int(found[1]), found[2]) if found else (0, str(error))
    return None


def check(folder: Path) -> list[str]:
    """Return one line per script in `folder` that does not compile."""
    prelude = folder / PRELUDE
    shared = prelude.read_text("utf-8") + "\n" if prelude.exists() else ""
    if found := problem(shared):
        return [f"{prelude}:{found[0]}: {found[1]}"]  # each script would only repeat it
    complaints: list[str] = []
    for path in sorted(folder.glob("*.lua")):
        if path != prelude and (found := problem(shared + path.read_text("utf-8"))):
            line = max(found[0] - shared.count("\n"), 0)
            complaints.append(f"{path}:{line}: {found[1]}")
    return complaints


def main() -> int:
    """Check the folder; print what was found."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    count = len(list(folder.glob("*.lua")))
    if not count:
        print(f"no Lua scripts in {folder}")
        return 0
    complaints = check(folder)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if not complaints:
        print(f"{count} Lua files compile")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
