"""What the shell completes: commands, and the names of elections that the server has."""

from typing import Any

import pytest

from cli.inside import Inside
from kit.servers import Server

NOWHERE = "redis://127.0.0.1:1"


@pytest.fixture
def complete(ask: Inside, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What bash is offered for the last word of a line, by click's own way."""

    def choices(*words: str, url: str | None = None) -> list[str]:
        monkeypatch.setenv("_INCUMBENT_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(["incumbent", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        said = ask(url=url)
        assert said.err == ""
        return [line.removeprefix("plain,") for line in said.out.splitlines() if line]

    return choices


def has(server: Server, *elections: str, prefix: str = "incumbent") -> None:
    """The server knows these elections."""
    for name in elections:
        server.cli("SET", f"{prefix}:{{{name}}}:fence", "1", "PX", 60_000)


def test_commands(complete: Any) -> None:
    """As the help says."""
    assert complete("st") == ["status", "step-down"]


@pytest.mark.parametrize("command", ["status", "watch", "candidates", "step-down", "release"])
def test_names_of_elections(complete: Any, valkey: Server, command: str) -> None:
    """All that begin so; in order, without what could be no election."""
    has(valkey, "night-2", "nightly", "other", "night\x1b[2J", "@night")
    assert complete(command, "ni") == ["night-2", "nightly"]
    assert complete(command, "x") == []


def test_options_on_the_line_count(complete: Any, valkey: Server) -> None:
    """The prefix, and where several names can be given those that were."""
    has(valkey, "a", "b")
    has(valkey, "mine", prefix="my")
    assert complete("status", "--prefix", "my", "") == ["mine"]
    assert complete("status", "--json", "a", "") == ["b"]
    assert complete("status", "--url", valkey.url, "", url=NOWHERE) == ["a", "b"]


@pytest.mark.parametrize(
    "url", [NOWHERE, "embedded://", "what", "redis://:secret@h:x", "unix:///nowhere"]
)
def test_no_server_no_words(complete: Any, url: str) -> None:
    """Nothing is offered and nothing is said; none is started for it."""
    assert complete("status", "", url=url) == []


def test_a_frozen_server_is_given_up(
    complete: Any, own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a moment, not after the command's own patience."""
    monkeypatch.setattr("incumbent.cli.completion.WITHIN", 0.2)
    has(own_server, "a")
    assert complete("status", "", url=own_server.url) == ["a"]
    own_server.pause()
    try:
        assert complete("status", "", url=own_server.url) == []
    finally:
        own_server.resume()
