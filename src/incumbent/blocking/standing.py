"""To stand in an election, as a thread's ``with`` block: the loop keeps the heart beating."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from incumbent.blocking.job import Job, run
from incumbent.engine.standing import Standing as AsyncStanding
from incumbent.strategy import MetaValue


class Standing:
    """A candidate, for a block: see `StrategicElector.candidate`. Not to be entered twice.

    Stands while the thread computes. In a forked child it is a copy that withdraws nothing.
    """

    __slots__ = ("_elector", "_job", "_standing")

    def __init__(self, elector: object, standing: AsyncStanding) -> None:
        self._elector = elector  # kept open while the block is
        self._standing = standing
        self._job: Job[None] | None = None

    @property
    def node_id(self) -> str:
        """Who stands, and may lead by this name."""
        return self._standing.node_id

    @property
    def metadata(self) -> Mapping[str, MetaValue]:
        """What it says about itself."""
        return self._standing.metadata

    def update(self, **changes: MetaValue) -> None:
        """Change some of the metadata, for all who look from now on: ``me.update(load=0.7)``.

        When it raises for the store's sake, the next heartbeat tells it.

        Raises:
            TypeError, ValueError: not usable as metadata; nothing has changed.
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
            RuntimeError: the block is not entered, or over, or its parent's in a forked child.
        """
        if self._job is None or not self._job.ours:
            raise RuntimeError("this candidate does not stand: update it within its block")
        run(lambda: self._standing.update(**changes))

    async def _stand(self, job: Job[None]) -> None:
        async with self._standing:
            await job.stay(None)

    def __enter__(self) -> Self:
        if self._job is not None:
            raise RuntimeError("this block is entered already: make another one with candidate()")
        job = self._job = Job(self._stand)
        try:
            job.start()
            job.result()
        except BaseException:
            job.abandon()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        job = self._job
        if job is not None and job.ours:
            job.leave()
            job.result()

    def __repr__(self) -> str:
        return f"<blocking {repr(self._standing)[1:]}"
