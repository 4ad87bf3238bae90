"""The headers of the Lua scripts, and whether a script does what its header says.

A header lists KEYS, ARGV and what is returned. A last key with a plus stands for one or more; what
stands in brackets at the end of ARGV may be missing. Knows the way in which this library's scripts
are written, not Lua.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Header:
    """What stands at the top of a script."""

    keys: tuple[str, ...]
    args: tuple[str, ...]
    returns: str
    needed: int
    """So many arguments are always there."""

    @property
    def many(self) -> bool:
        """Whether the last key stands for one or more."""
        return bool(self.keys) and self.keys[-1].endswith("+")

    @property
    def answers(self) -> dict[str, int]:
        """For each tag of an answer, how many elements such an answer has."""
        alternatives = re.findall(r"\{'(\w+)'((?:, \w+)*)\}", self.returns)
        return {tag: 1 + rest.count(",") for tag, rest in alternatives}


def parse(text: str) -> Header:
    """The header of a script; ValueError when it lacks a line."""
    lines: dict[str, str] = {}
    for name in ("KEYS", "ARGV", "Returns"):
        # A line that begins with more than one space goes on with the one above.
        found = re.search(rf"^-- {name}:(.*(?:\n--   .*)*)$", text, re.MULTILINE)
        if found is None:
            raise ValueError(f"the header has no line for {name}")
        lines[name] = re.sub(r"\n--  +", " ", found[1]).strip()
    args = lines["ARGV"].replace("[", " [ ").replace("]", "").split()
    needed = args.index("[") if "[" in args else len(args)
    return Header(
        tuple(lines["KEYS"].split()),
        tuple(arg for arg in args if arg != "["),
        lines["Returns"],
        needed,
    )


def complaints(text: str) -> list[str]:
    """What a script does that its header does not say, or says and does not do."""
    header = parse(text)
    code = re.sub(r"--.*", "", text)
    return [*_keys(header, code), *_args(header, code), *_answers(header, code)]


def _keys(header: Header, code: str) -> list[str]:
    found: list[str] = []
    single = len(header.keys) - header.many
    used = {int(number) for number in re.findall(r"KEYS\[(\d+)\]", code)}
    for number in sorted(used | set(range(1, single + 1))):
        if number > single:
            found.append(f"KEYS[{number}] is used and not listed as one key")
        elif number not in used:
            found.append(f"KEYS[{number}] ({header.keys[number - 1]}) is listed and not used")
    loops = re.findall(r"for (\w+) = (\d+), #KEYS do", code)
    computed = set(re.findall(r"KEYS\[([a-z][\w.]*)\]", code))
    # Shared functions that loop are given all keys and where to begin.
    passed = re.findall(r"\w\(KEYS, (\d+)", code)
    if not header.many:
        if loops or computed or passed or "#KEYS" in code:
            found.append("the keys are counted, and none is listed with a plus")
    elif not passed and not any(variable in computed for variable, _ in loops):
        found.append(f"{header.keys[-1]} is listed and not looped over")
    found += [
        f"the loop begins at KEYS[{start}], {header.keys[-1]} at KEYS[{len(header.keys)}]"
        for start in (*passed, *(start for _, start in loops))
        if header.many and int(start) != len(header.keys)
    ]
    return found


def _args(header: Header, code: str) -> list[str]:
    used = {int(number) for number in re.findall(r"ARGV\[(\d+)\]", code)}
    listed = set(range(1, len(header.args) + 1))
    found = [f"ARGV[{number}] is used and not listed" for number in sorted(used - listed)]
    found += [
        f"ARGV[{number}] ({header.args[number - 1]}) is listed and not used"
        for number in sorted(listed - used)
    ]
    if re.search(r"ARGV(?!\[\d+\])", code):
        found.append("ARGV is used other than by number")
    if re.search(r"KEYS(?!\[)(?<!#KEYS)(?!, \d)", code):
        found.append("KEYS is passed on without where to begin")
    return found


def _answers(header: Header, code: str) -> list[str]:
    returned = re.findall(r"return (\{.*?\})", code, re.DOTALL)
    tags = {tag for answer in returned for tag in re.findall(r"'(\w+)'", answer)}
    said = set(re.findall(r"'(\w+)'", code))
    found = [f"{tag!r} is returned and not listed" for tag in sorted(tags - {*header.answers, "0"})]
    found += [f"{tag!r} is listed and never said" for tag in sorted(set(header.answers) - said)]
    return found
