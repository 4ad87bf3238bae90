#!/usr/bin/env python3
"""Look at the installed `incumbent` from outside of the source tree.

Run by the clean environment's own Python (`-I`), with the names of the Lua scripts that the
source tree has.
"""

import importlib.metadata
import importlib.resources
import re
import sys
from pathlib import Path

import incumbent


def main() -> int:
    """Return 0 if what is imported is the installed package with all its files."""
    home = Path(incumbent.__file__).resolve()
    root = importlib.resources.files(incumbent)
    lua = root / "stores" / "redis" / "lua"
    problems = [f"{name} is missing" for name in sys.argv[1:] if not (lua / name).is_file()]
    if not (root / "fencing" / "guard.lua").is_file():
        problems.append("fencing/guard.lua is missing")
    if not home.is_relative_to(Path(sys.prefix).resolve()):
        problems.append(f"imported from {home}, not from the installed package")
    if not (root / "py.typed").is_file():
        problems.append("py.typed is missing")
    for name in incumbent.__all__:
        getattr(incumbent, name)  # raises if the export is a dream
    page = importlib.metadata.metadata("incumbent").get_payload()
    relative = re.findall(r"\[[^\]]*\]\((?!#|https:)[^)]*\)", str(page))
    problems += [f"a link that leads nowhere on a package index: {link}" for link in relative]
    version = importlib.metadata.version("incumbent")
    print("\n".join(problems) or f"incumbent {version}: {len(sys.argv) - 1} Lua files, typed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
