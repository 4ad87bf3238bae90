"""How an elector behaves: one frozen value, checked once, before any I/O.

Pure. Each message names the rule and the value that broke it.
"""

from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack, cast

from incumbent.durations import Duration, seconds, shown
from incumbent.kinds import flag, whole
from incumbent.periods import Every, OncePer

OnLoss: TypeAlias = Literal["cancel", "notify"]

MIN_LEASE_TIME: Final = 0.25
MAX_LEASE_TIME: Final = 30 * 86_400.0
MIN_DURABILITY_TIMEOUT: Final = 0.001
LATE_WAIT: Final = 0.1
"""Seconds by which a server, at its default of ten ticks a second, ends a WAIT later than told."""

DRIFT_SHARE: Final = 0.01
DRIFT_SECONDS: Final = 0.002


class OptionChanges(TypedDict, total=False):
    """The options by name, for `elector.using(...)`."""

    lease_time: Duration
    wait_time: Duration | None
    min_hold_time: Duration
    max_hold_time: Duration | None
    auto_extend: bool
    stop_grace: Duration | None
    on_loss: OnLoss
    once_per: Every | None
    request_timeout: Duration
    restart: bool
    durability: "Durability | None"


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Durability:
    """A lease counts only when `replicas` replicas have it, within `timeout`.

    The timeout is given as seconds or `timedelta`, and kept as seconds.

    Raises:
        TypeError: a value is of the wrong type.
        ValueError: a value is out of its range.
    """

    replicas: int
    """How many must acknowledge each lease and each renewal: 1 (the default) or more."""
    timeout: float
    """Seconds that they have for it. Default 0.2 s."""

    def __init__(self, *, replicas: int = 1, timeout: Duration = 0.2) -> None:
        whole("replicas", replicas, 1)
        time = seconds("timeout", timeout)
        if time < MIN_DURABILITY_TIMEOUT:  # the server takes 0 for no limit
            raise ValueError(
                f"timeout must be at least {shown(MIN_DURABILITY_TIMEOUT)}, not {shown(time)}"
            )
        object.__setattr__(self, "replicas", replicas)
        object.__setattr__(self, "timeout", time)


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class LeaderOptions:
    """The timers and policies of an elector: given as seconds or `timedelta`, kept as seconds.

    Raises:
        TypeError: a value is of the wrong type.
        ValueError: a value is out of its range, or the timers do not fit into `lease_time`.
    """

    lease_time: float
    """How long a lease lives on the server without renewal: 0.25 s to 30 days. Default 30 s."""
    wait_time: float | None
    """How long to stand in line: 0 (the default) is one try, None is for ever."""
    min_hold_time: float
    """The seat stays taken at least this long; at most `lease_time`. Default 0."""
    max_hold_time: float | None
    """The most one term may last before its action is cancelled. Default None: no limit."""
    auto_extend: bool
    """Renew in the background every third of `lease_time`. Default True."""
    stop_grace: float
    """Kept free at the lease's end for the action's cleanup. Default: a sixth of `lease_time`."""
    on_loss: OnLoss
    """``"cancel"`` (default) stops the action on a loss, ``"notify"`` only tells the lease."""
    once_per: OncePer | None
    """At most one run per period, across all replicas and seats, by the server's clock: seconds, a
    `timedelta`, a text such as ``"1d"``, a cron expression, or `OncePer`. Periods of a length are
    counted from the epoch. A run counts from its start, however it ends. Default None."""
    request_timeout: float
    """The budget of one request; a renewal has at most `lease_time` / 6. Default 5 s."""
    restart: bool
    """`campaign` goes on, with back-off, after the action returned or raised. Default False."""
    durability: Durability | None
    """A lease, and each renewal of it, counts only when so many replicas of the server have it;
    otherwise the seat is given back with a `NotDurableError`. Two such waits must fit into what one
    attempt to renew may take: with the defaults, a lease of more than 3.6 s. Default None: the
    primary's word is enough."""

    def __init__(
        self,
        *,
        lease_time: Duration = 30.0,
        wait_time: Duration | None = 0.0,
        min_hold_time: Duration = 0.0,
        max_hold_time: Duration | None = None,
        auto_extend: bool = True,
        stop_grace: Duration | None = None,
        on_loss: OnLoss = "cancel",
        once_per: Every | None = None,
        request_timeout: Duration = 5.0,
        restart: bool = False,
        durability: Durability | None = None,
    ) -> None:
        lease = seconds("lease_time", lease_time)
        if not MIN_LEASE_TIME <= lease <= MAX_LEASE_TIME:
            raise ValueError(
                f"lease_time must be from {shown(MIN_LEASE_TIME)} to {shown(MAX_LEASE_TIME)},"
                f" not {shown(lease)}"
            )
        put = object.__setattr__
        put(self, "lease_time", lease)
        put(self, "wait_time", None if wait_time is None else seconds("wait_time", wait_time))
        put(self, "min_hold_time", seconds("min_hold_time", min_hold_time))
        put(
            self,
            "max_hold_time",
            None if max_hold_time is None else seconds("max_hold_time", max_hold_time),
        )
        put(self, "auto_extend", flag("auto_extend", auto_extend))
        put(
            self,
            "stop_grace",
            lease / 6 if stop_grace is None else seconds("stop_grace", stop_grace),
        )
        put(self, "on_loss", on_loss)
        put(self, "once_per", None if once_per is None else OncePer.of(once_per, "once_per"))
        put(self, "request_timeout", seconds("request_timeout", request_timeout))
        put(self, "restart", flag("restart", restart))
        put(self, "durability", durability)
        self._check_policies()
        self._check_timers()
        self._check_durability()

    @property
    def renewal_period(self) -> float:
        """Seconds from a confirmed renewal to the next: a third of `lease_time`."""
        return self.lease_time / 3

    @property
    def renewal_budget(self) -> float:
        """Seconds that one attempt to renew may take."""
        return min(self.request_timeout, self.lease_time / 6)

    def changed(self, **changes: Unpack[OptionChanges]) -> "LeaderOptions":
        """A copy with `changes`; a `stop_grace` that was the default follows a new `lease_time`."""
        if "lease_time" in changes and self.stop_grace == self.lease_time / 6:
            changes.setdefault("stop_grace", None)
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        values.update(cast(Any, changes))
        return LeaderOptions(**values)

    def _check_policies(self) -> None:
        if self.on_loss not in ("cancel", "notify"):
            raise ValueError(f"on_loss must be 'cancel' or 'notify', not {self.on_loss!r}")
        if self.min_hold_time > self.lease_time:
            raise ValueError(
                "min_hold_time must be at most lease_time: "
                f"{shown(self.min_hold_time)} > {shown(self.lease_time)}"
            )
        if self.max_hold_time is not None and self.max_hold_time <= 0:
            raise ValueError(f"max_hold_time must be above 0, not {shown(self.max_hold_time)}")
        if self.request_timeout <= 0:
            raise ValueError(f"request_timeout must be above 0, not {shown(self.request_timeout)}")

    def _check_durability(self) -> None:
        durability = self.durability
        if durability is None:
            return
        if not isinstance(durability, Durability):
            raise TypeError(
                "durability must be a Durability, such as Durability(replicas=1),"
                f" not {type(durability).__name__}"
            )
        # One may stand behind another one's WAIT before it comes to its own.
        needed = 2 * (durability.timeout + LATE_WAIT)
        if needed >= self.renewal_budget:
            raise ValueError(
                "an attempt to renew must have time for two waits for replicas:"
                f" 2 * (durability.timeout {shown(durability.timeout)}"
                f" + {shown(LATE_WAIT)} until the server ends it) = {shown(round(needed, 6))},"
                f" it has {shown(round(self.renewal_budget, 6))} (the smaller of request_timeout"
                f" {shown(self.request_timeout)} and a sixth of lease_time"
                f" {shown(self.lease_time)})"
            )

    def _check_timers(self) -> None:
        drift = DRIFT_SHARE * self.lease_time + DRIFT_SECONDS
        renewing = self.renewal_period + 2 * self.renewal_budget if self.auto_extend else 0.0
        needed = renewing + self.stop_grace + drift
        if needed >= self.lease_time:
            raise ValueError(
                "the timers must fit into lease_time: "
                f"renewal period and two attempts {shown(round(renewing, 6))}"
                f" + stop_grace {shown(self.stop_grace)}"
                f" + drift allowance {shown(round(drift, 6))} = {shown(round(needed, 6))},"
                f" lease_time is {shown(self.lease_time)}; make that longer, or stop_grace shorter"
            )
