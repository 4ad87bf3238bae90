"""What `candidates` does: who stands, and whom a strategy would choose."""

import importlib
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

from incumbent.cli.asking import Where, ask, asking_candidates
from incumbent.cli.elections.absent import absent
from incumbent.cli.endings import MistakeError
from incumbent.cli.output import say, tell, tell_json
from incumbent.cli.tenants import election
from incumbent.durations import age
from incumbent.events import Event, RecordsUnreadable, StrategiesDiffer
from incumbent.printable import printable
from incumbent.strategy import Candidate, ElectionResult, Fifo, Strategy


def candidates(where: Where, name: str, spelled: str | None, *, as_json: bool) -> None:
    """Show who stands for `name`, in the strategy's order if there is one."""
    strategy = None if spelled is None else strategy_of(spelled)

    def told(event: Event) -> None:
        if isinstance(event, RecordsUnreadable):
            say(f"records that cannot be read: {', '.join(map(repr, event.nodes))}")
        if isinstance(event, StrategiesDiffer) and strategy is not None:
            say(f"these go by another strategy: {', '.join(map(repr, event.nodes))}")

    async def question(where: Where) -> ElectionResult:
        async with asking_candidates(where, strategy or Fifo(), [told]) as family:
            elector, its_name = election(family, name)
            if strategy is not None:
                return await elector.elect(its_name)
            return ElectionResult.of(await elector.candidates(its_name))

    result = ask(where, question)
    values = [_value(each, result, ranked=strategy is not None) for each in result.ranking]
    if as_json:
        tell_json({"name": name, "candidates": values})
        return
    for value in values:
        for line in _lines(value, datetime.now(UTC)):
            tell(line)
    if not values:
        say(absent(where, [name]).get(name, f"nobody stands for {name!r}"))


def strategy_of(spelled: str) -> Strategy:
    """The strategy at ``module:name``; a class is called without arguments.

    Raises:
        MistakeError: there is none.
    """
    module, _, path = spelled.partition(":")
    if not (module and path):
        raise MistakeError(f"a strategy is spelled module:name, not {spelled!r}")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as python -m has it
    try:
        found: Any = importlib.import_module(module)
        for word in path.split("."):
            found = getattr(found, word)
        if isinstance(found, type):
            found = found()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise MistakeError(f"no strategy at {spelled!r}: {error}") from None
    if not callable(found):
        raise MistakeError(f"what is at {spelled!r} is no strategy")
    return cast("Strategy", found)


def _value(candidate: Candidate, result: ElectionResult, *, ranked: bool) -> dict[str, Any]:
    node = candidate.node_id
    value: dict[str, Any] = {
        "node_id": node,
        "registered_at": candidate.registered_at,
        "last_started_at": candidate.last_started_at,
        "last_succeeded_at": candidate.last_succeeded_at,
        "last_failed_at": candidate.last_failed_at,
        "successes": candidate.successes,
        "failures": candidate.failures,
        "contending": candidate.contending,
        "early_failures": candidate.early_failures,
        "last_early_failure_at": candidate.last_early_failure_at,
        "metadata": dict(candidate.metadata),
    }
    if ranked:
        value["rank"] = result.rank_of(node)
        value["score"] = result.scores.get(node)
        value["reason"] = result.reasons.get(node)
        value["problem"] = result.problems.get(node)
    return value


def _lines(value: dict[str, Any], now: datetime) -> Iterator[str]:
    told = ", ".join(printable(f"{key}={each}") for key, each in value["metadata"].items())
    score = "" if value.get("score") is None else f"score {value['score']:g}, "
    place = "" if "rank" not in value else f"{value['rank'] + 1}. "
    early = f" ({value['early_failures']} early in a row)" if value["early_failures"] else ""
    stands = "" if value["contending"] else ", not waiting to lead"
    succeeded, failed, since = value["successes"], value["failures"], value["registered_at"]
    yield (
        f"{place}{printable(value['node_id'])}: {score}a candidate for {age(since, now)},"
        f" {succeeded} success{'es' * (succeeded != 1)},"
        f" {failed} failure{'s' * (failed != 1)}{early}{stands}"
    )
    if told:
        yield f"   {told}"
    if "rank" in value:
        yield f"   {printable(value['reason'] or 'the best')}"
    if value.get("problem"):
        yield f"   {printable(value['problem'])}"
