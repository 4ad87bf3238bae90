"""From the URL that a command was given to a client that an elector can use."""

from typing import Final

from incumbent.cli.endings import UnavailableError, mistake
from incumbent.stores.redis import Client, ServerError, discreet, faults, fitness
from incumbent.stores.redis.urls import client_of

DEFAULT_URL: Final = "redis://localhost:6379"


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
    sick = faults.kind(error) in {*fitness.REFUSALS, "NOPERM"}
    advice = "; 'incumbent doctor' says what to do" if sick else ""
    return UnavailableError(f"the server does not answer as it should: {said}{advice}")


def reason(error: Exception, client: Client) -> str:
    """What `client`'s server said, or why there was no answer: one line that shows no password."""
    return " ".join(str(discreet(error, client)).split())
