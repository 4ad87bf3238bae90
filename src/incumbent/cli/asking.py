"""A command's own elector, with which it asks about elections and takes part in none.

What goes wrong becomes one sentence and an exit code.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from incumbent import GroupElector, LeaderOptions, LeaderState, StrategicElector
from incumbent.cli.connection import connect, reason, unavailable
from incumbent.cli.endings import mistake
from incumbent.cli.serving import serving
from incumbent.cli.tenants import election
from incumbent.electors.group import MOST_SEATS
from incumbent.events import Hook
from incumbent.stores.redis import Client, ServerError, survey
from incumbent.strategy import Strategy

T = TypeVar("T")

SEATS: Final = MOST_SEATS
"""How many seats are looked at, at most: all that an election has."""

AT_ONCE: Final = 1000
"""How many elections are asked about at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Whom to ask, and how long to wait for an answer."""

    url: str
    prefix: str
    timeout: float

    @property
    def options(self) -> LeaderOptions:
        """Of an elector that gives up after the timeout."""
        try:
            # What takes longer is asked once more within the time of two requests.
            return LeaderOptions(request_timeout=self.timeout / 2)
        except ValueError as error:
            raise mistake(error) from None


def ask(where: Where, question: Callable[[Where], Coroutine[Any, Any, T]]) -> T:
    """Put `question` to the server, and return what it makes of the answers."""
    with serving(where.url) as url:
        return asyncio.run(question(replace(where, url=url)))


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands where the state of an election should be."""

    error: ServerError
    reason: str
    """What the server says."""


@dataclass(frozen=True, slots=True)
class Asker:
    """What questions are asked with."""

    elector: GroupElector
    where: Where
    client: Client

    def election(self, name: str) -> tuple[GroupElector, str]:
        """Whom to ask about `name`, and what it is called there.

        Raises:
            ValueError: no election can be called this.
        """
        return election(self.elector, name)

    async def state(self, name: str) -> LeaderState:
        """Who leads `name`."""
        elector, rest = self.election(name)
        return await elector.state(rest)

    async def states(self, names: Iterable[str]) -> dict[str, LeaderState | Unreadable]:
        """Who leads each of `names`, in their order.

        What is asked at the same time leaves together: a round trip or two for a thousand.
        """
        found: dict[str, LeaderState | Unreadable] = {}
        left = list(dict.fromkeys(names))
        while left:
            some, left = left[:AT_ONCE], left[AT_ONCE:]
            for name in some:
                self.election(name)  # which checks it
            async with asyncio.TaskGroup() as group:
                looks = [group.create_task(self._look(name)) for name in some]
            found |= {name: look.result() for name, look in zip(some, looks, strict=True)}
        return found

    async def _look(self, name: str) -> LeaderState | Unreadable:
        try:
            return await self.state(name)
        except ServerError as error:
            return Unreadable(error, self.reason(error))

    async def refusal(self) -> str:
        """Why the server lets nobody write, so that nobody is elected; '' if it does."""
        error = await survey.refuses_writes(self.client, self.where.prefix, self.where.timeout)
        return "" if error is None else self.reason(error)

    def reason(self, error: Exception) -> str:
        """What the server said, or why there was no answer: one line."""
        return reason(error, self.client)

    async def names(self) -> list[str]:
        """The elections that there are, in order."""
        return sorted([name async for name in self.names_one_by_one()])

    async def names_one_by_one(self) -> AsyncGenerator[str]:
        """The same, as they are found."""
        client, prefix = survey.impatient(self.client), self.where.prefix
        async for name in survey.elections(client, prefix, self.where.timeout):
            if self._usable(name):
                yield name

    def _usable(self, name: str) -> bool:
        try:
            self.election(name)
        except ValueError:
            return False
        return True


def insist(
    states: dict[str, LeaderState | Unreadable],
) -> dict[str, LeaderState | Unreadable]:
    """`states`, if there are none or at least one of them could be read.

    Raises:
        ServerError: what was said of the first.
    """
    bad = [state for state in states.values() if isinstance(state, Unreadable)]
    if bad and len(bad) == len(states):
        raise bad[0].error
    return states


@asynccontextmanager
async def asking(where: Where) -> AsyncGenerator[Asker]:
    """An elector that sees every seat, for the length of a block.

    Raises:
        UnavailableError: the server cannot be reached, or does not answer as it should.
        MistakeError: what was asked for is not usable.
    """
    async with reaching(where) as client:
        elector = GroupElector(client, where.options, seats=SEATS, prefix=where.prefix, hooks=())
        async with elector:
            yield Asker(elector, where, client)


async def names_within(where: Where, seconds: float) -> tuple[list[str], bool]:
    """The elections that are found within so many seconds, and whether these are all.

    An error is not raised: not all were found then.
    """
    found: list[str] = []
    try:
        async with (
            asyncio.timeout(seconds),
            asking(replace(where, timeout=min(seconds, where.timeout))) as asker,
        ):
            async for name in asker.names_one_by_one():
                found.append(name)  # noqa: PERF401 - so that some are found if not all
    except Exception:  # noqa: BLE001 - as told above
        return sorted(found), False
    return sorted(found), True


@asynccontextmanager
async def asking_candidates(
    where: Where, strategy: Strategy, hooks: Iterable[Hook]
) -> AsyncGenerator[StrategicElector]:
    """An elector that sees who stands."""
    async with (
        reaching(where) as client,
        StrategicElector(
            client, where.options, strategy=strategy, prefix=where.prefix, hooks=hooks
        ) as elector,
    ):
        yield elector


@asynccontextmanager
async def reaching(where: Where) -> AsyncGenerator[Client]:
    """A client of the server, for the length of a block; what it asks is the block's affair.

    Raises:
        UnavailableError: the server cannot be reached, or does not answer as it should.
        MistakeError: what was asked for is not usable.
    """
    client = connect(where.url)
    try:
        yield client
    except ServerError as error:
        raise unavailable(error, client) from None
    except ValueError as error:
        raise mistake(error) from None
    finally:
        await client.aclose()
