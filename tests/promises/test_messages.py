"""What a user reads after a mistake: the rule, the value, and what to write instead.

`test_wrong_kinds` sweeps all public parameters for what is refused; here are the words of those
mistakes that are easily made.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

import incumbent
from incumbent import (
    Durability,
    GroupElector,
    LeaderElector,
    LeaderOptions,
    MemoryStore,
    OncePer,
    StrategicElector,
    blocking,
)
from incumbent.asgi import leadership
from incumbent.durations import shown
from incumbent.strategy import Candidate, ElectionResult, Fifo, Snapshot
from kit.servers import Server
from promises.scene import forever

SOURCE = Path(incumbent.__file__).parents[1]
URL = "redis://127.0.0.1:1"


def refusal(call: Callable[[], object]) -> str:
    """What is said of the mistake."""
    with pytest.raises((TypeError, ValueError)) as raised:
        call()
    return str(raised.value)


# -- numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1e-9, "0.000000001 s"),
        (0.25, "0.25 s"),
        (0.1 + 0.2, "0.3 s"),
        (90, "90 s"),
        (5400, "5400 s (1h30m)"),
        (2_592_000, "2592000 s (30d)"),
        (-2_592_000, "-2592000 s"),
        (1e20, "1e+20 s"),
        (float("inf"), "inf s"),
        (float("nan"), "nan s"),
    ],
)
def test_durations_are_shown_as_people_write_them(seconds: float, text: str) -> None:
    """In seconds, as the argument is; from an hour on also in larger units."""
    assert shown(seconds) == text


@pytest.mark.parametrize(
    "call",
    [
        lambda: LeaderOptions(lease_time=timedelta(days=60)),
        lambda: LeaderOptions(lease_time=2_592_000, stop_grace=2_592_000),
        lambda: LeaderOptions(min_hold_time=timedelta(days=60)),
        lambda: LeaderOptions(max_hold_time=-5_000_000),
        lambda: LeaderOptions(request_timeout=-1e-9),
        lambda: LeaderOptions(once_per=timedelta(days=400)),
        lambda: LeaderOptions(durability=Durability(timeout=1_000_000)),
        lambda: Durability(timeout=1e-9),
        lambda: OncePer(40_000_000),
        lambda: StrategicElector(MemoryStore(), strategy=Fifo()).candidate("x", ttl=5_000_000),
    ],
    ids=map(str, range(10)),
)
def test_no_message_has_an_exponent(call: Callable[[], object]) -> None:
    """Neither in the limit nor in the value."""
    said = refusal(call)
    assert not re.search(r"\de[-+]\d", said), said
    assert re.search(r"\d s", said), said


def test_the_limits_of_a_lease() -> None:
    """Word by word."""
    said = refusal(lambda: LeaderOptions(lease_time=timedelta(days=60)))
    assert said == "lease_time must be from 0.25 s to 2592000 s (30d), not 5184000 s (60d)"


def test_timers_that_do_not_fit_say_what_to_change() -> None:
    """All numbers, and which of them to change."""
    said = refusal(lambda: LeaderOptions(lease_time=3, stop_grace=2))
    assert said.startswith("the timers must fit into lease_time: ")
    assert said.endswith("lease_time is 3 s; make that longer, or stop_grace shorter")


# -- periods ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1d", 86_400), ("90s", 90), ("1h30m", 5400), ("2w", 1_209_600), ("30", 30)],
)
def test_a_period_may_be_written_as_on_the_command_line(text: str, seconds: int) -> None:
    """In each place that takes a period."""
    assert OncePer(text) == OncePer(seconds)
    assert LeaderOptions(once_per=text).once_per == OncePer(seconds)
    assert OncePer(text, retry_failed=True) == OncePer(seconds, retry_failed=True)


@pytest.mark.parametrize("text", ["@daily", "daily", "1y", "", "d1"])
def test_what_is_no_period_is_told_how_to_write_one(text: str) -> None:
    """Both ways, and what was given."""
    ways = "a duration such as '90s', '15m' or '1d', or a cron expression of five fields such as"
    assert refusal(lambda: OncePer(text)) == f"every must be {ways} '0 3 * * *', not {text!r}"
    assert refusal(lambda: LeaderOptions(once_per=text)).startswith(f"once_per must be {ways}")


@pytest.mark.parametrize("text", ["61 * * * *", "0 3 * *", "every day"])
def test_what_is_no_cron_expression(text: str) -> None:
    """What is wrong with it, and how one looks."""
    said = refusal(lambda: OncePer(text))
    assert said.startswith(f"{text!r} is no cron expression (")
    assert said.endswith("it has five fields, such as '0 3 * * *'")


async def test_the_argument_is_named_as_the_caller_named_it() -> None:
    """`schedule` has `every`, options have `once_per`."""
    async with LeaderElector(MemoryStore()) as elector:
        for wrong in (None, [60], 0.01):
            with pytest.raises((TypeError, ValueError), match=r"^every must be"):
                await elector.schedule("x", every=wrong, action=forever)  # type: ignore[arg-type]
        for wrong in ([60], 0.01):
            with pytest.raises((TypeError, ValueError), match=r"^once_per must be"):
                elector.using(once_per=wrong)  # type: ignore[arg-type]
    with blocking.LeaderElector(MemoryStore()) as waiting:
        for wrong in (None, [60], 0.01):
            with pytest.raises((TypeError, ValueError), match=r"^every must be"):
                waiting.schedule("x", every=wrong, action=print)  # type: ignore[arg-type]


# -- time zones ------------------------------------------------------------------------------


def without_zones(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program where there is no time zone database and no package tzdata."""
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['tzdata'] = None\n{program}", *arguments],
        capture_output=True,
        text=True,
        timeout=150,
        env=os.environ | {"PYTHONTZPATH": "", "PYTHONPATH": str(SOURCE)},
        check=False,
    )


def test_utc_needs_no_time_zone_database() -> None:
    """It is the default, and may be named."""
    run = without_zones(
        "from incumbent import OncePer\n"
        "for zone in (None, 'UTC'):\n"
        "    once = OncePer('0 3 * * *', tz=zone)\n"
        "    print(once, once.period(1_000_000_000_000).begins)"
    )
    assert run.stderr == ""
    assert run.stdout == "OncePer('0 3 * * *', tz='UTC') 999918000000\n" * 2


def test_a_zone_without_a_database_is_told_what_to_install() -> None:
    """It is not the name that is wrong."""
    run = without_zones("from incumbent import OncePer; OncePer('0 3 * * *', tz='Europe/Berlin')")
    assert run.stderr.splitlines()[-1] == (
        "ValueError: tz 'Europe/Berlin' cannot be looked up: this machine has no time zone"
        " database. Install one (pip install tzdata), or leave tz out for UTC"
    )


def test_the_command_without_a_time_zone_database(valkey: Server) -> None:
    """UTC works; a named zone is a mistake of the usage that says what to install."""
    main = "from incumbent.cli import main; sys.exit(main())"
    nightly = ("run", "zones", "--url", valkey.url, "--once-per", "0 3 * * *")
    run = without_zones(main, *nightly, "--", "true")
    assert (run.returncode, run.stderr) == (0, "")
    run = without_zones(main, *nightly, "--tz", "Europe/Berlin", "--", "true")
    assert run.returncode == 2
    assert "pip install tzdata" in " ".join(run.stderr.split())


def test_a_zone_that_is_none_is_told_how_to_write_one() -> None:
    """With a database it is the name that is wrong."""
    said = refusal(lambda: OncePer("0 3 * * *", tz="Berlin"))
    assert said == "tz must be the name of a time zone, such as 'Europe/Berlin', not 'Berlin'"


# -- asyncio and threads ---------------------------------------------------------------------

ASYNCIO: dict[str, Callable[[Any], object]] = {
    "LeaderElector": LeaderElector,
    "GroupElector": lambda it: GroupElector(it, seats=2),
    "StrategicElector": lambda it: StrategicElector(it, strategy=Fifo()),
}
THREADS: dict[str, Callable[[Any], object]] = {
    "LeaderElector": blocking.LeaderElector,
    "GroupElector": lambda it: blocking.GroupElector(it, seats=2),
    "StrategicElector": lambda it: blocking.StrategicElector(it, strategy=Fifo()),
}


def made(cluster: Any) -> Any:
    """A client of a cluster that has connected to nothing."""
    return cluster.__new__(cluster)


@pytest.mark.parametrize("kind", list(ASYNCIO))
@pytest.mark.parametrize(
    "client", [redis.Redis.from_url(URL), made(redis.RedisCluster)], ids=["Redis", "RedisCluster"]
)
def test_a_client_for_threads_is_sent_to_the_electors_for_threads(kind: str, client: Any) -> None:
    """They have the same names."""
    said = refusal(lambda: ASYNCIO[kind](client))
    assert said.endswith(
        "that is a client for threads, and so are the electors of incumbent.blocking"
    )


@pytest.mark.parametrize("kind", list(THREADS))
@pytest.mark.parametrize(
    "client",
    [redis.asyncio.Redis.from_url(URL), made(redis.asyncio.RedisCluster)],
    ids=["Redis", "RedisCluster"],
)
def test_a_client_for_asyncio_is_sent_to_the_electors_for_asyncio(kind: str, client: Any) -> None:
    """The other way round."""
    said = refusal(lambda: THREADS[kind](client))
    assert said.endswith(
        "that is a client for asyncio, and so are the electors of incumbent itself"
    )


async def test_an_action_of_the_other_kind_is_sent_there() -> None:
    """A plain function, a coroutine function, and what a lambda of each gives."""

    def plain() -> None: ...

    threads = "for plain functions in threads, there are the electors of incumbent.blocking"
    coroutines = "for coroutine functions, there are the electors of incumbent itself"
    wrong: list[Any] = [plain, lambda: 3]
    async with LeaderElector(MemoryStore()) as elector:
        for function in wrong:
            with pytest.raises(TypeError, match=f"{threads}$"):
                await elector.run_if_leader("x", function)
    with blocking.LeaderElector(MemoryStore()) as waiting:
        for action in (forever, lambda: forever()):  # noqa: PLW0108 - what it is cannot be seen
            with pytest.raises(TypeError, match=f"{coroutines}$"):
                waiting.run_if_leader("x", action)


def test_an_elector_for_threads_is_none_for_an_application() -> None:
    """Both have the same class name: the message has the module as well."""
    with blocking.LeaderElector(MemoryStore()) as waiting:
        said = refusal(lambda: leadership(waiting, "x", forever))  # type: ignore[arg-type]
    assert said == (
        "elector must be an elector for asyncio, such as incumbent.LeaderElector,"
        " not incumbent.blocking.electors.LeaderElector"
    )


# -- values ----------------------------------------------------------------------------------


def node(name: str) -> Candidate:
    """A candidate."""
    return Candidate(node_id=name, registered_at=datetime(2026, 1, 1, tzinfo=UTC))


def test_a_winner_alone_is_no_result() -> None:
    """It is said what is missing, and how a result is made."""
    first, second = node("a"), node("b")
    how = "ElectionResult.of([best, second, ...]) makes a result of an order"
    rule = "the winner must be the first of ranking: the winner is"
    said = refusal(lambda: ElectionResult(first))
    assert said == f"{rule} 'a', and ranking is empty. {how}"
    said = refusal(lambda: ElectionResult(first, ranking=(second, first)))
    assert said == f"{rule} 'a', the first of ranking is 'b'. {how}"
    said = refusal(lambda: ElectionResult(None, ranking=(first,)))
    assert said == f"{rule} None, the first of ranking is 'a'. {how}"


async def test_a_strategy_that_returns_a_candidate() -> None:
    """It is said what to return."""

    def best(snapshot: Snapshot) -> Any:
        return snapshot.candidates[0]

    async with (
        StrategicElector(MemoryStore(), strategy=best) as elector,
        elector.candidate("x"),
    ):
        with pytest.raises(TypeError, match=r"ElectionResult\.of\(\[best, second, \.\.\.\]\), not"):
            await elector.elect("x")


def test_options_and_durability_show_how_they_are_made() -> None:
    """Who gives a mapping or a number sees what to write."""
    said = refusal(lambda: LeaderElector(MemoryStore(), {}))  # type: ignore[arg-type]
    assert "LeaderOptions(lease_time=30)" in said
    said = refusal(lambda: LeaderOptions(durability=1))  # type: ignore[arg-type]
    assert "Durability(replicas=1)" in said
