"""Stores: where tasks live. `open_store` picks the engine that a URL names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from rota.clock import Clock
from rota.config.urls import STORE_SCHEMES, check_url, masked, scheme_of
from rota.errors import InvalidConfig
from rota.stores.base import Store

if TYPE_CHECKING:
    from rota.database import Database

__all__ = ["database_for", "open_store", "url_of_client"]


def open_store(url: str, clock: Clock | None = None, *, call_timeout: float | None = None) -> Store:
    """The store that a URL names, not yet connected: `await store.open()` does that.

    memory://, sqlite:///rota.db, postgresql://user@host/name or redis://host:6379/0. Engines are imported when they
    are asked for. A call that takes longer than `call_timeout` seconds is given up.
    """
    try:
        check_url(url, STORE_SCHEMES)
    except InvalidConfig as error:
        raise InvalidConfig(f"The store {masked(url)!r} cannot be used. {error}") from None
    return _MAKERS.get(scheme_of(url), _redis)(url, clock, call_timeout)


def _memory(url: str, clock: Clock | None, call_timeout: float | None) -> Store:
    from rota.stores.memory import MemoryStore

    if url != "memory://":
        raise InvalidConfig(f"The store {masked(url)!r} cannot be used. Memory has no address: write 'memory://'.")
    return MemoryStore(clock, call_timeout=call_timeout)


def _sql(url: str, clock: Clock | None, call_timeout: float | None) -> Store:
    from rota.stores.sql.store import SqlStore

    if url.partition("?")[0] in ("sqlite://", "sqlite:///", "sqlite:///:memory:"):
        raise InvalidConfig("A SQLite store needs a file, e.g. sqlite:///rota.db. For one in memory use memory://.")
    return SqlStore(url, clock=clock, call_timeout=call_timeout)


def _postgresql(url: str, clock: Clock | None, call_timeout: float | None) -> Store:
    if find_spec("psycopg") is None:
        raise InvalidConfig(
            f"The store {masked(url)!r} needs the PostgreSQL driver, which is not installed."
            " Run: pip install 'rota[postgres]'"
        )
    return _sql(url, clock, call_timeout)


def _redis(url: str, clock: Clock | None, call_timeout: float | None) -> Store:
    if find_spec("redis") is None:
        raise InvalidConfig(
            f"The store {masked(url)!r} needs the Redis driver, which is not installed. Run: pip install 'rota[redis]'"
        )
    from rota.stores.redis import RedisStore

    return RedisStore(url, clock=clock, call_timeout=call_timeout)


def database_for(
    store: Store | None, url: str, clock: Clock | None = None, *, call_timeout: float | None = None
) -> Database:
    """The database at a URL, not yet open. A SQL store at the same URL shares its own: one file has one writer."""
    from rota.database import Database
    from rota.stores.sql.store import SqlStore

    if isinstance(store, SqlStore) and store.url == url:
        return store.database
    return Database(url, clock=clock, call_timeout=call_timeout)


def url_of_client(client: object) -> str | None:
    """The store's URL behind a redis-py client or what holds one, as a cache object does; None if there is none."""
    held: Mapping[str, object] = getattr(client, "__dict__", {})
    for one in (client, *held.values()):
        if type(one).__module__.startswith("redis."):
            from rota.stores.redis.address import url_of

            return url_of(one)
    return None


_MAKERS: Final[Mapping[str, Callable[[str, Clock | None, float | None], Store]]] = {
    "memory": _memory,
    "sqlite": _sql,
    "postgresql": _postgresql,
}
