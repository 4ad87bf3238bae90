"""What elections, tenants, prefixes and leaders may be called; how tenants are kept apart.

Pure: every name goes through here once, before any I/O. Braces would end the cluster's hash tag,
control characters would hide in a terminal, and ``@`` at the start is kept for the names of
tenants.
"""

import re
from functools import lru_cache
from typing import Final

MAX_BYTES: Final = 255
_TENANT_MARK: Final = "@"
_TENANT_END: Final = ":"
_BRACES: Final = re.compile(r"[{}]")
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def election_name(name: str, scope: str = "") -> str:
    """The full name of election `name` within `scope` (what `tenant_scope` gave, or nothing)."""
    return _full_name(_text("an election's name", name), scope)


@lru_cache(maxsize=1024)
def _full_name(name: str, scope: str) -> str:
    _check("an election's name", name)
    if name.startswith(_TENANT_MARK):
        raise ValueError(
            f"an election's name must not begin with '@', which marks tenants: {name!r}"
        )
    return _bounded("an election's name (with its tenant)", scope + name)


def tenant_scope(tenant: str, scope: str = "") -> str:
    """The scope of `tenant` inside `scope`; no two paths of tenants have the same."""
    _check("a tenant's name", tenant)
    escaped = tenant.replace("%", "%25").replace(_TENANT_END, "%3A")
    return _bounded("a tenant's name", f"{scope}{_TENANT_MARK}{escaped}{_TENANT_END}")


def key_prefix(prefix: str) -> str:
    """`prefix`, checked to be fit for the beginning of every key."""
    return _check("the key prefix", prefix)


def leader_name(leader_id: str) -> str:
    """`leader_id`, checked to be fit to be shown as the name of who leads."""
    return _check("leader_id", leader_id)


def node_name(node_id: str) -> str:
    """`node_id`, checked to be fit to name a candidate, and the leader that it may become."""
    return _check("node_id", node_id)


def _text(what: str, name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a str, not {type(name).__name__}")
    return name


def _check(what: str, name: str) -> str:
    if not _text(what, name).strip():
        raise ValueError(f"{what} must not be blank: {name!r}")
    if _BRACES.search(name):
        raise ValueError(
            f"{what} must have no braces, which mark the cluster's hash slot: {name!r}"
        )
    if _CONTROLS.search(name):
        raise ValueError(f"{what} must have no control characters: {name!r}")
    return _bounded(what, name)


def _bounded(what: str, name: str) -> str:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{what} must be text that UTF-8 can carry: {name!r}") from None
    if size > MAX_BYTES:
        raise ValueError(
            f"{what} must have {MAX_BYTES} bytes at most in UTF-8, not {size}: {name[:40]!r}..."
        )
    return name
