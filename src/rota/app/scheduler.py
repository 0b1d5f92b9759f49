"""An app as the scheduler interface makes it: `init_scheduler(redis, config)`, and one of it in a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rota.app.host import Host
from rota.app.rota import Rota
from rota.app.settings import load_config
from rota.clock import Clock
from rota.config import Config
from rota.errors import InvalidConfig
from rota.stores import url_of_client
from rota.stores.base import Store

__all__ = ["RedisClient", "RedisTaskScheduler", "TaskScheduler", "get_scheduler", "init_scheduler", "set_scheduler"]


class RedisClient(Protocol):
    """A redis-py client, blocking or not."""

    @property
    def connection_pool(self) -> Any: ...


class TaskScheduler(Rota):
    """An app over one store, which its first call connects and `stop` closes.

    `redis` (or `redis_cache`, the interface's names for it) is the store: its URL, a redis-py client, what holds one,
    or a `Store`. `config` is the content of `scheduler:`, or a whole `Config`.
    """

    def __init__(
        self,
        redis: str | Store | RedisClient | None = None,
        config: Config | Mapping[str, object] | None = None,
        *,
        redis_cache: object = None,
        clock: Clock | None = None,
    ) -> None:
        engine = _engine_of(_one_of(redis, redis_cache))
        given = config if isinstance(config, Config) else _config_of(engine, config)
        self._serve(Host(engine, given, clock=clock, connects_by_itself=True))


class RedisTaskScheduler(TaskScheduler):
    """The scheduler interface's name for an app on Redis; `redis` is a URL or a redis-py client.

    Of a client only the address is taken: the scheduler makes connections of its own.
    """


def _one_of(redis: object, redis_cache: object) -> object:
    if (redis is None) is (redis_cache is None):
        given = "twice, as redis and as redis_cache" if redis is not None else "not at all"
        raise InvalidConfig(f"The store is given {given}. Give it once: init_scheduler('redis://localhost:6379/0').")
    return redis_cache if redis is None else redis


def _engine_of(redis: object) -> str | Store:
    engine = redis if isinstance(redis, str | Store) else url_of_client(redis)
    if engine is None:
        raise InvalidConfig(
            f"The store is a {type(redis).__name__}, which cannot be used."
            " Give a URL, like 'sqlite:///rota.db', 'postgresql://...' or 'redis://...', or a redis-py client."
        )
    return engine


def _config_of(redis: str | Store, config: Mapping[str, object] | None) -> Config:
    flags = {"store": redis} if isinstance(redis, str) else None
    return load_config({"scheduler": dict(config or {})}, flags=flags)


# --- one scheduler per process ---------------------------------------------------------------------------------------

_scheduler: TaskScheduler | None = None


def get_scheduler() -> TaskScheduler | None:
    """The scheduler of this process; None if there is none, or if `scheduler.enabled` is false."""
    return _scheduler if _scheduler is not None and _scheduler.config.enabled else None


def set_scheduler(scheduler: TaskScheduler | None) -> None:
    """Make it the scheduler of this process; None for none."""
    global _scheduler
    _scheduler = scheduler


def init_scheduler(
    redis: str | Store | RedisClient | None = None,
    config: Mapping[str, object] | None = None,
    *,
    redis_cache: object = None,
) -> TaskScheduler:
    """Make a scheduler, and make it the one of this process.

    `redis` (or `redis_cache`, the interface's names for it) is the store's URL or a redis-py client; `config`
    is the content of `scheduler:`.
    """
    scheduler = TaskScheduler(redis, config, redis_cache=redis_cache)
    set_scheduler(scheduler)
    return scheduler
