"""A crew of contenders, each behind a proxy of its own, and what can be done to each of them.

The crew writes down what it does, beside the contenders' own records, so that the checker knows
who was able to lead when. It needs a running event loop, which the proxies live in.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import redis

import incumbent
from kit import orders, register, warden
from kit.plan import Plan
from kit.proxy import Proxy
from kit.records import Kind, Record, Recorder, RecordFiles, now, read_records
from kit.servers import Server
from kit.stops import freeze
from kit.waiting import wait_until

STOP_WITHIN = 20.0
LOG = 12_000  # characters of a log that are shown


@dataclass(slots=True, eq=False)
class Member:
    """One place in the crew. `process` changes with each life: "b2" is the second one of "b"."""

    place: str
    proxy: Proxy
    lives: int = 0
    child: subprocess.Popen[bytes] | None = None
    paused: bool = False

    @property
    def process(self) -> str:
        """The name in the records of the life that runs, or ran last."""
        return f"{self.place}{self.lives}"

    @property
    def running(self) -> bool:
        """Whether there is a process, frozen or not."""
        return self.child is not None and self.child.poll() is None


class Crew:
    """`size` contenders for one election on `server`; use as an async context manager.

    `plan` are more fields of `kit.plan.Plan`, such as ``options={"lease_time": 0.6}``.

    With a `url` the election is there, no proxy before it, and `server` has the register only.
    """

    def __init__(
        self,
        server: Server,
        folder: Path,
        *,
        size: int = 4,
        election: str = "crew",
        seed: int = 0,
        plan: Mapping[str, Any] | None = None,
        url: str = "",
    ) -> None:
        self.server = server
        self.folder = folder
        self.election = election
        self.seed = seed
        self.size = size
        self.members: list[Member] = []
        self.server_in_hand = asyncio.Lock()  # for who does something to the server itself
        self._plan = dict(plan or {}) | ({"url": url, "mill_url": url} if url else {})
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._recorder = self._stack.enter_context(Recorder(self.folder / "crew.jsonl"))
        for place in "abcdefghijklmnopqrstuvwxyz"[: self.size]:
            proxy = await self._stack.enter_async_context(Proxy(self.server))
            self.members.append(Member(place, proxy))
        for member in self.members:
            self.start(member)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.stop()
        finally:
            await self._stack.aclose()

    # -- what can be done to a member --------------------------------------------------------

    def start(self, member: Member) -> None:
        """A new life, in place of one that ended."""
        assert not member.running
        member.lives += 1
        fields: dict[str, Any] = {
            "process": member.process,
            "url": member.proxy.url,
            "register_url": self.server.url,
            "records": str(self.folder / f"{member.process}.jsonl"),
            "election": self.election,
            "seed": self.seed,
        }
        command = [sys.executable, "-m", "kit.contender", Plan(**fields | self._plan).argument()]
        with (self.folder / f"{member.process}.log").open("wb") as log:
            member.child = warden.start_child(command, output=log, env=_environment())
        member.paused = False

    def revive(self, member: Member) -> None:
        """A new life if the last one ended by itself; nothing if it lives."""
        if not member.running:
            member.child = None
            self._note(member, "killed")
            self.start(member)

    def kill(self, member: Member) -> None:
        """SIGKILL."""
        child = self._child(member)
        child.kill()
        child.wait()
        warden.reaped(child)
        member.child = None
        self._note(member, "killed")

    def pause(self, member: Member) -> None:
        """SIGSTOP: it thinks nothing and does nothing, and does not know it."""
        self._note(member, "paused")
        freeze(self._child(member).pid)
        member.paused = True

    def resume(self, member: Member) -> None:
        """SIGCONT."""
        self._child(member).send_signal(signal.SIGCONT)
        member.paused = False
        self._note(member, "resumed")

    def order(self, member: Member, deed: str, seconds: float = 0.0) -> None:
        """SIGUSR1: it does to itself what `kit.orders` knows."""
        child = self._child(member)
        path = self.folder / f"{member.process}.orders"
        if path.exists():  # otherwise it does not listen yet
            orders.give(path, deed, seconds)
            child.send_signal(signal.SIGUSR1)

    async def terminate(self, member: Member) -> int:
        """SIGTERM, once it can hear it, and wait for its orderly end; returns its exit code."""
        await self._standing(member)
        child = self._child(member)
        child.terminate()
        code = await _ended(child)
        warden.reaped(child)
        member.child = None
        return code

    def cut(self, member: Member, *, refuse: bool = True) -> None:
        """Reset its connections, and refuse new ones until `restore`."""
        self._note(member, "cut")
        member.proxy.cut(refuse=refuse)

    def hinder(self, member: Member) -> None:
        """For the records: what is done to its proxy next keeps it from leading until `restore`."""
        self._note(member, "cut")

    def silence(self, member: Member, *, requests: bool = False) -> None:
        """Its connections stay, and nothing comes through until `restore`."""
        self._note(member, "cut")
        member.proxy.silence(requests=requests)

    async def restore(self, member: Member) -> None:
        """Its network is fine again."""
        await member.proxy.restore()
        self._note(member, "restored")

    @contextmanager
    def all_cut(self) -> Iterator[None]:
        """For the records: the server itself is out of reach, for everybody."""
        for member in self.members:
            self._note(member, "cut")
        hit = [member.process for member in self.members]
        yield
        for process in hit:
            self._note_for(process, "restored")

    @contextmanager
    def fault(self, name: str, process: str = "") -> Iterator[None]:
        """For the records: a fault of this name, on a process or on the server."""
        self._note_for(process, "fault", name)
        try:
            yield
        finally:
            self._note_for(process, "over", name)

    # -- what can be asked -------------------------------------------------------------------

    def leader(self, election: str = "", seat: int = 0) -> Member | None:
        """Whose write the register accepted last; it may be gone by now."""
        if self.server.paused or not self.server.running:
            return None
        name = register.of_seat(election or self.election, seat)
        try:
            lines = self.server.cli("LRANGE", register.keys(name)[0], -1, -1)
        except redis.RedisError:  # it may be busy, or the victim
            return None
        found = [each for each in self.members if lines and f'"{each.process}"' in lines[0]]
        return found[0] if found and found[0].running else None

    def assert_running(self) -> None:
        """AssertionError when a contender ended by itself, with what it printed."""
        for member in self.members:
            if member.child is not None:
                self._child(member)

    def records(self) -> list[Record]:
        """All that was written down so far, by the contenders and by the crew."""
        return read_records(self.folder)

    def record_files(self) -> RecordFiles:
        """The same as a stream, for what would fill the memory."""
        return RecordFiles(self.folder)

    def register(self, seat: int = 0) -> list[register.Write]:
        """The register's log of one seat."""
        return list(register.read(self.server, register.of_seat(self.election, seat)))

    async def all_standing(self, within: float = 20.0) -> None:
        """Wait until each member has begun to stand, in its present life."""

        def missing() -> set[str]:
            self.assert_running()
            here = {each.process for each in self.records() if each.kind == "standing"}
            return {member.process for member in self.members} - here

        await wait_until(lambda: not missing(), within=within, every=0.05, what="all stand")

    async def stop(self) -> None:
        """End all in order. AssertionError when one failed, with what it printed."""
        left = [member for member in self.members if member.child is not None]
        for member in left:
            if member.paused and member.running:
                self.resume(member)
        codes = await asyncio.gather(*(self._end(member) for member in left))
        for member, code in zip(left, codes, strict=True):
            assert code == 0, f"{member.process} ended with {code}:\n{self.log(member)}"

    def log(self, member: Member) -> str:
        """What its last life printed."""
        return (self.folder / f"{member.process}.log").read_text(errors="replace")[-LOG:]

    # -- inside ------------------------------------------------------------------------------

    async def _end(self, member: Member) -> int:
        if member.running:
            return await self.terminate(member)
        child, member.child = member.child, None
        assert child is not None
        return child.wait()

    async def _standing(self, member: Member) -> None:
        """Until its present life has begun to stand: an interpreter that starts dies of SIGTERM."""
        records = self.folder / f"{member.process}.jsonl"
        await wait_until(
            lambda: not member.running or (records.exists() and records.stat().st_size > 0),
            within=STOP_WITHIN,
            what=f"{member.process} stands",
        )

    def _child(self, member: Member) -> subprocess.Popen[bytes]:
        assert member.child is not None
        assert member.running, f"{member.process} ended by itself:\n{self.log(member)}"
        return member.child

    def _note(self, member: Member, kind: Kind) -> None:
        self._note_for(member.process, kind)

    def _note_for(self, process: str, kind: Kind, detail: str = "") -> None:
        self._recorder.write(
            Record(process=process, kind=kind, at=now(), election=self.election, detail=detail)
        )


async def _ended(child: subprocess.Popen[bytes]) -> int:
    try:
        await wait_until(lambda: child.poll() is not None, within=STOP_WITHIN)
    except AssertionError:
        child.send_signal(signal.SIGUSR2)  # it says where its tasks are
        await asyncio.sleep(1)
        child.kill()
    return child.wait()


def _environment() -> dict[str, str]:
    """Children import what we import, whether it is installed or not.

    What they run through is not counted: that makes them slower, and they do what is tested anyway.
    """
    places = [Path(__file__).parents[1], Path(incumbent.__file__).parents[1]]
    path = os.pathsep.join([*map(str, places), os.environ.get("PYTHONPATH", "")])
    kept = {name: text for name, text in os.environ.items() if not name.startswith("COVERAGE_")}
    return {**kept, "PYTHONPATH": path.rstrip(os.pathsep)}
