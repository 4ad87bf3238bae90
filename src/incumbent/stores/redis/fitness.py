"""What a server's settings mean for leases, and what to do about it. Pure.

Of what INFO and CONFIG say, and of what it refuses. A finding is ``ok``, a ``note`` (a bound that
one should know), or ``wrong``.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

Level: TypeAlias = Literal["ok", "note", "wrong"]
Info: TypeAlias = Mapping[str, Any]
"""What INFO says: numbers as numbers."""
Config: TypeAlias = Mapping[str, str]

REFUSALS: Final[Mapping[str, tuple[str, str]]] = {
    "MISCONF": (
        "it cannot save: nobody is elected, and no lease is renewed",
        "look at its log, make room on its disk, and see that BGSAVE succeeds",
    ),
    "OOM": (
        "its memory is full: nobody is elected; who leads goes on",
        "give it more memory, or less to keep",
    ),
    "NOREPLICAS": (
        "too few replicas are in time: nobody is elected, and no lease is renewed",
        "bring the replicas back, or set min-replicas-to-write to what there are",
    ),
    "READONLY": (
        "this is a replica: nobody is elected here",
        "use the primary's URL, or redis+sentinel://",
    ),
    "LOADING": (
        "it is reading its data: nobody is elected, and no lease is renewed, until it has",
        "wait; INFO persistence says how long it will take (loading_eta_seconds)",
    ),
    "BUSY": (
        "somebody's script keeps it from answering: nobody is elected, and no lease is renewed",
        "end the script by SCRIPT KILL, and find out whose it is",
    ),
    "MASTERDOWN": (
        "this is a replica that has lost its primary: nobody is elected here",
        "use the primary's URL, or redis+sentinel://; bring the primary back",
    ),
    "CLUSTERDOWN": (
        "the cluster does not serve these keys: nobody is elected, and no lease is renewed",
        "bring back the nodes that CLUSTER INFO and CLUSTER NODES show to be missing",
    ),
}
"""What an error of the server means that begins with such a word, and what to do."""


class Finding(NamedTuple):
    """One thing that was looked at."""

    about: str
    level: Level
    found: str
    means: str = ""
    advice: str = ""


def eviction(info: Info) -> Iterator[Finding]:
    """What becomes of leases when memory is short."""
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


def least_replicas(info: Info, config: Config, lease: float) -> Iterator[Finding]:
    """What becomes of leases on a primary that is cut off from its replicas."""
    replicas = int(info.get("connected_slaves", 0))
    least = int(config.get("min-replicas-to-write", "0"))
    lag = int(config.get("min-replicas-max-lag", "0"))
    if not config or not (least or replicas):
        return
    good = int(info.get("min_slaves_good_slaves", replicas))
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


def persistence(info: Info, config: Config) -> Iterator[Finding]:
    """What becomes of leases when the server restarts."""
    if "aof_enabled" not in info:
        return
    for name in ("rdb_last_bgsave_status", "aof_last_write_status"):
        if info.get(name, "ok") != "ok":
            means = "the server may refuse writes (MISCONF): nobody is elected then"
            yield Finding("persistence", "wrong", f"{name}: {info[name]}", means, "look at its log")
    sync, save = config.get("appendfsync"), config.get("save")
    if not info["aof_enabled"]:
        kept = f"no append-only file, snapshots only (save {save})" if save else "nothing is kept"
        yield Finding(
            "persistence",
            "note",
            "no append-only file" if save is None else kept,  # None: nobody has asked, or may
            "a restart forgets leases: two may lead until the next renewal; fences still grow",
            "set appendonly yes (and appendfsync always), or keep the server down for a lease time",
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
