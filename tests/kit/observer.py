"""Looks at the server from outside during a run: who was given the seat of a schedule.

A process that dies between the server's grant and its own first record leaves no trace of its
own. The seat does, for as long as `min_hold_time` keeps it.
"""

import asyncio
import contextlib
from typing import Any

import redis

from kit.crew import Crew
from kit.records import Record, Recorder, now
from kit.topologies import Topology

EVERY = 0.05


async def observe(crew: Crew, election: str, topology: Topology | None = None) -> None:
    """Write down each holder of seat 0, once, until this is cancelled. "" is no election."""
    key, seen = f"incumbent:{{{election}}}:seat:0", ""
    claim: dict[str, Any]
    with Recorder(crew.folder / "observer.jsonl") as recorder:
        while election:
            await asyncio.sleep(EVERY)
            leader, fence = _ask(crew, key, topology)
            if fence and fence != seen:
                seen = fence
                claim = {"process": leader, "election": election, "fence": int(fence)}
                recorder.write(Record(kind="claimed", at=now(), **claim))


def _ask(crew: Crew, key: str, topology: Topology | None) -> tuple[str, str]:
    if crew.server_in_hand.locked():
        return "", ""
    with contextlib.suppress(redis.RedisError):
        for server in topology.holders if topology else [crew.server]:
            with contextlib.suppress(redis.ResponseError):  # its slot is elsewhere
                answer: Any = server.cli("HMGET", key, "leader", "fence")
                return str(answer[0] or ""), str(answer[1] or "")
    return "", ""
