"""What facts about a server mean for elections, and what to do about it. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from incumbent.durations import about, exact
from incumbent.stores.redis import fitness
from incumbent.stores.redis.facts import CONNECTING, NO_ANSWER, TRIES, Facts, Trouble
from incumbent.stores.redis.fitness import Finding

OLDEST: Final = (6, 2)
MANY_NAMES: Final = 1_000_000
LONG_LINE: Final = 10_000
MANY_CANDIDATES: Final = 1_000

SHOWN: Final = 5
"""How many keys are named."""


NEEDED: Final = frozenset({*TRIES, "SUBSCRIBE"})
"""The commands that elections need."""

ANSWERED: Final = NEEDED - {"EVALSHA", "HSET", "SET", "ZADD"}
"""Those but for what is tried in a way that always ends in a complaint."""

NOT_ALLOWED: Final = frozenset({"NOPERM", "UNKNOWN"})


def judge(facts: Facts, lease: float) -> list[Finding]:
    """All findings, for electors with this lease time."""
    if facts.trouble(CONNECTING) is not None:
        return [*_refusals(facts)]
    return [
        *_version(facts),
        *_answers(facts, lease),
        *_refusals(facts),
        *fitness.eviction(facts.info),
        *_replication(facts, lease),
        *fitness.persistence(facts.info, facts.config),
        *_rights(facts),
        *_clock(facts),
        *_messages(facts),
        *_keys(facts),
        *_sizes(facts),
    ]


def _version(facts: Facts) -> Iterator[Finding]:
    info = facts.info
    if not info:
        yield Finding(
            "server",
            "note",
            _unknown(facts, "INFO"),
            "version, memory, replication and persistence were not looked at",
            "let this user run INFO, or ask as another one",
        )
        return
    valkey = info.get("valkey_version")
    shown = f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', '?')}"
    if _parts(info.get("redis_version", "")) < OLDEST:
        means, advice = "the scripts need Redis 6.2 or later", "upgrade the server"
        yield Finding("server", "wrong", shown, means, advice)
    else:
        yield Finding("server", "ok", shown)
    if info.get("cluster_enabled"):
        yield Finding(
            "server",
            "note",
            "it is a node of a cluster",
            "only the elections in its slots are looked at",
            "look at the other primaries as well; give electors a cluster client",
        )


def _answers(facts: Facts, lease: float) -> Iterator[Finding]:
    if facts.round_trip is None:
        means, advice = "round trips were not measured", "let this user run PING"
        yield Finding("latency", "note", _unknown(facts, "PING"), means, advice)
        return
    found = f"{about(facts.round_trip)} for a round trip"
    if facts.round_trip > lease / 6:
        means = f"a renewal has {about(lease / 6)} at most with a lease of {exact(lease)}"
        yield Finding("latency", "wrong", found, means, "use a longer lease, or a nearer server")
    else:
        yield Finding("latency", "ok", found)


def _replication(facts: Facts, lease: float) -> Iterator[Finding]:
    info = facts.info
    if not info:
        return
    if info.get("role") == "slave":
        yield Finding(
            "replication",
            "wrong",
            "this is a replica",
            "it cannot be written to: nobody is elected here",
            "use the primary's URL, or redis+sentinel://",
        )
        return
    replicas = int(info.get("connected_slaves", 0))
    if replicas:
        means = (
            "a failover may forget the last writes: two may lead until the next renewal;"
            " the fence tells them apart"
        )
        advice = "hand the fence to whatever you write to"
        yield Finding("replication", "note", f"{replicas} replicas, asynchronous", means, advice)
    else:
        yield Finding("replication", "ok", "no replicas")
    yield from fitness.least_replicas(facts.info, facts.config, lease)


_TROUBLES: Final[dict[str, Finding]] = {
    "silent": Finding(
        "answers",
        "wrong",
        "none to {commands}",
        "such a request costs all the time that it has, and then fails",
        "look for a proxy that does not pass it; SLOWLOG GET shows what takes long",
    ),
    "unasked": Finding(
        "answers", "note", "not asked: {commands}", "{said}", "ask again when it answers"
    ),
    "cut": Finding(
        "connection",
        "wrong",
        "lost at {commands}: {said}",
        "such a request is sent again, and fails if that is always so",
        "look at the server's log, and for a proxy that does not pass it",
    ),
    "MOVED": Finding(
        "server",
        "note",
        "no slot of this node was found",
        "what it refuses was not looked at",
        "look at a node that has slots",
    ),
}
"""By the kind of trouble."""


def _refusals(facts: Facts) -> Iterator[Finding]:
    """What had no proper answer, but for rights that are missing."""
    replica = facts.info.get("role") == "slave"
    for kind, troubles in _by_kind(facts.troubles).items():
        if replica and kind in {"READONLY", "MOVED"}:
            continue  # it is told that this is one
        commands, said = _some(_commands(troubles)), _said(troubles[0])
        if kind in fitness.REFUSALS:
            yield Finding("refused", "wrong", f"{commands}: {said}", *fitness.REFUSALS[kind])
        elif kind in _TROUBLES:
            words = {"commands": commands, "said": said}
            about, level, *rest = _TROUBLES[kind]
            yield Finding(about, level, *(each.format_map(words) for each in rest))
        elif kind in NOT_ALLOWED:
            if troubles[0].command == CONNECTING:
                advice = "give this user the right, or change the URL"
                yield Finding("rights", "wrong", said, "nobody can connect in this way", advice)
        else:
            for command in _commands(each for each in troubles if each.command in ANSWERED):
                found = f"{command}: {said}"
                means, advice = "elections need it, and fail", "ask whoever runs the server"
                yield Finding("refused", "wrong", found, means, advice)


def _by_kind(troubles: Iterable[Trouble]) -> dict[str, list[Trouble]]:
    kinds: dict[str, list[Trouble]] = {}
    for each in troubles:
        kinds.setdefault(each.kind, []).append(each)
    return kinds


def _commands(troubles: Iterable[Trouble]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.command for each in troubles))


def _said(trouble: Trouble) -> str:
    """What the server said, with the word in front, which redis-py may have taken away."""
    kind, said = trouble.kind, trouble.said
    return f"{kind} {said}" if kind in fitness.REFUSALS and kind not in said else said


def _rights(facts: Facts) -> Iterator[Finding]:
    needed = [each for each in facts.troubles if each.command in NEEDED]
    unknown = _commands(each for each in needed if each.kind == "UNKNOWN")
    refused = _commands(each for each in needed if each.kind == "NOPERM")
    if unknown:
        means = "the server does not know them: elections fail"
        advice = "use a server on which they are neither renamed nor left out"
        yield Finding("commands", "wrong", f"missing: {' '.join(unknown)}", means, advice)
    if not refused:
        if all(each.kind not in {*NO_ANSWER, "MOVED"} for each in needed):
            yield Finding("rights", "ok", "all that are needed")
    elif set(refused) <= {"PUBLISH", "SUBSCRIBE"}:
        means = "nobody hears that a seat is free: waiters and watchers have to look for it"
        yield Finding("rights", "wrong", f"missing: {' '.join(refused)}", means, _RULE)
    else:
        means = "elections fail with NOPERM, some of them half-way"
        yield Finding("rights", "wrong", f"missing: {' '.join(refused)}", means, _RULE)


_RULE: Final = "ACL SETUSER name ~PREFIX:* &PREFIX:* and, with a plus, the commands above"


def _clock(facts: Facts) -> Iterator[Finding]:
    if facts.ahead is None:
        means, advice = "the clocks were not compared", "let the server answer TIME"
        yield Finding("clock", "note", _unknown(facts, "TIME"), means, advice)
        return
    side = "ahead of" if facts.ahead > 0 else "behind"
    found = f"{about(abs(facts.ahead))} {side} ours"
    if facts.strayed > 0.01 * facts.watched + (facts.round_trip or 0.0) + 0.02:
        yield Finding(
            "clock",
            "wrong",
            f"it went {about(facts.strayed)} apart from ours within {about(facts.watched)}",
            "leases end by the server's clock: when that steps forward, two may lead",
            "let it be slewed, not stepped (chrony, ntpd -x), on both machines",
        )
    elif abs(facts.ahead) > 1:
        means = "once_per and schedules go by the server's clock; leases do not care"
        yield Finding("clock", "note", found, means, "set both by NTP")
    else:
        yield Finding("clock", "ok", found)


def _messages(facts: Facts) -> Iterator[Finding]:
    if facts.heard:
        yield Finding("pub/sub", "ok", "a message came back")
    else:
        means = "waiters look every 0.1 to 0.3 s instead of being woken, and order is best effort"
        advice = "allow SUBSCRIBE and PUBLISH; look for a proxy that does not pass them"
        yield Finding("pub/sub", "wrong", "a message did not come back", means, advice)


def _keys(facts: Facts) -> Iterator[Finding]:
    if facts.unscanned:
        means = "the other keys were not looked at: some may have no end, or be corrupt"
        advice = "let this user run SCAN, TYPE and PTTL; else see what is said above"
        found = f"{facts.keys} were looked at, then {facts.unscanned}"
        yield Finding("keys", "note", found, means, advice)
    if facts.lasting:
        means = "they stay for ever: somebody else's, or an end that was taken away"
        advice = "look at each; PEXPIRE what is a seat with its lease time, DEL what is foreign"
        yield Finding("keys", "wrong", f"no end: {_some(facts.lasting)}", means, advice)
    if facts.corrupt:
        means = "their elections fail, or leave those candidates out"
        advice = "find out who writes there; stop all candidates, then DEL the key"
        yield Finding("keys", "wrong", f"corrupt: {_some(facts.corrupt)}", means, advice)
    if facts.ahead_of_time:
        yield Finding(
            "keys",
            "wrong",
            f"from a clock that was ahead: {_some(facts.ahead_of_time)}",
            "the server's clock was set back. The TTL of such a seat is cut to what was asked for"
            " when its holder renews it, or when another candidate asks for the seat; such a period"
            " counts as run until the next one begins",
            "keep the server's clock by NTP, slewed, not stepped; a try for the seat cuts its TTL",
        )
    if not (facts.lasting or facts.corrupt or facts.ahead_of_time or facts.unscanned):
        yield Finding("keys", "ok", f"{facts.keys}, each with a TTL, and none corrupt")


def _sizes(facts: Facts) -> Iterator[Finding]:
    """Numbers that should not become too large: see docs/capacity.md."""
    if facts.unscanned:
        return
    yield _size(
        "names",
        facts.names > MANY_NAMES,
        f"{facts.names:,}, each led within a day",
        f"each name takes some 105 bytes for a day: {facts.names * 105e-6:,.0f} MB now",
        "name an election after the job, not after its run",
    )
    yield _size(
        "line",
        facts.waiting > LONG_LINE,
        f"at most {facts.waiting:,} wait for one election",
        "the death of a waiting process keeps the server busy for some milliseconds",
        "let fewer wait in line: one in each process",
    )
    yield _size(
        "candidates",
        facts.candidates > MANY_CANDIDATES,
        f"at most {facts.candidates:,} in one election",
        "each look reads all of them: milliseconds of the server, and many more of a process",
        "let fewer nodes be candidates",
    )


def _size(about: str, many: bool, found: str, means: str, advice: str) -> Finding:  # noqa: FBT001
    return Finding(about, "note", found, means, advice) if many else Finding(about, "ok", found)


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _unknown(facts: Facts, command: str) -> str:
    """Why it is not known what `command` says."""
    trouble = facts.trouble(command)
    if trouble is None:
        return f"{command} said nothing"
    if trouble.kind == "NOPERM":
        return f"{command} is not allowed to this user"
    return f"{command}: {_said(trouble)}"


def _parts(version: Any) -> tuple[int, ...]:
    numbers = [int(part) for part in str(version).split(".")[:2] if part.isdigit()]
    return tuple(numbers)
