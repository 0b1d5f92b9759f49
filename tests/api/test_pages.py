"""Pages while the list changes under whoever turns them: what was there all the time is seen exactly once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.api.stage import Stage, staged

KEYS = [f"k{number:02}" for number in range(0, 60, 2)]
NARROWED = pytest.mark.parametrize("narrowed", [{}, {"status": "pending"}, {"search": "k"}], ids=str)
MISSING = [f"k{number:02}" for number in range(1, 60, 2)]


async def a_walk_through_change(stage: Stage, narrowed: dict[str, str], seed: int) -> None:
    chance = random.Random(seed)
    for key in KEYS:
        await stage.app.schedule("job", key=key, delay="1h")
    missing, there, seen, cursor = chance.sample(MISSING, len(MISSING)), set(KEYS), list[str](), None
    while True:
        params = {"task_type": "job", "limit": "4", **narrowed, **({} if cursor is None else {"cursor": cursor})}
        page = (await stage.viewer.get("/api/tasks", params=params)).json()
        seen += [task["key"] for task in page["items"]]
        cursor = page["cursor"]
        if cursor is None:
            break
        for _ in range(2):
            await stage.app.schedule("job", key=missing.pop(), delay="1h")
        # What a cursor was made from may go, too: it names a place, not a task.
        for key in {chance.choice(sorted(there)), seen[-1]} & there:
            await stage.app.tasks.cancel("job", key)
            await stage.operator.post(f"/api/tasks/job/{key}/purge")
            there.discard(key)
    assert len(seen) == len(set(seen)), "nothing is seen twice"
    assert there <= set(seen), "what was there all the time is seen"


@NARROWED
async def test_on_sqlite(stage: Stage, narrowed: dict[str, str]) -> None:
    await a_walk_through_change(stage, narrowed, 1)


@NARROWED
async def test_on_redis(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, narrowed: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)  # the database and the spool are files of this place
    async with staged(redis_url) as stage:
        await a_walk_through_change(stage, narrowed, 2)


@NARROWED
async def test_on_postgresql(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, narrowed: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    async with staged(postgres_url) as stage:
        await a_walk_through_change(stage, narrowed, 3)


async def test_runs_that_come_while_pages_are_turned_do_not_shift_them(stage: Stage) -> None:
    async def run(key: str) -> None:
        await stage.app.schedule("job", key=key)
        await stage.app.run_until_idle()

    for number in range(9):
        await run(f"old{number}")
    seen, cursor = list[str](), None
    while True:
        params: dict[str, Any] = {"task_type": "job", "limit": 2, **({} if cursor is None else {"cursor": cursor})}
        page = (await stage.viewer.get("/api/runs", params=params)).json()
        seen += [each["key"] for each in page["items"]]
        cursor = page["cursor"]
        if cursor is None:
            break
        await run(f"new{len(seen)}")
    assert seen == [f"old{number}" for number in reversed(range(9))]
