"""An election as a thread's ``with`` block."""

from types import TracebackType
from typing import Generic, TypeVar, cast

from incumbent.blocking import lease as leases
from incumbent.blocking.job import Job, Started
from incumbent.blocking.lease import Lease
from incumbent.blocking.root import Twin

Entry = TypeVar("Entry", bound=Lease | None)


class Block(Generic[Entry]):
    """The block of `lead()` and `try_lead()`."""

    __slots__ = ("_elector", "_job", "_lease", "_name", "_needed", "_twin")

    def __init__(self, elector: object, twin: Twin, name: str, *, needed: bool) -> None:
        self._elector = elector  # kept open while the block is
        self._twin = twin
        self._name = name
        self._needed = needed
        self._job: Job[None] | None = None
        self._lease: Lease | None = None

    async def _hold(self, job: Job[None]) -> None:
        enter = self._twin.lead if self._needed else self._twin.try_lead
        async with enter(self._name) as lease:
            if lease is not None:
                await job.act()

    def __enter__(self) -> Entry:
        if self._job is not None:
            raise RuntimeError("a block can be entered once")
        job = self._job = Job(self._hold)
        try:
            job.start()
            told = job.hear()
            if isinstance(told, Started):
                self._lease = Lease(told.lease, told.lost)
                leases.push(self._lease)
            else:
                told.outcome()
            return cast(Entry, self._lease)
        except BaseException:
            job.abandon()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        job, lease = self._job, self._lease
        if job is None or lease is None:
            return
        leases.drop(lease)
        if not job.ours:  # a forked child's copy: the lease is its parent's
            return
        if error is not None and not isinstance(error, Exception):
            job.abandon()
            return
        job.leave(error=error)
        try:
            job.result()
        except BaseException as raised:
            # The block's own error comes out as it is, with what the engine has noted on it.
            if raised is error or (raised.__cause__ is error and isinstance(error, StopIteration)):
                return
            raise
