"""A server that knows no command, and repeats the arguments of each, as real ones do.

``ERR unknown command 'AUTH', with args beginning with: 'user' 'password'`` is what a server says in
which AUTH was renamed; a balancer that speaks another protocol may be taken for such a one.
"""

import socketserver
import threading
from typing import Self

from kit.ports import free_port
from kit.resp import Splitter

HOST = "127.0.0.1"


class _Talk(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        splitter = Splitter()
        while data := self.request.recv(65536):
            for message in splitter.feed(data):
                words = [each.decode() for each in message.split(b"\r\n")[2::2]]
                repeated = " ".join(f"'{each}'" for each in words[1:])
                said = f"-ERR unknown command '{words[0]}', with args beginning with: {repeated}"
                self.request.sendall(said.encode() + b"\r\n")


class Parrot:
    """Use as a context manager; `host` and `port` say where it is."""

    def __init__(self) -> None:
        self.host = HOST
        self.port = free_port(HOST)
        socketserver.ThreadingTCPServer.allow_reuse_address = True
        self._server = socketserver.ThreadingTCPServer((HOST, self.port), _Talk)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
