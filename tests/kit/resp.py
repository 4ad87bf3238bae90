"""Cutting a stream of RESP (2 or 3) into whole messages, without understanding them.

A proxy that drops "one reply" must drop all of it and nothing else. Requests are cut by the same
rules, since a request is an array of bulk strings.
"""

from collections.abc import Iterator

_BULK = b"$=!"
_AGGREGATE = {b"*": 1, b"~": 1, b">": 1, b"%": 2, b"|": 2}
_ATTRIBUTE = b"|"

PUSH_NAMES = frozenset(
    name
    for kind in ("", "p", "s")
    for name in (f"{kind}message", f"{kind}subscribe", f"{kind}unsubscribe")
)


class Splitter:
    """Takes bytes as they come, gives whole messages; keeps what is not whole yet."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._seen = 0  # so much of the buffer belongs to the message that is being looked at
        self._missing = 1  # so many values are missing until it is whole

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add `data`, and yield each message that it completes."""
        self._buffer += data
        while self._value_is_here():
            if self._missing == 0:
                message = bytes(self._buffer[: self._seen])
                del self._buffer[: self._seen]
                self._seen, self._missing = 0, 1
                yield message

    def _value_is_here(self) -> bool:
        line_end = self._buffer.find(b"\r\n", self._seen)
        if line_end < 0:
            return False
        kind = bytes(self._buffer[self._seen : self._seen + 1])
        after = line_end + 2
        if kind in _AGGREGATE:
            # An attribute comes before a value and is none itself.
            self._missing += self._count(line_end) * _AGGREGATE[kind]
            self._missing -= kind != _ATTRIBUTE
        else:
            if kind and kind in _BULK and (length := self._number(line_end)) >= 0:
                after += length + 2
                if len(self._buffer) < after:
                    return False
            self._missing -= 1
        self._seen = after
        return True

    def _count(self, line_end: int) -> int:
        return max(self._number(line_end), 0)  # *-1 is RESP2's way to say null

    def _number(self, line_end: int) -> int:
        return int(self._buffer[self._seen + 1 : line_end])


def command_name(request: bytes) -> str:
    """The command of a request in capitals: "EVALSHA"."""
    if request.startswith(b"*"):
        parts = request.split(b"\r\n", 3)
        word = parts[2] if len(parts) > 2 else b""
    else:
        word = request.split(None, 1)[0] if request.strip() else b""  # an inline command
    return word.decode(errors="replace").upper()


def is_push(reply: bytes) -> bool:
    """Whether it is a push of RESP3, or what RESP2 sends to a subscriber in place of one."""
    if reply.startswith(b">"):
        return True
    if not reply.startswith(b"*"):
        return False
    parts = reply.split(b"\r\n", 3)
    return len(parts) > 2 and parts[2].decode(errors="replace") in PUSH_NAMES
