"""Leases on a Redis or Valkey server. The only room of the library that imports redis."""

from incumbent.stores.redis.store import Client, RedisStore

__all__ = ["Client", "RedisStore"]
