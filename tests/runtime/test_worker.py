"""A worker's life: starting, working, stopping in every way."""

from __future__ import annotations

import asyncio
import threading

import pytest
from stage import Stage

from rota.clock import HOUR, Instant
from rota.core.task import Identity, NewTask
from rota.errors import InvalidConfig, RotaError
from rota.runtime import Retry, Run, Snooze, Worker, WorkerSettings, heartbeat, make_handler
from rota.runtime.observer import Observer
from rota.runtime.running import Running
from rota.runtime.verdict import Verdict
from rota.stores.base import Beat, Claimed, ClaimRequest, Tick
from rota.testing import FakeClock, FaultyStore
from rota.testing.waiting import PATIENCE, until


async def test_it_runs_what_is_due(stage: Stage) -> None:
    seen: list[str] = []

    async def handle(user_id: str) -> None:
        seen.append(user_id)

    await stage.add(handle)
    async with stage.at_work():
        await stage.schedule("u1", "u2")
        await stage.reached("u1", "completed")
        await stage.reached("u2", "completed")

    assert sorted(seen) == ["u1", "u2"]


async def test_new_work_starts_at_once_and_not_at_the_next_check(stage: Stage) -> None:
    async def handle() -> None: ...

    await stage.add(handle)
    async with stage.at_work(WorkerSettings(check_interval_ms=600_000, sweep_ms=600_000)) as worker:
        await until(lambda: (worker.health().seconds_since_good or {})["dispatcher"] is not None, "it has looked once")
        await stage.schedule("u1")
        await stage.reached("u1", "completed")


async def test_it_is_listed_while_it_works_and_not_afterwards(stage: Stage) -> None:
    async def handle() -> None: ...

    await stage.add(handle)
    async with stage.at_work() as worker:
        await until(stage.store.instances)
        assert [listed.beat.instance for listed in await stage.store.instances()] == [worker.instance]

    assert await stage.store.instances() == []


async def test_a_sweep_under_way_does_not_list_it_again(memory_stage: Stage) -> None:
    """A sweep that has begun is carried out, whoever still waits for it: it must not come after the goodbye."""
    stage, begun, go_on = memory_stage, threading.Event(), threading.Event()

    class Slow(FaultyStore):
        def tick_blocking(self, beat: Beat, *, now: Instant | None = None, timeout: float | None = None) -> Tick:
            begun.set()
            go_on.wait(PATIENCE)
            return super().tick_blocking(beat, now=now, timeout=timeout)

    async def handle() -> None: ...

    stage.store = Slow(stage.store)
    await stage.add(handle)
    worker = stage.worker(WorkerSettings(call_timeout=PATIENCE))
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await until(begun.is_set)
        group.create_task(worker.stop(timeout=0))
        sweeper = worker._sweeper  # pyright: ignore[reportPrivateUsage]
        await until(lambda: sweeper.is_stopping or not worker.is_running, "it waits for the sweep, or is gone")
        go_on.set()
    assert await stage.store.instances() == []


async def test_stop_waits_for_running_work(stage: Stage) -> None:
    started, finish = asyncio.Event(), asyncio.Event()

    async def handle() -> None:
        started.set()
        await finish.wait()

    await stage.add(handle)
    worker = stage.worker()
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await stage.schedule("u1")
        await started.wait()
        stopping = group.create_task(worker.stop())
        await asyncio.sleep(0)
        await stage.schedule("u2")
        finish.set()
        await stopping

    assert not worker.is_running
    assert await stage.status("u1") == "completed"
    assert await stage.status("u2") == "pending", "nothing new is begun once it was asked to stop"


async def test_stop_with_no_time_cancels_at_once(stage: Stage) -> None:
    started = await stage.add_endless()
    worker = stage.worker()
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await stage.schedule("u1")
        await started.wait()
        async with asyncio.timeout(PATIENCE):
            await worker.stop(timeout=0)

    assert await stage.status("u1") == "pending"


async def test_a_second_stop_may_be_more_impatient(memory_stage: Stage) -> None:
    stage = memory_stage
    started = await stage.add_endless()
    worker = stage.worker()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await stage.schedule("u1")
        await started.wait()
        group.create_task(worker.stop(timeout=600))
        group.create_task(worker.stop(timeout=0))

    await worker.stop()
    assert await stage.status("u1") == "pending"


async def test_stop_before_start_is_harmless_and_lasts(memory_stage: Stage) -> None:
    async def handle() -> None: ...

    await memory_stage.add(handle)
    worker = memory_stage.worker()
    await worker.stop()
    async with asyncio.timeout(PATIENCE):
        await worker.run()
    assert not worker.is_running


async def test_cancelling_run_releases_what_it_runs(stage: Stage) -> None:
    started = await stage.add_endless()
    worker = stage.worker()
    running = asyncio.ensure_future(worker.run())
    await stage.schedule("u1")
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert await stage.status("u1") == "pending"
    assert not worker.is_running


async def test_stop_is_bounded_while_the_store_is_away(memory_stage: Stage) -> None:
    stage = memory_stage
    faulty = FaultyStore(stage.store)
    stage.store = faulty
    started = await stage.add_endless()
    worker = stage.worker(WorkerSettings(call_timeout=0.2, grace_ms=100))
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await stage.schedule("u1")
        await started.wait()
        with faulty.down():
            await worker.stop(timeout=0)


async def test_stop_is_bounded_with_handlers_that_do_not_stop(stage: Stage) -> None:
    """They are left behind, and their work is released."""
    release = threading.Event()

    def deaf() -> None:
        release.wait(2 * PATIENCE)

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    await stage.add(deaf, "deaf")
    await stage.add(stubborn, "stubborn")
    worker = stage.worker(WorkerSettings(grace_ms=50))
    left = asyncio.all_tasks()
    try:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            await stage.schedule("u1", name="deaf")
            await stage.schedule("u1", name="stubborn")
            await until(lambda: worker.health().running == 2)
            await worker.stop(timeout=0)
        assert worker.health().abandoned == 2
        assert await stage.status("u1", "deaf") == "pending"
        assert await stage.status("u1", "stubborn") == "pending"
    finally:
        release.set()
        for task in asyncio.all_tasks() - left:
            task.cancel()
    await until(lambda: worker.health().abandoned == 0)


async def test_a_worker_cannot_run_twice_at_once(memory_stage: Stage) -> None:
    async def handle() -> None: ...

    await memory_stage.add(handle)
    async with memory_stage.at_work() as worker:
        with pytest.raises(RotaError, match="already running"):
            await worker.run()


async def test_a_handler_without_a_type_is_refused(memory_stage: Stage) -> None:
    async def handle() -> None: ...

    await memory_stage.add(handle, "compression")
    handlers = {"compresion": make_handler("compresion", handle)}
    with pytest.raises(InvalidConfig, match="Did you mean 'compression'"):
        Worker(memory_stage.store, handlers, memory_stage.types, clock=memory_stage.clock)


async def test_cancel_reaches_the_handler_within_a_second(stage: Stage) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def handle() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    await stage.add(handle, max_retries=3)
    # The answer to a renewal carries it. Of a lease of an hour every quarter would do, but a second is promised.
    assert heartbeat.LONGEST_PERIOD < 1
    async with stage.at_work(WorkerSettings(lease_ms=HOUR)):
        await stage.schedule("u1")
        await started.wait()
        await stage.store.cancel([Identity("work", "u1")])
        async with asyncio.timeout(PATIENCE):
            await cancelled.wait()
        task = await stage.reached("u1", "cancelled")

    assert task.reason == "cancelled"


async def test_a_poke_brings_a_cancel_at_once(memory_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "LONGEST_PERIOD", 600.0)
    stage = memory_stage
    started = await stage.add_endless()
    async with stage.at_work(WorkerSettings(lease_ms=HOUR)) as worker:
        await stage.schedule("u1")
        await started.wait()
        await stage.store.cancel([Identity("work", "u1")])
        worker.poke()
        await stage.reached("u1", "cancelled")


async def test_until_idle_works_off_everything_that_is_due(still_stage: Stage, still_clock: FakeClock) -> None:
    stage, seen = still_stage, list[str]()

    async def handle(user_id: str) -> object:
        seen.append(user_id)
        if user_id == "flaky" and seen.count("flaky") == 1:
            return Retry(after=0)
        return Snooze("1h") if user_id == "later" and seen.count("later") == 1 else None

    await stage.add(handle, max_retries=1)
    worker = stage.worker()
    await stage.schedule("plain", "flaky", "later")

    assert await worker.run_until_idle() == 4
    assert await stage.status("later") == "pending"
    assert await worker.run_until_idle() == 0
    still_clock.advance("1h")
    assert await worker.run_until_idle() == 1
    assert sorted(seen) == ["flaky", "flaky", "later", "later", "plain"]


async def test_until_idle_runs_what_comes_after(still_stage: Stage) -> None:
    stage, seen = still_stage, list[str]()

    async def first(user_id: str) -> None:
        seen.append(f"first {user_id}")

    async def second(user_id: str) -> None:
        seen.append(f"second {user_id}")

    await stage.add(first, "first")
    await stage.add(second, "second", after=("first",))
    await stage.schedule("u1", name="first")

    assert await stage.worker().run_until_idle() == 2
    assert seen == ["first u1", "second u1"]


async def test_what_comes_after_runs_without_waiting_for_a_poll(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle() -> None: ...

    monkeypatch.setattr("rota.runtime.pump.PERIOD_SECONDS", 600.0)
    await stage.add(handle, "first")
    await stage.add(handle, "second", after=("first",))
    async with stage.at_work(WorkerSettings(check_interval_ms=600_000, sweep_ms=600_000)):
        await stage.schedule("u1", name="first")
        await stage.reached("u1", "completed", "second")


async def test_until_idle_says_when_the_store_is_away(memory_stage: Stage) -> None:
    stage = memory_stage
    faulty = FaultyStore(stage.store)
    stage.store = faulty

    async def handle() -> None: ...

    await stage.add(handle)
    with faulty.down("claim"), pytest.raises(RotaError, match="down on purpose"):
        await stage.worker().run_until_idle()


async def test_a_dead_instance_is_taken_over(stage: Stage) -> None:
    """Its lease runs out, and somebody else runs its task: the crash is on record."""
    seen: list[int] = []

    async def handle() -> None:
        seen.append(1)

    await stage.add(handle)
    await stage.schedule("u1")
    await stage.store.claim(ClaimRequest(wants=[("work", 1)], instance="dead", claim_id="c", lease_ms=300))
    # Nobody has swept so far, so its lease is prolonged to one of these first.
    async with stage.at_work(WorkerSettings(lease_ms=4_000, sweep_ms=100)):
        await stage.reached("u1", "completed")

    assert seen == [1]
    assert [run.status.value for run in await stage.runs()] == ["lost", "success"]


async def test_what_a_run_lets_in_while_the_last_look_is_made_is_worked_off(stage: Stage) -> None:
    """Two of one serial: the second one may start when the first one has ended, and somebody looks after that."""
    has_looked, has_ended = asyncio.Event(), asyncio.Event()

    class Late(FaultyStore):
        """The answer to a claim that found nothing comes after the end of a run which it did not see."""

        async def claim(self, request: ClaimRequest, *, now: Instant | None = None) -> Claimed:
            claimed = await super().claim(request, now=now)
            if not claimed.tasks and not has_looked.is_set():
                has_looked.set()
                await has_ended.wait()
            return claimed

    class Ended(Observer):
        def run_ended(self, running: Running, verdict: Verdict | None, landed: bool) -> None:
            if running.task.key == "first":
                has_ended.set()

    async def handle(run: Run) -> None:
        if run.key == "first":
            await has_looked.wait()

    await stage.add(handle)
    stage.store = Late(stage.store)
    serials = {"other": None, "first": "s", "next": "s"}
    await stage.store.schedule([NewTask(task_type="work", key=key, serial=serial) for key, serial in serials.items()])
    worker = Worker(stage.store, stage.handlers, stage.types, clock=stage.clock, observers=(Ended(),))
    assert await worker.run_until_idle() == 3
