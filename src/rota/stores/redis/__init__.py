"""The Redis store, for many instances."""

from rota.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
