"""One leader per election: the best candidate, by a strategy."""

import asyncio
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Self

from incumbent import kinds, names
from incumbent.durations import Duration, seconds
from incumbent.electors.elector import Elector
from incumbent.engine.best_first import BestFirst
from incumbent.engine.candidacy import Gate
from incumbent.engine.contenders import Voter
from incumbent.engine.lookout import Told
from incumbent.engine.polls import Polls
from incumbent.engine.reappraisal import Deference
from incumbent.engine.standing import Standing
from incumbent.events import Hook
from incumbent.options import LeaderOptions
from incumbent.stores.base import Budget, Store
from incumbent.stores.redis import Client
from incumbent.stores.registry import Deed, HasRegistry
from incumbent.strategy import Candidate, ElectionResult, MetaValue, Strategy


class StrategicElector(Elector):
    """Elects the best of those who stand for it, one leader per name.

    As in::

        elector = StrategicElector(redis, strategy=LeastLoaded("load"))
        async with elector.candidate("reports", metadata={"load": 0.2}) as me:
            await elector.campaign("reports", serve)

    The strategy decides who may try, the lease who leads: there are never two leaders, whatever
    each node has seen. When the best does not take the seat, the next in rank may after a short
    grace (a sixth of `lease_time`, 1 s at most), and so on; all better ones that only stand, and do
    not wait to lead, get one grace together. Only candidates lead; all should go by one strategy,
    and each process should have a `node_id` of its own. Stand and campaign with the same elector,
    or with siblings made by `using`: the heartbeat tells others whether the node waits to lead.

    `wait_time` includes the time to become the best: with 0 only the best tries, so where one run
    must not be missed, wait for more than a grace. What a look decides may be different when the
    work is done, as its result counts: `once_per` is what keeps one trigger from running twice.

    A leader in `campaign` checks every third of `lease_time` whether a candidate that waits to lead
    is better, and steps down in its favour when that one was better in two looks in a row.
    Scores that change all the time, or by leading itself, need `Sticky`.

    A node whose work fails soon after its start (30 s, or `lease_time` if that is longer) goes
    behind all others: for 10 s after the first such failure, then twice as long each time in a row,
    600 s at most. A success, or work that lasts longer, ends the row.

    If the strategy raises an error or returns no `ElectionResult`, the election goes on: the event
    `StrategyFailed` reports it once, and the candidates are ranked by seniority.
    """

    def __init__(
        self,
        redis: Client | Store,
        options: LeaderOptions | None = None,
        *,
        strategy: Strategy,
        node_id: str | None = None,
        prefix: str = "incumbent",
        hooks: Iterable[Hook] | None = None,
        record_results: bool = True,
    ) -> None:
        """Make an elector; nothing is sent before the first call.

        Args:
            redis: a `redis.asyncio.Redis`, which stays yours and is never closed, or a
                `MemoryStore`.
            options: timers and policies; by default a lease lives 30 s and is renewed.
            strategy: who is best: one of `incumbent.strategy`, or a plain function. It is called in
                the event loop and must be quick.
            node_id: who this process is, as a candidate and as a leader; default ``host:pid:hex``.
                A fixed one lets a node keep its counts when it is back before its TTL is over. Two
                processes must not share one: `NodeIdShared` reports it within two heartbeats.
            prefix: what every key of this elector begins with.
            hooks: callables that are told what happens. They replace the default, a `LoggingHook`:
                ``[LoggingHook(), mine]`` keeps the log.
            record_results: count what became of the work that this elector runs. False for those
                who call `record_result` themselves.

        Raises:
            TypeError, ValueError: an argument is not usable.
        """
        if node_id is not None:
            names.node_name(node_id)
        super().__init__(redis, options, seats=1, prefix=prefix, leader_id=node_id, hooks=hooks)
        store = self._office.store
        if not isinstance(store, HasRegistry):
            raise TypeError(
                "redis must be a client, or a Store that has a registry of candidates,"
                f" not {store!r}"
            )
        self._polls = Polls(self._office, store.registry, strategy)
        self._deference = Deference()
        self._record_results = kinds.flag("record_results", record_results)
        self._standings: weakref.WeakSet[Standing] = weakref.WeakSet()

    @property
    def node_id(self) -> str:
        """Who this process is: the same as its `leader_id`."""
        return self.leader_id

    @property
    def strategy(self) -> Strategy:
        """What decides who is best."""
        return self._polls.strategy

    def candidate(
        self,
        name: str,
        metadata: Mapping[str, MetaValue] | None = None,
        ttl: Duration = 30.0,
    ) -> Standing:
        """``async with elector.candidate(name, {"load": 0.2}) as me:`` stands for the block.

        It enrols on entry, tells that it is there every third of `ttl`, and withdraws on exit, also
        when cancelled. ``await me.update(load=0.7)`` changes its metadata for all to see. After an
        outage that outlasts the TTL it begins anew, with no results. Closing this elector withdraws
        it, too, unless it leads: then it is withdrawn at the end of the block.

        Args:
            name: the election.
            metadata: what strategies are to know of this node: short strings and numbers, 1 KiB
                in all.
            ttl: seconds for which it counts as there without a heartbeat: 0.25 s at least.

        Raises:
            redis.exceptions.RedisError: on entry; not enrolled within two `request_timeout`s.
            ElectorClosedError: this elector is closed, or was closed before it was enrolled.
            ValueError, TypeError: an argument is not usable; before any I/O.
        """
        self._waits.check()
        standing = Standing(
            self._polls,
            self._voter(name),
            metadata={} if metadata is None else metadata,
            ttl=seconds("ttl", ttl),
            request_timeout=self._options.request_timeout,
            waits=self._waits,
        )
        self._standings.add(standing)
        return standing

    async def candidates(self, name: str) -> tuple[Candidate, ...]:
        """Who stands now, by registration: one round trip.

        Raises:
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
        """
        snapshot = await self._polls.snapshot(self._voter(name), self._two_requests())
        return snapshot.candidates

    async def elect(self, name: str) -> ElectionResult:
        """A dry run: who would be best now, the scores, and for each loser the reason.

        Errors of the strategy are raised.

        Raises:
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
        """
        return await self._polls.dry_run(self._voter(name), self._two_requests())

    async def record_result(self, name: str, *, success: bool) -> bool:
        """Count a result of this node, of work that no method of this elector ran.

        Returns:
            False when the node is no candidate, so that there is nothing to count in.

        Raises:
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
        """
        election, node_id = self._voter(name)
        kinds.flag("success", success)
        deed: Deed = "succeeded" if success else "failed"
        return await self._polls.registry.record(election, node_id, deed, self._two_requests())

    def _gate(self, election: str, options: LeaderOptions, *, stays: bool) -> Gate:
        return BestFirst(
            self._polls,
            Voter(election, self.leader_id),
            options,
            Told(self._office.store, election, options.request_timeout),
            records=self._record_results,
            deference=self._deference if stays else None,
        )

    async def _end_waits(self) -> None:
        """A candidate that leads stands until its term is over."""
        await super()._end_waits()
        leads = {term.claim.election for term in self._office.terms}
        standing = [each for each in self._standings if each.election not in leads]
        await asyncio.gather(*(each.withdraw() for each in standing))

    def _sibling(self, **changes: Any) -> Self:
        return super()._sibling(_standings=weakref.WeakSet(), **changes)

    def _voter(self, name: str) -> Voter:
        return Voter(names.election_name(name, self._scope), self.leader_id)

    def _two_requests(self) -> Budget:
        return Budget.of_two(self._options.request_timeout)
