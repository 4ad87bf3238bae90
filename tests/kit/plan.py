"""What one process of a crew is told to do, as JSON on its command line."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class MillPlan:
    """Short elections, many of them: see `kit.mill`."""

    shared: int = 64  # names for which half of the processes stand in line
    grouped: int = 8  # of these, how many have two seats
    own: int = 12  # names that only this place uses
    rest: tuple[float, float] = (0.0, 0.002)  # seconds between two elections of one shared name
    own_rest: tuple[float, float] = (0.0, 0.06)
    wait: float = 3.0  # seconds to stand in line
    cancelled: float = 0.005  # this share of the calls is cancelled soon after it began
    fenced: float = 0.05  # this share of the terms writes to a register
    lease_time: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a contender is to do. Durations are seconds; random ones are drawn from [low, high]."""

    process: str
    url: str  # of the election, perhaps through a proxy
    register_url: str  # of the register, straight
    records: str  # the file for its records; other files of this life lie beside it
    election: str
    seats: int = 1
    prefix: str = "incumbent"
    options: dict[str, Any] = field(default_factory=dict)  # of LeaderOptions
    durability: dict[str, Any] = field(default_factory=dict)  # of Durability; none when empty
    client: dict[str, Any] = field(default_factory=dict)  # of redis.asyncio.Redis.from_url
    way: Literal["campaign", "run_if_leader", "schedule"] = "campaign"
    hold: tuple[float, float] = (0.05, 0.8)
    rest: tuple[float, float] = (0.0, 0.02)
    work_every: float = 0.005
    run_for: float = 3600.0
    candidate_ttl: float = 0.0  # above 0: it stands in a strategic election, the least loaded leads
    jitter: float = 0.0  # of its load, which without one is 0 for place "a", 1 for "b", ...
    change: tuple[float, float] = (0.1, 0.5)  # how often it does
    tick: float = 0.0  # the period of a schedule
    seed: int = 0
    beside: tuple[dict[str, Any], ...] = ()  # more elections of this process: what differs in each
    mill: dict[str, Any] | None = None  # fields of MillPlan
    mill_url: str = ""  # of the short elections; default: `register_url`

    def argument(self) -> str:
        """As it is given on the command line."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, argument: str) -> Self:
        """Read what `argument` wrote."""
        return cls(**json.loads(argument))
