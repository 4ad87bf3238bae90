"""What the commands have to say on stderr: one line for each thing that a person should know."""

from incumbent import Skipped
from incumbent.cli.endings import in_options
from incumbent.durations import about
from incumbent.events import (
    AttemptDelayed,
    Event,
    OutageEnded,
    ReleaseFailed,
    RenewalDelayed,
    TermEnded,
    TermLost,
    TermStarted,
)
from incumbent.printable import printable
from incumbent.results import LOSS_REASONS, LossReason
from incumbent.stores.redis.faults import reason as reason_of


def not_elected(name: str, skipped: Skipped) -> str:
    """Why the program did not run."""
    if skipped.reason == "already_ran":
        return f"not run: {name!r} has been run in this period"
    if skipped.holder is None:
        return f"not run: others are due to lead {name!r}"
    holder = printable(skipped.holder.leader_id)
    if skipped.holder.retained:
        return f"not run: {name!r} was just led by {holder}, and its seat is still kept"
    return f"not run: {holder} leads {name!r}"


def _why(reason: LossReason, detail: str) -> str:
    """What a loss means; `detail` says more exactly what was the matter."""
    words = in_options(LOSS_REASONS[reason])
    return f"{words.partition(':')[0]}: {detail}" if detail else words


def news(name: str, event: Event, *, terms: bool, where: str) -> str:
    """What `event` means for election `name`; empty when it is not worth a line.

    `where` the server is, in words.

    With `terms` it is news, too, that terms come and go.

    Errors of a server name no password; what else they say is for the person who runs it.
    """
    election, line = repr(name), ""
    match event:
        case TermLost(reason=reason, detail=detail):
            line = f"leadership of {election} lost: {reason} ({_why(reason, detail)})"
        case RenewalDelayed(repeated=True) | AttemptDelayed(repeated=True):
            pass  # it was told within the last minute
        case RenewalDelayed(error=error, remaining=remaining):
            left = about(remaining)
            line = f"{election} was not renewed, its lease lasts {left} more: {reason_of(error)}"
        case AttemptDelayed(error=error, retry_in=pause):
            when = f"next try in {about(pause)}"
            line = f"no election of {election} by {where}, {when}: {reason_of(error)}"
        case OutageEnded(duration=duration):
            line = f"the server answers again for {election}, after {about(duration)}"
        case ReleaseFailed(error=error):
            line = f"the seat of {election} could not be given back, and frees itself: {error}"
        case TermStarted(seat=seat, fence=fence) if terms:
            line = f"leading {election}, seat {seat}, fence {fence}"
        case TermEnded(duration=duration) if terms:
            line = f"no longer leading {election}, after {about(duration)}"
        case _:
            pass
    return line
