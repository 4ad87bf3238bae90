"""Errors without passwords in their texts.

redis-py describes its connections with all their options, and a server repeats the arguments of a
command that it does not know, AUTH among them.
"""

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

E = TypeVar("E", bound=BaseException)

HIDDEN: Final = "***"

_SECRET: Final = ("password", "ssl_password")
_REPEATED: Final = re.compile(r",? with args beginning with:.*", re.DOTALL)


def discreet(error: E, source: object = None) -> E:
    """Return `error`, or a copy of it that shows no secret of `source`, a client or a pool.

    The copy has no cause and no context, which may show the secret, too.
    """
    secrets = tuple(secrets_of(source))
    if all(_clean(str(each), secrets) == str(each) for each in _chain(error)):
        return error
    clean = copy.copy(error)
    clean.args = (_clean(str(error), secrets), *error.args[1:])
    clean.__cause__, clean.__suppress_context__ = None, True
    return clean


def secrets_of(source: Any) -> Iterator[str]:
    """The passwords with which a client of redis-py, or a pool, logs in."""
    pool = getattr(source, "connection_pool", source)
    ask = getattr(source, "get_connection_kwargs", None)  # a cluster's client
    manager = getattr(pool, "sentinel_manager", None)
    options = (
        getattr(pool, "connection_kwargs", None),
        None if ask is None else ask(),
        getattr(manager, "sentinel_kwargs", None),
    )
    for each in options:
        yield from _passwords(each or {})


def _passwords(options: Mapping[str, Any]) -> Iterator[str]:
    provider = options.get("credential_provider")
    for found in (*(options.get(name) for name in _SECRET), getattr(provider, "password", None)):
        text = found.decode(errors="replace") if isinstance(found, bytes) else found
        if isinstance(text, str) and text:
            yield text


def _clean(text: str, secrets: Iterable[str]) -> str:
    text = _REPEATED.sub("", text)
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """It, and what it was raised from, as a traceback shows it."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
