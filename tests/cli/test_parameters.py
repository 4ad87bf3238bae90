"""What users write on the command line: durations, URLs, and what an event is in words."""

import sys
from datetime import UTC, datetime
from typing import Any

import click
import pytest
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.connection import SSLConnection
from redis.exceptions import OutOfMemoryError

from incumbent import LeaderInfo, OncePer, Skipped, durations, events
from incumbent.cli.connection import connect
from incumbent.cli.endings import MistakeError, UnavailableError
from incumbent.cli.parameters import PERIOD, WAIT
from incumbent.cli.run.performance import exit_code
from incumbent.cli.run.words import news, not_elected
from incumbent.results import LOSS_REASONS

ME: dict[str, Any] = {"election": "x", "leader_id": "me"}
TERM: dict[str, Any] = {"election": "x", "leader_id": "me", "seat": 0, "fence": 7}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("30", 30), ("0", 0), ("1.5", 1.5), (".5", 0.5), ("250ms", 0.25), ("90s", 90)],
        *[("15m", 900), ("1h30m", 5400), ("1d", 86_400), ("2w", 1_209_600), ("1m500ms", 60.5)],
    ],
)
def test_durations(text: str, seconds: float) -> None:
    """A number is seconds; a unit says otherwise."""
    assert durations.parse(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "d", "1x", "-1", "1 d", "1d1", "1e3", "nan", "inf", "1.", "٣"]
)
def test_what_is_no_duration(text: str) -> None:
    """It is said how to write one."""
    with pytest.raises(ValueError, match="is no duration: write 30, 500ms"):
        durations.parse(text)


def test_periods_and_waits() -> None:
    """Blanks make a cron expression; a wait may have no end."""
    assert PERIOD.convert("1d", None, None) == OncePer(86_400)
    assert PERIOD.convert("0 3 * * *", None, None) == OncePer("0 3 * * *")
    assert PERIOD.convert(OncePer(5), None, None) == OncePer(5)
    assert WAIT.convert("forever", None, None) == float("inf")
    for wrong in ("61 * * * *", "10ms"):
        with pytest.raises(click.BadParameter):
            PERIOD.convert(wrong, None, None)


def test_a_cron_expression_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said what to install."""
    monkeypatch.delitem(sys.modules, "incumbent.cron", raising=False)
    monkeypatch.delattr("incumbent.cron", raising=False)
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(UnavailableError, match=r"pip install 'incumbent\[cron\]'"):
        PERIOD.convert("* * * * *", None, None)


def details(url: str) -> dict[str, Any]:
    """How a client of `url` connects."""
    return dict(pool_of(url).connection_kwargs)


def pool_of(url: str) -> Any:
    """What it has its connections from."""
    client = connect(url)
    assert isinstance(client, Redis)
    return client.connection_pool


def test_urls_of_one_server() -> None:
    """By TCP, by TLS, and by a Unix socket; with credentials and a database."""
    plain = details("redis://user:p%40ss@h:7000/3")
    assert (plain["host"], plain["port"], plain["db"]) == ("h", 7000, 3)
    assert (plain["username"], plain["password"]) == ("user", "p@ss")
    by_file = details("unix:///run/s?db=2")
    assert (by_file["path"], by_file["db"]) == ("/run/s", 2)
    assert pool_of("rediss://h").connection_class is SSLConnection


def test_a_url_of_sentinels() -> None:
    """Several Sentinels, their own credentials, and the server's; the service and the database."""
    pool = pool_of(
        "redis+sentinel://u:p%2Fw@h1,h2:7000/the-service/4?sentinel_username=s&sentinel_password=t"
    )
    asked = [one.connection_pool.connection_kwargs for one in pool.sentinel_manager.sentinels]
    assert [(one["host"], one["port"]) for one in asked] == [("h1", 26379), ("h2", 7000)]
    assert {(one["username"], one["password"]) for one in asked} == {("s", "t")}
    kept = pool.connection_kwargs
    assert (kept["username"], kept["password"], kept["db"]) == ("u", "p/w", 4)
    assert pool.service_name == "the-service"


@pytest.mark.parametrize("scheme", ["redis+cluster", "rediss+cluster"])
def test_a_url_of_a_cluster(scheme: str) -> None:
    """Some of its nodes, and the credentials for all; with or without TLS."""
    client = connect(f"{scheme}://u:p%2Fw@h1,[::1]:7000")
    assert isinstance(client, RedisCluster)
    places = [(node.host, node.port) for node in client.nodes_manager.startup_nodes.values()]
    assert places == [("h1", 6379), ("::1", 7000)]
    kept: Any = client.get_connection_kwargs()
    assert (kept["username"], kept["password"]) == ("u", "p/w")
    assert (kept["connection_class"] is SSLConnection) == (scheme == "rediss+cluster")


@pytest.mark.parametrize(
    "url",
    [
        *["", "h", "h:6379", "http://secret@h", "redis+cluster://:secret@h/1", "embedded:///"],
        *["redis://:sec/ret@h", "redis://:secret@h:x", "redis://:secret@h:0", "redis://h?db=sec"],
        *["redis://:secret@h:99999", "redis://:secret@[h", "redis+sentinel://h1,h2"],
        *["redis+sentinel://:secret@/s", "redis+sentinel://:secret@h/s/x"],
    ],
)
def test_what_is_no_url(url: str) -> None:
    """A mistake of the user's, in one line that shows no part of the URL."""
    with pytest.raises(MistakeError) as raised:
        _ = connect(url)
    assert "sec" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("path", ["prod", "-1", "+1", "1/2", "1x", "\u0663"])
@pytest.mark.parametrize("place", ["redis://h", "rediss://h", "redis+sentinel://h1,h2/service"])
def test_a_path_that_is_no_database(place: str, path: str) -> None:
    """It is said what must be there; it is not taken for database 0."""
    with pytest.raises(MistakeError, match="the path must be the number of a database, such as /0"):
        connect(f"{place}/{path}")


def test_a_database_of_a_cluster() -> None:
    """It is said that there is only one."""
    with pytest.raises(MistakeError, match="a cluster has one database"):
        connect("redis+cluster://h1,h2/prod")


def test_the_code_of_a_program() -> None:
    """Its own, or the shell's for a signal."""
    assert [exit_code(code) for code in (0, 3, -9, -15)] == [0, 3, 137, 143]


def test_why_it_was_not_run() -> None:
    """A sentence for each reason."""
    holder = LeaderInfo(
        leader_id="other", seat=0, fence=1, since=datetime.now(UTC), remaining=1, retained=False
    )
    assert not_elected("x", Skipped("held", holder)) == "not run: other leads 'x'"
    assert not_elected("x", Skipped("held")) == "not run: others are due to lead 'x'"
    assert not_elected("x", Skipped("already_ran")) == "not run: 'x' has been run in this period"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (events.TermStarted(**TERM), "leading 'x', seat 0, fence 7"),
        (events.TermRenewed(**TERM, remaining=1), ""),
        (
            events.RenewalDelayed(**TERM, error=OSError("cut"), remaining=1.25, repeated=False),
            "'x' was not renewed, its lease lasts 1.2s more: cut",
        ),
        (events.RenewalDelayed(**TERM, error=OSError("cut"), remaining=1, repeated=True), ""),
        (
            events.TermLost(**TERM, reason="taken", detail=""),
            f"leadership of 'x' lost: taken ({LOSS_REASONS['taken']})",
        ),
        (
            events.TermLost(**TERM, reason="max_hold_time", detail=""),
            "leadership of 'x' lost: max_hold_time (it was held for as long as --max-hold allows)",
        ),
        (
            events.TermLost(**TERM, reason="unreachable", detail="refused: MISCONF no disk"),
            (
                "leadership of 'x' lost: unreachable"
                " (it could not be renewed in time: refused: MISCONF no disk)"
            ),
        ),
        (
            events.ReleaseFailed(**TERM, error=OSError("cut")),
            "the seat of 'x' could not be given back, and frees itself: cut",
        ),
        (
            events.TermEnded(**TERM, ending="released", duration=3),
            "no longer leading 'x', after 3s",
        ),
        (
            events.AttemptDelayed(**ME, error=OSError("cut"), retry_in=1, repeated=False),
            "no election of 'x' by the server at h:1, next try in 1s: cut",
        ),
        (
            events.AttemptDelayed(
                **ME, error=OutOfMemoryError("no memory"), retry_in=1, repeated=False
            ),
            "no election of 'x' by the server at h:1, next try in 1s: refused: OOM no memory",
        ),
        (events.AttemptDelayed(**ME, error=OSError("cut"), retry_in=1, repeated=True), ""),
        (
            events.OutageEnded(**ME, duration=43.21),
            "the server answers again for 'x', after 43.2s",
        ),
    ],
)
def test_events_in_words(event: events.Event, line: str) -> None:
    """Terms are news of a campaign only, trouble always is."""
    where = "the server at h:1"
    assert news("x", event, terms=True, where=where) == line
    of_terms = isinstance(event, events.TermStarted | events.TermEnded)
    assert news("x", event, terms=False, where=where) == ("" if of_terms else line)
