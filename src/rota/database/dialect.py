"""Where SQLite and PostgreSQL differ inside a transaction. Everything else is one implementation."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Text

from rota.clock import Clock, Instant
from rota.core import token

__all__ = ["Dialect", "Postgres", "Sqlite"]


AnySelect = TypeVar("AnySelect", bound=Select[Any])


class Dialect(Protocol):
    """What a transaction asks of its database."""

    count_shards: int

    def now(self, connection: Connection) -> Instant: ...

    @staticmethod
    def among(column: ColumnElement[Any]) -> ColumnElement[bool]:
        """`column` is one of the parameter `keys`, in SQL text that is the same for any number of them."""
        ...

    @staticmethod
    def keys(keys: Collection[str]) -> object:
        """The value of the parameter `keys`."""
        ...

    @staticmethod
    def locked(query: AnySelect, *, pass_over: bool = False) -> AnySelect:
        """The query, holding its rows until the transaction ends; or passing over those that others hold."""
        ...

    def lock_names(self, connection: Connection, names: Sequence[str]) -> None: ...

    def tokens(self, connection: Connection, count: int, claim_id: str, now: Instant, above: int) -> Sequence[int]: ...

    def poke(self, connection: Connection) -> None: ...


# `last_before` of core/token.py, in one statement.
_NEXT_TOKENS = text(
    "UPDATE sequences SET value = max(CASE WHEN value >= :floor THEN value ELSE :floor + :spread END, :above) + :count"
    " WHERE name = 'token' RETURNING value"
)


class Sqlite:
    """One writer: whatever a transaction reads is its own until it ends."""

    count_shards = 1

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self, connection: Connection) -> Instant:
        return self._clock.now()

    @staticmethod
    def among(column: ColumnElement[Any]) -> ColumnElement[bool]:
        values = func.json_each(bindparam("keys")).table_valued("value")
        return column.in_(select(values.c.value))

    @staticmethod
    def keys(keys: Collection[str]) -> object:
        return json.dumps(list(keys))

    @staticmethod
    def locked(query: AnySelect, *, pass_over: bool = False) -> AnySelect:
        return query

    def lock_names(self, connection: Connection, names: Sequence[str]) -> None:
        """BEGIN IMMEDIATE has locked everything already."""

    def tokens(self, connection: Connection, count: int, claim_id: str, now: Instant, above: int) -> Sequence[int]:
        given = {"floor": token.floor_at(now), "spread": token.spread_of(claim_id), "above": above, "count": count}
        last = connection.execute(_NEXT_TOKENS, given).scalar_one()
        return range(last - count + 1, last + 1)

    def poke(self, connection: Connection) -> None:
        """Other processes look at PRAGMA data_version."""


_CLOCK = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
_LOCK_NAME = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
_TOKENS = text("SELECT nextval('task_token_seq') FROM generate_series(1, :count)")
_NOTIFY = text("SELECT pg_notify(:channel, '')")


class Postgres:
    """Many writers: rows are locked in (type, key) order, claims pass over what others hold."""

    count_shards = 16

    def __init__(self, schema: str, channel: str, clock: Clock | None = None) -> None:
        # Locks and channels belong to a database, schemas to us: two of them must neither wake nor hold up each other.
        self._schema = schema
        self._channel = channel
        self._clock = clock

    def now(self, connection: Connection) -> Instant:
        return int(connection.execute(_CLOCK).scalar_one()) if self._clock is None else self._clock.now()

    @staticmethod
    def among(column: ColumnElement[Any]) -> ColumnElement[bool]:
        return column == func.any(bindparam("keys", type_=ARRAY(Text)))

    @staticmethod
    def keys(keys: Collection[str]) -> object:
        return list(keys)

    @staticmethod
    def locked(query: AnySelect, *, pass_over: bool = False) -> AnySelect:
        return query.with_for_update(skip_locked=pass_over)

    def lock_names(self, connection: Connection, names: Sequence[str]) -> None:
        for name in names:
            connection.execute(_LOCK_NAME, {"name": f"{self._schema}:{name}"})

    def tokens(self, connection: Connection, count: int, claim_id: str, now: Instant, above: int) -> Sequence[int]:
        # Many claim at once, and none waits for another's transaction to end: the sequence says where in the room of
        # its millisecond each token lies. It cannot be set to a time: two who do so at once would set it back.
        numbers = connection.execute(_TOKENS, {"count": count}).scalars().all()
        return [token.floor_at(now) + 1 + number % token.ROOM for number in numbers]

    def poke(self, connection: Connection) -> None:
        connection.execute(_NOTIFY, {"channel": self._channel})
