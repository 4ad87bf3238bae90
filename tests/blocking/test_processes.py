"""Electors for threads in processes: interpreter exit, Ctrl-C, forks, and who leads among many.

Each program runs with warnings as errors, and must leave nothing on stderr.
"""

import itertools
import signal
from typing import Any

import pytest

from blocking.scene import RENEWED, finished, heard, program, start
from kit.servers import Server
from kit.waiting import wait_until_blocking
from promises.scene import all_keys, fence_key, in_line, token_of, ttl_of


def test_an_elector_begins_no_thread_before_its_first_use(valkey: Server) -> None:
    """So that it can be made before a fork."""
    lines = program(
        "e = LeaderElector(url, quick)\n"
        "say(threading.active_count(), e.options.lease_time, bool(e.leader_id))\n"
        "e.state('one')\n"
        "say(threading.active_count())\n",
        valkey,
    )
    assert lines == ["1 3.0 True", "2"]


def test_the_exit_leaves_no_thread_and_no_noise(valkey: Server) -> None:
    """Nobody closed anything; the last of all exit functions finds the main thread alone."""
    lines = program(
        "import atexit\n"
        "import incumbent.blocking.portal\n"
        "for mark in [None]:\n"
        "    import gc\n"
        "e = LeaderElector(url, quick)\n"
        "say(e.run_if_leader('one', lambda: 1))\n"
        "class Last:\n"
        "    def __del__(self): os.write(1, b'%d threads\\n' % self.count())\n"
        "last = Last(); last.count = threading.active_count\n",
        valkey,
    )
    assert lines == ["1", "1 threads"]


def test_the_exit_releases_what_a_daemon_thread_holds(valkey: Server) -> None:
    """A lease of half a minute is free when the process is gone."""
    lines = program(
        "e = LeaderElector(url)\n"
        "ready = threading.Event()\n"
        "def work():\n"
        "    with e.lead('one'):\n"
        "        ready.set(); time.sleep(60)\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "ready.wait(); say(e.is_leading('one'))\n",
        valkey,
    )
    assert lines == ["True"]
    assert all_keys(valkey) == {fence_key("one")}


def test_the_exit_releases_a_block_that_nobody_left(valkey: Server) -> None:
    """Entered by hand, as in an interactive session."""
    program("e = LeaderElector(url)\nblock = e.lead('one')\nlease = block.__enter__()\n", valkey)
    assert all_keys(valkey) == {fence_key("one")}


def test_the_exit_waits_for_threads_that_work(valkey: Server) -> None:
    """The main thread has ended; the other is renewed until its action has."""
    lines = program(
        RENEWED + "e = LeaderElector(url, renewed)\n"
        "def action():\n"
        "    while more(): time.sleep(0.1)\n"
        "    say(current_lease().held)\n"
        "threading.Thread(target=e.run_if_leader, args=('one', action)).start()\n",
        valkey,
    )
    assert lines == ["True"]
    assert token_of(valkey, "one") is None


INTERRUPTED = (
    "e = LeaderElector(url)\n"
    "def action():\n"
    "    say('began')\n"
    "    while True: sum(range(1000))\n"
    "try:\n"
    "    {call}\n"
    "except KeyboardInterrupt as error:\n"
    "    state = e.state('one')\n"
    "    say(type(error).__name__, error.__cause__, state.leaders, state.waiting)\n"
)


def interrupted(child: Any) -> str:
    """Send Ctrl-C, and what it says then."""
    child.send_signal(signal.SIGINT)
    returncode, out, err = finished(child)
    assert (returncode, err) == (0, "")
    said: str = out.strip()
    return said


def test_ctrl_c_ends_the_action_and_releases_the_seat(valkey: Server) -> None:
    """It comes out bare, and the seat is free by then, not at the end of the lease."""
    for call in ("e.run_if_leader('one', action)", "e.campaign('one', action)"):
        child = start(INTERRUPTED.format(call=call), valkey)
        assert heard(child) == "began"
        assert interrupted(child) == "KeyboardInterrupt None () 0"


def test_ctrl_c_while_standing_in_line_leaves_the_line(valkey: Server) -> None:
    """Who waits has no seat to give back, but a place."""
    valkey.cli(
        "HSET", "incumbent:{one}:seat:0", "token", "x", "leader", "x", "fence", 1, "since", 1
    )
    valkey.cli("PEXPIRE", "incumbent:{one}:seat:0", 20_000)
    child = start(INTERRUPTED.format(call="e.campaign('one', action)"), valkey)
    wait_until_blocking(lambda: in_line(valkey, "one"), within=120)
    assert interrupted(child).startswith("KeyboardInterrupt None (LeaderInfo(")
    assert in_line(valkey, "one") == []


def test_ctrl_c_that_nobody_catches_ends_the_program(valkey: Server) -> None:
    """As Python does it: a traceback, and the seat is free."""
    child = start(
        "e = LeaderElector(url)\nwith e.lead('one'):\n    say('began')\n    time.sleep(60)\n",
        valkey,
    )
    assert heard(child) == "began"
    child.send_signal(signal.SIGINT)
    returncode, _, err = finished(child)
    assert returncode == -signal.SIGINT
    assert err.strip().endswith("KeyboardInterrupt")
    assert "ExceptionGroup" not in err
    assert token_of(valkey, "one") is None


FORKED = (
    "def child(work):\n"
    "    read, write = os.pipe()\n"
    "    pid = os.fork()\n"
    "    if pid == 0:\n"
    "        with os.fdopen(write, 'w') as sys.stdout: work()\n"
    "        sys.stdout = sys.__stdout__\n"
    "        sys.exit(0)\n"
    "    os.close(write)\n"
    "    with os.fdopen(read) as said: print(said.read(), end='')\n"
    "    assert os.waitpid(pid, 0)[1] == 0\n"
)


def test_case_75_an_elector_from_before_a_fork_works_in_both(valkey: Server) -> None:
    """Preloaded, as by gunicorn: each has an id and a loop of its own."""
    lines = program(
        FORKED + "e = LeaderElector(url, quick).using(wait_time=5)\n"
        "def work(): say(e.run_if_leader('one', lambda: current_lease().leader_id))\n"
        "child(work)\nwork()\n",
        valkey,
    )
    assert len(set(lines)) == 2
    assert all_keys(valkey) == {fence_key("one")}


def test_case_75_a_fork_in_the_middle_of_a_term(valkey: Server) -> None:
    """The child's copy is worth nothing; the child stands for itself, ends, and frees nothing."""
    lines = program(
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
        + FORKED
        + "e = LeaderElector(url, quick)\n"
        "with e.lead('one') as lease:\n"
        "    def work():\n"
        "        say(lease.held, lease.remaining, e.is_leading('one'), e.leases, lease.extend(9))\n"
        "        lease.release(); lease.step_down(); block.__exit__(None, None, None)\n"
        "        say(type(e.attempt('one', lambda: 1)).__name__)\n"
        "        say(e.run_if_leader('two', lambda: current_lease().held))\n"
        "    block = e.lead('three'); block.__enter__()\n"
        "    fence = lease.fence\n"
        "    child(work)\n"
        "    time.sleep(1.5)\n"
        "    say(lease.held, e.state('one').leaders[0].fence == fence, e.is_leading('three'))\n"
        "    block.__exit__(None, None, None)\n",
        valkey,
    )
    assert lines == ["False 0.0 False () False", "Skipped", "True", "True True True"]
    assert all_keys(valkey) == {fence_key(name) for name in ("one", "two", "three")}


def test_case_75_a_child_that_leaves_its_parent_s_block_frees_nothing(valkey: Server) -> None:
    """An exception unwinds the child through the blocks of its parent, whose lease lives on."""
    lines = program(
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
        "e = LeaderElector(url, quick)\n"
        "pid = None\n"
        "with e.lead('one') as lease:\n"
        "    pid = os.fork()\n"
        "    if pid == 0: sys.exit(0)\n"
        "    assert os.waitpid(pid, 0)[1] == 0\n"
        "    time.sleep(1.5)\n"
        "    say(lease.held, len(e.state('one').leaders))\n",
        valkey,
    )
    assert lines == ["True 1"]


def test_case_15_three_processes_that_compute_have_one_leader_at_a_time(valkey: Server) -> None:
    """More than a lease time of computing each, by turns: no two spans overlap."""
    code = (
        RENEWED + "e = LeaderElector(url, renewed.changed(wait_time=None))\n"
        "def action():\n"
        "    began = time.monotonic()\n"
        "    while more(): sum(range(1000))\n"
        "    say(began, time.monotonic(), current_lease().held)\n"
        "e.run_if_leader('one', action)\n"
    )
    children = [start(code, valkey) for _ in range(3)]
    spans = []
    for child in children:
        returncode, out, err = finished(child, 120)
        assert (returncode, err) == (0, "")
        began, ended, held = out.split()
        assert held == "True"
        spans.append((float(began), float(ended)))
    spans.sort()
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))


@pytest.mark.timeout(150)
def test_case_15_three_threads_in_each_of_three_processes(valkey: Server) -> None:
    """All nine stand, each action blocks its thread beyond its lease: one leader at a time."""
    code = (
        RENEWED + "import redis\n"
        "counter = redis.Redis.from_url(url)\n"
        "e = LeaderElector(url, renewed.changed(wait_time=None))\n"
        "def action():\n"
        "    if counter.incr('turns') > 4: return\n"
        "    began = time.monotonic()\n"
        "    time.sleep(6.5)\n"
        "    lease = current_lease()\n"
        "    say(began, time.monotonic(), lease.held, lease.fence, os.getpid())\n"
        "def work(): e.run_if_leader('one', action)\n"
        "threads = [threading.Thread(target=work) for _ in range(3)]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join()\n"
        "counter.expire('turns', 60); counter.close()\n"
    )
    children = [start(code, valkey) for _ in range(3)]
    spans = []
    for child in children:
        returncode, out, err = finished(child, 120)
        assert (returncode, err) == (0, "")
        for began, ended, held, fence, pid in map(str.split, out.splitlines()):
            assert held == "True"
            spans.append((float(began), float(ended), int(fence), pid))
    spans.sort()
    assert len(spans) == 4
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))
    assert [fence for _, _, fence, _ in spans] == sorted({fence for _, _, fence, _ in spans})
    assert len({pid for _, _, _, pid in spans}) > 1
    assert valkey.cli("GET", "turns") == "9"
    assert token_of(valkey, "one") is None


def test_a_killed_process_is_followed_after_its_lease(valkey: Server) -> None:
    """SIGKILL: no good-bye, and no lasting key."""
    child = start(
        "e = LeaderElector(url, quick)\n"
        "with e.lead('one'):\n    say('began')\n    time.sleep(60)\n",
        valkey,
    )
    assert heard(child) == "began"
    child.kill()
    finished(child)
    assert ttl_of(valkey, "one") <= 3000
    wait_until_blocking(lambda: token_of(valkey, "one") is None, within=60)
    assert all_keys(valkey) == {fence_key("one")}


def test_case_75_a_child_that_closes_its_parent_s_sockets_does_not_deafen_it(
    valkey: Server,
) -> None:
    """One epoll is shared over a fork: what the child lets go of, the parent must still hear."""
    lines = program(
        "import socket, selectors\n"
        "from incumbent.blocking.portal import Selector\n"
        "ours, theirs = socket.socketpair()\n"
        "selector = Selector()\n"
        "selector.register(ours, selectors.EVENT_READ)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    selector.modify(ours, selectors.EVENT_WRITE)\n"
        "    selector.unregister(ours)\n"
        "    os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "theirs.send(b'x')\n"
        "say([key.fileobj is ours for key, _ in selector.select(5)])\n"
        "selector.close(); ours.close(); theirs.close()\n",
        valkey,
    )
    assert lines == ["[True]"]


def test_case_75_a_fork_while_another_thread_starts_the_loop(valkey: Server) -> None:
    """The thread that holds the lock is not there in the child, which must not wait for it."""
    lines = program(
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
        "from incumbent.blocking import portal\n" + FORKED + "e = LeaderElector(url, quick)\n"
        "held, done = threading.Event(), threading.Event()\n"
        "def hold():\n"
        "    with portal._lock: held.set(); done.wait()\n"
        "other = threading.Thread(target=hold); other.start(); held.wait()\n"
        "def work(): say(e.run_if_leader('one', lambda: 1))\n"
        "child(work)\n"
        "done.set(); other.join()\n",
        valkey,
    )
    assert lines == ["1"]


def test_case_75_a_child_has_a_client_of_its_own(valkey: Server) -> None:
    """To close its copy of the parent's would say good-bye on the parent's sockets, with TLS."""
    lines = program(
        FORKED + "e = LeaderElector(url, quick)\n"
        "sibling = e.using(wait_time=1)\n"
        "made = e._twin, sibling._twin\n"
        "def work(): say(e._twin is made[0], sibling._twin is made[1])\n"
        "child(work)\nwork()\n",
        valkey,
    )
    assert lines == ["False False", "True True"]


def test_case_75_two_threads_that_come_first_after_a_fork(valkey: Server) -> None:
    """Both use the same connections there, however slow one of them is to make its own."""
    lines = program(
        "e = LeaderElector(url, quick)\n"
        "make, twins, made = e._make, [], threading.Event()\n"
        "def slowly():\n"
        "    begun.release(); mine = make()\n"
        "    if threading.current_thread() is slow: made.wait()\n"
        "    return mine\n"
        "def work():\n"
        "    twins.append(e._use())\n"
        "    made.set()\n"
        "    say(e.run_if_leader(threading.current_thread().name, lambda: 'done'))\n"
        "if os.fork() == 0:\n"
        "    begun, e._make = threading.Semaphore(0), slowly\n"
        "    slow, fast = (threading.Thread(target=work) for _ in range(2))\n"
        "    slow.start(); begun.acquire(); fast.start(); slow.join(); fast.join()\n"
        "    say(twins[0] is twins[1])\n"
        "else:\n"
        "    os.wait()\n",
        valkey,
    )
    assert lines == ["done", "done", "True"]
