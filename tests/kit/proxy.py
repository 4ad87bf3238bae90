"""A loopback TCP relay before a server, which delays, swallows, holds, cuts and falls silent.

It reads RESP just enough to know whole requests and replies and which reply answers which
command; what they mean, and who the client is, it does not know. Faults are set by plain method
calls in the proxy's own loop and last until `restore`; `kit.proxy_thread` is for callers of
other threads.

What goes through a connection is a queue of messages in each direction, each with the time when
it is due. A message is judged when it arrives (dropped? held?) and again when it leaves (is the
line silent now?).
"""

import asyncio
import contextlib
import socket
import struct
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, Self
from urllib.parse import urlsplit, urlunsplit

from kit.ports import free_port
from kit.resp import Splitter, command_name, is_push

if TYPE_CHECKING:  # a chaos run has no use for certificates, nor for what makes them
    from kit.tls import Authority

Direction = Literal["requests", "replies", "both"]

HOST = "127.0.0.1"
STARTS = 10
CHUNK = 65536
NOTHING = b"*1\r\n$4\r\nPING\r\n"
"""What the server gets in place of a request that is refused: its answer keeps the order."""
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
HANDSHAKE = frozenset({"HELLO", "AUTH", "CLIENT", "SELECT", "COMMAND", "READONLY"})
GARBAGE = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"
SUBSCRIBING = frozenset(f"{kind}{deed}SUBSCRIBE" for kind in ("", "P", "S") for deed in ("", "UN"))


class Target(Protocol):
    """What a proxy stands before: a server, or another proxy."""

    @property
    def url(self) -> str:
        """Where clients would reach it; password and database are taken from it."""
        ...

    @property
    def host(self) -> str:
        """Where it listens."""
        ...

    @property
    def port(self) -> int:
        """On which port."""
        ...


@dataclass(slots=True)
class _Rule:
    """Matches messages of some commands, or of all but the handshake; so many times, or always."""

    commands: frozenset[str]
    times: int | None = None
    cut: bool = False
    answer: bytes = b""

    def takes(self, command: str) -> bool:
        wanted = command in self.commands if self.commands else command not in HANDSHAKE
        if not wanted or self.times == 0:
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass(slots=True)
class _Hold:
    """Stops a lane at the first message that matches, until the gate is opened."""

    commands: frozenset[str]
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, command: str) -> bool:
        return command in self.commands if self.commands else command not in HANDSHAKE


@dataclass(slots=True)
class _Lane:
    """One direction of one connection, and what to do with what goes along it."""

    source: asyncio.StreamReader
    sink: asyncio.StreamWriter
    direction: Direction
    lossy: bool = False  # something of it was swallowed in a silence
    queue: asyncio.Queue[tuple[float, str, bytes] | None] = field(default_factory=asyncio.Queue)


@dataclass(slots=True, eq=False)
class _Link:
    """One client's connection: two lanes, and the commands whose replies are still to come.

    Each with the answer that it gets in place of the server's, if it is refused.
    """

    requests: _Lane
    replies: _Lane
    unanswered: deque[tuple[str, bytes]] = field(default_factory=deque)

    @property
    def lossy(self) -> bool:
        return self.requests.lossy or self.replies.lossy

    @property
    def writers(self) -> tuple[asyncio.StreamWriter, asyncio.StreamWriter]:
        return self.replies.sink, self.requests.sink


class Proxy:
    """Relays to `target`; use as an async context manager, or `await start()` and `close()`.

    With `tls` clients speak TLS to it; it always speaks plain to the target.

    >>> async with Proxy(server) as proxy:
    ...     client = redis.asyncio.from_url(proxy.url)
    ...     proxy.drop_replies(1, "EVALSHA")
    """

    def __init__(self, target: Target, *, tls: "Authority | None" = None) -> None:
        self.target = target
        self.host = HOST
        self.port = 0
        self.tls = tls
        self.opened = 0  # connections accepted so far
        self.commands: Counter[str] = Counter()  # requests seen, by name, swallowed ones as well
        self.dropped = 0  # replies swallowed by `drop_replies`
        self._listener: socket.socket | None = None
        self._arriving: dict[asyncio.Task[None], socket.socket] = {}  # not yet a connection
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._delays: dict[Direction, float] = {}
        self._drops: list[_Rule] = []
        self._refusals: list[_Rule] = []
        self._holds: dict[Direction, _Hold] = {}
        self._held = 0
        self._silence: Literal["both", "replies"] | None = None

    def __repr__(self) -> str:
        return f"<Proxy port={self.port} to {self.target!r} open={self.open}>"

    @property
    def url(self) -> str:
        """Where clients reach it, with the authority's file when they must speak TLS."""
        target = urlsplit(self.target.url)
        credentials = target.netloc.rpartition("@")[0]
        netloc = f"{credentials}@" * bool(credentials) + f"{self.host}:{self.port}"
        if self.tls is None:
            return urlunsplit(("redis", netloc, target.path, "", ""))
        return urlunsplit(("rediss", netloc, target.path, f"ssl_ca_certs={self.tls.ca_file}", ""))

    @property
    def open(self) -> int:
        """Connections that are open now."""
        return len(self._links)

    @property
    def held(self) -> int:
        """Messages that wait at a hold now, one for each lane that is stopped."""
        return self._held

    # -- life --------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Listen on a free port, which stays its own for ever."""
        for attempt in range(STARTS):
            self.port = free_port(self.host)
            try:
                self._listen()
            except OSError:
                if attempt == STARTS - 1:
                    raise
            else:
                break
        return self

    async def close(self) -> None:
        """Stop listening, reset every connection, wait until all tasks are gone."""
        self.cut(refuse=True)
        await asyncio.gather(*self._arriving, return_exceptions=True)
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await _turns()  # aborted transports say goodbye

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- faults ------------------------------------------------------------------------------

    def delay(self, seconds: float, direction: Direction = "replies") -> None:
        """Every message that arrives from now on leaves so much later; 0 ends it.

        "both" delays requests and replies by `seconds` each.
        """
        for lane in _lanes(direction):
            self._delays[lane] = seconds

    def refuse(self, error: str, *commands: str, times: int | None = None) -> None:
        """Answer requests of these commands (or all but the handshake) by `error`; nothing is done.

        The next `times` of them, or all.
        """
        self._refusals.append(_Rule(_names(commands), times, answer=f"-{error}\r\n".encode()))

    def garble(self, *commands: str, times: int | None = 1) -> None:
        """Answer the next `times` requests as a server of another protocol would, or all."""
        self._refusals.append(_Rule(_names(commands), times, answer=GARBAGE))

    def drop_replies(self, times: int | None = 1, *commands: str, cut: bool = False) -> None:
        """Swallow the next `times` replies, of these commands or of all but the handshake.

        All of them if `times` is None. Each goes as a whole, the next one goes through. With `cut`
        the connection is reset in place of the reply, as when a network fails between the deed and
        its answer.
        """
        self._drops.append(_Rule(_names(commands), times, cut))

    def hold_replies(self, *commands: str) -> None:
        """Keep replies of these commands (or all but the handshake) back, and all behind them."""
        self._hold("replies", commands)

    def hold_requests(self, *commands: str) -> None:
        """Keep such requests back. They still reach the server when their client went away."""
        self._hold("requests", commands)

    def release(self) -> None:
        """Let go what is held, in order, and hold nothing any more."""
        for hold in self._holds.values():
            hold.gate.set()
        self._holds.clear()

    def cut(self, *, refuse: bool = False) -> None:
        """Reset all connections; with `refuse`, refuse new ones as well until `restore`."""
        if refuse:
            self._refuse()
        for client in self._arriving.values():
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)  # ends a TLS handshake, too
        for link in list(self._links):
            _reset(link)
        for task in self._tasks:
            task.cancel()

    def silence(self, *, requests: bool = False) -> None:
        """Accept everything and answer nothing. With `requests`, let those through."""
        self._silence = "replies" if requests else "both"

    async def restore(self, *, reset: bool = True) -> None:
        """End every fault. Connections that lost something in a silence are reset.

        With `reset=False` these stay open and silent for ever, half open as after a power cut.
        """
        self.release()
        self._delays.clear()
        self._drops.clear()
        self._refusals.clear()
        self._silence = None
        for link in list(self._links):
            if link.lossy and reset:
                _reset(link)
        if self._listener is None:
            self._listen()

    def _hold(self, direction: Direction, commands: tuple[str, ...]) -> None:
        if direction in self._holds:
            self._holds[direction].gate.set()
        self._holds[direction] = _Hold(_names(commands))

    # -- connections -------------------------------------------------------------------------

    def _listen(self) -> None:
        self._listener = socket.create_server((self.host, self.port))
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener, self._admit, self._listener)

    def _refuse(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _admit(self, listener: socket.socket) -> None:
        # `asyncio.start_server` does not close what it accepted just before it is closed itself.
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            client, _ = listener.accept()
            client.setblocking(False)
            task = asyncio.create_task(self._connect(client))
            self._arriving[task] = client
            task.add_done_callback(self._arriving.pop)

    async def _connect(self, client: socket.socket) -> None:
        def protocol() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._accept)

        context = self.tls.server_context() if self.tls else None
        with contextlib.suppress(OSError):  # it went away, or disliked the certificate
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(protocol, client, ssl=context)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(lambda ended: self._ended(ended, writer))

    def _ended(self, task: asyncio.Task[None], client: asyncio.StreamWriter) -> None:
        self._tasks.discard(task)
        _reset_one(client)  # matters when the task was cancelled before its first step

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, server = await asyncio.open_connection(self.target.host, self.target.port)
        except OSError:
            return  # there is no server: the client's connection is reset
        link = _Link(_Lane(reader, server, "requests"), _Lane(answers, writer, "replies"))
        self._links.add(link)
        try:
            await self._run(link)
            await _close(link)
        finally:
            self._links.discard(link)
            _reset(link)

    async def _run(self, link: _Link) -> None:
        """Until one side is gone and all that it had sent is delivered to the other."""
        async with asyncio.TaskGroup() as group:
            work = [group.create_task(self._read(link, lane)) for lane in _both(link)]
            deliveries = [group.create_task(self._deliver(lane)) for lane in _both(link)]
            await asyncio.wait(deliveries, return_when=asyncio.FIRST_COMPLETED)
            for task in work + deliveries:
                task.cancel()

    # -- messages ----------------------------------------------------------------------------

    async def _read(self, link: _Link, lane: _Lane) -> None:
        splitter = Splitter()
        take = self._take_request if lane.direction == "requests" else self._take_reply
        with contextlib.suppress(OSError):  # a reset is one way to say goodbye
            while data := await lane.source.read(CHUNK):
                for message in splitter.feed(data):
                    take(link, message)
        lane.queue.put_nowait(None)

    def _take_request(self, link: _Link, message: bytes) -> None:
        name = command_name(message)
        self.commands[name] += 1
        rule = next((rule for rule in self._refusals if rule.takes(name)), None)
        if rule is not None:
            link.unanswered.append((name, rule.answer))
            message = NOTHING
        elif name not in SUBSCRIBING:  # these are answered by pushes
            link.unanswered.append((name, b""))
        self._enqueue(link.requests, name, message)

    def _take_reply(self, link: _Link, message: bytes) -> None:
        push = is_push(message) or not link.unanswered
        name, refusal = ("", b"") if push else link.unanswered.popleft()
        message = refusal or message
        rule = None if push else next((rule for rule in self._drops if rule.takes(name)), None)
        if rule is None:
            self._enqueue(link.replies, name, message)
            return
        self.dropped += 1
        if rule.cut:
            _reset(link)

    def _enqueue(self, lane: _Lane, name: str, message: bytes) -> None:
        due = asyncio.get_running_loop().time() + self._delays.get(lane.direction, 0)
        lane.queue.put_nowait((due, name, message))

    async def _deliver(self, lane: _Lane) -> None:
        while (item := await lane.queue.get()) is not None:
            due, name, message = item
            if (wait := due - asyncio.get_running_loop().time()) > 0:
                await asyncio.sleep(wait)
            await self._pass_gate(lane.direction, name)
            if self._silence in ("both", lane.direction):
                lane.lossy = True
            # Nobody on the other side? Its own lane ends the link, when it is empty.
            if lane.lossy or lane.sink.is_closing():
                continue
            with contextlib.suppress(OSError):
                lane.sink.write(message)
                await lane.sink.drain()

    async def _pass_gate(self, direction: Direction, name: str) -> None:
        hold = self._holds.get(direction)
        if hold is None or not hold.takes(name):
            return
        self._held += 1
        try:
            await hold.gate.wait()
        finally:
            self._held -= 1


async def _turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _names(commands: tuple[str, ...]) -> frozenset[str]:
    return frozenset(command.upper() for command in commands)


def _lanes(direction: Direction) -> tuple[Direction, ...]:
    return ("requests", "replies") if direction == "both" else (direction,)


def _both(link: _Link) -> tuple[_Lane, _Lane]:
    return link.requests, link.replies


async def _close(link: _Link) -> None:
    for writer in link.writers:
        writer.close()
    for writer in link.writers:
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _reset(link: _Link) -> None:
    for writer in link.writers:
        _reset_one(writer)


def _reset_one(writer: asyncio.StreamWriter) -> None:
    """Close at once with RST, not with the polite FIN."""
    # A socket may be closed already, on uvloop a ValueError; a TLS transport that is forgets that
    # it had one.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    writer.transport.abort()
