"""What the commands have to say on stderr: one line for each thing that a person should know."""

from incumbent import Skipped
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
from incumbent.stores.redis.faults import reason as reason_of


def not_elected(name: str, skipped: Skipped) -> str:
    """Why the program did not run."""
    if skipped.reason == "already_ran":
        return f"not run: {name!r} has been run in this period"
    holder = skipped.holder
    if holder is None:
        return f"not run: others are due to lead {name!r}"
    if holder.retained:
        return f"not run: {name!r} was just led by {holder.leader_id}, and its seat is still kept"
    return f"not run: {holder.leader_id} leads {name!r}"


def news(event: Event, *, terms: bool) -> str:
    """What `event` means; empty when it is not worth a line. `terms`: also that terms come and go.

    Errors of a server name no password; what else they say is for the person who runs it.
    """
    election, line = repr(event.election), ""
    match event:
        case TermLost(reason=reason, detail=detail):
            line = f"leadership of {election} lost: {reason}{f' ({detail})' if detail else ''}"
        case RenewalDelayed(repeated=True) | AttemptDelayed(repeated=True):
            pass  # it was told within the last minute
        case RenewalDelayed(error=error, remaining=remaining):
            line = f"{election} not renewed, {remaining:.1f} s are left: {reason_of(error)}"
        case AttemptDelayed(error=error, retry_in=pause):
            line = f"no election of {election}, again in {pause:.1f} s: {reason_of(error)}"
        case OutageEnded(duration=duration):
            line = f"the server answers again for {election}, after {duration:.1f} s"
        case ReleaseFailed(error=error):
            line = f"the seat of {election} frees itself, it could not be given back: {error}"
        case TermStarted(seat=seat, fence=fence) if terms:
            line = f"leading {election}, seat {seat}, fence {fence}"
        case TermEnded(duration=duration) if terms:
            line = f"no longer leading {election}, after {duration:.1f} s"
        case _:
            pass
    return line
