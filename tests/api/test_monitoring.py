"""The monitoring: its addresses and shapes, counted over all instances."""

from __future__ import annotations

import pytest
from tests.api.calls import dead_letters
from tests.api.stage import Stage

from rota.core.task import Settlement, Transition
from rota.stores.base import ClaimRequest


async def test_the_monitoring_has_its_shapes(stage: Stage) -> None:
    await dead_letters(stage, 2)
    whole = (await stage.viewer.get("/api/monitoring/scheduler?hours=168")).json()
    assert set(whole) == {"success", "data"}
    assert whole["success"] is True
    assert set(whole["data"]) == {"total_executions", "by_task_type", "by_trigger_mode", "recent_failures"}
    (failure, _) = whole["data"]["recent_failures"]
    assert set(failure) == {"task_type", "user_key", "error_message", "duration_ms", "timestamp"}
    depths = (await stage.viewer.get("/api/monitoring/scheduler/queues")).json()["data"]["queues"]
    assert depths["nightly"] == {"depth": 1, "enabled": True}
    failed = (await stage.viewer.get("/api/monitoring/scheduler/failures?hours=24")).json()["data"]
    assert set(failed) == {"time_range_hours", "total_executions", "by_task_type", "recent_failures"}
    assert failed["time_range_hours"] == 24


async def test_the_newest_failures_are_found_behind_many_runs(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """One page looks at so many runs of any kind; what was cancelled did not fail."""
    monkeypatch.setattr("rota.stores.sql.queries.LOOKED_AT", 5)
    await dead_letters(stage, 2)
    store = await stage.app.store()
    for number in range(12):
        await stage.app.schedule("job", key=f"c{number}")
        (claimed,) = (
            await store.claim(ClaimRequest(wants=[("job", 1)], instance="i", claim_id=f"c{number}", lease_ms=60_000))
        ).tasks
        await store.settle(
            [
                Settlement(
                    task_type="job",
                    key=claimed.key,
                    token=claimed.token,
                    transition=Transition.DISCARD,
                    reason="cancelled" if number % 2 else None,
                    duration_ms=7,
                )
            ]
        )
    whole = (await stage.viewer.get("/api/monitoring/scheduler?hours=1")).json()["data"]
    assert [failure["task_type"] for failure in whole["recent_failures"]] == ["broken", "broken"]
    failed = (await stage.viewer.get("/api/monitoring/scheduler/failures?hours=1")).json()["data"]
    assert failed["recent_failures"] == whole["recent_failures"]
