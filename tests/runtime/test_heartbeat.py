"""Leases: kept beside the event loop, given up in time."""

from __future__ import annotations

import asyncio

from stage import Stage
from structlog.testing import capture_logs

from rota.app.results import TaskDetails
from rota.core.task import Identity, Settlement, Task, Transition
from rota.runtime import Run, WorkerSettings
from rota.runtime.executor import Executor
from rota.runtime.heartbeat import Heartbeat, HeartbeatReport
from rota.stores.base import ClaimRequest, Store
from rota.testing import FakeClock, FaultyStore
from rota.testing.waiting import PATIENCE, until, until_blocking


async def waiting() -> None:
    await asyncio.Event().wait()


async def claimed(stage: Stage, *keys: str, lease_ms: int = 10_000) -> list[Task]:
    await stage.schedule(*keys)
    request = ClaimRequest(wants=[("work", len(keys))], instance="here", claim_id="c1", lease_ms=lease_ms)
    return (await stage.store.claim(request)).tasks


def heartbeat(stage: Stage, executor: Executor, store: Store | None = None) -> Heartbeat:
    return Heartbeat(stage.context(store, call_timeout=5.0), executor, lease_ms=10_000)


async def test_all_leases_go_into_one_call(still_stage: Stage, still_clock: FakeClock) -> None:
    await still_stage.add(waiting)
    faulty = FaultyStore(still_stage.store)
    executor = still_stage.executor(grace=0.01)
    for task in await claimed(still_stage, "u1", "u2", "u3"):
        executor.start(task, still_clock.monotonic())
    still_clock.advance("4s")
    report = heartbeat(still_stage, executor, faulty).run_once()
    assert report == HeartbeatReport(renewed=3)
    assert faulty.calls["renew"] == 1
    assert (await still_stage.task("u2")).lease_until == still_clock.now() + 10_000
    executor.give_up()
    await executor.drain()


async def test_progress_travels_with_the_renewal(still_stage: Stage) -> None:
    """As long as it goes on: what a run that is over has reported is kept with that run, and the task shows none."""
    may_end = asyncio.Event()

    async def handle(run: Run) -> None:
        run.progress({"done": 3, "of": 10})
        await may_end.wait()

    await still_stage.add(handle)
    executor = still_stage.executor()
    executor.start((await claimed(still_stage, "u1"))[0], 0.0)
    beat = heartbeat(still_stage, executor)
    await until(lambda: next(iter(executor.running)).renewal().progress)
    beat.run_once()
    assert TaskDetails.of(await still_stage.task("u1")).progress == {"done": 3, "of": 10}
    assert next(iter(executor.running)).renewal().progress is None, "the same progress is not sent again"
    may_end.set()
    await executor.drain()
    ended = TaskDetails.of(await still_stage.task("u1"))
    assert (ended.status, ended.progress) == ("completed", None)


async def test_a_wish_to_cancel_and_a_stale_token_stop_the_run(still_stage: Stage) -> None:
    await still_stage.add(waiting)
    executor = still_stage.executor()
    tasks = await claimed(still_stage, "wanted", "taken", "kept")
    for task in tasks:
        executor.start(task, 0.0)
    await still_stage.store.cancel([Identity("work", "wanted")])
    token = next(task.token for task in tasks if task.key == "taken")
    await still_stage.store.settle(
        [Settlement(task_type="work", key="taken", token=token, transition=Transition.RELEASE)]
    )
    report = heartbeat(still_stage, executor).run_once()
    assert report == HeartbeatReport(renewed=2, cancelled=1, lost=1)
    executor.give_up()
    await executor.drain()


async def test_a_run_that_cannot_be_renewed_in_time_is_fenced(still_stage: Stage, still_clock: FakeClock) -> None:
    """Two seconds before the lease surely ends, counted from when the last good renewal was sent."""
    await still_stage.add(waiting)
    executor = still_stage.executor()
    running = executor.start((await claimed(still_stage, "u1"))[0], still_clock.monotonic())
    beat = heartbeat(still_stage, executor)
    still_clock.advance("7s")
    assert beat.run_once().renewed == 1
    still_clock.advance("7900ms")
    assert beat.run_once().renewed == 1
    still_clock.advance("8100ms")
    assert beat.run_once() == HeartbeatReport(fenced=1)
    assert beat.run_once() == HeartbeatReport(), "it is told once, and never renewed again"
    executor.stopping.interrupt(running)
    await executor.drain()
    task = await still_stage.task("u1")
    assert (task.status.value, task.errors, task.crashes) == ("pending", 0, 0)
    assert (await still_stage.runs())[0].reason == "lost"


async def test_a_run_past_its_timeout_and_grace_is_no_longer_renewed(
    still_stage: Stage, still_clock: FakeClock
) -> None:
    await still_stage.add(waiting, timeout_ms=60_000)
    executor = still_stage.executor(grace=5)
    running = executor.start((await claimed(still_stage, "u1"))[0], 0.0)
    beat = heartbeat(still_stage, executor)
    still_clock.advance("64s")
    running.held_since = still_clock.monotonic()
    assert beat.run_once().renewed == 1
    still_clock.advance("2s")
    assert beat.run_once() == HeartbeatReport()
    executor.give_up()
    await executor.drain()


async def test_a_run_that_is_being_settled_is_left_out(still_stage: Stage) -> None:
    await still_stage.add(waiting)
    executor = still_stage.executor()
    running = executor.start((await claimed(still_stage, "u1"))[0], 0.0)
    running.settling = True
    assert heartbeat(still_stage, executor).run_once() == HeartbeatReport()
    running.settling = False
    executor.give_up()
    await executor.drain()


async def test_a_handler_that_blocks_the_loop_keeps_its_lease(stage: Stage) -> None:
    """And is named in the log while it does."""
    stage.store = faulty = FaultyStore(stage.store)
    with capture_logs() as logs:

        def blamed() -> list[tuple[object, object]]:
            lines = [line for line in list(logs) if "blocks the event loop" in line["event"]]
            return [(line["task_type"], line["key"]) for line in lines]

        async def handle() -> None:
            # Blocking the loop is what this is about: until renewals have come and gone, and somebody has complained.
            renewed = faulty.calls.get("renew", 0) + 3
            until_blocking(lambda: faulty.calls.get("renew", 0) >= renewed and blamed(), "its lease is kept")

        await stage.add(handle)
        async with stage.at_work(WorkerSettings(sweep_ms=100)):
            await stage.schedule("u1")
            task = await stage.reached("u1", "completed")

    assert task.crashes == 0
    assert [run.status.value for run in await stage.runs()] == ["success"]
    assert blamed() == [("work", "u1")]


async def test_an_outage_fences_and_the_work_is_done_later(memory_stage: Stage) -> None:
    """A store outage is nobody's crash: the run is cancelled before its lease is over, and released when it can be."""
    stage, starts, cancelled = memory_stage, list[int](), asyncio.Event()
    faulty = FaultyStore(stage.store)
    stage.store = faulty

    async def handle() -> None:
        starts.append(1)
        if len(starts) > 1:
            return
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    await stage.add(handle)
    async with stage.at_work(WorkerSettings(lease_ms=4_000, sweep_ms=100, call_timeout=0.5)):
        await stage.schedule("u1")
        await until(lambda: starts)
        with faulty.down():
            async with asyncio.timeout(PATIENCE):
                await cancelled.wait()
        task = await stage.reached("u1", "completed")
    assert (task.errors, task.crashes, len(starts)) == (0, 0, 2)
