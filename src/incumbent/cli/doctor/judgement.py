"""What facts about a server mean for elections, and what to do about it. Pure.

A finding is ``ok``, a ``note`` (a bound that one should know), or ``wrong``.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from incumbent.stores.redis.facts import Facts

Level: TypeAlias = Literal["ok", "note", "wrong"]

OLDEST: Final = (6, 2)
SHOWN: Final = 5
"""How many keys are named."""


class Finding(NamedTuple):
    """One thing that was looked at."""

    about: str
    level: Level
    found: str
    means: str = ""
    advice: str = ""


def judge(facts: Facts, lease: float) -> list[Finding]:
    """All findings, for electors with this lease time."""
    return [
        *_version(facts),
        *_answers(facts, lease),
        *_memory(facts),
        *_replication(facts, lease),
        *_persistence(facts),
        *_rights(facts),
        *_clock(facts),
        *_messages(facts),
        *_keys(facts),
    ]


def _version(facts: Facts) -> Iterator[Finding]:
    info = facts.info
    if not info:
        yield Finding(
            "server",
            "note",
            "INFO is not allowed to this user",
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
    found = f"{facts.round_trip * 1000:.1f} ms for a round trip"
    if facts.round_trip > lease / 6:
        means = f"a renewal has {lease / 6:.2g} s at most with a lease of {lease:g} s"
        yield Finding("latency", "wrong", found, means, "use a longer lease, or a nearer server")
    else:
        yield Finding("latency", "ok", found)


def _memory(facts: Facts) -> Iterator[Finding]:
    info = facts.info
    if "maxmemory_policy" not in info:
        return
    policy, most = str(info["maxmemory_policy"]), int(info.get("maxmemory", 0))
    found = f"{policy}, {'no limit' if not most else f'{most} bytes at most'}"
    if policy != "noeviction":
        yield Finding(
            "eviction",
            "wrong" if most else "note",
            found,
            "a full server throws leases away: their work is stopped, and others may lead sooner",
            "set maxmemory-policy noeviction, or use a server of its own",
        )
    elif most and int(info.get("used_memory", 0)) > 0.9 * most:
        means = "nearly full: nobody can be elected when it is; who leads goes on"
        yield Finding("eviction", "wrong", found, means, "give it more memory, or less to keep")
    else:
        yield Finding("eviction", "ok", found)


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
    yield from _least_replicas(facts, lease, replicas)


def _least_replicas(facts: Facts, lease: float, replicas: int) -> Iterator[Finding]:
    least = int(facts.config.get("min-replicas-to-write", "0"))
    lag = int(facts.config.get("min-replicas-max-lag", "0"))
    if not facts.config or not (least or replicas):
        return
    good = int(facts.info.get("min_slaves_good_slaves", replicas))
    found = f"min-replicas-to-write {least}, min-replicas-max-lag {lag} s"
    if good < least:
        means = f"only {good} replicas are in time: the server refuses writes, nobody is elected"
        yield Finding("min-replicas", "wrong", found, means, "bring the replicas back")
    elif not least:
        yield Finding(
            "min-replicas",
            "note",
            found,
            "a primary that is cut off goes on electing, beside the one that took over",
            f"set min-replicas-to-write 1 and a max-lag of {max(1, int(lease / 3))} s at most",
        )
    elif not lag or lag > lease / 3:
        yield Finding(
            "min-replicas",
            "wrong",
            found,
            f"a cut-off primary renews leases that long: more than a renewal ({lease / 3:.2g} s)",
            f"set min-replicas-max-lag {max(1, int(lease / 3))} at most, or use a longer lease",
        )
    else:
        yield Finding("min-replicas", "ok", found)


def _persistence(facts: Facts) -> Iterator[Finding]:
    info = facts.info
    if "aof_enabled" not in info:
        return
    for name in ("rdb_last_bgsave_status", "aof_last_write_status"):
        if info.get(name, "ok") != "ok":
            means = "the server may refuse writes (MISCONF): nobody is elected then"
            yield Finding("persistence", "wrong", f"{name}: {info[name]}", means, "look at its log")
    sync, save = facts.config.get("appendfsync"), facts.config.get("save", "")
    if not info["aof_enabled"]:
        kept = f"no append-only file, snapshots only (save {save})" if save else "nothing is kept"
        yield Finding(
            "persistence",
            "note",
            kept if facts.config else "no append-only file",
            "a restart forgets leases: two may lead until the next renewal; fences still grow",
            "set appendonly yes (and appendfsync always), or keep it down for a lease time",
        )
    elif sync in {None, "always"}:
        yield Finding("persistence", "ok", f"append-only file{f', fsync {sync}' if sync else ''}")
    else:
        yield Finding(
            "persistence",
            "note",
            f"append-only file, fsync {sync}",
            "a machine that loses power forgets the last writes: two may lead until the next"
            " renewal; fences still grow",
            "set appendfsync always, or keep the server down for a lease time after a power cut",
        )


def _rights(facts: Facts) -> Iterator[Finding]:
    refused = facts.refused
    if not refused:
        yield Finding("rights", "ok", "all that are needed")
    elif set(refused) <= {"PUBLISH", "SUBSCRIBE"}:
        means = "nobody hears that a seat is free: waiters and watchers have to look for it"
        yield Finding("rights", "wrong", f"missing: {' '.join(refused)}", means, _RULE)
    else:
        means = "elections fail with NOPERM, some of them half-way"
        yield Finding("rights", "wrong", f"missing: {' '.join(refused)}", means, _RULE)


_RULE: Final = "ACL SETUSER name ~PREFIX:* &PREFIX:* and, with a plus, the commands above"


def _clock(facts: Facts) -> Iterator[Finding]:
    side = "ahead of" if facts.ahead > 0 else "behind"
    found = f"{abs(facts.ahead):.3f} s {side} ours"
    if facts.strayed > 0.01 * facts.watched + facts.round_trip + 0.02:
        yield Finding(
            "clock",
            "wrong",
            f"it went {facts.strayed:.3f} s apart from ours within {facts.watched:.1f} s",
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
    if not facts.scanned:
        means = "keys without an end, and corrupt ones, were not looked for"
        yield Finding("keys", "note", "SCAN is not allowed to this user", means, "allow SCAN")
        return
    if facts.lasting:
        means = "they stay for ever: somebody else's, or an end that was taken away"
        advice = "look at each; PEXPIRE what is a seat with its lease time, DEL what is foreign"
        yield Finding("keys", "wrong", f"no end: {_some(facts.lasting)}", means, advice)
    if facts.corrupt:
        means = "their elections fail, or leave those candidates out"
        advice = "find out who writes there; stop all candidates, then DEL the key"
        yield Finding("keys", "wrong", f"corrupt: {_some(facts.corrupt)}", means, advice)
    if not (facts.lasting or facts.corrupt):
        yield Finding("keys", "ok", f"{facts.keys}, each with an end and as it should be")


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _parts(version: Any) -> tuple[int, ...]:
    numbers = [int(part) for part in str(version).split(".")[:2] if part.isdigit()]
    return tuple(numbers)
