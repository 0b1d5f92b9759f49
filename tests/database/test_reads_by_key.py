"""A step on a few tasks reads no others, also in a table that PostgreSQL has never analysed.

Without statistics it takes every type for a rare one, and to read all of its tasks for as cheap as to look for some.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from sqlalchemy import Connection, text
from tests.opening import opened

from rota.core.task import Activity, Identity, Settlement, Transition
from rota.core.task_type import TaskType
from rota.stores.base import ClaimRequest
from rota.stores.sql import SqlStore, queries

ALL = 2_000
FEW = 10
ROUNDS = 12
"""More often than a statement is planned for its own values: after that, one plan has to do for all."""
_READ = text(
    "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
    " WHERE relname = 'scheduled_tasks' AND schemaname = current_schema()"
)


def _read_by(connection: Connection) -> int:
    return connection.execute(_READ).scalar_one()


@pytest.fixture
async def store(postgres_url: str) -> AsyncGenerator[SqlStore]:
    async with opened(SqlStore(postgres_url)) as store:
        never = text("ALTER TABLE scheduled_tasks SET (autovacuum_enabled = off)")
        await store.database.write(lambda connection: connection.execute(never))
        await store.put_types([TaskType(name="upkeep", interval_ms=0)])
        await store.touch([_activity(number) for number in range(ALL)])
        yield store


def _activity(number: int) -> Activity:
    return Activity(task_type="upkeep", key=f"u{number:05}", user_id=f"u{number:05}")


@pytest.fixture
def read(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks each step has read."""
    counted: list[int] = []
    step: Callable[..., Any] = store._step  # pyright: ignore[reportPrivateUsage]

    def counting(function: Callable[..., Any], connection: Connection) -> Any:
        before = _read_by(connection)
        answer = step(function, connection)
        counted.append(_read_by(connection) - before)
        return answer

    monkeypatch.setattr(store, "_step", counting)
    return counted


async def test_a_touch_reads_whom_it_touches(store: SqlStore, read: list[int]) -> None:
    for _ in range(ROUNDS):
        await store.touch([_activity(number) for number in range(FEW)])
    assert len(read) == ROUNDS
    assert max(read) <= 5 * FEW


async def test_a_claim_and_the_ends_of_its_runs_read_what_they_are_about(store: SqlStore, read: list[int]) -> None:
    for _ in range(ROUNDS):
        request = ClaimRequest(wants=[("upkeep", FEW)], instance="i", claim_id=uuid.uuid4().hex, lease_ms=60_000)
        claimed = (await store.claim(request)).tasks
        assert len(claimed) == FEW
        await store.settle_runs(
            [
                Settlement(task_type="upkeep", key=task.key, token=task.token, transition=Transition.COMPLETE)
                for task in claimed
            ]
        )
    assert len(read) == 2 * ROUNDS
    assert max(read) <= 5 * FEW


async def test_a_look_at_some_reads_some(store: SqlStore) -> None:
    wanted = [Identity("upkeep", f"u{number:05}") for number in range(FEW)]

    def looks(connection: Connection) -> int:
        before = _read_by(connection)
        for _ in range(ROUNDS):
            assert [task.identity for task in queries.get(connection, wanted) if task is not None] == wanted
        return _read_by(connection) - before

    assert await store.database.write(looks) <= ROUNDS * 2 * FEW
