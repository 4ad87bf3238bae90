"""From the URL that a command was given to a client that an elector can use."""

import re
from typing import Final

from incumbent.cli.endings import UnavailableError, mistake
from incumbent.stores.redis import Client, ServerError, discreet, faults, fitness, whereabouts
from incumbent.stores.redis.urls import client_of

DEFAULT_URL: Final = "redis://localhost:6379"

TLS_ALERT: Final = r'"\x15"'
"""What redis-py says that an answer began with, where TLS was to be spoken."""

CONNECTING: Final = re.compile(r"Error( -?\d+)? connecting to ")
"""What it says where there was not even a connection."""


def connect(url: str) -> Client:
    """A client of the server at `url`; nothing is sent yet.

    Raises:
        MistakeError: this is no URL of a server.
    """
    try:
        return client_of(url)
    except ValueError as error:
        raise mistake(error) from None


def unavailable(error: ServerError, client: Client) -> UnavailableError:
    """What ends a command to which `client`'s server gave this error; it shows no password."""
    said = " ".join(faults.reason(discreet(error, client)).split())
    where, advice = whereabouts.described(client), advice_on(error, client)
    end = f"; {advice}" if advice else ""
    return UnavailableError(f"{where} does not answer as it should: {said.rstrip('.')}{end}")


def advice_on(error: Exception, client: Client) -> str:
    """What to look at; '' if that is clear."""
    if faults.kind(error) in {*fitness.REFUSALS, "NOPERM"}:
        return "'incumbent doctor' says what to do"
    if faults.garbled(error):
        wants_tls = TLS_ALERT in str(error)
        return (
            "it speaks TLS: use rediss://" if wants_tls else "look whether host and port are right"
        )
    by_tls = whereabouts.by_tls(client)
    if by_tls is None or not faults.unreached(error):
        return ""
    return _look_there(str(error), by_tls=by_tls)


def _look_there(said: str, *, by_tls: bool) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return "name the authority that signed its certificate by ?ssl_ca_certs=FILE"
    if by_tls:
        return "look whether it runs there, and speaks TLS (redis:// is without)"
    if CONNECTING.match(said):
        return "look whether it runs there"
    return "look whether it runs there, and whether it wants TLS (rediss://)"


def reason(error: Exception, client: Client) -> str:
    """What `client`'s server said, or why there was no answer: one line that shows no password."""
    return " ".join(str(discreet(error, client)).split())
