"""The SQL of the guard, for each way in which drivers write parameters. Pure: knows no connection.

One row per resource keeps the highest fence that was seen. PostgreSQL and SQLite know the same
``INSERT ... ON CONFLICT``: it is the compare and the set in one, and the row stays locked until
the transaction ends, so that who comes later waits and then compares with what was committed.
Sources: https://www.postgresql.org/docs/current/sql-insert.html#SQL-ON-CONFLICT,
https://www.sqlite.org/lang_upsert.html, https://peps.python.org/pep-0249/#paramstyle
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from incumbent.kinds import text

CREATE_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS incumbent_fences (resource TEXT PRIMARY KEY, fence BIGINT NOT NULL)"
)
"""The table, for your migrations. It lives as long as what it guards."""

RAISE: Final = (
    "INSERT INTO incumbent_fences (resource, fence) VALUES ({resource}, {fence})"
    " ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence"
    " WHERE incumbent_fences.fence <= excluded.fence"
)
LOOK: Final = "SELECT fence FROM incumbent_fences WHERE resource = {resource}"

STYLES: Final[Mapping[str, tuple[str, str]]] = {
    "qmark": ("?", "?"),
    "format": ("%s", "%s"),
    "numeric": (":1", ":2"),
    "numeric_dollar": ("$1", "$2"),
    "named": (":resource", ":fence"),
    "pyformat": ("%(resource)s", "%(fence)s"),
}
"""How the first and the second parameter are written; "numeric_dollar" is asyncpg's own."""

MAX_FENCE: Final = 2**63 - 1
"""What a BIGINT holds. Our fences stay below 2^53 until the year 2255."""

Parameters: TypeAlias = tuple[Any, ...] | dict[str, Any]


class Statement(NamedTuple):
    """What is handed to a driver."""

    sql: str
    parameters: Parameters


class Guard(NamedTuple):
    """The statements for one write, in a driver's style."""

    advance: Statement
    """Affects one row if the write may go on, none if a higher fence was seen."""
    look: Statement
    """The highest fence that was seen."""


def guard_of(paramstyle: str, resource: str, fence: int) -> Guard:
    """The statements that admit a write to `resource` under `fence`.

    Raises:
        TypeError, ValueError: this is no name of a resource, no fence, or no style.
    """
    check(resource, fence)
    if text("paramstyle", paramstyle) not in STYLES:
        raise ValueError(f"paramstyle must be one of {', '.join(STYLES)}, not {paramstyle!r}")
    first, second = STYLES[paramstyle]
    named = paramstyle in {"named", "pyformat"}
    return Guard(
        Statement(
            RAISE.format(resource=first, fence=second),
            {"resource": resource, "fence": fence} if named else (resource, fence),
        ),
        Statement(LOOK.format(resource=first), {"resource": resource} if named else (resource,)),
    )


def check(resource: object, fence: object) -> None:
    """Raise `TypeError` or `ValueError` unless these are the name of a resource and a fence."""
    if not isinstance(resource, str) or not isinstance(fence, int) or isinstance(fence, bool):
        raise TypeError(
            "resource must be a str and fence an int, "
            f"not {type(resource).__name__} and {type(fence).__name__}"
        )
    if not resource:
        raise ValueError("resource must not be empty")
    if not 0 < fence <= MAX_FENCE:
        raise ValueError(f"fence must be above 0 and at most {MAX_FENCE}, not {fence}")
