"""How much is measured: for figures to quote, for a quick look, and to see that it runs at all."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The sizes of one run."""

    lone_rounds: int
    lone_cycles: int
    crowd_rounds: int
    crowd: int
    """Elections at once."""
    held: int
    """Leases held."""
    lease_time: float
    periods: int
    """Renewal periods (a third of `lease_time`) over which the holder is watched."""
    imports: int
    candidate_rounds: int
    candidates: int
    other_keys: int
    """In the same database."""
    queue_rounds: int
    hand_overs: int
    """In one process, in one round."""
    slow_hand_overs: int
    """The same for locks that poll."""
    waiters: int
    gone_after: float
    """Seconds after which seats expire whose holders are gone; processes start meanwhile."""
    long_line: int
    """Waiters in a line whose cost on the server is looked at."""
    names: int
    """Names that are led once each."""
    groups: int
    """Groups of 1,024 seats."""


FULL = Counts(
    lone_rounds=100,
    lone_cycles=50,
    crowd_rounds=15,
    crowd=1000,
    held=5000,
    lease_time=30.0,
    periods=3,
    imports=31,
    candidate_rounds=100,
    candidates=1000,
    other_keys=100_000,
    queue_rounds=5,
    hand_overs=300,
    slow_hand_overs=40,
    waiters=1000,
    gone_after=5.0,
    long_line=10_000,
    names=10_000,
    groups=1_000,
)

# As many renewals per second as above, by fewer leases with a shorter time.
QUICK = Counts(
    lone_rounds=30,
    lone_cycles=20,
    crowd_rounds=4,
    crowd=1000,
    held=1000,
    lease_time=6.0,
    periods=2,
    imports=9,
    candidate_rounds=30,
    candidates=1000,
    other_keys=10_000,
    queue_rounds=2,
    hand_overs=100,
    slow_hand_overs=15,
    waiters=1000,
    gone_after=4.0,
    long_line=10_000,
    names=2_000,
    groups=200,
)

SMOKE = Counts(
    lone_rounds=2,
    lone_cycles=2,
    crowd_rounds=1,
    crowd=20,
    held=20,
    lease_time=0.9,
    periods=2,
    imports=1,
    candidate_rounds=2,
    candidates=20,
    other_keys=100,
    queue_rounds=1,
    hand_overs=6,
    slow_hand_overs=4,
    waiters=10,
    gone_after=4.0,
    long_line=100,
    names=100,
    groups=10,
)
