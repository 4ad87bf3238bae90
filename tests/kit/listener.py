"""A server in threads of this process, for what is no Redis server."""

import socketserver
import threading
from typing import Final, Self

from kit.ports import free_port

HOST: Final = "127.0.0.1"


class Listener:
    """Use as a context manager; `host` and `port` say where it is. `talk` has each connection."""

    def __init__(self, talk: type[socketserver.BaseRequestHandler]) -> None:
        self.host = HOST
        self.port = free_port(HOST)
        socketserver.ThreadingTCPServer.allow_reuse_address = True
        self._server = socketserver.ThreadingTCPServer((HOST, self.port), talk)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
