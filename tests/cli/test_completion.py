"""What the shell completes: commands, and the names of elections that the server has."""

from pathlib import Path
from typing import Any

import pytest

from cli.inside import Inside
from cli.shells import COMMANDS, shell
from kit.servers import Server

NOWHERE = "redis://127.0.0.1:1"

RUN = "$(touch ran)`touch ran`"
"""What makes a file, if a shell reads it."""

NAMES = [
    f"tenant {RUN}; touch ran & touch ran | touch ran > ran\\",
    f"quotes' \" both'\"{RUN}",
    "globs* [a-z]? (x) <y> # ^ % a=~ :~b, c",
    "history !! !touch!",
    f"@acme:reports' {RUN}",
    "größe 日本",
]
"""Each begins with letters of its own."""

BEGINNINGS = ["~root", "=ls", "#1 $HOME", "!!", "$'x'", "'\"", "*", "\\", "(x)"]
"""What means something at the beginning of a word."""


@pytest.fixture
def complete(ask: Inside, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a shell is offered for the last word of a line, which is the last argument."""

    def choices(*words: str, url: str | None = None) -> list[str]:
        monkeypatch.setenv("_INCUMBENT_COMPLETE", "fish_complete")
        said = ask(*words, url=url)
        assert (said.code, said.err) == (0, "")
        return [line.partition("\t")[0] for line in said.out.splitlines() if line]

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
    has(valkey, "night-2", "nightly", "other", "night\x1b[2J", "night\nly", "@night")
    assert complete(command, "ni") == ["night-2", "nightly"]
    assert complete(command, "x") == []


def test_what_a_terminal_must_not_see_is_not_offered(complete: Any, valkey: Server) -> None:
    """A shell writes what it completes on the line."""
    has(valkey, "a\u202etxt", "a\u200bb", "a\ufe0f", "a\u2028", "aé")
    assert complete("status", "a") == ["aé"]


def test_a_name_is_not_taken_for_an_option(complete: Any, valkey: Server) -> None:
    """Somebody may call an election ``--yes``: it is offered to those who asked for such a name."""
    has(valkey, "--yes", "-x")
    assert complete("release", "") == []
    assert "--yes" in complete("release", "-")
    assert complete("release", "--", "") == []
    assert complete("release", "--", "-") == ["--yes", "-x"]


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
    monkeypatch.setattr("incumbent.cli.completion.names.WITHIN", 0.2)
    has(own_server, "a")
    assert complete("status", "", url=own_server.url) == ["a"]
    own_server.pause()
    try:
        assert complete("status", "", url=own_server.url) == []
    finally:
        own_server.resume()


@pytest.mark.parametrize("kind", COMMANDS)
def test_the_script_of_an_earlier_version_gets_nothing(
    ask: Inside, valkey: Server, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It would put names on the line as they are; a shell that is open still has it."""
    has(valkey, "a")
    monkeypatch.setenv("_INCUMBENT_COMPLETE", f"{kind}_complete")
    monkeypatch.setenv("COMP_WORDS", "incumbent status ")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert ask() == (0, "\n", "")


def test_another_shell_gets_no_names(
    ask: Inside, valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Click may know it, and would put them on the line as they are."""
    has(valkey, "$(touch ran)")
    monkeypatch.setenv("_INCUMBENT_COMPLETE", "powershell_complete")
    monkeypatch.setenv("COMP_WORDS", "incumbent status ")
    monkeypatch.setenv("COMP_CWORD", "2")
    said = ask()
    assert "touch" not in said.out + said.err


# -- real shells -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", COMMANDS)
def test_the_name_reaches_the_command_and_nothing_runs(
    kind: str, valkey: Server, tmp_path: Path
) -> None:
    """Tab and Enter after a few letters: without quotes, and within quotes of either kind."""
    with shell(kind, tmp_path, valkey.url) as typist:
        has(valkey, *NAMES)
        for quote in ("", "'", '"'):
            for name in NAMES:
                letters = name[: 8 if name[0] == "@" else 2]
                typist.complete(f"incumbent status --timeout 9s {quote}{letters}")
                assert typist.calls("") == ["status", "--timeout", "9s", name]
        assert typist.ran == []


@pytest.mark.parametrize("kind", COMMANDS)
def test_what_begins_a_word_is_nothing_special(kind: str, valkey: Server, tmp_path: Path) -> None:
    """Home directories, paths of commands, comments: a name that is the only one needs no letter.

    One that begins as options do is offered after ``--``.
    """
    with shell(kind, tmp_path, valkey.url) as typist:
        for name in BEGINNINGS:
            valkey.cli("FLUSHALL")
            has(valkey, name)
            typist.complete("incumbent release ")
            # Fish would leave a tilde as it is, so it is not offered the name.
            offered = () if kind == "fish" and name[0] == "~" else (name,)
            assert typist.calls("") == ["release", *offered]
        valkey.cli("FLUSHALL")
        has(valkey, "--yes $x")
        typist.complete("incumbent release ")
        assert typist.calls("") == ["release"]
        typist.complete("incumbent release -- --")
        assert typist.calls("") == ["release", "--", "--yes $x"]
        assert typist.ran == []


@pytest.mark.parametrize("kind", COMMANDS)
def test_one_of_several_names(kind: str, valkey: Server, tmp_path: Path) -> None:
    """What they have in common comes first, another letter makes it clear; and that in options."""
    has(valkey, "jobs of $a: x", "jobs of $a: y '1'")
    with shell(kind, tmp_path, valkey.url) as typist:
        typist.complete("incumbent status jo")
        typist.complete("y")
        assert typist.calls("--js") == ["status", "jobs of $a: y '1'", "--js"]
        typist.complete("incumbent status 'jobs of $a: y '\\''1'\\''' ")
        assert typist.calls("") == ["status", "jobs of $a: y '1'", "jobs of $a: x"]
        typist.complete("incumbent status --js")
        assert typist.calls("") == ["status", "--json"]
