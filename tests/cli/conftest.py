"""Fixtures of the tests that run the command on a server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.inside import Inside
from cli.stage import Program, Runs, runs_on
from cli.terminal import Terminal
from kit.servers import Server


@pytest.fixture
def runs(valkey: Server, ask: Inside) -> Iterator[Runs]:
    """Starts the command on a shared server."""
    with runs_on(valkey, ask) as runs:
        yield runs


@pytest.fixture
def terminals(valkey: Server) -> Iterator[list[Terminal]]:
    """Closed at the end."""
    made: list[Terminal] = []
    yield made
    for terminal in made:
        terminal.close()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A program that tells what happens to it."""
    return Program(tmp_path)


@pytest.fixture
def ask(
    valkey: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Inside:
    """Runs the command in this process, on a shared server.

    It looks at all names for longer than a machine stands still.
    """
    for patient in ("completion.names", "elections.absent"):
        monkeypatch.setattr(f"incumbent.cli.{patient}.WITHIN", 60.0)
    return Inside(monkeypatch, capfd, valkey.url)
