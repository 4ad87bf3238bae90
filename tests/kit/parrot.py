"""A server that knows no command, and repeats the arguments of each, as real ones do.

``ERR unknown command 'AUTH', with args beginning with: 'user' 'password'`` is what a server says in
which AUTH was renamed; a balancer that speaks another protocol may be taken for such a one.
"""

import socketserver
import threading
from collections.abc import Callable
from typing import Self

from kit.ports import free_port
from kit.resp import Splitter

HOST = "127.0.0.1"


def as_servers_say(words: list[str]) -> str:
    """What Redis and Valkey say."""
    repeated = " ".join(f"'{each}'" for each in words[1:])
    return f"ERR unknown command '{words[0]}', with args beginning with: {repeated}"


def as_others_say(words: list[str]) -> str:
    """What some proxy may say."""
    return f"ERR this makes no sense here: {' '.join(words)}"


class Parrot:
    """Use as a context manager; `host` and `port` say where it is.

    It answers by what `repeats` makes of the words of a command; with `says` this is its error
    whatever it is asked.
    """

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

        self.host = HOST
        self.port = free_port(HOST)
        socketserver.ThreadingTCPServer.allow_reuse_address = True
        self._server = socketserver.ThreadingTCPServer((HOST, self.port), Talk)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
