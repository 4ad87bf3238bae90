"""Servers in containers, which testcontainers starts: INCUMBENT_TEST_IMAGE names their images.

Needs a Docker engine, and testcontainers, which is installed in the session `containers` only. As a
program it prints why it cannot be had here, or nothing.
"""

import signal
import sys
from collections.abc import Sequence
from typing import Any

import docker
import docker.errors
from testcontainers.core.container import DockerContainer

from kit.binaries import kind_of
from kit.servers import Server

PORT = 6379
"""Where servers listen in their containers."""
PATIENCE = 5
"""Seconds that a server has for its end."""
PORT_IS_TAKEN = ("port is already allocated", "address already in use")
"""What Docker says then."""


def missing() -> str:
    """Why no container can be started here; empty if one can."""
    try:
        docker.from_env().ping()
    except docker.errors.DockerException as error:
        return f"no Docker engine answers: {error}"
    return ""


class ContainerServer(Server):
    """A server in a container of its own, reached by TCP alone; otherwise as one of this machine.

    The port is one of this machine, and stays the same when it is started again.
    """

    has_socket = False

    def __init__(
        self,
        image: str,
        *,
        args: Sequence[str] = (),
        password: str | None = None,
        aof: bool = False,
        port: int | None = None,
    ) -> None:
        super().__init__(kind_of(image), args=args, password=password, aof=aof, port=port)
        self._image = image
        self._container: DockerContainer | None = None
        self._taken = False

    @property
    def running(self) -> bool:
        """Whether the container is there, be it paused."""
        if self._container is None:
            return False
        container = self._engine
        container.reload()
        return container.status in {"running", "paused"}

    @property
    def pid(self) -> int:
        """There is none that means something on this machine."""
        raise RuntimeError(f"{self!r} has a process in a container only")

    def log(self) -> str:
        """What the server wrote to its log so far."""
        if self._container is None:
            return ""
        return b"".join(self._container.get_logs()).decode(errors="replace")

    def close(self) -> None:
        """Stop it and remove its container. Idempotent."""
        super().close()
        self._forget_data()

    # -- inside ------------------------------------------------------------------------------

    @property
    def _engine(self) -> Any:
        assert self._container is not None
        return self._container.get_wrapped_container()

    def _launch(self) -> bool:
        self._taken = False
        try:
            if self._container is None:
                container = DockerContainer(self._image).with_command(self._options())
                self._container = container.with_bind_ports(PORT, self.port)
                self._container.start()
                self.host = self._container.get_container_host_ip()
            else:
                self._engine.start()
        except docker.errors.APIError as error:
            self._taken = any(words in str(error) for words in PORT_IS_TAKEN)
            if not self._taken:
                raise
            self._forget_data()
            return False
        return self._came_up()

    def _address(self) -> dict[str, Any]:
        return {"host": self.host, "port": self.port}

    def _place(self) -> list[str]:
        return ["--port", str(PORT), "--protected-mode", "no"]

    def _port_was_taken(self) -> bool:
        return self._taken

    def _signal(self, number: signal.Signals) -> None:
        if not self.running:
            raise RuntimeError(f"{self!r} does not run")
        if number is signal.SIGSTOP:
            self._engine.pause()
        else:
            self._engine.unpause()

    def _end(self, number: signal.Signals) -> None:
        self._disconnect()
        if not self.running:
            return
        if self._paused:
            self.resume()
        container = self._engine
        container.kill(number)
        try:
            container.wait(timeout=PATIENCE)
        except OSError:  # whatever Docker's client makes of a time-out
            container.kill(signal.SIGKILL)
            container.wait()

    def _forget_data(self) -> None:
        container, self._container = self._container, None
        if container is not None and container._container is not None:
            container.stop()


if __name__ == "__main__":
    print(missing())
    sys.exit()
