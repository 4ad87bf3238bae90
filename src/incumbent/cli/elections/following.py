"""What `watch` does: elections are followed, each by a task, and what happens to them is shown."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from incumbent import LeaderState, Outage, clock
from incumbent.cli.asking import Asker, Unreadable, Where, ask, asking, insist
from incumbent.cli.elections import absent, news
from incumbent.cli.elections.screens import JsonLines, PlainLines, Screen, Table
from incumbent.cli.elections.table import Known
from incumbent.cli.elections.words import trouble_in_short
from incumbent.cli.output import draws
from incumbent.cli.terminating import until_terminated
from incumbent.engine.watch import Watch
from incumbent.shield import stop
from incumbent.stores.redis import ServerError

T = TypeVar("T")

NEW_ONES: Final = 10.0
"""Seconds between two looks for elections that are new, or can be read again."""

SPARE: Final = 20
"""Times as long as such a look took it is waited at least: it must not keep the server busy."""

NOTICED: Final = 1.0
"""Seconds between two looks, here, at whether the server is heard."""


def watch(where: Where, names: Sequence[str], *, as_json: bool) -> None:
    """Show some elections, or all, until somebody wants to leave."""

    async def question(where: Where) -> None:
        async with asking(where) as asker:
            await until_terminated(_follow(asker, names, as_json=as_json))

    ask(where, question)


async def _follow(asker: Asker, names: Sequence[str], *, as_json: bool) -> None:
    for name in names:
        asker.election(name)  # what cannot be a name is told before anything is asked
    table = None if as_json or not draws() else Table()
    fleet = Fleet(asker, names, table or (JsonLines() if as_json else PlainLines()))
    async with fleet:  # a mistake, or no server, is told as for `status`, before a page is shown
        await fleet.until(table.run(fleet.known) if table else asyncio.Event().wait())


@dataclass(slots=True)
class _Election:
    name: str
    state: LeaderState | None = None
    """As it was told last."""
    spoiled: Unreadable | None = None
    outage: Outage | None = None
    """As it was shown last."""
    note: str = ""
    """What was told of it while there was no such election."""
    watch: Watch | None = None
    task: asyncio.Task[None] | None = None

    @property
    def known(self) -> Known:
        """What is known of it now."""
        if self.spoiled is not None:
            return Known(self.name, error=trouble_in_short(self.name, self.spoiled.reason))
        if self.watch is None:
            return Known(self.name)
        return Known(self.name, self.watch.state, outage=self.watch.outage, note=self.note)


class Fleet:
    """Elections, and what is known of them."""

    def __init__(self, asker: Asker, names: Sequence[str], screen: Screen) -> None:
        """All there are if there are no `names`."""
        self._asker = asker
        self._names = names
        self._screen = screen
        self._elections: dict[str, _Election] = {}
        self._searched_at = datetime.now(UTC)
        self._lost: Outage | None = None
        """What became of the last search, if it failed."""
        self._refusal = ""
        """Why the server lets nobody write, as far as is known."""
        self._spoiled: dict[str, Unreadable] = {}
        """What has yet to be told of elections that cannot be read."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failed = asyncio.Event()
        self._error: BaseException | None = None

    async def __aenter__(self) -> Self:
        """Begin to follow them.

        Raises:
            ServerError: none of them can be read.
        """
        found = insist(await self._look())
        self._take_in(found)
        absent_ones = [name for name, state in found.items() if absent.unknown(state)]
        for work in (self._search(), self._notice(), self._tell_absent(absent_ones)):
            _ = self._start(work)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await stop(*self._tasks)

    async def until(self, work: Coroutine[Any, Any, object]) -> None:
        """Do `work`, as long as nothing goes wrong meanwhile.

        Raises:
            OSError: what happens cannot be shown.
        """
        either = self._start(work), self._start(self._failed.wait())
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._error is not None:
            raise self._error

    def known(self) -> tuple[list[Known], str]:
        """What is known of each, and what is the matter with the server, in words."""
        known = [each.known for each in self._elections.values()]
        outages = [each.outage for each in known if each.outage is not None]
        if not known and self._lost is not None:
            outages.append(self._lost)
        if not outages:
            return known, self._remark(known)
        first, now = min(outages, key=_since), datetime.now(UTC)
        why = self._asker.reason(first.error)
        return known, news.trouble(first.since, why, now, silent=len(outages), of=len(known) or 1)

    def _remark(self, known: Sequence[Known]) -> str:
        if self._refusal:
            return news.refusal(self._refusal)
        return "" if known else f"No elections under the prefix {self._asker.where.prefix!r}"

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._error = error
            self._failed.set()

    # -- which there are ---------------------------------------------------------------------

    async def _search(self) -> None:
        """Follow also what is new, or can be read again, and drop what has left no trace."""
        pause = NEW_ONES
        while True:
            await asyncio.sleep(pause)
            began = clock.now()
            try:
                found = await self._look()
            except ServerError as error:
                lost, self._lost = self._lost, Outage(self._searched_at, error)
                if lost is None and not self._elections:
                    why = self._asker.reason(error)
                    self._screen.show(news.Silent({}, self._searched_at, why))
                continue
            if self._lost is not None and not self._elections:
                self._screen.show(news.Heard({}))
            self._lost, self._searched_at = None, datetime.now(UTC)
            self._take_in(found)
            pause = max(NEW_ONES, SPARE * (clock.now() - began))

    async def _look(self) -> dict[str, LeaderState | Unreadable]:
        """Look for elections, at those that are not followed, and whether one can be elected."""
        refusal = await self._asker.refusal()
        if refusal != self._refusal:
            self._refusal = refusal
            self._screen.show(news.Refused(refusal))
        names = self._names or await self._asker.names()
        if not self._names:
            self._drop_all_but(names)
        return await self._asker.states(name for name in names if not self._followed(name))

    def _followed(self, name: str) -> bool:
        return name in self._elections and self._elections[name].task is not None

    def _drop_all_but(self, names: Iterable[str]) -> None:
        for name in self._elections.keys() - set(names):
            election = self._elections[name]
            state = election.known.state
            if state is None or not (state.leaders or state.waiting):
                if election.task is not None:
                    election.task.cancel()
                del self._elections[name]

    def _take_in(self, found: Mapping[str, LeaderState | Unreadable]) -> None:
        for name, state in found.items():
            election = self._elections.setdefault(name, _Election(name))
            if isinstance(state, Unreadable):
                self._spoil(election, state)
            else:
                election.spoiled = None
                election.task = self._start(self._watch(election))

    async def _tell_absent(self, names: Sequence[str]) -> None:
        """Tell, once, which of `names` no election has; or that there are no elections."""
        where = self._asker.where
        if not self._names:
            if not self._elections:
                self._screen.remark([absent.none_at_all(where.prefix)])
            return
        missing = await absent.missing(where, names)
        for name in missing.meant:
            self._elections[name].note = absent.in_short(name, missing)
        said = dict.fromkeys(absent.sentence(name, missing, where.prefix) for name in missing.meant)
        if said:
            self._screen.remark(list(said))

    # -- what happens to them ----------------------------------------------------------------

    async def _watch(self, election: _Election) -> None:
        elector, its_name = self._asker.election(election.name)
        try:
            async with aclosing(elector.watch(its_name)) as election.watch:
                async for state in election.watch:
                    old, election.state = election.state, state
                    if state.leaders or state.waiting:
                        election.note = ""
                    election.outage = None  # that it is heard of again is told by this
                    self._screen.show(news.Changed(election.name, old, state))
        except ServerError as error:
            self._spoil(election, Unreadable(error, self._asker.reason(error)))
        finally:
            election.watch = election.task = None

    def _spoil(self, election: _Election, found: Unreadable) -> None:
        old, election.spoiled = election.spoiled, found
        election.state = election.outage = None
        if old is None or old.reason != found.reason:
            self._spoiled[election.name] = found

    async def _notice(self) -> None:
        """Tell of outages, of their ends, and of what cannot be read."""
        while True:
            self._tell_spoiled()
            await asyncio.sleep(NOTICED)
            silent: dict[str, Outage] = {}
            heard: dict[str, LeaderState | None] = {}
            for election in self._elections.values():
                outage = None if election.watch is None else election.watch.outage
                if outage is not None and _is_new(election.outage, outage):
                    silent[election.name] = outage
                elif outage is None and election.outage is not None:
                    heard[election.name] = election.known.state
                election.outage = outage
            if silent:
                first = min(silent.values(), key=_since)
                why = self._asker.reason(first.error)
                self._screen.show(news.Silent(silent, first.since, why))
            if heard:
                self._screen.show(news.Heard(heard))

    def _tell_spoiled(self) -> None:
        by_reason: dict[str, dict[str, Unreadable]] = {}
        for name, found in self._spoiled.items():
            by_reason.setdefault(found.reason, {})[name] = found
        self._spoiled.clear()
        for each in by_reason.values():
            self._screen.show(news.Spoiled(each))


def _is_new(old: Outage | None, outage: Outage) -> bool:
    """Whether it has yet to be told: that it is there, or why."""
    vague = old is None or not isinstance(old.error, ServerError)
    return old is None or (vague and isinstance(outage.error, ServerError))


def _since(outage: Outage) -> datetime:
    return outage.since
