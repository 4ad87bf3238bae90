"""One real server process: start, stop, kill, restart, freeze, and ask it by a plain client.

Knows nothing of pytest or of `incumbent`. A server listens on a loopback port and on a Unix
socket in its own temporary folder; what this module itself asks goes by that socket, so it can
never talk to a stranger that took the port.
"""

import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from kit import warden
from kit.binaries import KINDS, Binary, available_servers, locate
from kit.ports import free_port
from kit.stops import freeze
from kit.waiting import wait_until_blocking

__all__ = [
    "KINDS",
    "Binary",
    "ExternalServer",
    "NotOursError",
    "Server",
    "available_servers",
    "locate",
]

HOST = "127.0.0.1"
STARTS = 10


class NotOursError(RuntimeError):
    """Asked to stop, kill or freeze a server that the user started."""


class Server:
    """A server of one kind. `args` are more options, as ``["--maxmemory", "3mb"]``.

    With `aof=True` every write is on disk before it is answered, so the data outlive a kill.
    """

    ours = True
    has_socket = True
    """Whether it can be reached by a Unix socket as well."""

    def __init__(
        self,
        kind: str = "valkey-9",
        *,
        args: Sequence[str] = (),
        password: str | None = None,
        aof: bool = False,
        port: int | None = None,
    ) -> None:
        self.kind = kind
        self.host = HOST
        self.port = port or 0
        self.password = password
        self._args = tuple(args)
        self._aof = aof
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False
        self._admin: redis.Redis | None = None
        self.folder: Path | None = None

    def __repr__(self) -> str:
        state = "paused" if self._paused else "running" if self.running else "stopped"
        return f"<Server {self.kind} port={self.port} {state}>"

    # -- addresses ---------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where clients reach it by TCP."""
        return f"redis://{self._credentials}{self.host}:{self.port}/0"

    @property
    def unix_url(self) -> str:
        """Where clients reach it by its Unix socket."""
        return f"unix://{self._credentials}{self._socket}?db=0"

    @property
    def _credentials(self) -> str:
        return f":{self.password}@" if self.password else ""

    @property
    def _socket(self) -> Path:
        return self._home / "s"

    @property
    def _home(self) -> Path:
        if self.folder is None:
            raise RuntimeError(f"{self!r} was never started")
        return self.folder

    @property
    def pid(self) -> int:
        """The number of the running process."""
        if self._process is None:
            raise RuntimeError(f"{self!r} does not run")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there, be it frozen."""
        return self._process is not None and self._process.poll() is None

    @property
    def paused(self) -> bool:
        """Whether it was frozen by `pause` and not resumed."""
        return self._paused

    # -- life --------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start it, on a free port unless it has one already, and wait for its first PONG."""
        if self.running:
            raise RuntimeError(f"{self!r} runs already")
        if self.folder is None:
            self.folder = warden.make_folder()
        fixed = self.port != 0
        for _ in range(STARTS):
            if not fixed:
                self.port = free_port(self.host)
            if self._launch():
                return self
            if not self._port_was_taken():
                break
            if fixed:  # whoever has our port may be a dying predecessor
                time.sleep(0.05)
        raise RuntimeError(f"{self.kind} did not start on port {self.port}:\n{self.log()[-2000:]}")

    def stop(self) -> None:
        """End it politely, by force after five seconds. Data that were not kept are gone."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: connections are reset, nothing is said, nothing more is written."""
        self._end(signal.SIGKILL)

    def restart(self, *, keep: bool = False) -> None:
        """Stop (unless killed already) and start again on the same port.

        `keep` keeps the data: from the append-only file when it has one, otherwise by a
        snapshot, which only a running server can take.
        """
        if self.running:
            if keep and not self._aof:
                self.cli("SAVE")
            self.stop()
        if not keep:
            self._forget_data()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and are never answered."""
        self._signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """SIGCONT: what had arrived meanwhile is answered now."""
        self._signal(signal.SIGCONT)
        self._paused = False

    def close(self) -> None:
        """Stop it and remove its folder. Idempotent."""
        self.stop()
        if self.folder is not None:
            warden.remove_folder(self.folder)
            self.folder = None

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- questions ---------------------------------------------------------------------------

    @property
    def admin(self) -> redis.Redis:
        """A plain synchronous client of our own: RESP2, text answers, five seconds."""
        if self._admin is None:
            self._admin = redis.Redis(
                **self._address(),
                password=self.password,
                protocol=2,
                decode_responses=True,
                socket_timeout=5,
                retry=Retry(NoBackoff(), 0),  # the default one takes seconds over a dead server
            )
        return self._admin

    def cli(self, *command: str | bytes | float) -> Any:
        """Run one command and return its answer, as ``redis-cli`` would."""
        # redis-py leaves both untyped
        return self.admin.execute_command(*command)  # type: ignore[no-untyped-call]

    def flush(self) -> None:
        """Remove every key of every database; functions, scripts and settings stay."""
        self.cli("FLUSHALL")

    def log(self) -> str:
        """What the server wrote to its log so far."""
        path = self._home / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    # -- inside ------------------------------------------------------------------------------

    def _launch(self) -> bool:
        binary = locate(self.kind)
        if binary.path is None:
            raise RuntimeError(f"no {self.kind} here: {binary.reason}")
        self._socket.unlink(missing_ok=True)
        with (self._home / "log").open("wb") as log:
            self._process = warden.start_child(
                [str(binary.path), *self._options()],
                output=log,
                cwd=self._home,
                env=self._environment(),
            )
        return self._came_up()

    def _came_up(self) -> bool:
        wait_until_blocking(
            lambda: not self.running or self._answers(), within=20, what=f"{self!r} answers"
        )
        return self.running

    def _address(self) -> dict[str, Any]:
        return {"unix_socket_path": str(self._socket)}

    def _environment(self) -> Mapping[str, str] | None:
        """What the process finds in its environment, if that is not what we have."""
        return None

    def _options(self) -> list[str]:
        options = ["--save", "", "--appendonly", "yes" if self._aof else "no"]
        options += ["--appendfsync", "always"]
        if self.kind != "redis-6":  # there, DEBUG is always on and this option unknown
            options += ["--enable-debug-command", "yes"]
        if self.password:
            options += ["--requirepass", self.password]
        return [*self._place(), *options, *self._args]

    def _place(self) -> list[str]:
        options = ["--bind", self.host, "--port", str(self.port), "--unixsocket", "s"]
        return [*options, "--dir", str(self._home), "--daemonize", "no"]

    def _answers(self) -> bool:
        try:
            return bool(self.admin.ping())
        except (redis.ConnectionError, redis.TimeoutError):  # a loading server is one as well
            return False

    def _port_was_taken(self) -> bool:
        return "ddress already in use" in self.log()

    def _signal(self, number: signal.Signals) -> None:
        if not self.running:
            raise RuntimeError(f"{self!r} does not run")
        assert self._process is not None
        if number is signal.SIGSTOP:
            freeze(self._process.pid)
        else:
            self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        self._disconnect()
        process, self._process, self._paused = self._process, None, False
        if process is None:
            return
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        warden.reaped(process)

    def _disconnect(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _forget_data(self) -> None:
        if self.folder is None:
            return
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.suffix in {".rdb", ".aof"}:
                path.unlink()


class ExternalServer(Server):
    """A server of the user's own (INCUMBENT_TEST_URL): never stopped, killed, frozen or flushed.

    `flush` removes only the keys below "incumbent" and "kit" in the database of the URL.
    """

    ours = False
    has_socket = False

    def __init__(self, url: str) -> None:
        super().__init__("url")
        self._url = url
        options = redis.connection.parse_url(url)  # type: ignore[no-untyped-call] # as above
        self.host = str(options.get("host", HOST))
        self.port = int(options.get("port", 6379))

    @property
    def url(self) -> str:
        """The user's URL, as it was given."""
        return self._url

    @property
    def running(self) -> bool:
        """Taken for granted."""
        return True

    @property
    def admin(self) -> redis.Redis:
        """A plain synchronous client by the user's URL."""
        if self._admin is None:
            self._admin = redis.Redis.from_url(
                self._url, protocol=2, decode_responses=True, socket_timeout=5
            )
        return self._admin

    def start(self) -> Self:
        """Only look whether it is there."""
        self.cli("PING")
        return self

    def close(self) -> None:
        """Give our connection back."""
        self._disconnect()

    def flush(self) -> None:
        """Remove what the tests may have left."""
        for pattern in ("incumbent*", "kit:*"):
            for key in list(self.admin.scan_iter(match=pattern, count=1000)):
                self.cli("DEL", key)

    def restart(self, *, keep: bool = False) -> None:
        """Refused."""
        raise NotOursError(self._refusal("restart it"))

    def _signal(self, number: signal.Signals) -> None:
        raise NotOursError(self._refusal("stop or freeze it"))

    def _end(self, number: signal.Signals) -> None:
        raise NotOursError(self._refusal("stop or kill it"))

    def _refusal(self, deed: str) -> str:
        return f"INCUMBENT_TEST_URL names a server of yours: the tests do not {deed}"
