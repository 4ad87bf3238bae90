"""A fenced register on the server: it catches a holder that lies about itself.

Each holder writes to it all the time, with its fence and the wall clock of the moment at which it
still held. The register accepts what is not older than the highest fence that it has seen, and
writes down everything with the server's time. Two kinds of refused writes follow:

- *late*: sent before a newer holder's first write, arrived after it (the sender was frozen, or
  the network held it). That can always happen; the fence is there for it.
- *stale*: sent when a newer holder was already at work. An honest holder never does this.

Server and writers must be on one machine, so that they share the wall clock.
"""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import redis.asyncio

from kit.finding import Finding

TTL = 3_600
LENGTH = 500_000
PAGE = 5_000

# KEYS: log highest
# ARGV: fence process sent_us ttl_s length
# Returns: 1 when accepted, 0 when refused
SCRIPT = """
local highest = tonumber(redis.call('GET', KEYS[2]) or '0')
local fence = tonumber(ARGV[1])
local accepted = fence >= highest
if accepted then redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[4]) end
local time = redis.call('TIME')
redis.call('RPUSH', KEYS[1], cjson.encode({
  fence = ARGV[1], process = ARGV[2], sent = ARGV[3],
  at = time[1] .. string.format('%06d', time[2]), accepted = accepted}))
redis.call('LTRIM', KEYS[1], -tonumber(ARGV[5]), -1)
redis.call('EXPIRE', KEYS[1], ARGV[4])
return accepted and 1 or 0
"""


class Asks(Protocol):
    """Anything that can run a command at once, like `kit.servers.Server`."""

    def cli(self, *command: str | bytes | float) -> Any:
        """Run it."""
        ...


def of_seat(election: str, seat: int) -> str:
    """The name of a seat's register: each has its own, and the first has the election's name."""
    return f"{election}:{seat}" if seat else election


def keys(election: str) -> tuple[str, str]:
    """The log and the highest fence; both in one slot of a cluster."""
    return f"kit:register:{{{election}}}", f"kit:register:{{{election}}}:highest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One line of the log. Times are microseconds of the wall clock."""

    fence: int
    process: str
    sent: int
    at: int
    accepted: bool


def wall() -> int:
    """Now, as the register counts."""
    return time.time_ns() // 1000


async def write(
    client: "redis.asyncio.Redis", election: str, fence: int, process: str, sent: int
) -> bool:
    """Write once, by a holder that held at `sent`; False when a newer one has written before."""
    answer = await client.eval(
        SCRIPT, 2, *keys(election), str(fence), process, str(sent), str(TTL), str(LENGTH)
    )
    return bool(int(answer))


def read(server: Asks, election: str) -> Iterator[Write]:
    """The whole log, in the order in which the server saw it, page by page."""
    key, start = keys(election)[0], 0
    while lines := server.cli("LRANGE", key, start, start + PAGE - 1):
        yield from map(_write_of, lines)
        start += PAGE


def _write_of(line: str) -> Write:
    fields = json.loads(line)
    return Write(
        fence=int(fields["fence"]),
        process=fields["process"],
        sent=int(fields["sent"]),
        at=int(fields["at"]),
        accepted=fields["accepted"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterReport:
    """What the log proves."""

    accepted: int
    late: int
    stale: tuple[str, ...]
    disordered: int = 0  # accepted after a newer one: the register itself would be broken

    def assert_sound(self, *, min_writes: int = 1) -> None:
        """AssertionError with each stale write, or when there was too little to look at."""
        assert not self.stale, "\n".join(self.stale[:10])
        assert self.accepted >= min_writes, f"only {self.accepted} writes, expected {min_writes}"


def check_register(log: Iterable[Write], ahead: float = 0.0) -> RegisterReport:
    """Look at a whole log. `ahead` is the wall clock minus the clock of the records, in seconds."""
    newest: Write | None = None  # the first write of the highest fence so far
    accepted, late, disordered = 0, 0, 0
    stale: list[str] = []
    for entry in log:
        accepted += entry.accepted
        if newest is None or entry.fence > newest.fence:
            newest = entry
        elif entry.fence < newest.fence:
            disordered += entry.accepted
            if entry.accepted or entry.sent > newest.at:
                stale.append(Finding(f"{entry} after {newest}", entry.sent / 1e6 - ahead))
            else:
                late += 1
        elif entry.process != newest.process:
            stale.append(f"one fence, two holders: {entry} after {newest}")
    return RegisterReport(accepted=accepted, late=late, stale=tuple(stale), disordered=disordered)
