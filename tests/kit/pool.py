"""Which servers this test run uses, each started once per process (an xdist worker is one).

The environment chooses: INCUMBENT_TEST_URL takes a server of the user's, INCUMBENT_TEST_IMAGE
servers in containers of these images ("valkey/valkey:9,redis:8"), INCUMBENT_TEST_SERVER narrows the
matrix ("valkey-8" or "redis-8,redis-6"); otherwise it is every kind that is here.
"""

import os
from collections.abc import Mapping
from typing import Any

from kit.binaries import KINDS, locate
from kit.servers import ExternalServer, Server

URL_VARIABLE = "INCUMBENT_TEST_URL"
IMAGE_VARIABLE = "INCUMBENT_TEST_IMAGE"
SERVER_VARIABLE = "INCUMBENT_TEST_SERVER"
EXTERNAL = "url"


def chosen_kinds(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The kinds to test on, the plain one first; ValueError when the environment asks nonsense.

    An image is a kind of its own.
    """
    if environment.get(URL_VARIABLE):
        return (EXTERNAL,)
    if images := environment.get(IMAGE_VARIABLE):
        return tuple(image.strip() for image in images.split(","))
    wanted = environment.get(SERVER_VARIABLE, "")
    if wanted.startswith("docker:"):
        raise ValueError(
            f"{SERVER_VARIABLE}={wanted}: images are named by {IMAGE_VARIABLE}="
            f"{wanted.removeprefix('docker:')}"
        )
    if not wanted:
        return KINDS
    kinds = tuple(kind.strip() for kind in wanted.split(","))
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"{SERVER_VARIABLE}: {kind!r} is none of {', '.join(KINDS)}")
    return kinds


def missing(kind: str) -> str:
    """Why there is no server of this kind here; empty if there is."""
    if kind in KINDS and locate(kind).path is None:
        return f"no {kind}: {locate(kind).reason}"
    return ""  # whoever names an image or a server of their own wants that one


def make_server(kind: str, **options: Any) -> Server:
    """A server of this kind, not yet started."""
    if kind == EXTERNAL:
        return ExternalServer(os.environ[URL_VARIABLE])
    if kind in KINDS:
        return Server(kind, **options)
    from kit.containers import ContainerServer  # which needs testcontainers

    return ContainerServer(kind, **options)


class ServerPool:
    """Started servers by kind. Tests share them one after another, so each test flushes first."""

    def __init__(self) -> None:
        self._servers: dict[str, Server] = {}

    def get(self, kind: str) -> Server:
        """The running server of this kind, without keys."""
        server = self._servers.get(kind)
        if server is None:
            server = self._servers[kind] = make_server(kind).start()
        elif not server.running:
            raise RuntimeError(f"a test ended the shared {server!r}; it should use `own_server`")
        server.flush()
        return server

    def close(self) -> None:
        """Stop them all."""
        while self._servers:
            self._servers.popitem()[1].close()
