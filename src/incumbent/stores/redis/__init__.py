"""Leases on a Redis or Valkey server. The only room of the library that imports redis."""

from incumbent.stores.redis.store import Client, RedisStore
from incumbent.stores.redis.twin import SyncClient, twin_of

__all__ = ["Client", "RedisStore", "SyncClient", "twin_of"]
