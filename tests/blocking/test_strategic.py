"""The best candidate leads, among threads."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from blocking.scene import finished, heard, program, quick, start, thread
from incumbent import LeaderOptions, MemoryStore
from incumbent import StrategicElector as AsyncElector
from incumbent.blocking import StrategicElector, current_lease
from incumbent.strategy import LeastLoaded, Priority
from kit.servers import Server
from promises.scene import Journal

Make = Callable[..., StrategicElector]


@pytest.fixture
def node(valkey: Server) -> Iterator[Make]:
    """Makes electors of one fleet; the highest `priority` is best."""
    made: list[StrategicElector] = []

    def make(name: str, **options: Any) -> StrategicElector:
        elector = StrategicElector(
            valkey.url, quick(**options), strategy=Priority(), node_id=name, hooks=[Journal()]
        )
        made.append(elector)
        return elector

    yield make
    for elector in made:
        elector.close()


def names(elector: StrategicElector, election: str = "job") -> list[str]:
    """Who stands now."""
    return sorted(candidate.node_id for candidate in elector.candidates(election))


def test_only_the_best_candidate_leads(node: Make) -> None:
    """In the caller's thread; who is not the best, or does not stand, is left out."""
    amber, birch, cedar = node("amber"), node("birch"), node("cedar")
    with amber.candidate("job", {"priority": 1}) as me, birch.candidate("job", {"priority": 2}):
        assert names(cedar) == ["amber", "birch"]
        assert [each.run_if_leader("job", lambda: 1) for each in (amber, birch)] == [None, 1]
        assert cedar.run_if_leader("job", lambda: 1) is None
        me.update(priority=3)
        assert me.metadata == {"priority": 3}
        result = cedar.elect("job")
        assert result.winner is not None
        assert (result.winner.node_id, set(result.reasons)) == ("amber", {"birch"})
        assert amber.run_if_leader("job", lambda: current_lease("job")) is not None
    assert names(cedar) == []


def test_results_are_counted(node: Make) -> None:
    """Those of actions by themselves, those of other work by `record_result`."""
    amber = node("amber")
    assert amber.record_result("job", success=True) is False, "no candidate: nothing to count in"
    with amber.candidate("job"):
        assert amber.run_if_leader("job", lambda: 1) == 1
        with pytest.raises(ZeroDivisionError):
            amber.run_if_leader("job", lambda: 1 / 0)
        assert amber.record_result("job", success=False) is True
        (me,) = amber.candidates("job")
        assert (me.successes, me.failures) == (1, 2)


def test_it_stands_while_the_thread_computes(node: Make) -> None:
    """Longer than the TTL: the loop keeps the heart beating."""
    amber, other = node("amber"), node("other")
    with amber.candidate("job", ttl=4):
        (before,) = other.candidates("job")
        ends = time.monotonic() + 5
        while time.monotonic() < ends:
            sum(range(1000))
        (after,) = other.candidates("job")
    assert after.registered_at == before.registered_at, "it has not begun anew"


def test_a_leader_makes_way_for_a_better_one(node: Make) -> None:
    """Its action learns it by `lost`; only when that has returned, the better one leads."""
    amber, birch = node("amber"), node("birch")
    seen: list[str] = []
    enough = threading.Event()

    def serve() -> str:
        lease = current_lease()
        assert lease is not None
        seen.append(f"{lease.leader_id} leads")
        if not enough.is_set():
            enough.set()
            assert lease.lost.wait(30)
            assert lease.loss_reason is not None
            seen.append(f"{lease.leader_id} makes way")
        return lease.leader_id

    with amber.candidate("job", {"priority": 1}), thread(lambda: amber.campaign("job", serve)):
        assert enough.wait(30)
        with birch.candidate("job", {"priority": 2}):
            assert birch.campaign("job", serve) == "birch"
    assert seen == ["amber leads", "amber makes way", "birch leads", "amber leads"]


def test_a_block_is_entered_once_and_updated_within(node: Make) -> None:
    """Otherwise it says so, and what stands goes on standing."""
    amber = node("amber")
    me = amber.candidate("job")
    assert me.node_id == amber.node_id == "amber"
    with pytest.raises(RuntimeError, match="within its block"):
        me.update(priority=1)
    with me:
        with pytest.raises(RuntimeError, match="entered already"):
            me.__enter__()
        with pytest.raises(ValueError, match="metadata"):
            me.update(priority="x" * 5000)
        assert names(amber) == ["amber"]
        assert "blocking Standing 'amber'" in repr(me)
    with pytest.raises(RuntimeError, match="within its block"):
        me.update(priority=1)


def test_what_is_not_usable_is_said_before_any_io() -> None:
    """By the call itself, not by the block."""
    elector = StrategicElector("redis://localhost:1", strategy=LeastLoaded("load"))
    assert elector.strategy == LeastLoaded("load")
    with pytest.raises(ValueError, match="blank"):
        elector.candidate(" ")
    with pytest.raises(ValueError, match="ttl"):
        elector.candidate("job", ttl=0)
    with pytest.raises(TypeError):
        elector.candidate("job", {"load": [1]})  # type: ignore[dict-item]


def test_a_server_out_of_reach_is_told_on_entry() -> None:
    """As redis-py's own error, and the thread goes on."""
    options = LeaderOptions(lease_time=0.9, request_timeout=0.8)
    with (
        StrategicElector("redis://localhost:1", options, strategy=Priority()) as elector,
        pytest.raises(redis.exceptions.ConnectionError),
        elector.candidate("job"),
    ):
        pytest.fail("it does not stand")


def test_a_memory_store_and_siblings() -> None:
    """A tenant's candidates are nobody else's; siblings can all that the elector can."""
    with StrategicElector(MemoryStore(), strategy=Priority(), node_id="amber") as elector:
        acme = elector.for_tenant("acme").using(wait_time=1)
        with acme.candidate("job"):
            assert (names(elector), names(acme)) == ([], ["amber"])
            assert acme.run_if_leader("job", lambda: 5) == 5


def test_its_members_are_those_of_the_asyncio_elector() -> None:
    """The same names; `close` instead of `aclose`."""
    mine = {name for name in dir(StrategicElector) if not name.startswith("_")}
    theirs = {name for name in dir(AsyncElector) if not name.startswith("_")}
    assert mine == theirs - {"aclose"} | {"close"}


CANDIDATE = (
    "from incumbent.strategy import Priority\n"
    "e = StrategicElector(url, quick, strategy=Priority(), node_id=sys.argv[2])\n"
)


def test_ctrl_c_withdraws_the_candidate(valkey: Server, node: Make) -> None:
    """The program ends as Python does it, and nobody stands any more, long before the TTL."""
    child = start(
        CANDIDATE + "with e.candidate('job'):\n    say('stands')\n    time.sleep(60)\n",
        valkey,
        "amber",
    )
    assert heard(child) == "stands"
    other = node("other")
    assert names(other) == ["amber"]
    child.send_signal(signal.SIGINT)
    returncode, _, err = finished(child)
    assert returncode == -signal.SIGINT
    assert err.strip().endswith("KeyboardInterrupt")
    assert names(other) == []


def test_the_exit_withdraws_who_never_left_the_block(valkey: Server, node: Make) -> None:
    """A daemon thread that stands for ever: at the interpreter's exit it stands no more."""
    lines = program(
        CANDIDATE + "stands = threading.Event()\n"
        "def stand():\n"
        "    with e.candidate('job'): stands.set(); time.sleep(60)\n"
        "threading.Thread(target=stand, daemon=True).start()\n"
        "stands.wait(); say('end')\n",
        valkey,
        "amber",
    )
    assert lines == ["end"]
    assert names(node("other")) == []


def test_case_75_a_forked_child_withdraws_nothing(valkey: Server) -> None:
    """Its copy of the block is left without a word to the server, and updates nothing."""
    lines = program(
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
        + CANDIDATE
        + "with e.candidate('job', {'priority': 1}) as me:\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        try: me.update(priority=2)\n"
        "        except RuntimeError: sys.exit(7)\n"
        "        sys.exit(8)\n"
        "    say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        "    say([dict(each.metadata) for each in e.candidates('job')])\n",
        valkey,
        "amber",
    )
    assert lines == ["7", "[{'priority': 1}]"]


def test_threads_contend_as_tasks_do(node: Make) -> None:
    """While a thread waits to lead, its node's heartbeat says so; standing alone takes no rank."""
    amber, birch, idle = node("amber", wait_time=None), node("birch"), node("idle")
    with (
        amber.candidate("job", {"priority": 2}, ttl=3600),
        birch.candidate("job", {"priority": 3}, ttl=3600),
        idle.candidate("job", {"priority": 9}, ttl=3600),
        birch.using(wait_time=10).lead("job") as lease,
    ):

        def contenders() -> set[str]:
            return {each.node_id for each in idle.candidates("job") if each.contending}

        values: list[int | None] = []
        with thread(lambda: values.append(amber.run_if_leader("job", lambda: 7))):
            deadline = time.monotonic() + 30
            while "amber" not in contenders():
                assert time.monotonic() < deadline, contenders()
                time.sleep(0.01)
            assert "idle" not in contenders()
            lease.release()
        assert values == [7]


def test_a_failure_in_a_thread_is_an_early_one_too(node: Make) -> None:
    """The broken node goes behind the healthy one."""

    def broken() -> None:
        raise ConnectionError("no database")

    amber, birch = node("amber"), node("birch")
    with amber.candidate("job", {"priority": 2}), birch.candidate("job", {"priority": 1}):
        with pytest.raises(ConnectionError):
            amber.run_if_leader("job", broken)
        assert amber.run_if_leader("job", lambda: 1) is None
        assert birch.run_if_leader("job", lambda: 1) == 1
        assert [each.early_failures for each in birch.candidates("job")] == [1, 0]
