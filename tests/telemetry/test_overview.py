"""One look at everything: figures of all instances, no hole in the minutes, the monitoring's shapes to the letter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from rota import Rota
from rota.app.overview import failures, monitoring, overview, queues
from rota.clock import HOUR, MINUTE
from rota.core.history import of_run
from rota.core.task import NewTask
from rota.core.task_type import TaskType, TriggerMode
from rota.errors import InvalidInput
from rota.stores.base import Beat
from rota.stores.memory import MemoryStore
from rota.testing import FakeClock


async def lively(app: Rota, clock: FakeClock) -> MemoryStore:
    store = await app.store()
    assert isinstance(store, MemoryStore)
    await store.put_types([TaskType(name="work"), TaskType(name="idle", trigger_mode=TriggerMode.PERIODIC)])
    await store.schedule([NewTask(task_type="work", key=f"k{n}") for n in range(3)])
    await store.tick(Beat(instance="one", host="h", pid=1, types=("work",)))
    now = clock.now()
    await store.record(
        [
            of_run("work", "user_activity", now, reason=None, late_ms=10, took_ms=100),
            of_run("work", "user_activity", now - MINUTE, reason="timeout", late_ms=4_000, took_ms=300),
            of_run("work", "user_activity", now - MINUTE, reason="cancelled", late_ms=None, took_ms=20),
            of_run("idle", "periodic", now - 3 * HOUR, reason="error", late_ms=None, took_ms=20),
        ]
    )
    clock.advance("5s")
    return store


async def test_an_overview_adds_up(clock: FakeClock) -> None:
    async with Rota("memory://", clock=clock) as app:
        await lively(app, clock)
        seen = await overview(app, minutes=10)
    assert (seen.runs, seen.failures, seen.late_p50_ms, seen.late_p99_ms) == (3, 1, 10, 5_000)
    assert seen.counts == {"pending": 3, "running": 0, "paused": 0, "failed": 0}
    assert seen.reasons == {"timeout": 1, "cancelled": 1}
    assert len(seen.per_minute) == 10
    starts = [minute.start_at for minute in seen.per_minute]
    assert starts == list(range(starts[0], starts[0] + 10 * MINUTE, MINUTE))
    assert [(one.success, one.failed, one.set_aside) for one in seen.per_minute[-2:]] == [(0, 1, 1), (1, 0, 0)]
    assert seen.runs_per_second == round(2 / 60, 2)
    work = next(one for one in seen.types if one.task_type == "work")
    assert (work.pending, work.oldest_pending_ms, work.runs, work.failures) == (3, 5_000, 3, 1)
    assert (work.took_average_ms, work.failure_rate, work.state) == (140, 0.3333, "on")
    (instance,) = seen.instances
    assert (instance.instance, instance.silent_ms, instance.is_silent) == ("one", 5_000, False)
    msgspec.json.encode(seen.to_dict())


async def test_states_and_silence_are_seen(clock: FakeClock) -> None:
    async with Rota("memory://", clock=clock) as app:
        store = await lively(app, clock)
        for change, state in (({"enabled": False}, "off"), ({"enabled": None, "frozen": True}, "frozen"),
                              ({"frozen": None, "draining": True}, "draining")):  # fmt: skip
            await store.override_type("work", change)
            assert {one.task_type: one.state for one in (await overview(app)).types}["work"] == state
        clock.advance("1m")
        assert (await overview(app)).instances[0].is_silent


async def test_the_monitoring_has_its_shape(clock: FakeClock) -> None:
    app = Rota("memory://", clock=clock)

    @app.on_activity(after="0s", max_retries=0)
    async def work(user_id: str) -> bool:
        return user_id != "bad"

    async with app:
        for user in ("a", "b", "bad"):
            await work.touch(user_id=user)
        await app.run_until_idle()
        shown = (await monitoring(app, hours=1)).to_dict()
        assert shown["total_executions"] == 3
        assert shown["by_task_type"] == {
            "work": {
                "count": 3,
                "success_count": 2,
                "failure_count": 1,
                "avg_duration_ms": 0,
                "max_duration_ms": 0,
                "min_duration_ms": 0,
            }
        }
        assert shown["by_trigger_mode"] == {"user_activity": {"count": 3, "success_count": 2, "failure_count": 1}}
        (failure,) = (await monitoring(app, hours=168)).recent_failures
        assert list(failure.to_dict()) == ["task_type", "user_key", "error_message", "duration_ms", "timestamp"]
        assert (failure.user_key, failure.error_message) == ("bad:default:default", "The handler returned False.")
        shown = (await failures(app, hours=2)).to_dict()
        assert (shown["time_range_hours"], shown["total_executions"]) == (2, 3)
        assert shown["by_task_type"] == {"work": {"total": 3, "failures": 1, "failure_rate": 0.3333}}
        assert (await queues(app)).to_dict() == {"queues": {"work": {"depth": 0, "enabled": True}}}
        clock.advance("3h")
        assert (await failures(app, hours=2)).to_dict()["recent_failures"] == []
        assert (await monitoring(app, hours=2)).to_dict()["total_executions"] == 0
        assert (await monitoring(app, hours=48)).to_dict()["total_executions"] == 3


@pytest.mark.parametrize(("call", "wrong"), [(overview, 0), (overview, 1_441), (monitoring, 169), (failures, 25)])
async def test_spans_are_bounded(call: Callable[[Rota, int], Awaitable[object]], wrong: int) -> None:
    async with Rota("memory://") as app:
        with pytest.raises(InvalidInput, match=str(wrong)):
            await call(app, wrong)


async def test_recent_failures_are_the_ten_newest(clock: FakeClock) -> None:
    app = Rota("memory://", clock=clock)

    @app.on_activity(after="0s", max_retries=0)
    async def work(user_id: str) -> bool:
        return False

    async with app:
        for number in range(14):
            await work.touch(user_id=f"u{number:02}")
            await app.run_until_idle()
            clock.advance("1s")
        recent = (await monitoring(app, hours=1)).recent_failures
    assert [failure.user_key[:3] for failure in recent] == [f"u{number:02}" for number in range(13, 3, -1)]
