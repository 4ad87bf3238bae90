"""Leases on a Redis or Valkey server. The only room of the library that imports redis."""

from redis.exceptions import RedisError as ServerError

from incumbent.stores.redis.discretion import discreet
from incumbent.stores.redis.store import Client, RedisStore

__all__ = ["Client", "RedisStore", "ServerError", "discreet"]
