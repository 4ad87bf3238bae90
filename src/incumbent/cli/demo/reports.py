"""What a candidate's process tells the demo: one JSON object per line.

Pure. Times are seconds of `incumbent.clock`, which all processes of a machine share.
"""

import json
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["standing", "leading", "stopped"]
"""``standing`` by; ``leading``, and entitled to it until `until`; ``stopped`` leading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One thing that a process says of itself at the instant `at`."""

    kind: Kind
    at: float
    fence: int = 0
    until: float = 0.0
    """The local deadline of a ``leading`` process: it relies on its lease until then."""
    reason: str = ""
    """Why it ``stopped``: the loss reason of its lease, empty when it was not lost."""

    def line(self) -> str:
        """As it is sent."""
        return json.dumps(asdict(self)) + "\n"


def parse(line: str) -> Report | None:
    """The report in `line`; None when it is something else, a warning for example."""
    try:
        return Report(**json.loads(line))
    except (ValueError, TypeError):
        return None
