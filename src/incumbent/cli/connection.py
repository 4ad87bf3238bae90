"""From a URL to a client that an elector can use."""

from incumbent.cli.endings import UnavailableError
from incumbent.stores.redis import Client


def connect(url: str) -> Client:
    """A client of the server at `url`; nothing is sent yet.

    Raises:
        UnavailableError: this is no URL of a server.
    """
    try:
        return Client.from_url(url)  # pyright: ignore[reportUnknownMemberType] # redis-py's gap
    except ValueError as error:
        raise UnavailableError(str(error)) from error
