"""The Lua scripts of the package, ready to be sent: text, digest and the commands that run them.

Knows what a script is called, not what it does: that stands in the script's own header.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import sha1
from pathlib import Path
from typing import Final, NamedTuple

_FOLDER: Final = Path(__file__).with_name("lua")


class Script:
    """One script. Holds no client: the server's cache is found out about by asking it."""

    __slots__ = ("_by_digest", "_by_text", "_sharded", "name", "seldom", "sha", "text")

    def __init__(self, name: str, text: bytes, *, seldom: bool = False) -> None:
        """`seldom`: the server will hardly have it in its cache, so it is sent as text at first."""
        self.name: str = name
        self.text: bytes = text
        self.sha: bytes = sha1(text, usedforsecurity=False).hexdigest().encode()
        self.seldom: bool = seldom
        self._by_digest = pack((b"EVALSHA", self.sha))
        self._by_text = pack((b"EVAL", text))
        self._sharded: Script | None = None

    def __repr__(self) -> str:
        return f"<Script {self.name}>"

    @property
    def sharded(self) -> "Script":
        """The same for a cluster: what it publishes need not be passed on to all nodes."""
        if self._sharded is None:
            text = self.text.replace(_read("publish"), _read("publish_sharded"))
            self._sharded = Script(self.name, text, seldom=self.seldom)
        return self._sharded

    def command(
        self, keys: "PackedKeys", args: tuple[bytes, ...], *, by_text: bool = False
    ) -> bytes:
        """By digest, which works if the server has it in its cache, or by text."""
        called = self._by_text if by_text else self._by_digest
        parts = 2 + keys.parts + len(args)
        if not args:
            return b"*%d\r\n%b%b" % (parts, called, keys.packed)
        # The first argument is a token or such, new each time; the others hardly ever change.
        first, others = args[0], _pack_once(args[1:])
        size, packed = len(first), keys.packed
        return b"*%d\r\n%b%b$%d\r\n%b\r\n%b" % (parts, called, packed, size, first, others)


class PackedKeys(NamedTuple):
    """The keys of a script, with their number in front, as they go over the wire."""

    parts: int
    packed: bytes
    first: bytes
    """One of them; all share one hash slot of a cluster."""

    @classmethod
    def of(cls, *keys: bytes) -> "PackedKeys":
        """Pack `keys`."""
        return cls(1 + len(keys), pack((b"%d" % len(keys), *keys)), keys[0])


def pack(parts: Sequence[bytes]) -> bytes:
    """The arguments of a command as they go over the wire.

    Here, and not by the connection, because they are known to be bytes: a quarter of the time, and
    the caller's choice of an encoding does not matter.
    Source: https://redis.io/docs/latest/develop/reference/protocol-spec/#arrays
    """
    return b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])


def command(*parts: bytes) -> bytes:
    """A command that is no script, as it goes over the wire."""
    return b"*%d\r\n%b" % (len(parts), pack(parts))


@lru_cache(maxsize=512)
def ms(duration: float) -> bytes:
    """Seconds as a script is told them: milliseconds."""
    return b"%d" % round(duration * 1000)


@lru_cache(maxsize=512)
def _pack_once(parts: tuple[bytes, ...]) -> bytes:
    return pack(parts)


@cache
def _read(name: str) -> bytes:
    return (_FOLDER / f"{name}.lua").read_bytes()


def _load(name: str, *shared: str, seldom: bool = False) -> Script:
    parts = ("prelude", *shared, name)
    return Script(name, b"".join([_read(part) for part in parts]), seldom=seldom)


ENROL: Final = _load("enrol", "candidates")
WITHDRAW: Final = _load("withdraw", "gone", "candidates", seldom=True)
RESULT: Final = _load("result", "gone", "candidates")
SNAPSHOT: Final = _load("snapshot", "counter", "look", "candidates")
ACQUIRE: Final = _load("acquire", "counter", "publish", "soonest", "line")
EXTEND: Final = _load("extend")
RELEASE: Final = _load("release", "publish", "retain", "gone", "restore", "line")
LEAVE: Final = _load("leave", "publish", "gone", "restore", "line", seldom=True)
TOUCH: Final = _load("touch", "publish", "soonest", "line")
STATE: Final = _load("state", "counter", "publish", "look", "line")
STEP_DOWN: Final = _load("step_down", seldom=True)
FORCE: Final = _load("force", "publish", "retain", seldom=True)
