"""Real worker processes on one Redis: raced, killed, frozen, and in a storm of kills."""

from __future__ import annotations

from pathlib import Path

from chaos import scenarios
from chaos.storm import storm


async def test_several_processes_run_each_task_exactly_once(redis_url: str, tmp_path: Path) -> None:
    race = await scenarios.race(redis_url, tmp_path, tasks=5_000, workers=2, limit=400)
    assert sum(race.shares) == 5_000


async def test_a_killed_workers_task_runs_elsewhere(redis_url: str, tmp_path: Path) -> None:
    """With the default lease. `make chaos` measures how long it takes; here it must only happen, and be recorded."""
    kills = await scenarios.kills(redis_url, tmp_path, rounds=1, victims=3)
    assert len(kills.recoveries) == 3


async def test_a_frozen_workers_late_completion_is_refused(redis_url: str, tmp_path: Path) -> None:
    freeze = await scenarios.freeze(redis_url, tmp_path)
    assert (freeze.stale_runs, freeze.completed_runs) == (1, 1)


async def test_a_storm_of_kills_loses_nothing_and_runs_nothing_twice_at_once(redis_url: str, tmp_path: Path) -> None:
    """The small one; `make chaos` has 50,000 tasks. What is promised is checked inside."""
    seen = await storm(redis_url, tmp_path, tasks=2_000, workers=3, limit=400)
    assert seen.kills > 0
