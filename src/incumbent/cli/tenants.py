"""Names of elections as the command line takes them, those of tenants included."""

from typing import TypeVar
from urllib.parse import unquote

from incumbent import GroupElector, StrategicElector

E = TypeVar("E", GroupElector, StrategicElector)


def election(elector: E, name: str) -> tuple[E, str]:
    """The elector of `elector`'s family that `name` belongs to, and the name that it has there.

    Elections of tenants are written as the server has them: ``@acme:reports``, and ``%3A`` for a
    colon in a tenant's name.

    Raises:
        ValueError: no election can be called this.
    """
    rest = name
    while rest.startswith("@"):
        tenant, colon, rest = rest[1:].partition(":")
        if not colon:
            raise ValueError(f"an election of a tenant is written @TENANT:NAME, not {name!r}")
        elector = elector.for_tenant(unquote(tenant))
    elector.is_leading(rest)  # which checks the name
    return elector, rest
