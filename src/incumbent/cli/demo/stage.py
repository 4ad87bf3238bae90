"""Where the script plays: the three processes, what is known of them, and the passing of time.

All waiting of the demo happens here, in small steps. Each step asks the server who leads, looks
whether everybody who should be alive is, and shows both.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from incumbent import LeaderElector, LeaderState, clock
from incumbent.cli.demo import wording
from incumbent.cli.demo.history import History
from incumbent.cli.demo.node import Node
from incumbent.cli.demo.reports import Report
from incumbent.cli.demo.screen import Screen
from incumbent.cli.demo.verdict import Fault, Term
from incumbent.cli.demo.warden import Warden

T = TypeVar("T")

ELECTION: Final = "demo"
LEASE_TIME: Final = 2.0
NAMES: Final = ("node-1", "node-2", "node-3")
STEP: Final = 0.05

START_WITHIN: Final = 30.0
"""Seconds for a process to come up; it takes less than one unless the machine is very busy."""

WITHIN: Final = 8.0
"""Seconds for all else: several lease times, so that a late take-over is seen and measured."""


class WaitedInVainError(Exception):
    """Something that should happen did not."""


class Stage:
    """The demo while it runs."""

    def __init__(
        self, url: str, prefix: str, *, warden: Warden, elector: LeaderElector, screen: Screen
    ) -> None:
        """Prepare the processes; `elector` is for watching: it never stands for anything."""
        self.nodes: Sequence[Node] = [
            Node(name, [url, ELECTION, prefix, name, str(LEASE_TIME)], warden, self._heard)
            for name in NAMES
        ]
        self.faults: list[Fault] = []
        self.state: LeaderState = LeaderState(ELECTION)
        self._history = History()
        self._elector = elector
        self._screen = screen
        self._began_at = clock.now()

    @property
    def terms(self) -> list[Term]:
        """Who led so far, by the processes' own records."""
        return self._history.terms

    def say(self, text: str) -> None:
        """Tell what is done, or what has come of it."""
        self._screen.say(clock.now() - self._began_at, text)

    async def say_who_leads(self) -> None:
        """Tell what the server knows at this moment."""
        await self.look()
        left = "".join(f", lease {info.remaining:.2f} s" for info in self.state.leaders)
        text = f"the server: {wording.server(self.state)}{left}"
        self._screen.note(clock.now() - self._began_at, text)

    async def until(self, what: str, condition: Callable[[], bool], within: float = WITHIN) -> None:
        """Let time pass until `condition` holds.

        Raises:
            WaitedInVainError: it does not hold within that many seconds; names `what` it is.
        """
        await self.find(what, lambda: condition() or None, within)

    async def find(self, what: str, answer: Callable[[], T | None], within: float = WITHIN) -> T:
        """Let time pass until there is an `answer`, and return it; else as `until`."""
        give_up_at = clock.now() + within
        while (found := answer()) is None:
            if clock.now() > give_up_at:
                raise WaitedInVainError(f"waited in vain for {what}")
            await self._step()
        return found

    async def pause(self, seconds: float) -> None:
        """Let `seconds` pass."""
        end = clock.now() + seconds
        while clock.now() < end:
            await self._step()

    async def leader(self) -> Node:
        """Who leads: the server and the process itself agree on it."""
        return await self.find("a leader", self._agreed_leader)

    def strike(self, what: str, leader: Node, blow: Callable[[], None]) -> Fault:
        """Do to `leader` what `blow` does, and remember when."""
        fence = leader.last.fence if leader.last else 0
        fault = Fault(what=what, node=leader.name, fence=fence, at=clock.now())
        blow()
        self.faults.append(fault)
        return fault

    async def look(self) -> None:
        """Ask the server who leads.

        Raises:
            ServerError: it does not tell.
        """
        self.state = await self._elector.state(ELECTION)

    async def _step(self) -> None:
        for node in self.nodes:
            node.listen()
        await self.look()
        self._screen.show(self.state, self.nodes)
        await asyncio.sleep(STEP)

    def _agreed_leader(self) -> Node | None:
        for info in self.state.leaders:
            for node in self.nodes:
                if node.name == info.leader_id and node.leads(info.fence):
                    return node
        return None

    def _heard(self, node: Node, report: Report) -> None:
        news = wording.news(node.last, report)
        self._history.add(node.name, node.pid, report)
        if news and node.condition != "left":
            self._screen.note(report.at - self._began_at, f"{node.name}: {news}")
