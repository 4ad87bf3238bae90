"""The Lua scripts of the package, ready to be sent: text, digest and the commands that run them.

Knows what a script is called, not what it does: that stands in the script's own header.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final

_FOLDER = files("incumbent.stores.redis") / "lua"
_PRELUDE: Final = (_FOLDER / "prelude.lua").read_bytes()


@dataclass(frozen=True, slots=True)
class Script:
    """One script. Holds no client: the server's cache is found out about by asking it."""

    name: str
    text: bytes = field(repr=False)
    sha: bytes = field(repr=False)
    seldom: bool
    """So seldom run that the server will hardly have it in its cache: sent as text at once."""

    def by_digest(self, keys: Sequence[bytes], args: Sequence[bytes]) -> bytes:
        """The command that runs the script if the server has it in its cache."""
        return pack(b"EVALSHA", self.sha, b"%d" % len(keys), *keys, *args)

    def by_text(self, keys: Sequence[bytes], args: Sequence[bytes]) -> bytes:
        """The command that runs the script in any case, and puts it into the server's cache."""
        return pack(b"EVAL", self.text, b"%d" % len(keys), *keys, *args)


def pack(*parts: bytes) -> bytes:
    """A command as it goes over the wire.

    Here, and not by the connection, because `parts` are known to be bytes: a quarter of the time,
    and the caller's choice of an encoding does not matter.
    Source: https://redis.io/docs/latest/develop/reference/protocol-spec/#arrays
    """
    body = b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])
    return b"*%d\r\n%b" % (len(parts), body)


def _load(name: str, *, seldom: bool = False) -> Script:
    text = _PRELUDE + (_FOLDER / f"{name}.lua").read_bytes()
    return Script(
        name, text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode(), seldom
    )


ACQUIRE: Final = _load("acquire")
EXTEND: Final = _load("extend")
RELEASE: Final = _load("release")
LEAVE: Final = _load("leave", seldom=True)
STATE: Final = _load("state")
