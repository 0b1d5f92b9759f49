"""What a worker must not do, by its number in docs/flaws.md, each as a test of the right behaviour."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from stage import Stage

from rota.clock import Instant
from rota.core.task import Identity
from rota.errors import StoreUnavailable
from rota.runtime import WorkerSettings
from rota.runtime.verdict import StopCause
from rota.testing import FakeClock, FaultyStore
from rota.testing.waiting import PATIENCE, until


async def test_flaw_04_lease_is_renewed_while_it_runs(still_stage: Stage, still_clock: FakeClock) -> None:
    """A run may be longer than its lease, and nobody takes it over meanwhile."""
    stage, starts, finish = still_stage, list[int](), asyncio.Event()
    stage.store = faulty = FaultyStore(stage.store)

    async def handle() -> None:
        starts.append(1)
        await finish.wait()

    await stage.add(handle)
    async with stage.at_work(WorkerSettings(lease_ms=10_000, sweep_ms=50)) as worker:
        await stage.schedule("u1")
        await stage.reached("u1", "running")
        for _ in range(10):
            now = still_clock.advance("3s")
            worker.poke()

            async def is_kept(now: Instant = now) -> bool:
                return (await stage.task("u1")).lease_until == now + 10_000

            await until(is_kept, "its lease is renewed")
            # One sweep may be under way already: the second one has seen the new time.
            swept = faulty.calls.get("tick", 0) + 2
            await until(lambda swept=swept: faulty.calls.get("tick", 0) >= swept, "somebody has swept")
        finish.set()
        task = await stage.reached("u1", "completed")

    assert (task.crashes, starts) == (0, [1])
    assert [run.status.value for run in await stage.runs()] == ["success"]


async def test_flaw_04_timeout_ends_the_run(stage: Stage) -> None:
    ended = asyncio.Event()

    async def handle() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await stage.add(handle, timeout_ms=1_200)
    started = time.monotonic()
    async with stage.at_work():
        await stage.schedule("u1")
        await ended.wait()
        task = await stage.reached("u1", "failed")

    assert time.monotonic() - started > 1.1
    assert task.reason == "timeout"
    assert "1s200ms" in (task.error or "")
    assert [(run.status.value, run.reason) for run in await stage.runs()] == [("error", "timeout")]
    assert task.crashes == 0, "nobody took it over meanwhile"


async def test_flaw_07_cleanup_is_awaited_on_stop(stage: Stage) -> None:
    """Cancellation is delivered once; what a handler awaits in its `finally` runs to its end before stop returns."""
    started, cleaned = asyncio.Event(), asyncio.Event()

    async def handle() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(20):
                await asyncio.sleep(0.005)
            cleaned.set()

    await stage.add(handle)
    worker = stage.worker(WorkerSettings(grace_ms=60_000))
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await stage.schedule("u1")
        await started.wait()
        await worker.stop(timeout=0)
        assert cleaned.is_set()

    assert await stage.status("u1") == "pending"


async def test_flaw_08_thread_is_abandoned_honestly(stage: Stage) -> None:
    """A thread cannot be ended: its run is settled, it is counted, and its identity is left alone while it lives."""
    release, calls = threading.Event(), list[str]()

    def handle(user_id: str) -> None:
        calls.append(user_id)
        if len(calls) == 1:
            release.wait(2 * PATIENCE)

    await stage.add(handle, max_retries=1)
    settings = WorkerSettings(grace_ms=50, max_concurrent=1, abandoned_limit=2)
    try:
        async with stage.at_work(settings) as worker:
            await stage.schedule("stuck")
            await until(lambda: calls, "its thread is in the handler")
            # What the timer of the timeout does; a short timeout would be one for the runs below, too.
            executor = worker._executor  # pyright: ignore[reportPrivateUsage]
            (running,) = executor.running
            executor.stopping.stop(running, StopCause.TIMEOUT)
            await until(lambda: worker.health().abandoned == 1)
            await stage.reached("stuck", "pending")
            await stage.schedule("other")
            await stage.reached("other", "completed")
            assert calls == ["stuck", "other"], "its slot is usable, its identity is not"
            await until(lambda: worker.health().ok, "one that was left behind is no reason to worry")
            release.set()
            await stage.reached("stuck", "completed")
            assert worker.health().abandoned == 0
    finally:
        release.set()

    assert [run.reason for run in await stage.runs() if run.key == "stuck"] == ["timeout", None]


async def test_flaw_18_shutdown_is_not_failure(stage: Stage) -> None:
    """Unfinished work is released: no retry is burned, no cooldown starts, and another worker runs it."""
    started = asyncio.Event()
    attempts: list[str] = []

    async def handle(user_id: str) -> None:
        attempts.append(user_id)
        started.set()
        if len(attempts) == 1:
            await asyncio.Event().wait()

    await stage.add(handle, max_retries=0)
    worker = stage.worker()
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await stage.schedule("u1")
        await started.wait()
        await worker.stop(timeout=0)

    task = await stage.task("u1")
    assert (task.status.value, task.errors, task.crashes, task.attempt) == ("pending", 0, 0, 0)
    async with stage.at_work():
        await stage.reached("u1", "completed")
    assert [run.status.value for run in await stage.runs()] == ["skipped", "success"]


async def test_flaw_22_drains_until_empty(stage: Stage) -> None:
    """Work that is due does not wait for the next check, however much of it there is."""

    async def handle() -> None: ...

    await stage.add(handle)
    await stage.schedule(*(f"u{n}" for n in range(60)))
    async with stage.at_work(WorkerSettings(max_concurrent=5, check_interval_ms=600_000, sweep_ms=600_000)):

        async def is_empty() -> bool:
            return (await stage.store.counts())["work"].completed == 60

        await until(is_empty)


async def test_flaw_23_busy_type_does_not_starve_others(stage: Stage) -> None:
    """A type with a long queue shares the slots as soon as others have work."""
    order: list[str] = []

    async def busy() -> None:
        order.append("busy")

    async def rare() -> None:
        order.append("rare")

    await stage.add(busy, "busy")
    await stage.add(rare, "rare")
    await stage.schedule(*(f"u{n}" for n in range(200)), name="busy")
    async with stage.at_work(WorkerSettings(max_concurrent=2)):
        await until(lambda: len(order) > 20)
        behind = len(order)
        await stage.schedule("u1", "u2", "u3", name="rare")
        await until(lambda: order.count("rare") == 3)
        assert order.index("rare") - behind < 100, "it did not wait for the whole queue"


async def test_flaw_23_a_type_may_be_kept_from_taking_all_slots(memory_stage: Stage) -> None:
    stage, finish = memory_stage, asyncio.Event()
    running: list[str] = []

    async def slow(user_id: str) -> None:
        running.append(user_id)
        await finish.wait()

    async def quick() -> None: ...

    await stage.add(slow, "slow", concurrency=2)
    await stage.add(quick, "quick")
    await stage.schedule("u1", "u2", "u3", "u4", name="slow")
    async with stage.at_work(WorkerSettings(max_concurrent=3)):
        await until(lambda: len(running) == 2)
        await stage.schedule("u1", name="quick")
        await stage.reached("u1", "completed", "quick")
        assert len(running) == 2
        finish.set()
        await until(lambda: len(running) == 4)


async def test_flaw_24_sync_handler_does_not_block_the_loop(stage: Stage) -> None:
    """A handler that is not async runs beside the event loop."""
    blocked, release = threading.Event(), threading.Event()

    def handle() -> None:
        blocked.set()
        release.wait(2 * PATIENCE)

    await stage.add(handle)
    try:
        async with stage.at_work():
            await stage.schedule("u1")
            await until(blocked.is_set)
            turns = [await asyncio.sleep(0, turn) for turn in range(100)]
            assert len(turns) == 100
            assert await stage.status("u1") == "running"
            release.set()
            await stage.reached("u1", "completed")
    finally:
        release.set()


async def test_flaw_25_store_down_is_an_error_not_no_task(memory_stage: Stage) -> None:
    """Health goes red, the worker stays, and work resumes by itself."""
    stage = memory_stage
    faulty = FaultyStore(stage.store)
    stage.store = faulty

    async def handle() -> None: ...

    await stage.add(handle)
    async with stage.at_work(WorkerSettings(sweep_ms=50)) as worker:
        await until(lambda: worker.health().ok)
        with faulty.down():
            with pytest.raises(StoreUnavailable):
                await stage.schedule("u1")
            await until(lambda: "StoreUnavailable" in " ".join(worker.health().reasons))
            assert not worker.health().ok
        await stage.schedule("u1")
        await stage.reached("u1", "completed")
        await until(lambda: worker.health().ok)


async def test_flaw_28_slow_task_delays_nobody(stage: Stage) -> None:
    started, finish = asyncio.Event(), asyncio.Event()

    async def handle(user_id: str) -> None:
        if user_id == "slow":
            started.set()
            await finish.wait()

    await stage.add(handle)
    async with stage.at_work(WorkerSettings(max_concurrent=2)):
        await stage.schedule("slow")
        await started.wait()
        await stage.schedule(*(f"u{n}" for n in range(10)))
        for n in range(10):
            await stage.reached(f"u{n}", "completed")
        assert await stage.status("slow") == "running"
        finish.set()
        await stage.reached("slow", "completed")
    assert (await stage.store.get([Identity("work", "slow")]))[0] is not None
