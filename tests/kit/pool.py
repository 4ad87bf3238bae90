"""Which servers this test run uses, each started once per process (an xdist worker is one).

The environment chooses: INCUMBENT_TEST_URL takes a server of the user's, INCUMBENT_TEST_SERVER
narrows the matrix ("valkey-8" or "redis-8,redis-6"); otherwise it is every kind that is here.
"""

import os
from collections.abc import Mapping

from kit.binaries import KINDS
from kit.servers import ExternalServer, Server

URL_VARIABLE = "INCUMBENT_TEST_URL"
SERVER_VARIABLE = "INCUMBENT_TEST_SERVER"
EXTERNAL = "url"


def chosen_kinds(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The kinds to test on, the plain one first; ValueError when the environment asks nonsense."""
    if environment.get(URL_VARIABLE):
        return (EXTERNAL,)
    wanted = environment.get(SERVER_VARIABLE, "")
    if wanted.startswith("docker:"):
        raise ValueError(
            f"{SERVER_VARIABLE}={wanted}: containers are not supported yet; start one yourself "
            f"and set {URL_VARIABLE}=redis://host:port/0"
        )
    if not wanted:
        return KINDS
    kinds = tuple(kind.strip() for kind in wanted.split(","))
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"{SERVER_VARIABLE}: {kind!r} is none of {', '.join(KINDS)}")
    return kinds


class ServerPool:
    """Started servers by kind. Tests share them one after another, so each test flushes first."""

    def __init__(self) -> None:
        self._servers: dict[str, Server] = {}

    def get(self, kind: str) -> Server:
        """The running server of this kind, without keys."""
        server = self._servers.get(kind)
        if server is None:
            server = ExternalServer(os.environ[URL_VARIABLE]) if kind == EXTERNAL else Server(kind)
            self._servers[kind] = server.start()
        elif not server.running:
            raise RuntimeError(f"a test ended the shared {server!r}; it should use `own_server`")
        server.flush()
        return server

    def close(self) -> None:
        """Stop them all."""
        while self._servers:
            self._servers.popitem()[1].close()
