"""The registry on a server: which script with which keys, and what its answer means.

Shares the way to the server with the store of the seats.
"""

import os
from typing import Literal

from incumbent import clock
from incumbent.stores.base import Budget, instant
from incumbent.stores.redis import scripts
from incumbent.stores.redis.caller import Caller
from incumbent.stores.redis.keys import registry_keys_of
from incumbent.stores.redis.records import snapshot_of
from incumbent.stores.redis.scripts import ms
from incumbent.stores.redis.wire import Request
from incumbent.stores.registry import Deed, Enrolled, Enrolment, Withdrawn
from incumbent.strategy import Snapshot


class RedisRegistry:
    """Candidates on the server that `caller` calls; closing that is its owner's affair."""

    def __init__(self, caller: Caller, prefix: str) -> None:
        self._caller = caller
        self._prefix = prefix

    def __repr__(self) -> str:
        return f"<{type(self).__name__} prefix={self._prefix!r}>"

    async def enrol(self, enrolment: Enrolment, budget: Budget) -> Enrolled | Literal["gone"]:
        keys = registry_keys_of(self._prefix, enrolment.election)
        args = (
            enrolment.node_id.encode(),
            enrolment.token.encode(),
            ms(enrolment.ttl),
            enrolment.strategy.encode(),
            enrolment.metadata.encoded,
            b"1" if enrolment.contending else b"0",
        )
        reply = await self._caller.run(scripts.ENROL, keys.change, args, budget)
        if reply[0] == b"gone":
            return "gone"
        return Enrolled(
            instant(int(reply[1]) / 1000),
            fresh=reply[0] == b"enrolled",
            shared=reply[0] == b"shared",
        )

    async def withdraw(self, enrolment: Enrolment, budget: Budget) -> Withdrawn:
        keys = registry_keys_of(self._prefix, enrolment.election)
        request = Request()
        args = (enrolment.node_id.encode(), enrolment.token.encode())
        reply = await self._caller.run(scripts.WITHDRAW, keys.change, args, budget, request)
        if reply[0] == b"withdrawn" or (reply[0] == b"gone" and request.doubtful):
            return "withdrawn"
        return "taken" if reply[0] == b"taken" else "gone"

    async def record(self, election: str, node_id: str, deed: Deed, budget: Budget) -> bool:
        keys = registry_keys_of(self._prefix, election)
        args = (node_id.encode(), os.urandom(16).hex().encode(), deed.encode())
        reply = await self._caller.run(scripts.RESULT, keys.change, args, budget)
        return bool(reply[0] == b"counted")

    async def snapshot(self, election: str, budget: Budget) -> Snapshot:
        keys = registry_keys_of(self._prefix, election)
        began = clock.now()
        reply = await self._caller.run(scripts.SNAPSHOT, keys.snapshot, (b"0",), budget)
        snapshot, ahead = await snapshot_of(election, reply)
        if ahead:  # so that the server corrects records only when there are some to correct
            left = Budget(max(0.0, budget.total - (clock.now() - began)), budget.each)
            reply = await self._caller.run(scripts.SNAPSHOT, keys.snapshot, (b"1",), left)
            snapshot, _ = await snapshot_of(election, reply)
        return snapshot
