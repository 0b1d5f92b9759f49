"""Real worker processes on one store: raced, killed and frozen."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos import scenarios


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/rota.db"
    address: str = request.getfixturevalue("postgres_url")
    return address


@pytest.mark.parametrize("workers", [2, 4])
async def test_several_processes_run_each_task_exactly_once(url: str, tmp_path: Path, workers: int) -> None:
    race = await scenarios.race(url, tmp_path, tasks=20_000, workers=workers, limit=400)
    assert sum(race.shares) == 20_000


async def test_a_killed_workers_task_runs_elsewhere(url: str, tmp_path: Path) -> None:
    """With the default lease. `make chaos` measures how long it takes; here it must only happen, and be recorded."""
    kills = await scenarios.kills(url, tmp_path, rounds=1, victims=3)
    assert len(kills.recoveries) == 3


async def test_a_frozen_workers_late_completion_is_refused(url: str, tmp_path: Path) -> None:
    freeze = await scenarios.freeze(url, tmp_path)
    assert (freeze.stale_runs, freeze.completed_runs) == (1, 1)
