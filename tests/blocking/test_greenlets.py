"""Electors for threads in processes whose threads are greenlets: real gevent, and real eventlet."""

import sys

import pytest

from blocking.scene import RENEWED, finished, heard, program, start
from kit.servers import Server
from promises.scene import in_line, steal, token_of

GEVENT = "from gevent import monkey; monkey.patch_all()\nimport asyncio, gevent\n"
EVENTLET = "import eventlet; eventlet.monkey_patch()\n"
ELECTOR = "e = LeaderElector(url, quick)\n"


def under_gevent(code: str, server: Server, *args: str) -> list[str]:
    """What a program says whose threads are greenlets."""
    return program(code, server, *args, first=GEVENT)


@pytest.mark.parametrize(
    "work",
    [
        "gevent.sleep(6.5)",
        "time.sleep(6.5)",
        "while more(): sum(range(1000))",
    ],
    ids=["gevent.sleep", "time.sleep", "computing"],
)
@pytest.mark.parametrize("call", ["e.run_if_leader('one', work)", "job(e.run_if_leader, work)"])
def test_renewals_go_on_beyond_the_lease(valkey: Server, work: str, call: str) -> None:
    """In the main greenlet and in another one; also while none gives way to others."""
    lines = under_gevent(
        f"{RENEWED}e = LeaderElector(url, renewed)\n"
        f"def work():\n    {work}\n    return current_lease().held\n"
        "def job(run, work): return gevent.spawn(run, 'one', work).get(timeout=55)\n"
        f"say({call})\n",
        valkey,
    )
    assert lines == ["True"]
    assert token_of(valkey, "one") is None


def test_nobody_else_sees_our_event_loop(valkey: Server) -> None:
    """While one greenlet leads, and afterwards, asyncio works in the others.

    Django asks `asyncio.get_running_loop` as well, and refuses its database where one runs.
    """
    lines = under_gevent(
        ELECTOR + "led, stop = threading.Event(), threading.Event()\n"
        "def work():\n    led.set(); stop.wait(); return 'done'\n"
        "def look():\n"
        "    try: asyncio.get_running_loop(); say('a running loop')\n"
        "    except RuntimeError: say('none')\n"
        "    say(asyncio.run(asyncio.sleep(0.1, 'ran')))\n"
        "job = gevent.spawn(e.run_if_leader, 'one', work)\n"
        "led.wait(); look(); stop.set(); say(job.get(timeout=55)); look()\n",
        valkey,
    )
    assert lines == ["none", "ran", "done", "none", "ran"]


def test_greenlets_wait_for_each_other(valkey: Server) -> None:
    """Twenty want one seat: each leads once, one at a time, and none blocks the others."""
    lines = under_gevent(
        "e = LeaderElector(url, quick.changed(wait_time=60))\n"
        "inside = []\n"
        "def work():\n"
        "    inside.append(1); assert len(inside) == 1\n"
        "    gevent.sleep(0.02); inside.pop(); return 1\n"
        "jobs = [gevent.spawn(e.run_if_leader, 'one', work) for _ in range(20)]\n"
        "say(sum(job.get(timeout=55) for job in jobs))\n",
        valkey,
    )
    assert lines == ["20"]


def test_a_loss_wakes_a_greenlet_that_waits_for_it(valkey: Server) -> None:
    """Without it gevent would say that this waits for ever."""
    child = start(
        ELECTOR + "try:\n"
        "    with e.lead('one') as lease:\n"
        "        say('leads'); lease.lost.wait(); say(lease.loss_reason, lease.held)\n"
        "except LeadershipLostError as error: say(error.reason)\n",
        valkey,
        first=GEVENT,
    )
    assert heard(child) == "leads"
    steal(valkey, "one")
    code, said, log = finished(child)
    assert (code, said) == (0, "taken False\ntaken\n")
    assert log.startswith("leadership lost (election='one'")
    assert log.count("\n") == 1, log


def test_the_other_methods(valkey: Server) -> None:
    """Blocks, states, watching, stepping down, standing as a candidate; by the name of a host."""
    # On 3.13 the threads that look up a host name leave a word on stderr at the program's end.
    by_name = "" if sys.version_info >= (3, 13) else "url = url.replace('127.0.0.1', 'localhost')\n"
    lines = under_gevent(
        by_name + "from incumbent.strategy import Fifo\n" + ELECTOR + "states = e.watch('one')\n"
        "say(len(next(states).leaders))\n"
        "with e.lead('one') as lease:\n"
        "    say(len(next(states).leaders), e.is_leading('one'), current_lease() == lease)\n"
        "    say(lease.extend(5), len(e.state('one').leaders))\n"
        "    with e.try_lead('one') as other: say(other)\n"
        "    lease.release(); say(lease.held)\n"
        "states.close()\n"
        "s = StrategicElector(url, quick, strategy=Fifo(), node_id='n')\n"
        "with s.candidate('best') as me:\n"
        "    me.update(load=1); say(s.elect('best').winner.node_id, s.run_if_leader('best', int))\n"
        "s.close(); e.close(); say('closed')\n",
        valkey,
    )
    assert lines == ["0", "1 True True", "True 1", "None", "False", "n 0", "closed"]


def test_seats_are_given_back_at_the_end(valkey: Server) -> None:
    """One greenlet leads and one waits when the program ends: both leave nothing."""
    child = start(
        ELECTOR + "w = e.using(wait_time=None)\n"
        "gevent.spawn(w.run_if_leader, 'one', lambda: gevent.sleep(600))\n"
        "gevent.spawn(w.run_if_leader, 'one', int)\n"
        "gevent.sleep(0.3)\n"
        "while not e.is_leading('one'): gevent.sleep(0.05)\n"
        "while not e.state('one').waiting: gevent.sleep(0.05)\n"
        "say('both'); sys.stdin.readline()\n",
        valkey,
        first=GEVENT,
    )
    assert heard(child) == "both"
    assert finished(child)[0] == 0
    assert token_of(valkey, "one") is None
    assert in_line(valkey, "one") == []


def test_a_forked_child_elects_as_well(valkey: Server) -> None:
    """As the workers of a server do that was started before."""
    lines = under_gevent(
        ELECTOR + "say(e.run_if_leader('one', lambda: 'parent'))\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    say(e.run_if_leader('one', lambda: 'child')); os._exit(0)\n"
        "say(os.waitpid(pid, 0)[1], e.run_if_leader('one', lambda: 'parent'))\n",
        valkey,
    )
    assert lines == ["parent", "child", "0 parent"]


def test_gevent_has_to_come_first(valkey: Server) -> None:
    """What was imported before has other sockets: it is said at first use, not by a hang."""
    lines = program(
        "e = LeaderElector(url, quick)\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "from gevent import monkey; monkey.patch_all()\n"
        "for _ in range(2):\n"
        "    try: e.run_if_leader('one', int)\n"
        "    except RuntimeError as error: say(error)\n",
        valkey,
    )
    told = (
        "incumbent.blocking was imported before gevent.monkey.patch_all() was called: call that"
        " first, before all other imports"
    )
    assert lines == [told, told]


@pytest.mark.parametrize("elector", ["LeaderElector(url)", "GroupElector(url, seats=2)"])
def test_eventlet_is_refused_at_once(valkey: Server, elector: str) -> None:
    """When an elector is made."""
    lines = program(
        f"try: {elector}\nexcept RuntimeError as error: say(error)\n",
        valkey,
        first="import warnings; warnings.simplefilter('ignore')\n" + EVENTLET,
    )
    told = (
        "incumbent.blocking does not work in a process that eventlet.monkey_patch() has changed:"
        " use threads or gevent instead"
    )
    assert lines == [told]
