"""The scripts by themselves, and processes that are none: raw calls and raw subscriptions.

Knows the scripts' keys and arguments and a server, not the store. What a test says here is what
the server does; no client is there to mend it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self

import redis

from contract.bench import SCRIPTS, dumped, keys_of
from kit.servers import Server
from kit.waiting import wait_until_blocking

LINE = ("fence", "gone", "queue", "alive", "tick")
LEASE = 30_000
STALE = 30_000
GRACE = 1_000


@dataclass
class Waiter:
    """One candidate: its token, and its place in the line."""

    process: str
    size: int
    number: int
    arrival: int = 0
    grace: int = GRACE
    """Milliseconds for which a seat is kept for it."""

    @property
    def token(self) -> str:
        """What its seat is known by."""
        return f"token-{self.number}"

    @property
    def leader(self) -> str:
        """Its name."""
        return f"leader-{self.number}"

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"{self.size}:{self.process}:{self.grace}:{self.number}"


@dataclass
class Line:
    """The line of one election on a server, with raw scripts."""

    server: Server
    election: str = "job"
    caller: "redis.Redis | None" = None
    """Who calls the scripts; by default the server's own client."""
    grace: int = GRACE
    """That of its waiters."""
    database: int = 0
    """As the scripts are told it."""
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def root(self) -> str:
        """What every key begins with."""
        return f"incumbent:{{{self.election}}}:"

    def channel(self, name: str) -> str:
        """One of the election's channels."""
        return f"{self.root}db{self.database}:{name}"

    def key(self, name: str) -> str:
        """One of the election's keys."""
        return self.root + name

    def seats(self, size: int) -> list[str]:
        """The keys of the seats."""
        return [self.key(f"seat:{number}") for number in range(size)]

    def run(self, script: str, keys: list[str], *args: str | int) -> Any:
        """Run a script."""
        caller = self.caller or self.server.admin
        return caller.execute_command(  # type: ignore[no-untyped-call] # redis-py leaves it so
            "EVAL", SCRIPTS[script].text, len(keys), *keys, *args
        )

    # -- the scripts -------------------------------------------------------------------------

    def waiter(self, process: str = "none", size: int = 1) -> Waiter:
        """A candidate of `process`, new to the server."""
        return Waiter(process, size, next(self.numbers), grace=self.grace)

    def keys(self, size: int) -> list[str]:
        """The keys of acquire and leave."""
        return [*map(self.key, LINE), *self.seats(size)]

    def ask(
        self,
        who: Waiter,
        *,
        stale: int = STALE,
        period: tuple[int, int] | None = None,
        lease: int = LEASE,
    ) -> list[Any]:
        """Ask for a seat, standing in line; the waiter learns its arrival."""
        tail = [who.place, who.arrival, stale, *(period or ())]
        answer = self.acquire(who, *tail, lease=lease)
        if answer[0] == "busy":
            who.arrival = int(answer[7])
        return answer

    def acquire(self, who: Waiter, *tail: str | int, lease: int = LEASE) -> list[Any]:
        """One try without standing, unless there is a tail."""
        answer: list[Any] = self.run(
            "acquire", self.keys(who.size), who.token, who.leader, lease, self.database, *tail
        )
        return answer

    def once(self, who: Waiter, period: tuple[int, int], *, lease: int = LEASE) -> list[Any]:
        """One try without standing, for a run in a period."""
        return self.acquire(who, "", 0, 0, *period, lease=lease)

    def release(
        self,
        who: Waiter,
        seat: int = 0,
        *,
        keep: int = 0,
        doubtful: bool = False,
        restore: bool = False,
    ) -> str:
        """Give a seat back."""
        flags = int(doubtful), self.database, int(restore)
        (answer,) = self.run("release", self.keys(who.size), who.token, seat, keep, *flags)
        return str(answer)

    def leave(self, who: Waiter, *, full: bool = False) -> None:
        """Leave the line; a full leave undoes the claim as well."""
        token = who.token if full else ""
        answer = self.run("leave", self.keys(who.size), token, who.place, self.database)
        assert answer == ["left"]

    def touch(self, who: Waiter, *, stale: int = STALE, probe: int = 1) -> tuple[int, int, int]:
        """The touch of a process whose oldest waiter this is."""
        keys = [self.key(name) for name in ("fence", "queue", "alive")] + self.seats(who.size)
        standing, free, soonest = self.run(
            "touch", keys, who.process, who.place, stale, self.database, probe
        )
        return standing, free, soonest

    def extend(self, who: Waiter, seat: int = 0, duration: int = LEASE) -> list[Any]:
        """Let a lease live longer."""
        keys = [self.key("fence"), self.key(f"seat:{seat}")]
        answer: list[Any] = self.run("extend", keys, who.token, duration)
        return answer

    def state(self, size: int = 1) -> list[Any]:
        """How many wait, the last fence, how many seats there are, and who has them."""
        answer: list[Any] = self.run(
            "state", [*map(self.key, ("fence", "queue", "alive")), *self.seats(size)]
        )
        return answer

    def step_down(self, size: int = 1, seat: str | int = "") -> list[Any]:
        """Ask the holders to go."""
        answer: list[Any] = self.run("step_down", self.seats(size), seat)
        return answer

    def force(self, seat: int = 0, fence: str = "") -> list[Any]:
        """Take a seat from its holder."""
        keys = [self.key("fence"), self.key(f"seat:{seat}")]
        answer: list[Any] = self.run("force", keys, seat, fence, self.database)
        return answer

    # -- behind them -------------------------------------------------------------------------

    def take(self, who: Waiter, **options: Any) -> int:
        """Take a seat, which has to succeed; its number."""
        answer = self.ask(who, **options)
        assert answer[0] == "granted", answer
        return int(answer[1])

    def stand(self, who: Waiter, **options: Any) -> Waiter:
        """Stand in line, since nothing is free for it."""
        answer = self.ask(who, **options)
        assert answer[0] == "busy", answer
        return who

    def expire(self, seat: int = 0) -> None:
        """A lease ends; nobody tells."""
        assert self.server.cli("DEL", self.key(f"seat:{seat}")) == 1

    def places(self) -> list[str]:
        """Who stands in line, the first one first."""
        found: list[str] = self.server.cli("ZRANGE", self.key("queue"), 0, -1)
        return found

    def alive(self) -> dict[str, float]:
        """The deadlines: of processes, and of woken waiters."""
        flat = self.server.cli("ZRANGE", self.key("alive"), 0, -1, "WITHSCORES")
        return {name: float(score) for name, score in zip(flat[::2], flat[1::2], strict=True)}

    def woken(self) -> set[str]:
        """Whose seat is kept for it."""
        return {name[2:] for name in self.alive() if name.startswith("w:")}

    def overdue(self, name: str) -> None:
        """A deadline is over now."""
        assert name in self.alive()
        self.server.cli("ZADD", self.key("alive"), "XX", 1, name)

    def holders(self, size: int = 1) -> dict[int, str]:
        """Seat and leader."""
        return {seat[0]: seat[1] for seat in self.state(size)[3:]}

    def content(self) -> dict[str, Any]:
        """What the election's keys hold."""
        return {
            name: dumped(self.server, name)
            for name in keys_of(self.server, f"{{{self.election}}}*")
        }

    def now(self) -> int:
        """The server's clock in milliseconds."""
        seconds, micros = self.server.cli("TIME")
        return int(seconds) * 1000 + int(micros) // 1000


class Listener:
    """A subscribed connection, as the inbox of a process or as a watcher has one."""

    def __init__(self, server: Server, channel: str) -> None:
        self._channel = channel
        self._server = server
        self._client = redis.Redis.from_url(server.url, decode_responses=True)
        self._pubsub = self._client.pubsub()  # type: ignore[no-untyped-call] # as above
        self._pubsub.subscribe(channel)
        said = self._pubsub.get_message(timeout=10)
        assert said is not None
        assert said["type"] == "subscribe"

    def heard(self) -> list[str]:
        """What has come since the last look; nothing is on its way any more."""
        self._server.cli("PUBLISH", self._channel, "the-end")
        messages: list[str] = []
        while True:
            said = self._pubsub.get_message(timeout=10)
            assert said is not None, "the inbox does not hear itself"
            if said["data"] == "the-end":
                return messages
            messages.append(said["data"])

    def close(self) -> None:
        """Hear nothing more; the server knows it when this returns."""
        self._pubsub.close()
        self._client.close()
        wait_until_blocking(lambda: self._server.cli("PUBLISH", self._channel, "nobody") == 0)


class Processes:
    """Fake processes: each has an inbox, and waiters as a test wants them."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self._inboxes: dict[str, Listener] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """All of them are gone."""
        for name in tuple(self._inboxes):
            self.die(name)

    def waiter(self, process: str, size: int = 1) -> Waiter:
        """A candidate of a process, whose inbox is open."""
        if process not in self._inboxes:
            channel = self.line.channel(f"inbox:{process}")
            self._inboxes[process] = Listener(self.line.server, channel)
        return self.line.waiter(process, size)

    def standing(self, *processes: str, size: int = 1) -> list[Waiter]:
        """Waiters of these processes, who stand in line in this order."""
        return [self.line.stand(self.waiter(name, size)) for name in processes]

    def heard(self, process: str) -> list[str]:
        """What a process was told since the last look."""
        return self._inboxes[process].heard()

    def told(self) -> dict[str, list[str]]:
        """What each was told since the last look; who was told nothing is not in it."""
        heard = {name: inbox.heard() for name, inbox in self._inboxes.items()}
        return {name: messages for name, messages in heard.items() if messages}

    def die(self, process: str) -> None:
        """A process is gone: nobody hears its inbox."""
        self._inboxes.pop(process).close()


@contextmanager
def watching(line: Line) -> Iterator[Listener]:
    """A watcher of the election's events."""
    listener = Listener(line.server, line.channel("events"))
    try:
        yield listener
    finally:
        listener.close()
