"""Keeps a program's process group within its lease, whatever becomes of who holds the lease.

It starts the program as the leader of a new process group, unless it is too late for that, and is
told on a pipe until when the lease may be relied on. It ends the group (SIGTERM, after a grace
SIGKILL) when it is asked to, when the time runs out because nobody tells it more (whoever should is
frozen), and when the program has left others of its group behind; with SIGKILL at once when the
pipe closes, because the holder was killed. It says when nothing of the group is left, and ends
then.

On Linux it adopts the group's orphans, so that it can reap them where process 1 does not; the
program dies with it; and if it is stopped when the holder is killed, it is resumed.
Source: https://man7.org/linux/man-pages/man2/PR_SET_CHILD_SUBREAPER.2const.html
Source: https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html

Run as a script, without `site`: nothing of the library may be imported here. In: ``until T``,
``end``, ``signal N``. Out: ``started PID`` before the program runs, ``failed ERRNO`` if it cannot
be run, ``late`` when the time ran out, ``stopped N`` when the program was stopped by signal N as
from a terminal (it goes on with SIGCONT), ``exited CODE``, ``gone``.
"""

import contextlib
import os
import select
import signal
import sys
import time
from types import FrameType
from typing import Any, Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36

LOOK_EVERY: Final = 1.0
"""Seconds: timers stand still while the machine is suspended, the lease's clock does not."""
POLL: Final = 0.01
"""Seconds between looks whether a group is gone, of which nothing tells."""
MARGIN: Final = 0.1
"""Seconds, at most, between SIGKILL and the end of the lease; no more than half the grace."""
IGNORED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
"""What would end or stop us; who wants that for the program tells the holder."""

STOPPED: Final = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
"""What a terminal stops a program with; SIGSTOP is somebody's who wants it so."""

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """The same clock as `incumbent.clock`."""
    return time.clock_gettime(_CLOCK)


def _say(report: int, *words: object) -> None:
    """Report to the holder, which may not listen any more."""
    with contextlib.suppress(OSError):
        os.write(report, (" ".join(map(str, words)) + "\n").encode())


class Group:
    """The program and whatever it started, as far as they stayed in its process group."""

    def __init__(self, command: list[str], report: int, *, terminal: bool, libc: Any) -> None:
        """Start it; its number is written to `report` before it runs.

        Raises:
            OSError: it cannot be run.
        """
        self.code: int | None = None
        self.stopped_by: int | None = None
        told, telling = os.pipe()
        parent = os.getpid()
        self.pid: int = os.fork()
        if self.pid == 0:  # pragma: no cover - measured by nobody: it becomes another program
            os.close(told)
            _become(command, report, telling, terminal=terminal, libc=libc, parent=parent)
        os.close(telling)
        with contextlib.suppress(OSError):  # the child does the same: whoever comes first
            os.setpgid(self.pid, self.pid)
        with open(told, "rb") as pipe:  # noqa: PTH123 - a descriptor
            failed = pipe.read()
        if failed:
            os.waitpid(self.pid, 0)
            raise OSError(int(failed), os.strerror(int(failed)))

    def reap(self) -> None:
        """Take note of those who have ended, and of a program that was stopped by a terminal."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                if pid == self.pid and os.WSTOPSIG(status) in STOPPED:
                    self.stopped_by = os.WSTOPSIG(status)
            elif pid == self.pid:
                self.code = os.waitstatus_to_exitcode(status)

    @property
    def gone(self) -> bool:
        """Whether nothing of it is left."""
        if self.code is None:
            return False  # not reaped, so that its number is nobody else's
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return sys.platform == "darwin"  # says so of a group that is dead, but not reaped
        return False

    def signal(self, number: int) -> None:
        """Send a signal to all of it; those of another user are out of reach."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def _become(  # pragma: no cover - as above
    command: list[str], report: int, telling: int, *, terminal: bool, libc: Any, parent: int
) -> None:
    try:
        os.setpgid(0, 0)
        if terminal:
            # Who is not in the foreground is stopped for this, unless it does not care.
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            with contextlib.suppress(OSError):
                os.tcsetpgrp(0, os.getpgrp())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores for itself
            signal.signal(number, signal.SIG_DFL)
        # Told by the program itself: whoever finds it running, the holder knows its group by then,
        # also when the supervisor is killed or frozen at this very moment.
        _say(report, "started", os.getpid())
        os.execvp(command[0], command)  # noqa: S606 - what the user asked for
    except OSError as error:
        os.write(telling, str(error.errno or 1).encode())
    finally:
        os._exit(127)


class Orders:
    """What the holder has said."""

    def __init__(self, pipe: int, grace: float, until: float) -> None:
        self.grace: float = grace
        """Seconds from SIGTERM to SIGKILL."""
        self.margin: float = min(MARGIN, grace / 2)
        """Seconds from SIGKILL to the end of the lease."""
        self.until: float = until
        """When the lease ends, as far as is known."""
        self.end: bool = False
        """Whether the group is to end."""
        self.abandoned: bool = False
        """Whether there is no holder any more."""
        self.signals: list[int] = []
        """What is to be sent to the group."""
        self._pipe = pipe
        self._pending = b""

    @property
    def term_at(self) -> float:
        """When the group has to end, if nobody who is awake has asked for that before."""
        return self.until - (self.grace + self.margin) / 2

    def hear(self, awake: int, within: float) -> None:
        """Wait for orders, or until `awake` can be read; take those that are there."""
        poll = select.poll()  # unlike select(), for descriptors of any number
        for pipe in [awake] if self.abandoned else [awake, self._pipe]:
            poll.register(pipe, select.POLLIN)
        for pipe, _ in poll.poll(within * 1000):
            if pipe == awake:
                os.read(awake, 512)
            else:
                self._read()

    def _read(self) -> None:
        heard = os.read(self._pipe, 65536)  # all that a pipe can hold
        if not heard:
            self.abandoned = True
        *lines, self._pending = (self._pending + heard).split(b"\n")
        for line in lines:
            order, _, value = line.partition(b" ")
            if order == b"until":
                self.until = float(value)
            elif order == b"signal":
                self.signals.append(int(value))
            else:
                self.end = True


class Supervisor:
    """Watches a group, the time, and the holder."""

    def __init__(self, group: Group, orders: Orders, report: int) -> None:
        self._group = group
        self._orders = orders
        self._report = report
        self._ending_since: float | None = None
        self._late = False

    def watch(self, awake: int) -> None:
        """Do what is due, until nothing of the group is left; `awake` can be read after SIGCHLD."""
        while not self._over():
            # What was said before this moment counts, however long we stand still meanwhile.
            moment = now()
            self._orders.hear(awake, 0)
            self._obey()
            self._enforce(moment)
            self._orders.hear(awake, self._pause())

    def _obey(self) -> None:
        for number in self._orders.signals:
            self._group.signal(number)
        self._orders.signals.clear()
        if self._orders.end:
            self._end()

    def _over(self) -> bool:
        had_ended = self._group.code is not None
        self._group.reap()
        if self._group.code is not None and not had_ended:
            _say(self._report, "exited", self._group.code)
        if self._group.stopped_by is not None:
            self._note_stop(self._group.stopped_by)
            self._group.stopped_by = None
        if not self._group.gone:
            if self._group.code is not None:
                self._end()
            return False
        _say(self._report, "gone")
        return True

    def _note_stop(self, number: int) -> None:
        if self._ending_since is None:
            _say(self._report, "stopped", number)
        elif number == signal.SIGTSTP:
            self._group.signal(signal.SIGCONT)  # to its end

    def _enforce(self, moment: float) -> None:
        if self._orders.abandoned or moment >= self._kill_at():
            self._note_late()
            self._group.signal(signal.SIGKILL)
        elif moment >= self._orders.term_at:
            self._note_late()
            self._end()

    def _note_late(self) -> None:
        if self._ending_since is None and self._group.code is None and not self._late:
            self._late = True
            _say(self._report, "late")

    def _kill_at(self) -> float:
        lease_ends = self._orders.until - self._orders.margin
        if self._ending_since is None:
            return lease_ends
        return min(lease_ends, self._ending_since + self._orders.grace)

    def _pause(self) -> float:
        if self._orders.abandoned or self._group.code is not None:
            return POLL
        due = self._kill_at()
        if self._ending_since is None:
            due = min(due, self._orders.term_at)
        return min(LOOK_EVERY, max(POLL, due - now()))

    def _end(self) -> None:
        if self._ending_since is None:
            self._ending_since = now()
            self._group.signal(signal.SIGTERM)
            self._group.signal(signal.SIGCONT)  # who is stopped hears nothing else


def _libc() -> Any:
    """The C library, where it has prctl."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        return ctypes.CDLL(None)
    except (ImportError, OSError):
        return None


def _ignore(_: int, __: FrameType | None) -> None:
    """Unlike SIG_IGN, this is not inherited by the program."""


def main(orders: int, report: int, grace: float, until: float, command: list[str]) -> None:
    """Be the supervisor; `command` begins with "terminal" or "-"."""
    for number in IGNORED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # which the program shall inherit
            signal.signal(number, _ignore)
    for pipe in (orders, report):
        os.set_inheritable(pipe, False)
    awake, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.signal(signal.SIGCHLD, _ignore)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    libc = _libc()
    if libc is not None:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)
    moment, told = now(), Orders(orders, grace, until)
    told.hear(awake, 0)
    if told.abandoned or told.end:
        return
    if moment >= told.term_at:
        _say(report, "late")
        return
    terminal, *program = command
    try:
        group = Group(program, report, terminal=terminal == "terminal", libc=libc)
    except OSError as error:
        _say(report, "failed", error.errno)
        return
    Supervisor(group, told, report).watch(awake)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]), sys.argv[5:])
