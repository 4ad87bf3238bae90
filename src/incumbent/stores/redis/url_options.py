"""The options in a server's URL: which there are, what they mean, and for which kind of URL.

No message shows what was written there: there may be a password in it.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from ssl import TLSVersion
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)

SENTINELS: Final = "sentinel_"
"""What the options for Sentinels themselves begin with."""


class OptionError(ValueError):
    """An option cannot be used; the message shows nothing of the URL."""


def _whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) >= least):
            raise ValueError
        return int(text)

    return parse


def _one_of(values: Mapping[str, Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if text.lower() not in values:
            raise ValueError
        return values[text.lower()]

    return parse


def _span(text: str) -> float:
    number = float(text)
    if not (math.isfinite(number) and number > 0):
        raise ValueError
    return number


def _some_text(text: str) -> str:
    if not text:
        raise ValueError
    return text


_Option: TypeAlias = tuple[Callable[[str], Any], str]
"""What reads a value, and the message for one that it cannot read."""

_TEXT: Final = (_some_text, "must not be empty")
_SECONDS: Final = (_span, "must be a number of seconds above 0")
_BOOLEAN: Final = (
    _one_of({"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}),
    "must be true or false",
)

_SERVER: Final[dict[str, _Option]] = {
    "client_name": _TEXT,
    "db": (_whole(0), "must be the number of a database"),
    "decode_responses": _BOOLEAN,
    "encoding": _TEXT,
    "encoding_errors": _TEXT,
    "health_check_interval": (_whole(0), "must be a whole number"),
    "max_connections": (_whole(1), "must be a whole number above 0"),
    "password": _TEXT,
    "protocol": (_one_of({"2": 2, "3": 3}), "must be 2 or 3"),
    "retry_on_timeout": _BOOLEAN,
    "socket_connect_timeout": _SECONDS,
    "socket_keepalive": _BOOLEAN,
    "socket_timeout": _SECONDS,
    "username": _TEXT,
}
_TLS: Final[dict[str, _Option]] = {
    "ssl_ca_certs": _TEXT,
    "ssl_ca_data": _TEXT,
    "ssl_ca_path": _TEXT,
    "ssl_cert_reqs": (
        _one_of({each: each for each in ("none", "optional", "required")}),
        "must be none, optional or required",
    ),
    "ssl_certfile": _TEXT,
    "ssl_check_hostname": _BOOLEAN,
    "ssl_ciphers": _TEXT,
    "ssl_keyfile": _TEXT,
    "ssl_min_version": (
        _one_of({"1.2": TLSVersion.TLSv1_2, "1.3": TLSVersion.TLSv1_3}),
        "must be 1.2 or 1.3",
    ),
    "ssl_password": _TEXT,
}
_ONLY_SERVER: Final = frozenset(
    {"db", "decode_responses", "encoding", "encoding_errors", "health_check_interval"}
    | {"max_connections", "retry_on_timeout"}
)
"""Not for Sentinels: these have no databases, and each is asked once, by one connection."""

_OPTIONS: Final = {**_SERVER, **_TLS, "ssl": _BOOLEAN}


def read(query: str, known: Sequence[str], *, tls: bool) -> dict[str, Any]:
    """The options in `query`, by name.

    Raises:
        OptionError: one is not `known` here, is given twice, or has a value that means nothing; or
            one is about TLS, and there is no `tls`.
    """
    options: dict[str, Any] = {}
    for name, value in _pairs(query):
        if name not in known:
            raise OptionError(_unknown(name, known))
        if name in options:
            raise OptionError(f"{name} is given twice")
        parse, must = _OPTIONS[name.removeprefix(SENTINELS)]
        try:
            options[name] = parse(value)
        except ValueError:
            raise OptionError(f"{name} {must}") from None
    _refuse_tls(options, "", on=tls)
    return options


def _pairs(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []


def _refuse_tls(options: Mapping[str, Any], prefix: str, *, on: bool) -> None:
    for name in options:
        if not on and name.startswith(f"{prefix}ssl_"):
            raise OptionError(
                f"{name} needs TLS: rediss://, rediss+sentinel:// or rediss+cluster://"
            )


def _unknown(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    some = sorted(each for each in known if not each.startswith(SENTINELS))
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(some)}"
    return f"an option in it is not known; {hint}"


def of_server(*, unix: bool = False) -> list[str]:
    """The options of one server's URL that this release of redis-py knows."""
    kind = UnixDomainSocketConnection if unix else SSLConnection
    parents = (kind.__init__, AbstractConnection.__init__, ConnectionPool.__init__)
    names = set[str]().union(*(_parameters(each) for each in parents))
    if not unix:
        names |= _parameters(Connection.__init__)
    return [name for name in (*_SERVER, *_TLS) if name in names]


def of_cluster(make: Callable[..., Any]) -> list[str]:
    """The same for a cluster's, whose client `make` makes. It has one database."""
    return [name for name in of_server() if name in _parameters(make) and name != "db"]


def _parameters(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


def for_sentinels(query: str, *, tls: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options for the server, and those for the Sentinels.

    The latter are those that begin with ``sentinel_``, and, where these say nothing, the server's
    for sockets and TLS.

    Raises:
        OptionError: as in `read`.
    """
    own = [name for name in (*of_server(), "ssl") if name not in _ONLY_SERVER]
    given = read(query, [*of_server(), *(f"{SENTINELS}{name}" for name in own)], tls=tls)
    server = {name: value for name, value in given.items() if not name.startswith(SENTINELS)}
    by_tls = given.get(f"{SENTINELS}ssl", tls)
    _refuse_tls(given, SENTINELS, on=by_tls)
    inherited = ("socket_", "ssl_") if by_tls else ("socket_",)
    sentinels = {name: value for name, value in server.items() if name.startswith(inherited)}
    sentinels |= {
        name.removeprefix(SENTINELS): value
        for name, value in given.items()
        if name.startswith(SENTINELS)
    }
    return server, sentinels | {"ssl": by_tls}
