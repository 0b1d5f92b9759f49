"""The statistics and the recorder: every run is counted once, and reaches the store's history, also through outages."""

from __future__ import annotations

import asyncio

import pytest
from stage import Stage

from rota.clock import MINUTE
from rota.core.history import BOUNDS_MS, Resolution, Slice, add
from rota.core.task import RunStatus
from rota.errors import StoreUnavailable
from rota.runtime import recorder as recorder_module
from rota.runtime.recorder import Recorder
from rota.runtime.signals import Discard, Snooze
from rota.runtime.stats import InstanceStats, RunStats
from rota.runtime.worker import WorkerSettings
from rota.stores.base import ClaimRequest
from rota.testing import FakeClock
from rota.testing.faulty import FaultyStore
from rota.testing.waiting import until


async def history(stage: Stage) -> Slice:
    """All that was recorded, as one slice."""
    found = add(await stage.store.history(Resolution.MINUTE, 0))
    total = RunStats()
    for piece in found:
        stats = RunStats()
        stats.success, stats.reasons = piece.success, dict(piece.reasons)
        stats.late, stats.took = list(piece.late), list(piece.took)
        total.add(stats)
    return total.as_slice("work", "user_activity", 0)


def half() -> float:
    return 0.5


async def test_every_end_of_a_run_is_in_the_history(stage: Stage) -> None:
    async def work(user_id: str) -> object:
        match user_id:
            case "bad":
                raise ValueError("no")
            case "slow":
                return await asyncio.Event().wait()
            case "done":
                return Discard("not needed")
            case "later":
                return Snooze("1h")
            case _:
                return True

    await stage.add(work, timeout_ms=50)
    await stage.schedule("a", "b", "bad", "slow", "done", "later")
    await stage.worker().run_until_idle()
    seen = await history(stage)
    assert seen.success == 2
    assert dict(seen.reasons) == {"error": 1, "timeout": 1, "discarded": 1}
    assert sum(seen.took) == sum(seen.late) == 5
    counted = [run for run in await stage.runs() if run.reason != "snoozed"]
    assert len(counted) == seen.runs


async def test_a_retry_was_not_late(stage: Stage) -> None:
    async def work() -> bool:
        return False

    await stage.add(work, max_retries=3)
    await stage.schedule("a")
    await stage.worker().run_until_idle()
    seen = await history(stage)
    assert (seen.error, sum(seen.took), sum(seen.late)) == (4, 4, 1)


async def test_lateness_is_the_time_from_due_to_claim(still_stage: Stage, still_clock: FakeClock) -> None:
    async def work() -> None: ...

    await still_stage.add(work)
    await still_stage.schedule("a")
    still_clock.advance("8s")
    await still_stage.worker().run_until_idle()
    (piece,) = await still_stage.store.history(Resolution.MINUTE, 0)
    assert piece.late[BOUNDS_MS.index(10_000)] == 1
    assert piece.start_at == Resolution.MINUTE.start_of(still_clock.now())


async def test_whoever_reaps_records_the_loss(still_stage: Stage, still_clock: FakeClock) -> None:
    async def work() -> None: ...

    await still_stage.add(work)
    await still_stage.schedule("a")
    worker = still_stage.worker()
    sweep = worker._sweeper.run_once  # pyright: ignore[reportPrivateUsage]
    sweep()
    await still_stage.store.claim(ClaimRequest(wants=[("work", 1)], instance="dead", claim_id="c", lease_ms=3_000))
    for _ in range(4):
        still_clock.advance("1s")
        sweep()
    await worker.run_until_idle()
    seen = await history(still_stage)
    assert (seen.success, dict(seen.reasons)) == (1, {"lost": 1})
    assert worker._stats.reaped_total == 1  # pyright: ignore[reportPrivateUsage]
    assert [run.status for run in await still_stage.runs()] == [RunStatus.LOST, RunStatus.SUCCESS]


async def test_a_run_that_was_taken_over_is_not_entered_twice(memory_stage: Stage) -> None:
    stats = InstanceStats()
    entered, leave = asyncio.Event(), asyncio.Event()

    async def work() -> bool:
        entered.set()
        await leave.wait()
        return True

    stage = memory_stage
    await stage.add(work)
    await stage.schedule("a")
    executor = stage.executor()
    executor.observers = (stats,)
    claim = ClaimRequest(wants=[("work", 1)], instance="x", claim_id="c", lease_ms=60_000)
    (task,) = (await stage.store.claim(claim)).tasks
    executor.start(task, stage.clock.monotonic())
    await entered.wait()
    await stage.store.abandon("x", "c")
    leave.set()
    await executor.drain()
    assert (stats.stale_writes, stats.has_news) == (1, False)


async def test_a_store_that_is_away_is_waited_for(memory_stage: Stage) -> None:
    stage = memory_stage
    stage.store = faulty = FaultyStore(stage.store)

    async def work() -> None: ...

    await stage.add(work)
    async with stage.at_work(WorkerSettings(sweep_ms=100)):
        with faulty.down("record"):
            await stage.schedule("a", "b")
            await stage.reached("a", "completed")
            await stage.reached("b", "completed")
            await until(lambda: faulty.calls.get("record", 0) >= 2)
            assert (await history(stage)).runs == 0

        async def is_recorded() -> bool:
            return (await history(stage)).runs == 2

        await until(is_recorded)


async def test_what_is_left_is_recorded_at_the_end(memory_stage: Stage) -> None:
    stage = memory_stage

    async def work() -> None: ...

    await stage.add(work)
    async with stage.at_work(WorkerSettings(sweep_ms=10_000)):
        await stage.schedule("a")
        await stage.reached("a", "completed")
    assert (await history(stage)).success == 1


async def test_an_idle_worker_records_nothing(memory_stage: Stage) -> None:
    stage = memory_stage
    stage.store = faulty = FaultyStore(stage.store)

    async def work() -> None: ...

    await stage.add(work)
    async with stage.at_work(WorkerSettings(sweep_ms=100)):
        await until(lambda: faulty.calls.get("tick", 0) >= 3)
    assert "record" not in faulty.calls


async def test_an_outage_keeps_a_bounded_number_of_minutes(
    still_stage: Stage, still_clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder_module, "MOST_KEPT", 5)
    faulty = FaultyStore(still_stage.store)
    stats = InstanceStats()
    recorder = Recorder(still_stage.context(faulty), stats)
    await still_stage.add(lambda: None)
    await still_stage.schedule("a")
    claim = ClaimRequest(wants=[("work", 1)], instance="x", claim_id="c", lease_ms=60_000)
    (task,) = (await still_stage.store.claim(claim)).tasks
    recorder.ticked(still_clock.now())
    with faulty.down("record"):
        for _ in range(8):
            stats.reaped(task, still_clock.now())
            with pytest.raises(StoreUnavailable):
                await recorder.run_once()
            still_clock.advance("1m")
    assert "history dropped" in caplog.text
    assert (await recorder.run_once()).recorded == 5
    starts = [piece.start_at for piece in await still_stage.store.history(Resolution.MINUTE, 0)]
    assert starts == sorted(starts)
    assert len(starts) == 5
    assert starts[-1] == Resolution.MINUTE.start_of(still_clock.now() - MINUTE)
    assert stats.totals()["work"].error == 8, "the metrics of this instance forget nothing"


async def test_minutes_are_those_of_the_store_not_of_the_host(still_stage: Stage, still_clock: FakeClock) -> None:
    host = FakeClock()
    host.advance("3h")
    stats = InstanceStats()
    recorder = Recorder(still_stage.context(clock=host), stats)
    await still_stage.add(lambda: None)
    await still_stage.schedule("a")
    claim = ClaimRequest(wants=[("work", 1)], instance="x", claim_id="c", lease_ms=60_000)
    (task,) = (await still_stage.store.claim(claim)).tasks
    stats.reaped(task, still_clock.now())
    await recorder.run_once()
    recorder.ticked(still_clock.now())
    stats.reaped(task, still_clock.now())
    await recorder.run_once()
    (piece,) = await still_stage.store.history(Resolution.MINUTE, 0)
    assert (piece.start_at, piece.error) == (Resolution.MINUTE.start_of(still_clock.now()), 2)
