"""The Lua scripts of the package, ready to be sent: text, digest and the commands that run them.

Knows what a script is called, not what it does: that stands in the script's own header.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final, NamedTuple

_FOLDER = files("incumbent.stores.redis") / "lua"


@dataclass(frozen=True, slots=True)
class Script:
    """One script. Holds no client: the server's cache is found out about by asking it."""

    name: str
    text: bytes = field(repr=False)
    sha: bytes = field(repr=False)
    seldom: bool
    """So seldom run that the server will hardly have it in its cache: sent as text at once."""

    def commands(self, keys: "PackedKeys", args: Sequence[bytes]) -> Iterator[bytes]:
        """By digest first, which works if the server has it in its cache; then by text."""
        head, rest = b"*%d\r\n" % (2 + keys.parts + len(args)), keys.packed + pack(args)
        if not self.seldom:
            yield b"%b$7\r\nEVALSHA\r\n$40\r\n%b\r\n%b" % (head, self.sha, rest)
        while True:
            yield b"%b%b%b" % (head, pack((b"EVAL", self.text)), rest)


class PackedKeys(NamedTuple):
    """The keys of a script, with their number in front, as they go over the wire."""

    parts: int
    packed: bytes

    @classmethod
    def of(cls, *keys: bytes) -> "PackedKeys":
        """Pack `keys`."""
        return cls(1 + len(keys), pack((b"%d" % len(keys), *keys)))


def pack(parts: Sequence[bytes]) -> bytes:
    """The arguments of a command as they go over the wire.

    Here, and not by the connection, because they are known to be bytes: a quarter of the time, and
    the caller's choice of an encoding does not matter.
    Source: https://redis.io/docs/latest/develop/reference/protocol-spec/#arrays
    """
    return b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])


def _load(name: str, *, line: bool = False, seldom: bool = False) -> Script:
    parts = ("prelude", "line", name) if line else ("prelude", name)
    text = b"".join([(_FOLDER / f"{part}.lua").read_bytes() for part in parts])
    digest = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
    return Script(name, text, digest, seldom)


ACQUIRE: Final = _load("acquire", line=True)
EXTEND: Final = _load("extend")
RELEASE: Final = _load("release", line=True)
LEAVE: Final = _load("leave", line=True, seldom=True)
TOUCH: Final = _load("touch", line=True)
STATE: Final = _load("state")
STEP_DOWN: Final = _load("step_down", seldom=True)
