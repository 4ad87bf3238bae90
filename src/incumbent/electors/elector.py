"""What all electors can do. A kind of elector adds how many seats there are, and who may stand."""

import inspect
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Self, TypeVar, Unpack, cast

from incumbent import actions, names
from incumbent.electors.identity import Identity
from incumbent.engine import running, scheduling
from incumbent.engine.candidacy import Candidacy, Gate
from incumbent.engine.handle import Lease
from incumbent.engine.office import Office
from incumbent.engine.outages import Outage
from incumbent.engine.term import Term
from incumbent.engine.waits import Waits
from incumbent.events import Hook
from incumbent.kinds import made, real, text, whole
from incumbent.observability.logging import LoggingHook
from incumbent.options import LeaderOptions, OptionChanges
from incumbent.periods import Every, OncePer
from incumbent.results import LeaderInfo, LeaderState, Outcome
from incumbent.stores.base import Budget, Store
from incumbent.stores.redis import Client, RedisStore
from incumbent.templates import NameTemplate

if TYPE_CHECKING:
    from incumbent.engine.recess import Recess
    from incumbent.engine.watch import Watch

P = ParamSpec("P")
T = TypeVar("T")


class Elector:
    """The methods that every kind of elector has. Abstract: see `LeaderElector`."""

    def __init__(
        self,
        redis: Client | Store,
        options: LeaderOptions | None = None,
        *,
        seats: int,
        prefix: str = "incumbent",
        leader_id: str | None = None,
        hooks: Iterable[Hook] | None = None,
    ) -> None:
        if options is not None and not isinstance(options, LeaderOptions):
            raise TypeError(
                "options must be LeaderOptions, such as LeaderOptions(lease_time=30),"
                f" not {type(options).__name__}"
            )
        self._prefix = names.key_prefix(prefix)
        self._identity = Identity(None if leader_id is None else names.leader_name(leader_id))
        self._options = options or LeaderOptions()
        self._seats = seats
        self._scope = ""
        self._waits = Waits()
        real("redis", type(redis))
        given = isinstance(redis, Store)
        if given:
            made("redis", redis)
        store = redis if isinstance(redis, Store) else RedisStore(redis, self._prefix)
        _check_durability(self._options, store)
        self._office: Office[Term] = Office(
            store, (LoggingHook(),) if hooks is None else hooks, owns_store=not given
        )
        self._owner: weakref.ref[Elector] = weakref.ref(self)
        self._watches: weakref.WeakSet[Watch] = weakref.WeakSet()

    @property
    def options(self) -> LeaderOptions:
        """How this elector behaves."""
        return self._options

    @property
    def leader_id(self) -> str:
        """Who this process is in `state()` of everybody: the given id, or ``host:pid:hex``."""
        return self._identity.leader_id

    @property
    def leases(self) -> tuple[Lease, ...]:
        """The leases that this elector and its siblings hold now. Local, no round trip.

        May be asked in any thread, as `is_leading` may.
        """
        return tuple(Lease(term) for term in self._office.terms.copy() if term.held)

    @property
    def closed(self) -> bool:
        """Whether this elector was closed: then it takes part in no more elections."""
        return self._waits.closed

    def is_leading(self, name: str) -> bool:
        """Whether this elector, or a sibling of it, leads `name` now. Local, no round trip."""
        election = names.election_name(name, self._scope)
        terms = self._office.terms.copy()  # asked in a thread, while the loop changes them
        return any(term.held for term in terms if term.claim.election == election)

    async def run_if_leader(
        self, name: str, action: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Run `action` if elected and return its value; None if not elected within `wait_time`.

        An action is a coroutine function, or another callable that returns an awaitable (a lambda,
        a function whose annotation says so). If the call returns none, it raises a `TypeError`, and
        the run does not count.

        An action that returns None looks like one that did not run: `attempt` tells them apart.

        Raises:
            LeadershipLostError: the lease was lost while the action ran.
            NotDurableError: too few replicas have the lease, as `durability` wants it.
            ElectorClosedError: this elector is closed, or was closed before it was elected.
            Exception: what the action raised, as it is; a loss is then a note on it.
            redis.exceptions.RedisError: the election itself failed.
            ValueError, TypeError: the name or the action is not usable; before any I/O.
        """
        candidacy, run = self._stand(name), _bind(action, *args, **kwargs)
        return running.value(candidacy.name, await running.run(candidacy, run))

    async def attempt(
        self, name: str, action: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Outcome[T]:
        """Run `action` if elected, and tell exactly how it went.

        Returns:
            `Elected`, `Skipped`, `ActionFailed` (it raised an `Exception`) or `LeadershipLost`.

        Raises:
            asyncio.CancelledError: the caller, or the action itself, was cancelled. Like every
                `BaseException` that is no `Exception` it comes out as it is.
            NotDurableError: too few replicas have the lease, as `durability` wants it.
            ElectorClosedError: this elector is closed, or was closed before it was elected.
            redis.exceptions.RedisError: the election itself failed.
            ValueError, TypeError: the name or the action is not usable; before any I/O.
        """
        candidacy, run = self._stand(name), _bind(action, *args, **kwargs)
        return running.outcome(await running.run(candidacy, run))

    def lead(self, name: str) -> AbstractAsyncContextManager[Lease, None]:
        """``async with elector.lead(name) as lease:`` holds the lease for the block.

        Raises:
            NotElectedError: on entry; not elected within `wait_time`.
            NotDurableError: on entry; too few replicas have the lease, as `durability` wants it.
            ElectorClosedError: this elector is closed, or was closed before it was elected.
            LeadershipLostError: on exit; the lease was lost (with ``on_loss="notify"`` it is only
                logged).
            Exception: what the block raised, as it is; a loss is then a note on it.
        """
        block = running.Leading(self._stand(name))
        return cast("AbstractAsyncContextManager[Lease, None]", block)

    def try_lead(self, name: str) -> AbstractAsyncContextManager[Lease | None, None]:
        """As `lead`, but the block is always entered: with None when not elected in `wait_time`."""
        block = running.TryLeading(self._stand(name))
        return cast("AbstractAsyncContextManager[Lease | None, None]", block)

    async def campaign(
        self, name: str, action: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Stand by for ever, run `action` while leading, and stand by again after a loss.

        An outage of the server is survived, with back-off, and so is a lack of the replicas that
        `durability` wants. With ``restart=True`` it goes on, with
        back-off, after the action returned or raised as well, and never returns. With `once_per` it
        sleeps until the next period when the present one has been run.

        Returns:
            What the action returns.

        Raises:
            Exception: what the action raises.
            ElectorClosedError: this elector is closed, or was closed while it stood by.
            redis.exceptions.RedisError: what will not pass by itself: missing rights, a key of the
                wrong type, credentials that were never accepted, or are refused for ten minutes.
            ValueError, TypeError: the name or the action is not usable; before any I/O.
        """
        options = self._options.changed(wait_time=None)
        run = _bind(action, *args, **kwargs)
        outage = self._outage(name)
        with self._recess(name, options) as recess:
            return await running.campaign(
                lambda: self._stand(name, options, stays=True, outage=outage),
                run,
                waits=self._waits,
                restart=options.restart,
                steady_after=options.lease_time,
                recess=recess,
            )

    def leader_only(
        self, name: str
    ) -> Callable[
        [Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T | None]]
    ]:
        """Decorate a coroutine function: each call is a `run_if_leader` of it.

        ::

            @elector.leader_only("tenant-{tenant_id}")
            async def tidy_up(tenant_id: str) -> int: ...

        Args:
            name: the election; ``{argument}`` stands for an argument of the call.

        Raises:
            TypeError: what is decorated is no coroutine function.
            ValueError: `name` asks for something that is no argument, or could be no name.
        """
        text("an election's name", name)

        def decorate(
            function: Callable[P, Coroutine[Any, Any, T]],
        ) -> Callable[P, Coroutine[Any, Any, T | None]]:
            if not inspect.iscoroutinefunction(function):
                raise TypeError(
                    f"leader_only decorates coroutine functions, not {function!r};"
                    f" {actions.FOR_THREADS}"
                )
            template = NameTemplate(name, function)

            @wraps(function)
            async def led(*args: P.args, **kwargs: P.kwargs) -> T | None:
                election = template.name(args, kwargs)
                return await self.run_if_leader(election, function, *args, **kwargs)

            return led

        return decorate

    async def schedule(
        self, name: str, *, every: Every, action: Callable[[], Awaitable[object]]
    ) -> NoReturn:
        """Run `action` once per period in the whole fleet, for as long as this is awaited.

        Every replica calls this with the same `every`; at each tick one of them runs the action.
        The first tick is the next one: the period that has begun already is somebody else's. When a
        run takes longer than a period, the next one begins when it is over, on any replica, and
        those in between are left out. An action that raises is told to the hooks and does not end
        the schedule, nor does an outage of the server, or of the replicas that `durability` wants,
        which is waited out within the period.

        Args:
            name: the election.
            every: seconds, a `timedelta`, a text such as ``"1d"``, a cron expression, or `OncePer`.
            action: what to run; `functools.partial` gives it arguments.

        Raises:
            ElectorClosedError: this elector is closed, or was closed between two runs.
            redis.exceptions.RedisError: what will not pass by itself: missing rights, a key of the
                wrong type, credentials that were never accepted, or are refused for ten minutes.
            ValueError, TypeError: an argument is not usable; before any I/O.
        """
        once_per, run, outage = OncePer.of(every, "every"), _bind(action), self._outage(name)

        def stand(*, wait_time: float, after: int) -> Candidacy:
            options = self._options.changed(once_per=once_per, wait_time=wait_time)
            return self._stand(name, options, after, outage=outage)

        if once_per.tolerance:
            raise ValueError(
                "every must have no tolerance: a schedule goes by the server's clock, not"
                f" {once_per!r}"
            )
        options = stand(wait_time=0, after=0).options  # so that what is not usable is said now
        with self._recess(name, options) as recess:
            await scheduling.schedule(self._office.store, stand, once_per, run, recess)

    async def request_step_down(self, name: str, *, seat: int | None = None) -> int:
        """Ask the holder of `seat`, or every holder, to hand over; returns how many were asked.

        A holder learns it with its next renewal, so within a third of its `lease_time`; its action
        is stopped as by `Lease.step_down`. One that does not renew (``auto_extend=False``) does not
        learn it.

        Raises:
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
            ValueError, TypeError: no such seat, or the name is not usable; before any I/O.
        """
        election = names.election_name(name, self._scope)
        if seat is not None:
            self._check_seat(seat)
        budget = Budget.of_two(self._options.request_timeout)
        return await self._office.store.ask_to_step_down(election, self._seats, seat, budget)

    async def force_release(
        self, name: str, *, seat: int = 0, fence: int | None = None
    ) -> LeaderInfo | None:
        """Take `seat` from its holder, who is not asked: for one that hangs and still renews.

        Nobody leads on it sooner than without this: what is left of the lease runs on, with nobody
        on it. The holder learns it with its next renewal, as a loss (``taken``), and its action is
        stopped before that time is over; one that does not renew may go on until then. When the
        holder listens, `request_step_down` is better.

        Args:
            name: the election.
            seat: its number.
            fence: only if this is still the term with this fence, as `state` showed it.

        Returns:
            Who had the seat, and how long it stays taken; None when nobody did, or another term.

        Raises:
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
            ValueError, TypeError: no such seat, or the name is not usable; before any I/O.
        """
        election = names.election_name(name, self._scope)
        self._check_seat(seat)
        if fence is not None:
            whole("fence", fence, 1)
        budget = Budget.of_two(self._options.request_timeout)
        return await self._office.store.force_release(election, seat, fence, budget)

    async def state(self, name: str) -> LeaderState:
        """Who leads `name` now, by one round trip to the server; two for more than 16 seats.

        Raises:
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
        """
        election = names.election_name(name, self._scope)
        budget = Budget.of_two(self._options.request_timeout)
        return replace(await self._office.store.state(election, self._seats, budget), name=name)

    def watch(self, name: str) -> "Watch":
        """The present state of `name`, then one state for each change, as the server pushes it.

        ::

            async for state in elector.watch("scheduler"):
                show(state.leaders)

        A change is a seat that was taken, given back, retained or lost; each is told once and by
        itself, in order: who is followed by another is seen to go before the other is seen to come.
        Renewals are no changes, so `remaining` is what was known when the state was told, and
        `waiting` is that of the last look at the server: one is taken when a lease may have ended,
        which nobody publishes, and after ten seconds without one.

        A cut connection is survived, with back-off: then what has changed meanwhile is told. As
        long as the server is not heard, the `outage` of what this returns says since when, and why;
        its `state` is what is known now, or was known before.

        Any number of watchers of an election share one subscription, and looks at many elections
        leave together. Without the right to subscribe, changes are looked for every second. Of more
        than 1,000 states that were not read yet, the oldest are dropped. The iteration ends quietly
        when this elector is closed; a loop that is left by ``break``, an error or a cancellation
        leaves nothing behind.

        Raises:
            redis.exceptions.RedisError: from the iteration; what will not pass by itself: wrong
                credentials, missing rights, a key of the wrong type.
            ElectorClosedError: this elector is closed.
            ValueError, TypeError: the name is not usable; before any I/O.
        """
        election = names.election_name(name, self._scope)
        self._waits.check()
        budget = Budget.of_two(self._options.request_timeout)
        from incumbent.engine.watch import Watch  # noqa: PLC0415 - few will watch

        watch = Watch(partial(self._office.store.watch, election, self._seats, budget), name)
        self._watches.add(watch)
        return watch

    def using(self, **changes: Unpack[OptionChanges]) -> Self:
        """A sibling with other options on the same connections: ``elector.using(wait_time=10)``."""
        options = self._options.changed(**changes)
        _check_durability(options, self._office.store)
        return self._sibling(_options=options)

    def for_tenant(self, tenant: str) -> Self:
        """A sibling with names of its own: none meets one of another tenant, or of no tenant."""
        return self._sibling(_scope=names.tenant_scope(tenant, self._scope))

    async def aclose(self) -> None:
        """Take part in no more elections, and give the kept connection back. Idempotent.

        Each call that waits to be elected, in `campaign` and `schedule` as well, leaves the line,
        so that the next waiter is called, and raises an `ElectorClosedError`. Watches end quietly.
        Running terms are not affected: a connection is opened again for what they still send. If
        the server does not answer, this waits half a `request_timeout` for the waits to end.

        The connection belongs to the elector that was made from the client. Closing a sibling ends
        only the waits of that sibling. Siblings are not closed with the elector that they were made
        from: one that is used later opens a connection for each request.
        """
        for watch in tuple(self._watches):
            watch.close()
        try:
            await self._end_waits()
        finally:
            owner = self._owner()
            if owner is None or owner is self:
                await self._office.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an elector has connections, and cannot be pickled or copied: make another")

    def __repr__(self) -> str:
        tenant = f" scope={self._scope!r}" if self._scope else ""
        return (
            f"<{type(self).__name__} prefix={self._prefix!r}{tenant} leader_id={self.leader_id!r}>"
        )

    def _stand(
        self,
        name: str,
        options: LeaderOptions | None = None,
        after: int = 0,
        *,
        stays: bool = False,
        outage: Outage | None = None,
    ) -> Candidacy:
        """`stays` is for who will stand again when it no longer leads."""
        self._waits.check()
        options = options or self._options
        election = names.election_name(name, self._scope)
        gate = self._gate(election, options, stays=stays)
        return Candidacy(
            self._office,
            options,
            name,
            election,
            self._seats,
            self.leader_id,
            self._waits,
            after,
            gate,
            outage,
        )

    async def _end_waits(self) -> None:
        await self._waits.close(self._options.request_timeout / 2)

    def _gate(self, election: str, options: LeaderOptions, *, stays: bool) -> Gate | None:
        """What decides who may try when; without one it is the line."""
        return None

    def _recess(self, name: str, options: LeaderOptions) -> "Recess":
        # Here, because most programs neither campaign nor schedule.
        from incumbent.engine.recess import Recess  # noqa: PLC0415 - see above

        election = names.election_name(name, self._scope)
        return Recess(self._office.store, self._waits, election, self._seats, options)

    def _outage(self, name: str) -> Outage:
        """The failures of one campaign or schedule, however often it stands."""
        election = names.election_name(name, self._scope)
        return Outage(self._office, election, self.leader_id)

    def _check_seat(self, seat: int) -> None:
        whole("seat", seat, 0, self._seats - 1)

    def _sibling(self, **changes: Any) -> Self:
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        vars(twin).update(changes, _waits=Waits(), _watches=weakref.WeakSet())
        return twin


def _check_durability(options: LeaderOptions, store: Store) -> None:
    if options.durability is not None and not store.replicates:
        raise ValueError(f"{options.durability!r} needs a server: {store!r} has no replicas")


def _bind(
    action: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
) -> Callable[[], Awaitable[T]]:
    actions.check(action)
    return partial(action, *args, **kwargs) if args or kwargs else action
