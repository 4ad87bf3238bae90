"""Takes the fixtures of `promises.fixtures`."""

from promises.fixtures import elector, journal

__all__ = ["elector", "journal"]
