"""`watch` in pipes and on terminals: quiet, with many elections, and while the server is sick."""

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from cli.inside import Inside
from cli.stage import Follower, Runs, led, seat
from cli.terminal import Terminal
from kit.servers import Server
from kit.waiting import wait_until_blocking

Open = Callable[..., Terminal]
SHOWN, HIDDEN = "\x1b[?25h", "\x1b[?25l"
"""The cursor."""
WHOLE, BACK = "\x1b[?1049h", "\x1b[?1049l"
"""The page over the whole terminal, and what was there before."""


@pytest.fixture
def open_terminal(terminals: list[Terminal]) -> Open:
    """Runs ``incumbent watch ARGUMENTS`` on a terminal, which is closed after the test."""

    def run(server: Server, *arguments: str, **options: Any) -> Terminal:
        terminals.append(Terminal(server.url, "watch", *arguments, **options))
        return terminals[-1]

    return run


def exist(server: Server, *names: str) -> None:
    """Somebody has led these, and nobody does now."""
    for name in names:
        server.cli("SET", f"incumbent:{{{name}}}:fence", "1", "PX", 60_000)


def lead(server: Server, name: str, who: str, *, fence: int = 2) -> None:
    """Somebody leads."""
    server.cli("HSET", seat(name), "token", "t", "leader", who, "fence", fence, "since", "1")
    server.cli("PEXPIRE", seat(name), 60_000)
    exist(server, name)


def row(screen: str, name: str) -> str:
    """What a screen says of an election."""
    (found,) = [line for line in screen.splitlines() if line.startswith(f"{name} ")]
    return found


# -- lines -----------------------------------------------------------------------------------


def test_watch_tells_each_change_in_a_line(runs: Runs, valkey: Server) -> None:
    """First what is now; then who comes and who goes. SIGTERM ends it with 143."""
    exist(valkey, "job")
    follower = Follower(valkey.url, "job")
    runs.keep(follower)
    assert follower.line().endswith("Z job: nobody leads")
    with led(valkey, "job"):
        assert " job: seat 0: me leads for " in follower.line()
    assert follower.line().endswith(" job: seat 0: free")
    follower.process.send_signal(signal.SIGTERM)
    assert follower.process.wait(20) == 143
    assert follower.process.stderr is not None
    assert follower.process.stderr.read() == ""


def test_a_name_that_may_be_misspelt(runs: Runs, valkey: Server) -> None:
    """Said on stderr, as `status` does, between the lines; and watched, because it may come."""
    exist(valkey, "scheduler")
    follower = Follower(valkey.url, "schedulr")
    runs.keep(follower)
    assert follower.line().endswith("Z schedulr: nobody leads")
    assert follower.process.stderr is not None
    assert follower.process.stderr.readline() == (
        "incumbent: no election 'schedulr': nobody has led it for a day,"
        " and nobody waits for it; did you mean 'scheduler'?\n"
    )
    with led(valkey, "schedulr"):
        assert " schedulr: seat 0: me leads for " in follower.line()


def test_watch_follows_elections_that_are_new(runs: Runs, valkey: Server) -> None:
    """Without a name: all there are, and those that come; one line of JSON for each change."""
    follower = Follower(valkey.url, "--json")
    runs.keep(follower)
    with led(valkey, "job"):
        told = json.loads(follower.line())
    assert (told["name"], told["leaders"][0]["leader_id"]) == ("job", "me")
    assert told["at"].endswith("Z")


def test_nobody_reads_any_more(runs: Runs, valkey: Server) -> None:
    """`incumbent watch | head -1` ends without a word, and before there is more to be written."""
    exist(valkey, "job")
    follower = Follower(valkey.url, "job")
    runs.keep(follower)
    follower.line()
    assert follower.process.stdout is not None
    follower.process.stdout.close()
    assert follower.process.wait(60) == 141
    assert follower.process.stderr is not None
    assert follower.process.stderr.read() == ""
    follower.process.stderr.close()


def test_an_outage_is_a_line_and_so_is_its_end(runs: Runs, own_server: Server) -> None:
    """With since when, and why; an old leader is not left to look like the present one."""
    lead(own_server, "job", "me")
    followers = [Follower(own_server.url, *names) for names in ((), ("job",))]
    for follower in followers:
        runs.keep(follower)
        assert (line := follower.line()).endswith(", fence 2")
        assert " job: seat 0: me leads for " in line
    own_server.kill()
    for follower in followers:
        assert " job: no word since " in follower.line()
    own_server.restart()
    lead(own_server, "job", "you", fence=3)
    for follower in followers:
        while "you leads" not in (line := follower.line()):
            assert any(each in line for each in ("no word since", "free", "heard of again"))


def test_an_outage_for_programs(runs: Runs, own_server: Server) -> None:
    """A value for each election, without leaders."""
    lead(own_server, "job", "me")
    follower = Follower(own_server.url, "--json")
    runs.keep(follower)
    assert json.loads(follower.line())["leaders"][0]["leader_id"] == "me"
    own_server.kill()
    told = json.loads(follower.line())
    assert told.keys() == {"at", "name", "error", "silent_since"}
    assert (told["name"], told["silent_since"] < told["at"]) == ("job", True)
    own_server.restart()
    while "leaders" not in (told := json.loads(follower.line())):
        assert told["error"]
    assert told["leaders"] == []


def test_one_key_of_the_wrong_type_does_not_end_it(runs: Runs, valkey: Server) -> None:
    """It is told, and the others are followed."""
    exist(valkey, "a", "b")
    valkey.cli("SET", seat("a"), "foreign", "PX", 60_000)
    follower = Follower(valkey.url)
    runs.keep(follower)
    first, second = follower.line(), follower.line()
    assert f" a: cannot be read: wrong type: {seat('a')} (WRONGTYPE " in first
    assert second.endswith(" b: nobody leads")
    with led(valkey, "b"):
        assert " b: seat 0: me leads for " in follower.line()


def test_when_nothing_can_be_read_it_ends(ask: Inside, valkey: Server) -> None:
    """As `status` does."""
    valkey.cli("SET", seat("a"), "foreign", "PX", 60_000)
    said = ask("watch", "a")
    assert (said.code, said.out) == (69, "")
    assert seat("a") in said.err


# -- a terminal ------------------------------------------------------------------------------


def test_watch_on_a_terminal_is_a_table(valkey: Server, open_terminal: Open) -> None:
    """It follows what happens."""
    exist(valkey, "job")
    terminal = open_terminal(valkey, "job")
    screen = terminal.shows("nobody")
    assert all(word in screen for word in ("election", "seat", "leader", "for", "in line"))
    with led(valkey, "job"):
        terminal.shows(" me ", without="nobody")
    terminal.shows("nobody", without=" me ")


def test_a_row_of_a_name_that_may_be_misspelt(valkey: Server, open_terminal: Open) -> None:
    """It is told where one looks, until there is such an election."""
    exist(valkey, "scheduler")
    terminal = open_terminal(valkey, "schedulr")
    screen = terminal.shows("did you mean")
    assert row(screen, "schedulr").split(maxsplit=1)[1] == (
        "no such election yet; did you mean 'scheduler'?"
    )
    with led(valkey, "schedulr"):
        terminal.shows(" me ", without="did you mean")


def test_a_page_without_elections(valkey: Server, open_terminal: Open) -> None:
    """It says so, until there is one."""
    terminal = open_terminal(valkey)
    terminal.shows("No elections under the prefix 'incumbent'")
    with led(valkey, "job"):
        terminal.shows(" me ", without="No elections")


@pytest.mark.parametrize(
    ("end", "code"),
    [("q", 0), ("\x03", 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["q", "Ctrl-C", "SIGTERM", "SIGHUP"],
)
def test_however_it_ends_the_terminal_is_as_it_was(
    valkey: Server, open_terminal: Open, *, end: str | int, code: int
) -> None:
    """Its modes, the cursor, and what was on it before; the last page stays below that."""
    exist(valkey, "job")
    terminal = open_terminal(valkey)
    terminal.shows("job", "nobody")
    assert terminal.modes != terminal.modes_before
    if isinstance(end, str):
        terminal.type(end)
    else:
        terminal.process.send_signal(end)
    assert terminal.ends() == code
    assert terminal.modes == terminal.modes_before
    assert terminal.raw.rindex(SHOWN) > terminal.raw.rindex(HIDDEN)
    left = terminal.raw[terminal.raw.rindex(BACK) :]
    assert WHOLE not in left
    assert "nobody" in left
    assert "q quit" not in left
    assert "Traceback" not in left


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(
    valkey: Server, open_terminal: Open
) -> None:
    """By a real shell: as it was before, and then the table again."""
    exist(valkey, "job")
    script = 'set -m; "$0" "$@"; echo stopped; read line; fg; echo ended $?'
    terminal = open_terminal(valkey, "job", script=script)
    terminal.shows("nobody")
    terminal.type("\x1a")
    terminal.wait_for("stopped")
    assert terminal.modes == terminal.modes_before
    assert terminal.raw.rindex(SHOWN) > terminal.raw.rindex(HIDDEN)
    assert terminal.raw.rindex(BACK) > terminal.raw.rindex(WHOLE)
    before = len(terminal.raw)
    terminal.type("\n")
    wait_until_blocking(lambda: terminal.text and WHOLE in terminal.raw[before:], within=60)
    with led(valkey, "job"):
        terminal.shows(" me ")
    terminal.type("q")
    terminal.wait_for("ended 0")
    assert terminal.ends() == 0
    assert terminal.modes == terminal.modes_before


def test_pages_and_a_filter(valkey: Server, open_terminal: Open) -> None:
    """All can be reached, though eight of a thousand fit a screen."""
    exist(valkey, *(f"job-{number:02}" for number in range(50)))
    terminal = open_terminal(valkey)
    terminal.shows("50 elections", "job-00", "job-20", "1-21 of 50", without="job-21")
    terminal.type(" ")
    terminal.shows("job-21", "job-41", "22-42 of 50", without="job-20")
    terminal.type("\x1b[A")
    terminal.shows("job-20", "job-40", "21-41 of 50", without="job-41")
    terminal.type("G")
    terminal.shows("job-29", "job-49", "30-50 of 50", without="job-28")
    terminal.type("b")
    terminal.shows("job-08", "9-29 of 50", without="job-07")
    terminal.type("/B-4")
    terminal.shows("/B-4_", "job-40", "job-49", without="job-39")
    terminal.type("\r")
    terminal.shows("1-10 of 10 with 'B-4'")
    terminal.type("\x1b")
    terminal.shows("job-00", "1-21 of 50")


def test_a_terminal_that_changes_its_size(valkey: Server, open_terminal: Open) -> None:
    """The page follows at once."""
    exist(valkey, *(f"job-{number:02}" for number in range(50)))
    terminal = open_terminal(valkey)
    terminal.shows("1-21 of 50", "in line")
    terminal.resize(40, 10)
    terminal.shows("1-7 of 50", without="in line")
    terminal.resize(120, 40)
    terminal.shows("1-37 of 50", "fence")


def test_without_a_keyboard_there_are_no_keys(valkey: Server, open_terminal: Open) -> None:
    """Nor are any told of; Ctrl-C ends it."""
    exist(valkey, "job")
    terminal = open_terminal(valkey, "job", script='exec "$0" "$@" </dev/null')
    terminal.shows("nobody", "Ctrl-C ends")
    assert terminal.modes == terminal.modes_before
    terminal.type("\x03")
    assert terminal.ends() == 130


def test_a_dumb_terminal_has_lines(valkey: Server, open_terminal: Open) -> None:
    """It cannot move its cursor."""
    terminal = open_terminal(valkey, "job", env={"TERM": "dumb"})
    terminal.wait_for("Z job: nobody leads")
    with led(valkey, "job"):
        terminal.wait_for(" job: seat 0: me leads")
    assert "\x1b" not in terminal.raw


def test_p10_in_an_outage_nobody_is_shown_as_a_leader(
    own_server: Server, open_terminal: Open
) -> None:
    """The table says since when nothing was heard, and why; afterwards it heals by itself."""
    lead(own_server, "job", "me")
    terminal = open_terminal(own_server)
    assert row(terminal.shows(" me "), "job").split()[1:3] == ["0", "me"]
    own_server.kill()
    screen = terminal.shows("No word from the server for ", "1 election, 1 not heard of")
    assert " no word for " in row(screen, "job")
    assert row(screen, "job").endswith("s, was me")
    terminal.shows("Error 111")
    own_server.restart()
    lead(own_server, "job", "you", fence=3)
    screen = terminal.shows(" you ", without="No word")
    assert row(screen, "job").split()[1:3] == ["0", "you"]


def test_p10_a_silent_server_is_an_outage_as_well(own_server: Server, open_terminal: Open) -> None:
    """It is noticed when a lease should have ended, at the latest."""
    terminal = open_terminal(own_server, "job")
    with led(own_server, "job", lease=1.0):
        terminal.shows(" me ")
        own_server.pause()
        try:
            screen = terminal.shows("No word from the server for ")
            assert row(screen, "job").endswith("s, was me")
        finally:
            own_server.resume()
    terminal.shows("nobody", without="No word")


def test_what_cannot_be_read_is_a_row_on_top(own_server: Server, open_terminal: Open) -> None:
    """A wrong type, and a right that this user has not got."""
    lead(own_server, "a", "me")
    exist(own_server, "b", "c")
    own_server.cli("SET", seat("b"), "foreign", "PX", 60_000)
    rights = ("~incumbent:{a}:*", "~incumbent:{b}:*", "&*", "+@all")
    own_server.cli("ACL", "SETUSER", "some", "on", ">secret", *rights)
    terminal = Terminal(own_server.url.replace("redis://", "redis://some:secret@"), "watch")
    try:
        screen = terminal.shows("3 elections, 2 cannot be read", " me ")
    finally:
        terminal.close()
    b, c, a = screen.splitlines()[2:5]
    assert b.split(maxsplit=1) == ["b", "cannot be read: wrong type: seat:0"]
    assert c.split(maxsplit=1) == ["c", "cannot be read: no right to its keys"]
    assert a.split()[:3] == ["a", "0", "me"]
