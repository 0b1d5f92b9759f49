"""Types on a schedule: one record each, made once, changed when the configuration changes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from stage import Stage

from rota.clock import HOUR, MINUTE
from rota.core.task import Identity, Task
from rota.core.task_type import TaskType, TriggerMode
from rota.keys import GLOBAL_KEY
from rota.runtime import declare, make_handler
from rota.testing import FakeClock
from rota.triggers import Cron, Interval

HOURLY = TaskType(name="cleanup", trigger_mode=TriggerMode.PERIODIC, interval_ms=HOUR)
BRIEF = TaskType(name="brief", trigger_mode=TriggerMode.CRON, cron="30 9 * * *", timezone="Europe/Berlin")


async def record(stage: Stage, name: str = "cleanup") -> Task | None:
    return (await stage.store.get([Identity(name, GLOBAL_KEY)]))[0]


async def runs_of(stage: Stage, task_type: TaskType = HOURLY) -> int:
    async def handle() -> None: ...

    stage.types = {task_type.name: task_type}
    stage.handlers = {task_type.name: make_handler(task_type.name, handle)}
    return await stage.worker().run_until_idle()


@pytest.mark.parametrize("mode", [TriggerMode.PERIODIC, TriggerMode.INTERVAL])
async def test_the_first_run_is_at_once_and_then_on_the_grid(
    still_stage: Stage, still_clock: FakeClock, mode: TriggerMode
) -> None:
    hourly, start = replace(HOURLY, trigger_mode=mode), still_clock.now()
    await declare(still_stage.store, [hourly])
    assert await runs_of(still_stage, hourly) == 1
    assert await runs_of(still_stage, hourly) == 0
    still_clock.advance("61m")
    assert await runs_of(still_stage, hourly) == 1
    task = await record(still_stage)
    assert task is not None
    assert task.series == Interval(HOUR, start)
    assert task.next_fire == start + 2 * HOUR


async def test_a_restart_never_fires_it_again(still_stage: Stage, still_clock: FakeClock) -> None:
    await declare(still_stage.store, [HOURLY])
    assert await runs_of(still_stage) == 1
    before = await record(still_stage)
    still_clock.advance("10m")
    await declare(still_stage.store, [HOURLY])
    assert await runs_of(still_stage) == 0
    assert await record(still_stage) == before


async def test_it_can_wait_for_its_first_interval(still_stage: Stage, still_clock: FakeClock) -> None:
    patient = replace(HOURLY, run_on_start=False)
    await declare(still_stage.store, [patient])
    assert await runs_of(still_stage, patient) == 0
    still_clock.advance("1h")
    assert await runs_of(still_stage, patient) == 1


async def test_cron_waits_for_its_time(still_stage: Stage, still_clock: FakeClock) -> None:
    await declare(still_stage.store, [BRIEF])
    task = await record(still_stage, "brief")
    assert task is not None
    assert task.series == Cron("30 9 * * *", "Europe/Berlin")
    assert task.scheduled_at > still_clock.now()


async def test_a_new_interval_takes_effect(still_stage: Stage, still_clock: FakeClock) -> None:
    await declare(still_stage.store, [HOURLY])
    await runs_of(still_stage)
    still_clock.advance("10m")
    await declare(still_stage.store, [replace(HOURLY, interval_ms=20 * MINUTE)])
    task = await record(still_stage)
    assert task is not None
    assert task.scheduled_at == still_clock.now() + 20 * MINUTE


async def test_a_new_policy_takes_effect_and_keeps_the_grid(still_stage: Stage, still_clock: FakeClock) -> None:
    await declare(still_stage.store, [HOURLY])
    await runs_of(still_stage)
    before = await record(still_stage)
    still_clock.advance("10m")
    await declare(still_stage.store, [replace(HOURLY, misfire="all", overlap="queue", grace_ms=5_000)])
    after = await record(still_stage)
    assert before is not None
    assert after is not None
    assert (after.scheduled_at, after.trigger) == (before.scheduled_at, before.trigger)
    policy = after.series_policy
    assert (policy.misfire, policy.overlap, policy.grace_ms) == ("all", "queue", 5_000)


async def test_a_disabled_type_stays_put(still_stage: Stage) -> None:
    await declare(still_stage.store, [replace(HOURLY, enabled=False)])
    assert await record(still_stage) is None


async def test_an_older_configuration_changes_nothing(still_stage: Stage) -> None:
    await declare(still_stage.store, [replace(HOURLY, version=2)])
    before = await record(still_stage)
    await declare(still_stage.store, [replace(HOURLY, interval_ms=2 * HOUR, version=1)])
    assert await record(still_stage) == before


async def test_a_type_that_is_no_longer_on_a_schedule_stops(still_stage: Stage) -> None:
    await declare(still_stage.store, [HOURLY])
    await declare(still_stage.store, [TaskType(name="cleanup")])
    task = await record(still_stage)
    assert task is not None
    assert task.status.value == "completed"


async def test_it_works_on_sqlite_and_with_nothing_to_do(stage: Stage) -> None:
    await declare(stage.store, [])
    await declare(stage.store, [HOURLY, BRIEF, TaskType(name="plain")])
    await declare(stage.store, [HOURLY, BRIEF, TaskType(name="plain")])
    assert await record(stage) is not None
    assert await record(stage, "brief") is not None
    assert await record(stage, "plain") is None
