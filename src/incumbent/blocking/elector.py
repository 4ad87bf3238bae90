"""What all electors for threads can do: each method has the loop do what its asyncio twin does."""

import os
from collections.abc import Callable
from functools import partial, wraps
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, Self, TypeVar, Unpack

from incumbent import (
    ActionFailed,
    LeaderInfo,
    LeaderOptions,
    LeadershipLost,
    LeadershipLostError,
    LeaderState,
    Outcome,
    Skipped,
    actions,
)
from incumbent.blocking import lease as leases
from incumbent.blocking import portal, threads
from incumbent.blocking.act import Act, bind
from incumbent.blocking.block import Block
from incumbent.blocking.job import converse, run
from incumbent.blocking.lease import Lease
from incumbent.blocking.root import Root, Twin
from incumbent.blocking.watch import Watch
from incumbent.kinds import text
from incumbent.mishaps import note
from incumbent.options import OptionChanges
from incumbent.periods import Every
from incumbent.templates import NameTemplate

P = ParamSpec("P")
T = TypeVar("T")


class Elector:
    """The methods that every kind of elector for threads has. Abstract: see `LeaderElector`.

    May be used from any thread, and before and after a fork. Hooks are called in the loop's thread.
    """

    def __init__(self, make: Callable[[], Root]) -> None:
        threads.check()
        self._make = make
        # By process. Those of parents are kept, so that nothing of theirs is closed here.
        self._roots: dict[int, Root] = {os.getpid(): make()}

    @property
    def _root(self) -> Root:
        root = self._roots.get(os.getpid())
        # After a fork, two threads may come here at once: both get the root that is stored first.
        return root or self._roots.setdefault(os.getpid(), self._make())

    @property
    def _twin(self) -> Twin:
        return self._root.twin

    def _use(self) -> Twin:
        """The twin, for what needs the loop.

        Its connections are closed when the elector and its siblings are garbage collected, and at
        the interpreter's exit.
        """
        root = self._root
        portal.current().keep(root.base, root.base.holdings)
        return root.twin

    @property
    def options(self) -> LeaderOptions:
        """How this elector behaves."""
        return self._twin.options

    @property
    def leader_id(self) -> str:
        """Who this process is in `state()` of everybody: the given id, or ``host:pid:hex``."""
        return self._twin.leader_id

    @property
    def closed(self) -> bool:
        """Whether this elector was closed: then it takes part in no more elections."""
        return self._twin.closed

    @property
    def leases(self) -> tuple[Lease, ...]:
        """The leases that this elector and its siblings hold now. Local: nothing is sent."""
        return leases.known(run(self._leases))

    def is_leading(self, name: str) -> bool:
        """Whether this elector, or a sibling of it, leads `name` now. Local: nothing is sent."""
        return run(partial(self._is_leading, name))

    async def _leases(self) -> Any:
        return self._twin.leases

    async def _is_leading(self, name: str) -> bool:
        return self._twin.is_leading(name)

    def run_if_leader(
        self, name: str, action: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Run `action` in this thread if elected, and return its value; None if not elected.

        Renewals go on while it computes. An action that returns None looks like one that did not
        run: `attempt` tells them apart.

        Raises:
            LeadershipLostError: the lease was lost while the action ran; it comes when that ends.
            NotDurableError: too few replicas have the lease, as `durability` wants it.
            ElectorClosedError: this elector is closed, or was closed before it was elected.
            BaseException: what the action raised, as it is; a loss is then a note on it.
            redis.exceptions.RedisError: the election itself failed.
            ValueError, TypeError: the name or the action is not usable; before any I/O.
        """
        outcome = self.attempt(name, action, *args, **kwargs)
        if isinstance(outcome, Skipped):
            return None
        if isinstance(outcome, ActionFailed):
            raise outcome.error
        if not isinstance(outcome, LeadershipLost):
            return outcome.value
        lost = LeadershipLostError(name, outcome.reason, outcome.detail)
        if outcome.error is None:
            raise lost
        note(outcome.error, str(lost))
        raise outcome.error

    def attempt(
        self, name: str, action: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Outcome[T]:
        """Run `action` in this thread if elected, and tell exactly how it went.

        Returns:
            `Elected`, `Skipped`, `ActionFailed` (it raised an `Exception`) or `LeadershipLost`.

        Raises:
            BaseException: what the action raised, if it is no `Exception`: a `KeyboardInterrupt`.
            NotDurableError: too few replicas have the lease, as `durability` wants it.
            ElectorClosedError: this elector is closed, or was closed before it was elected.
            redis.exceptions.RedisError: the election itself failed.
            ValueError, TypeError: the name or the action is not usable; before any I/O.
        """
        twin, act = self._use(), Act(bind(action, *args, **kwargs))
        outcome: Outcome[T] = converse(lambda job: twin.attempt(name, job.act), act)
        if isinstance(act.error, StopIteration):  # which no coroutine can raise
            if isinstance(outcome, ActionFailed):
                return ActionFailed(act.error)
            if isinstance(outcome, LeadershipLost):
                return LeadershipLost(outcome.reason, error=act.error)
        return outcome

    def lead(self, name: str) -> Block[Lease]:
        """``with elector.lead(name) as lease:`` holds the lease for the block.

        Raises:
            NotElectedError: on entry; not elected within `wait_time`.
            NotDurableError: on entry; too few replicas have the lease, as `durability` wants it.
            ElectorClosedError: this elector is closed, or was closed before it was elected.
            LeadershipLostError: on exit; the lease was lost (with ``on_loss="notify"`` it is only
                logged).
            BaseException: what the block raised, as it is; a loss is then a note on it.
        """
        return Block(self, self._use(), name, needed=True)

    def try_lead(self, name: str) -> Block[Lease | None]:
        """As `lead`, but the block is always entered: with None when not elected in `wait_time`."""
        return Block(self, self._use(), name, needed=False)

    def campaign(
        self, name: str, action: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Stand by for ever, run `action` in this thread while leading, and again after a loss.

        An outage of the server is survived, with back-off. With ``restart=True`` it goes on, with
        back-off, after the action returned or raised as well; with `once_per` it sleeps until the
        next period when the present one has been run. A lost lease is told to the action, which
        should return then: only after that can this thread stand by again.

        Returns:
            What the action returns.

        Raises:
            BaseException: what the action raises.
            ElectorClosedError: this elector is closed, or was closed while it stood by.
            redis.exceptions.RedisError: what will not pass by itself: missing rights, a key of the
                wrong type, credentials that were never accepted, or are refused for ten minutes.
            ValueError, TypeError: the name or the action is not usable; before any I/O.
        """
        twin, act = self._use(), Act(bind(action, *args, **kwargs))
        try:
            value: T = converse(lambda job: twin.campaign(name, job.act), act)
        except RuntimeError as error:
            if isinstance(act.error, StopIteration) and error.__cause__ is act.error:
                raise act.error from None
            raise
        return value

    def schedule(self, name: str, *, every: Every, action: Callable[[], object]) -> NoReturn:
        """Run `action` once per period in the whole fleet, in this thread, until it is interrupted.

        Every replica calls this with the same `every`; at each tick one of them runs the action.
        An action that raises is told to the hooks and does not end the schedule, nor does an outage
        of the server.

        Args:
            name: the election.
            every: seconds, a `timedelta`, a text such as ``"1d"``, a cron expression, or `OncePer`.
            action: what to run; `functools.partial` gives it arguments.

        Raises:
            ElectorClosedError: this elector is closed, or was closed between two runs.
            redis.exceptions.RedisError: what will not pass by itself.
            ValueError, TypeError: an argument is not usable; before any I/O.
        """
        twin, act = self._use(), Act(bind(action))
        converse(lambda job: twin.schedule(name, every=every, action=job.act), act)
        raise AssertionError("a schedule does not end by itself")

    def leader_only(self, name: str) -> Callable[[Callable[P, T]], Callable[P, T | None]]:
        """Decorate a function: each call is a `run_if_leader` of it.

        ::

            @elector.leader_only("tenant-{tenant_id}")
            def tidy_up(tenant_id: str) -> int: ...

        Args:
            name: the election; ``{argument}`` stands for an argument of the call.

        Raises:
            TypeError: what is decorated is no plain function.
            ValueError: `name` asks for something that is no argument, or could be no name.
        """
        text("an election's name", name)

        def decorate(function: Callable[P, T]) -> Callable[P, T | None]:
            actions.check_plain(function)
            template = NameTemplate(name, function)

            @wraps(function)
            def led(*args: P.args, **kwargs: P.kwargs) -> T | None:
                return self.run_if_leader(template.name(args, kwargs), function, *args, **kwargs)

            return led

        return decorate

    def request_step_down(self, name: str, *, seat: int | None = None) -> int:
        """Ask the holder of `seat`, or every holder, to hand over; returns how many were asked.

        Raises:
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
            ValueError, TypeError: no such seat, or the name is not usable; before any I/O.
        """
        twin = self._use()
        return run(lambda: twin.request_step_down(name, seat=seat))

    def force_release(
        self, name: str, *, seat: int = 0, fence: int | None = None
    ) -> LeaderInfo | None:
        """Take `seat` from its holder, who is not asked; what is left of the lease runs on.

        The holder learns it with its next renewal, as a loss (``taken``). With a `fence`, only if
        this is still that term.

        Returns:
            Who had the seat, and how long it stays taken; None when nobody did, or another term.

        Raises:
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
            ValueError, TypeError: no such seat, or the name is not usable; before any I/O.
        """
        twin = self._use()
        return run(lambda: twin.force_release(name, seat=seat, fence=fence))

    def state(self, name: str) -> LeaderState:
        """Who leads `name` now, by one round trip to the server; two for more than 16 seats.

        Raises:
            redis.exceptions.RedisError: no answer within two `request_timeout`s, or an error.
        """
        twin = self._use()
        return run(lambda: twin.state(name))

    def watch(self, name: str) -> Watch:
        """The present state of `name`, then one state for each change, as the server pushes it.

        ::

            for state in elector.watch("scheduler"):
                show(state.leaders)

        What a state tells, and what may be missed, is as for the asyncio electors. Ends quietly
        when this elector, or the iterator itself, is closed.
        """
        twin = self._use()

        async def begin() -> Any:
            return twin.watch(name)

        return Watch(self, run(begin))

    def using(self, **changes: Unpack[OptionChanges]) -> Self:
        """A sibling with other options on the same connections: ``elector.using(wait_time=10)``."""
        return self._sibling(lambda twin: twin.using(**changes))

    def for_tenant(self, tenant: str) -> Self:
        """A sibling with names of its own: none meets one of another tenant, or of no tenant."""
        return self._sibling(lambda twin: twin.for_tenant(tenant))

    def _sibling(self, change: Callable[[Twin], Twin]) -> Self:
        sibling = object.__new__(type(self))
        vars(sibling).update(vars(self))
        Elector.__init__(sibling, lambda: self._root.sibling(change))
        return sibling

    def close(self) -> None:
        """Take part in no more elections, and give the connection back. Idempotent.

        Each call that waits to be elected, in any thread, leaves the line and raises an
        `ElectorClosedError`. Running terms are not affected. Closing a sibling ends only the waits
        of that sibling.

        Closing is optional: an elector that is garbage collected gives its connection back, and all
        seats and connections are given back at the interpreter's exit.
        """
        run(self._root.holdings.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an elector has connections, and cannot be pickled or copied: make another")

    def __repr__(self) -> str:
        return f"<blocking {repr(self._twin)[1:]}"
