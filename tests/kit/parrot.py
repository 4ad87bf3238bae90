"""A server that knows no command, and repeats the arguments of each, as real ones do.

``ERR unknown command 'AUTH', with args beginning with: 'user' 'password'`` is what a server says in
which AUTH was renamed; a balancer that speaks another protocol may be taken for such a one.
"""

import socketserver
from collections.abc import Callable

from kit.listener import Listener
from kit.resp import Splitter


def as_servers_say(words: list[str]) -> str:
    """What Redis and Valkey say."""
    repeated = " ".join(f"'{each}'" for each in words[1:])
    return f"ERR unknown command '{words[0]}', with args beginning with: {repeated}"


def as_others_say(words: list[str]) -> str:
    """What some proxy may say."""
    return f"ERR this makes no sense here: {' '.join(words)}"


class Parrot(Listener):
    """It answers what `repeats` makes of the words of a command, or `says` whatever it is asked."""

    def __init__(
        self,
        repeats: Callable[[list[str]], str] = as_servers_say,
        *,
        says: bytes | None = None,
    ) -> None:
        class Talk(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                splitter = Splitter()
                while data := self.request.recv(65536):
                    for message in splitter.feed(data):
                        words = [each.decode() for each in message.split(b"\r\n")[2::2]]
                        error = repeats(words).encode() if says is None else says
                        self.request.sendall(b"-" + error + b"\r\n")

        super().__init__(Talk)
