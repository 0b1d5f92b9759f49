"""Number 17: on PostgreSQL a settlement that freed a serial counted first and then waited for the serial, whose holder
waited to count: a deadlock, which the server looks for after a second. Counting is the last thing that a step does."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from rota.core.outcome import Answer
from rota.core.task import NewTask, Settlement, Task, Transition
from rota.core.task_type import TaskType, TriggerMode
from rota.stores.base import ClaimRequest
from rota.stores.sql import SqlStore
from rota.testing.servers import PostgresServer

WORK = "work"
TASKS = 120
SESSIONS = 6


async def _filled(store: SqlStore) -> None:
    await store.put_types([TaskType(name=WORK, trigger_mode=TriggerMode.ONCE)])
    await store.schedule(
        [
            NewTask(task_type=WORK, key=f"t{number}", serial=f"s{number % SESSIONS}", permits=2)
            for number in range(TASKS)
        ]
    )


async def _claim(store: SqlStore, claim_id: str, most: int) -> list[Task]:
    asked = ClaimRequest(wants=[(WORK, most)], instance="i", claim_id=claim_id, lease_ms=60_000, limit=most)
    return list((await store.claim(asked)).tasks)


def _settlement(task: Task) -> Settlement:
    return Settlement(task_type=task.task_type, key=task.key, token=task.token, transition=Transition.COMPLETE)


def _listen_in(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the driver is told to send, by whomever."""
    said: list[str] = []
    execute = psycopg.Cursor.execute

    def note(cursor: Any, query: Any, *args: Any, **more: Any) -> Any:
        said.append(str(query))
        return execute(cursor, query, *args, **more)

    monkeypatch.setattr(psycopg.Cursor, "execute", note)
    return said


async def test_serials_are_locked_before_anything_is_counted(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqlStore(postgres_url)
    await store.open()
    await _filled(store)
    (task,) = await _claim(store, "c1", 1)
    said = _listen_in(monkeypatch)
    (reply,) = await store.settle([_settlement(task)])
    assert reply.answer is Answer.OK
    locks = [place for place, one in enumerate(said) if "pg_advisory_xact_lock" in one]
    counts = [place for place, one in enumerate(said) if "INSERT INTO task_counts" in one]
    assert locks
    assert counts
    assert max(locks) < min(counts)
    await store.close()


async def test_claims_and_settlements_never_wait_for_each_other(postgres: PostgresServer, postgres_url: str) -> None:
    """Several claims and settlements at once, of tasks that share serials: all end, and the server saw no deadlock."""
    store = SqlStore(postgres_url)
    await store.open()
    await _filled(store)
    done: set[str] = set()

    async def work(name: str) -> None:
        turn = 0
        while len(done) < TASKS:
            turn += 1
            for task in await _claim(store, f"{name}:{turn}", 3):
                (reply,) = await store.settle([_settlement(task)])
                assert reply.answer is Answer.OK
                done.add(task.key)

    before = _deadlocks(postgres)
    await asyncio.gather(*(work(name) for name in "abcd"))
    assert _deadlocks(postgres) == before
    await store.close()


def _deadlocks(postgres: PostgresServer) -> int:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        row = connection.execute("SELECT sum(deadlocks)::int FROM pg_stat_database").fetchone()
    assert row is not None
    return row[0]
