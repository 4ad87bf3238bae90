"""What an application does while it leads: one task that stands, serves, and is never the end.

Knows no framework. Losses are campaigned away, errors are logged, counted and tried again.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from incumbent import (
    ElectorClosedError,
    GroupElector,
    LeaderElector,
    LeaderState,
    actions,
    current_lease,
)
from incumbent.backoff import pause_after
from incumbent.electors.elector import Elector
from incumbent.mishaps import log

if TYPE_CHECKING:
    from incumbent import StrategicElector  # at run time, only for those who have one

AnyElector: TypeAlias = "LeaderElector | GroupElector | StrategicElector"
Serve: TypeAlias = Callable[[], Awaitable[object]]
Phase: TypeAlias = Literal["standing by", "leading", "pausing", "finished", "stopped"]

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0


class Service:
    """`serve` under one election of an application."""

    def __init__(self, elector: AnyElector, name: str, serve: Serve) -> None:
        if not isinstance(elector, Elector):
            raise TypeError(
                "elector must be an elector for asyncio, such as incumbent.LeaderElector,"
                f" not {type(elector).__module__}.{type(elector).__qualname__}"
            )
        actions.check(serve, "serve")
        elector.is_leading(name)  # so that a name that cannot be is said now
        self.elector: AnyElector = elector
        self.name: str = name
        self.phase: Phase = "standing by"
        self.terms: int = 0
        """How often it was elected."""
        self.losses: int = 0
        """How often it had to stop because of a lost lease, or because it was asked to."""
        self.errors: int = 0
        """How often `serve`, or the election, raised."""
        self.last_error: str | None = None
        """The kind of the last one. Its text may hold secrets, and stands in the log only."""
        self._serve = serve
        self._errors_in_a_row = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def leading(self) -> bool:
        """Whether this process leads now. Local: no round trip."""
        return self.elector.is_leading(self.name)

    async def state(self) -> LeaderState:
        """Who leads, by one round trip."""
        return await self.elector.state(self.name)

    def start(self) -> None:
        """Begin to stand by, and return at once."""
        if self._task is not None:
            raise RuntimeError(f"the service of {self.name!r} has been started before")
        self._task = asyncio.create_task(self._run(), name=f"incumbent service {self.name}")

    async def stop(self, deadline: float) -> bool:
        """Cancel `serve`, let it clean up, give the seat back: within `deadline` seconds.

        Returns:
            False when it was not done by then; the seat frees itself when the lease runs out.
        """
        task = self._task
        if task is None:
            return True
        task.cancel()
        _, late = await asyncio.wait((task,), timeout=deadline)
        if late:
            log(
                logging.WARNING,
                "serve did not end within the deadline",
                extra={"election": self.name, "deadline": deadline},
            )
        return not late

    def facts(self) -> dict[str, Any]:
        """What the status page tells of it."""
        return {
            "phase": self.phase,
            "terms": self.terms,
            "losses": self.losses,
            "errors": self.errors,
            "last_error": self.last_error,
        }

    async def _run(self) -> None:
        try:
            while not await self._campaign():
                if self.elector.closed:
                    self._elector_was_closed()
                    return
                self.phase = "pausing"
                await asyncio.sleep(
                    pause_after(
                        self._errors_in_a_row,
                        first=FIRST_PAUSE,
                        longest=LONGEST_PAUSE,
                        jitter=random.random(),
                    )
                )
                self.phase = "standing by"
            self.phase = "finished"
        except asyncio.CancelledError:
            self.phase = "stopped"
            raise

    async def _campaign(self) -> bool:
        """Whether `serve` has come to its end by itself."""
        try:
            await self.elector.campaign(self.name, self._serve_once)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._failed(RuntimeError("serve was cancelled from within"))
        except Exception as error:  # noqa: BLE001 - no error of an election ends an application
            if not (self.elector.closed and isinstance(error, ElectorClosedError)):
                self._failed(error)
        else:
            return True
        return False

    async def _serve_once(self) -> object:
        lease = current_lease(self.name)
        began = asyncio.get_running_loop().time()
        self.terms += 1
        self.phase = "leading"
        try:
            return await actions.awaitable(self._serve())
        except Exception as error:
            if self.elector.options.restart:  # then `campaign` keeps it to itself
                self._failed(error)
            raise
        finally:
            self.phase = "standing by"
            if lease is not None and lease.loss_reason is not None:
                self.losses += 1
            if asyncio.get_running_loop().time() - began > LONGEST_PAUSE:
                self._errors_in_a_row = 0

    def _elector_was_closed(self) -> None:
        self.phase = "stopped"
        log(
            logging.WARNING,
            "the elector was closed: this process leads no more",
            extra={"election": self.name},
        )

    def _failed(self, error: Exception) -> None:
        self.errors += 1
        self._errors_in_a_row += 1
        self.last_error = type(error).__name__
        log(
            logging.ERROR,
            "serve failed, it will be tried again",
            error=error,
            extra={"election": self.name},
        )
