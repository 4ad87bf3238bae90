"""From what a crew, its short elections and the servers left behind to the outcome of a run."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kit.checker import Span, check, hindered_spans
from kit.crew import Crew
from kit.ledger import read_ledgers
from kit.ledger_check import LedgerReport, check_ledgers
from kit.leftovers import connections, keys_without_ttl
from kit.mill import shared_name
from kit.outcome import IDLE_BEYOND_LEASE, Outcome
from kit.plan import MillPlan
from kit.records import Record, RecordFiles, now
from kit.register import RegisterReport, check_register, of_seat, read
from kit.servers import Server
from kit.storm import Storm
from kit.take_overs import faults_of, pauses, take_overs
from kit.ticks import TickReport, check_ticks
from kit.topologies import Topology
from kit.waiting import wait_until

GONE_WITHIN = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is to be judged. Durations are seconds."""

    crew: Crew
    storm: Storm
    topology: Topology | None
    mill: dict[str, Any] | None
    schedule: str  # the name of the schedule's election; "" when there was none
    tick: float
    candidate_ttl: float
    settle: float
    patience: float
    took: float
    until: float


async def judged(case: Case) -> Outcome:
    """Look at everything. The crew has ended."""
    records = case.crew.record_files()
    history = [record for record in records if record.kind != "work"]
    leaks = await _left_behind(case.crew.server, case.topology)
    leaks += [f"{each.process}: {each.detail}" for each in history if each.kind == "leak"]
    report = check(_Without(records, case.schedule), until=case.until, settle=case.settle)
    server, storm = case.crew.server, case.storm
    return Outcome(
        seconds=storm.seconds,
        took=case.took,
        seed=storm.seed,
        lease_time=storm.lease_time,
        candidate_ttl=case.candidate_ttl,
        patience=case.patience,
        faults=storm.happened,
        report=report,
        registers=_registers(
            server, [of_seat(name or case.crew.election, seat) for name, seat in storm.seats]
        ),
        short=_short(case, history),
        short_registers=_registers(server, _mill_registers(case.mill)),
        ticks=_ticks(case, history),
        take_overs=take_overs(report.terms, faults_of(history)),
        pauses=tuple(pauses(history)),
        leaks=tuple(leaks),
        lossy=_lossy(case),
        failures=tuple(storm.failures),
    )


class _Without:
    """Records of all but one election."""

    def __init__(self, records: RecordFiles, election: str) -> None:
        self._records, self._election = records, election

    def __iter__(self) -> Iterator[Record]:
        if not self._election:
            return iter(self._records)
        return (each for each in self._records if each.election != self._election)


def _lossy(case: Case) -> tuple[Span, ...]:
    """While a lease that was forgotten may have lasted."""
    lease_time = case.storm.lease_time
    if case.mill is not None:
        lease_time = max(lease_time, MillPlan(**case.mill).lease_time)
    forgot = case.topology.forgot if case.topology else ()
    return tuple((start, end + lease_time) for start, end in forgot)


def _registers(server: Server, names: Sequence[str]) -> tuple[RegisterReport, ...]:
    return tuple(check_register(read(server, name), time.time() - now()) for name in names)


def _short(case: Case, history: Sequence[Record]) -> LedgerReport:
    killed = {each.process: each.at for each in history if each.kind == "killed"}
    hindered = {
        process: [(start, end + case.settle) for start, end in spans]
        for process, spans in hindered_spans(history, case.until).items()
    }
    return check_ledgers(
        read_ledgers(case.crew.folder),
        killed=killed,
        hindered=hindered,
        max_idle=MillPlan(**case.mill or {}).lease_time + IDLE_BEYOND_LEASE + case.patience,
    )


def _mill_registers(mill: dict[str, Any] | None) -> list[str]:
    if mill is None:
        return []
    plan = MillPlan(**mill)
    return [
        of_seat(shared_name(number), seat)
        for number in range(plan.shared)
        for seat in range(2 if number < plan.grouped else 1)
    ]


def _ticks(case: Case, history: Sequence[Record]) -> TickReport:
    if not case.schedule:
        return TickReport()
    return check_ticks(
        history,
        case.schedule,
        every=case.tick,
        ahead=time.time() - now(),
        until=case.until,
        settle=case.storm.lease_time + IDLE_BEYOND_LEASE + case.patience,
        lease_time=case.storm.lease_time,
    )


async def _left_behind(register: Server, topology: Topology | None) -> list[str]:
    """What all the processes left on the servers, now that they have ended in order."""
    servers = topology.holders if topology else [register]

    def left() -> list[str]:
        return [
            f"key {key}"
            for server in servers
            for kind in ("seat:*", "queue")
            for key in server.admin.scan_iter(match=f"incumbent:*:{kind}", count=1000)
        ]

    with suppress(AssertionError):  # it is told below
        await wait_until(lambda: not left() and not connections(register), within=GONE_WITHIN)
    lasting = [*keys_without_ttl(register, ("incumbent", "kit"))]
    lasting += topology.lasting_keys() if topology else []
    return [
        *(f"key without TTL {key}" for key in lasting),
        *left(),
        *(f"connection {each}" for each in connections(register)),
    ]
