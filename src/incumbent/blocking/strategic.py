"""The elector for threads whose leader is the best candidate, by a strategy."""

from collections.abc import Iterable, Mapping
from typing import cast

from incumbent import LeaderOptions
from incumbent import StrategicElector as AsyncStrategicElector
from incumbent.blocking.elector import Elector
from incumbent.blocking.electors import source_of
from incumbent.blocking.job import run
from incumbent.blocking.root import Root, Twin
from incumbent.blocking.standing import Standing
from incumbent.durations import Duration
from incumbent.engine.office import hooks_of
from incumbent.engine.standing import Standing as AsyncStanding
from incumbent.events import Hook
from incumbent.stores.base import Store
from incumbent.stores.redis import Client
from incumbent.stores.redis.twin import SyncClient
from incumbent.strategy import Candidate, ElectionResult, MetaValue, Strategy


class StrategicElector(Elector):
    """Elects the best of those who stand for it, one leader per name.

    ::

        elector = StrategicElector("redis://localhost:6379", strategy=LeastLoaded("load"))
        with elector.candidate("reports", {"load": 0.2}) as me:
            elector.campaign("reports", serve)

    How it elects is told at `incumbent.StrategicElector`. The strategy is called in the loop's
    thread. Who is to step down in favour of a better one learns it as a loss, by `Lease.lost`.
    """

    def __init__(
        self,
        redis: SyncClient | str | Store,
        options: LeaderOptions | None = None,
        *,
        strategy: Strategy,
        node_id: str | None = None,
        prefix: str = "incumbent",
        hooks: Iterable[Hook] | None = None,
        record_results: bool = True,
    ) -> None:
        """Make an elector; nothing is sent, and no thread begins, before the first call.

        Args:
            redis: a `redis.Redis`, which stays yours (the elector takes over where it connects to,
                and has a connection of its own), a URL, or a `MemoryStore`.
            options: timers and policies; by default a lease lives 30 s and is renewed.
            strategy: who is best: one of `incumbent.strategy`, or a function.
            node_id: who this process is, as a candidate and as a leader; default ``host:pid:hex``.
                A forked child has the same id, if it is given: then only one may be a candidate.
            prefix: what every key of this elector begins with.
            hooks: callables that are told what happens, in the loop's thread. They replace the
                default, a `LoggingHook`: ``[LoggingHook(), mine]`` keeps the log.
            record_results: count what became of the work that this elector runs. False for those
                who call `record_result` themselves.

        Raises:
            TypeError, ValueError: an argument is not usable.
        """
        told = None if hooks is None else hooks_of(hooks)

        def make(source: Client | Store) -> AsyncStrategicElector:
            return AsyncStrategicElector(
                source,
                options,
                strategy=strategy,
                node_id=node_id,
                prefix=prefix,
                hooks=told,
                record_results=record_results,
            )

        super().__init__(lambda: Root.of(source_of(redis), make))

    @property
    def node_id(self) -> str:
        """Who this process is: the same as its `leader_id`."""
        return self.leader_id

    @property
    def strategy(self) -> Strategy:
        """What decides who is best."""
        return _strategic(self._twin).strategy

    def candidate(
        self,
        name: str,
        metadata: Mapping[str, MetaValue] | None = None,
        ttl: Duration = 30.0,
    ) -> Standing:
        """``with elector.candidate(name, {"load": 0.2}) as me:`` stands for the block.

        It enrols on entry, tells that it is there every third of `ttl`, also while this thread
        computes, and withdraws on exit, also when interrupted. ``me.update(load=0.7)`` changes its
        metadata for all to see. After an outage that outlasts the TTL it begins anew, with no
        results.

        Args:
            name: the election.
            metadata: what strategies are to know of this node: short strings and numbers, 1 KiB
                in all.
            ttl: seconds for which it counts as there without a heartbeat: 0.25 s at least.

        Raises:
            redis.exceptions.RedisError: on entry; not enrolled within two `request_timeout`s.
            ValueError, TypeError: an argument is not usable; before any I/O.
        """
        twin = _strategic(self._use())

        async def begin() -> AsyncStanding:
            return twin.candidate(name, metadata, ttl)

        return Standing(self, run(begin))

    def candidates(self, name: str) -> tuple[Candidate, ...]:
        """Who stands now, by registration: one round trip.

        Raises:
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
        """
        twin = _strategic(self._use())
        return run(lambda: twin.candidates(name))

    def elect(self, name: str) -> ElectionResult:
        """A dry run: who would be best now, the scores, and for each loser the reason.

        Raises:
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
        """
        twin = _strategic(self._use())
        return run(lambda: twin.elect(name))

    def record_result(self, name: str, *, success: bool) -> bool:
        """Count a result of this node, of work that no method of this elector ran.

        Returns:
            False when the node is no candidate, so that there is nothing to count in.

        Raises:
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
        """
        twin = _strategic(self._use())
        return run(lambda: twin.record_result(name, success=success))


def _strategic(twin: Twin) -> AsyncStrategicElector:
    """The twin of such an elector, and of its siblings, is always one."""
    return cast(AsyncStrategicElector, twin)
