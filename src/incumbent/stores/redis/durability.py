"""Leases that count only when replicas have them: connections on which WAIT follows what is sent.

WAIT waits for the writes of its own connection, and keeps that connection busy meanwhile. So who
wants replicas has a wire of its own, on which many leases are extended, and confirmed by one WAIT:
nobody else waits behind it. A grant, which was made elsewhere, is confirmed by extending it here,
as one stream brings all writes of a server to its replicas.
Source: https://redis.io/docs/latest/commands/wait/
"""

import copy
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from redis.asyncio.connection import AbstractConnection

from incumbent.errors import NotDurableError
from incumbent.options import Durability
from incumbent.stores.base import Budget, Claim
from incumbent.stores.redis import scripts
from incumbent.stores.redis.caller import Caller
from incumbent.stores.redis.connection import Pool
from incumbent.stores.redis.replies import text
from incumbent.stores.redis.scripts import PackedKeys, command, ms
from incumbent.stores.redis.wire import Question, Reply, Request, Wire


class Acknowledged(NamedTuple):
    """An answer, and how many replicas have what was written for it."""

    reply: Reply
    replicas: int


class Look:
    """One look at how the server is set up, taken along with the first leases."""

    def __init__(self) -> None:
        self.wanted: bool = True
        """Whether it has yet to be taken."""
        self._info: dict[str, Any] = {}
        self._config: dict[str, str] = {}

    def take(self, info: Reply, config: Reply) -> None:
        """Note the answers; an error, as for want of the right to ask, is one as well."""
        self.wanted = False
        self._info, self._config = _info(info), _config(config)

    def findings(self, lease_time: float) -> tuple[str, ...]:
        """What makes promises weaker, if it is known: told once."""
        info, config = self._info, self._config
        self._info, self._config = {}, {}
        if not info:
            return ()
        from incumbent.stores.redis import fitness  # noqa: PLC0415 - needed once, by few

        found = (
            *fitness.least_replicas(info, config, lease_time),
            *fitness.eviction(info),
            *fitness.persistence(info, config),
        )
        bad = [each for each in found if each.level != "ok"]
        return tuple(f"{each.about}: {each.found}: {each.means}" for each in bad)


class WaitingWire(Wire):
    """A wire whose every pipeline ends with a WAIT; an answer is an `Acknowledged`, or an error."""

    def __init__(self, pool: Pool, durability: Durability, look: Look) -> None:
        super().__init__(pool)
        self._wait = command(b"WAIT", b"%d" % durability.replicas, ms(durability.timeout))
        self._first_look = look
        self._replies: list[tuple[Request, Reply]] = []

    def send(self, request: Request, within: float) -> Awaitable[Reply]:
        # Never alone: many are to share a WAIT, and none that gives up is to cut it.
        return self._enqueue(request, within)

    async def _exchange(self, requests: Sequence[Request], connection: AbstractConnection) -> Reply:
        questions = _QUESTIONS if self._first_look.wanted else ()
        asked = [Question(question) for question in questions]
        self._replies = []
        sent = (*asked, *requests, Request(self._wait))
        replicas = await super()._exchange(sent, connection)
        replies = self._replies[:-1]
        if asked:
            self._first_look.take(*(reply for _, reply in replies[:2]))
        for request, reply in replies[len(asked) :]:
            plain = isinstance(request, Question)
            request.resolve(reply if plain else _acknowledged(reply, replicas))
        return replicas

    def _answer(self, request: Request, reply: Reply) -> None:
        """Keep it until the replicas have answered as well."""
        self._replies.append((request, reply))


class Confirmer:
    """Extends leases for those who want replicas to have them, beside the `caller` of the store.

    There is one way to the server for each `Durability`: no WAIT is in front of a shorter one.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._callers: dict[Durability, Caller] = {}
        self._first_look = Look()

    async def confirm(self, claim: Claim, keys: PackedKeys, budget: Budget) -> tuple[str, ...]:
        """Return when enough replicas have the grant of `claim`: what makes that weaker, once.

        Raises:
            NotDurableError: too few have it.
        """
        reply = await self.extend(claim, keys, claim.lease_time, budget, Request())
        if reply[0] != b"held":  # it is gone already: nobody has it
            raise NotDurableError(claim.election, _wanted(claim).replicas, 0)
        return self._first_look.findings(claim.lease_time)

    async def extend(
        self, claim: Claim, keys: PackedKeys, duration: float, budget: Budget, request: Request
    ) -> Reply:
        """What `extend.lua` says, if enough replicas have what it did.

        Raises:
            NotDurableError: too few have it.
        """
        durability = _wanted(claim)
        caller = self._callers.get(durability)
        if caller is None:
            make_wire = partial(WaitingWire, durability=durability, look=self._first_look)
            caller = self._callers[durability] = self._caller.beside(make_wire)
        args = (claim.token.encode(), ms(duration))
        reply, replicas = await caller.run(scripts.EXTEND, keys, args, budget, request)
        if reply[0] == b"held" and replicas < durability.replicas:
            raise NotDurableError(claim.election, durability.replicas, replicas)
        return reply

    async def aclose(self) -> None:
        """Give the connections back; a call that is still to come opens one for itself."""
        for caller in self._callers.values():
            await caller.aclose()


def _wanted(claim: Claim) -> Durability:
    if claim.durability is None:
        raise ValueError("a claim without durability has nothing to confirm")
    return claim.durability


_QUESTIONS: Final = (command(b"INFO"), command(b"CONFIG", b"GET", b"min-replicas-*"))
"""What tells how far the server can be relied on."""


def _acknowledged(reply: Reply, replicas: Reply) -> Reply:
    if isinstance(reply, Exception):
        return reply
    if isinstance(replicas, Exception):
        return copy.copy(replicas)  # raised by many, each its own
    return Acknowledged(reply, int(replicas))


def _info(reply: Reply) -> dict[str, Any]:
    """INFO, with numbers as numbers; nothing where it is not allowed."""
    if not isinstance(reply, bytes | str):
        return {}
    pairs = [line.partition(":") for line in text(reply).splitlines()]
    return {name: int(value) if value.isdecimal() else value for name, _, value in pairs}


def _config(reply: Reply) -> dict[str, str]:
    """CONFIG GET, as RESP2 and RESP3 have it; nothing where it is not allowed."""
    if isinstance(reply, list):
        reply = dict(zip(reply[::2], reply[1::2], strict=False))
    if not isinstance(reply, dict):
        return {}
    return {text(name): text(value) for name, value in reply.items()}
