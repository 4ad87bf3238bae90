"""All that a chaos run showed, and its verdict. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kit.checker import Report, Span
from kit.ledger_check import LedgerReport
from kit.register import RegisterReport
from kit.take_overs import share_of
from kit.ticks import TickReport

IDLE_BEYOND_LEASE = 0.5  # seconds: a free election is taken within the lease time plus this
SHOWN = 20  # findings; a broken promise breaks often


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run showed. Durations are seconds."""

    seconds: float
    seed: int
    lease_time: float
    faults: Counter[str]
    report: Report
    registers: tuple[RegisterReport, ...]
    """By seat."""
    took: float = 0.0
    candidate_ttl: float = 0.0
    patience: float = 0.0  # more time before a free seat counts as left alone: for a busy machine
    short: LedgerReport = field(default_factory=LedgerReport)
    short_registers: tuple[RegisterReport, ...] = ()
    ticks: TickReport = field(default_factory=TickReport)
    take_overs: Mapping[str, Sequence[float]] = field(default_factory=dict)
    pauses: tuple[float, ...] = ()
    leaks: tuple[str, ...] = ()
    lossy: tuple[Span, ...] = ()  # when leases may have lasted that a fail-over forgot
    failures: tuple[str, ...] = ()  # processes that ended by themselves, or did not when told

    @property
    def elections(self) -> int:
        """Of all kinds."""
        return len(self.report.terms) + self.short.elections + self.ticks.runs

    @property
    def stale(self) -> tuple[str, ...]:
        """Writes that no honest holder sends."""
        return tuple(write for register in self._logs for write in register.stale)

    @property
    def _logs(self) -> tuple[RegisterReport, ...]:
        return (*self.registers, *self.short_registers)

    @property
    def max_idle(self) -> float:
        """How long a free seat may stay free."""
        return self.lease_time + self.candidate_ttl + IDLE_BEYOND_LEASE + self.patience

    @property
    def excused(self) -> list[str]:
        """What broke by a lease that a fail-over forgot, which no library on top can mend."""
        return [each for each in self._all_findings() if self._was_lossy(each)]

    @property
    def findings(self) -> list[str]:
        """All that must not be, as sentences."""
        return [each for each in self._all_findings() if not self._was_lossy(each)]

    def _was_lossy(self, finding: str) -> bool:
        at = getattr(finding, "at", 0.0)
        return any(start <= at <= end for start, end in self.lossy)

    def _all_findings(self) -> list[str]:
        found = [*self.report.violations, *self.short.violations, *self.stale, *self.leaks]
        found += self.failures
        found += [*self.ticks.doubled, *self.ticks.lost]
        if self.report.longest_idle > self.max_idle:
            found.append(f"idle: {self.report.idle_detail}")
        return found

    @property
    def sound(self) -> bool:
        """Whether all promises were kept, and there was something to keep them in."""
        used = all(register.accepted for register in self.registers)
        return not self.findings and bool(self.report.terms) and used

    def assert_sound(self) -> None:
        """AssertionError with all that was found."""
        assert not self.findings, "\n".join(self.findings[:SHOWN])
        assert self.sound, "nobody led"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.seconds:g} s, seed {self.seed}, lease time {self.lease_time:g} s"
        for name, value in self._rows().items():
            yield f"  {name:<17}{value}"
        for kind, count in sorted(self.faults.items()):
            yield f"  {kind:<17}{count:>5}  {_spread(self.take_overs.get(kind, ()))}"
        yield from (f"! {finding}" for finding in self.findings[:SHOWN])
        yield "sound" if self.sound else "BROKEN"

    def _rows(self) -> dict[str, str]:
        report, short, ticks = self.report, self.short, self.ticks
        long_pauses = sum(pause > self.lease_time for pause in self.pauses)
        rows = {
            "elections": f"{self.elections}, of these {len(report.terms)} long ones",
            "faults": f"{self.faults.total()}",
            "pauses": f"{len(self.pauses)}, of these {long_pauses} longer than the lease",
            "overlaps": str(len(report.overlaps) + len(short.overlaps)),
            "fence violations": str(len(report.fence_violations) + len(short.fence_violations)),
            "stray work": str(len(report.stray_work)),
            "seats": str(len(self.registers)),
            "register writes": _writes(self.registers),
            "take-over": _spread(sorted(report.take_overs)),
            "longest idle": f"{_ms(report.longest_idle)} of {_ms(self.max_idle)} allowed",
            "leaks": str(len(self.leaks)),
            "excused": f"{len(self.excused)}, by leases that a fail-over forgot",
            "out of order": str(sum(log.disordered for log in self._logs)),
        }
        if short.elections:
            rows |= {
                "short elections": f"{short.elections} ({short.elections / self.took:.0f}/s), "
                f"{short.lost} lost, {short.late} late",
                "handed over": f"{short.handed_over}, {short.between_processes} of them between "
                f"processes; p50 {_ms(short.hand_over.within(0.5))}, "
                f"p99 {_ms(short.hand_over.within(0.99))}, max {_ms(short.hand_over.longest)}",
                "their writes": _writes(self.short_registers),
                "sleepers": str(len(short.sleepers)),
                "ticks": f"{ticks.runs} runs in {ticks.periods} periods, {len(ticks.doubled)} "
                f"doubled, {len(ticks.lost)} lost, {ticks.excused} excused",
            }
        return rows


def _writes(registers: Iterable[RegisterReport]) -> str:
    logs = list(registers)
    accepted, late = sum(log.accepted for log in logs), sum(log.late for log in logs)
    return f"{accepted} accepted, {late} late, {sum(len(log.stale) for log in logs)} stale"


def _spread(ordered: Sequence[float]) -> str:
    if not ordered:
        return "-"
    shares = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    said = ", ".join(f"{name} {_ms(share_of(ordered, share))}" for name, share in shares)
    return f"{said} ({len(ordered)})"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"
