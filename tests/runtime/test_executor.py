"""One run: what a handler's answer, its cancellation and a store's troubles lead to."""

from __future__ import annotations

import asyncio
import threading
import uuid

import pytest
from stage import Stage
from structlog.testing import capture_logs

from rota.core.outcome import Answer
from rota.core.task import NewTask, Settlement, Task, Transition
from rota.runtime import Discard, Retry, Run, Snooze
from rota.runtime.executor import Executor
from rota.runtime.verdict import StopCause
from rota.stores.base import MAX_TEXT, ClaimRequest
from rota.testing import FaultyStore
from rota.testing.waiting import until
from rota.triggers import Interval, encode_trigger


async def claimed(stage: Stage, key: str = "u1", payload: str | None = None) -> Task:
    await stage.schedule(key, payload=payload)
    request = ClaimRequest(wants=[("work", 1)], instance="here", claim_id=uuid.uuid4().hex, lease_ms=10_000)
    return (await stage.store.claim(request)).tasks[0]


async def run_one(stage: Stage, executor: Executor | None = None) -> Task:
    executor = executor or stage.executor()
    executor.start(await claimed(stage), stage.clock.monotonic())
    await executor.drain()
    executor.close()
    assert not executor.running
    return await stage.task("u1")


@pytest.mark.parametrize("value", [True, None, "fine", {"merged": 3}])
async def test_what_means_success(still_stage: Stage, value: object) -> None:
    async def handle() -> object:
        return value

    await still_stage.add(handle)
    assert (await run_one(still_stage)).status.value == "completed"


async def test_a_summary_is_kept(still_stage: Stage) -> None:
    async def handle() -> object:
        return {"merged": 3}

    await still_stage.add(handle)
    assert (await run_one(still_stage)).result == '{"merged":3}'


async def test_a_long_summary_is_cut_between_characters(still_stage: Stage) -> None:
    async def handle() -> str:
        return "\N{GRINNING FACE}" * (MAX_TEXT + 5) + "\0"

    await still_stage.add(handle)
    assert (await run_one(still_stage)).result == "\N{GRINNING FACE}" * MAX_TEXT


async def test_text_that_no_store_keeps_is_made_fit(still_stage: Stage) -> None:
    async def handle() -> str:
        return "a\0b\ud800c"

    await still_stage.add(handle)
    task = await run_one(still_stage)
    assert task.status.value == "completed"
    assert task.result is not None
    assert task.result.startswith("a")


async def test_false_is_a_failure(still_stage: Stage) -> None:
    async def handle() -> bool:
        return False

    await still_stage.add(handle)
    task = await run_one(still_stage)
    assert (task.status.value, task.reason, task.error) == ("failed", "error", "The handler returned False.")


@pytest.mark.parametrize(
    "failure", [ValueError("no such thing"), SystemExit(3), asyncio.CancelledError(), KeyError("x")]
)
async def test_an_exception_is_a_failure(still_stage: Stage, failure: BaseException) -> None:
    async def handle() -> None:
        raise failure

    await still_stage.add(handle)
    task = await run_one(still_stage)
    assert (task.status.value, task.reason) == ("failed", "error")
    assert type(failure).__name__ in (task.error or "")


async def test_an_exception_in_a_thread_is_a_failure(still_stage: Stage) -> None:
    def handle() -> None:
        raise StopIteration("odd")

    await still_stage.add(handle)
    assert (await run_one(still_stage)).reason == "error"


async def test_an_answer_that_means_nothing_is_a_dead_letter(still_stage: Stage) -> None:
    """Trying again would only repeat what was done."""

    async def handle() -> object:
        return 5

    await still_stage.add(handle, max_retries=3)
    task = await run_one(still_stage)
    assert task.status.value == "failed"
    assert "returned a int" in (task.error or "")
    assert "Return True or None" in (task.error or "")


async def test_a_coroutine_that_nobody_awaits_is_explained(still_stage: Stage) -> None:
    async def inner() -> None: ...

    def handle() -> object:
        return inner()

    await still_stage.add(handle)
    assert "Declare it async" in ((await run_one(still_stage)).error or "")


@pytest.mark.parametrize("raised", [True, False])
async def test_signals_can_be_returned_or_raised(still_stage: Stage, raised: bool) -> None:
    async def handle() -> object:
        signal = Retry(after="7s", reason="rate_limited")
        if raised:
            raise signal
        return signal

    await still_stage.add(handle, max_retries=1)
    task = await run_one(still_stage)
    assert (task.status.value, task.reason, task.errors) == ("pending", "rate_limited", 1)
    assert task.scheduled_at == still_stage.clock.now() + 7_000


async def test_snooze_counts_nowhere(still_stage: Stage) -> None:
    async def handle() -> object:
        return Snooze("2m")

    await still_stage.add(handle)
    task = await run_one(still_stage)
    assert (task.status.value, task.errors, task.attempt) == ("pending", 0, 0)
    assert task.scheduled_at == still_stage.clock.now() + 120_000


async def test_discard_is_done_with(still_stage: Stage) -> None:
    async def handle() -> object:
        return Discard("the user is gone")

    await still_stage.add(handle)
    task = await run_one(still_stage)
    assert (task.status.value, task.reason, task.result) == ("completed", "discarded", "the user is gone")


async def test_a_task_without_a_handler_is_released(still_stage: Stage) -> None:
    async def handle() -> None: ...

    await still_stage.add(handle)
    still_stage.handlers.clear()
    assert (await run_one(still_stage)).status.value == "pending"


async def test_a_payload_that_is_no_json_is_an_error(still_stage: Stage) -> None:
    async def handle(payload: object) -> None: ...

    await still_stage.add(handle)
    executor = still_stage.executor()
    executor.start(await claimed(still_stage, payload="{"), 0.0)
    await executor.drain()
    assert "is no JSON" in ((await still_stage.task("u1")).error or "")


# --- being told to stop ---


@pytest.mark.parametrize("how", ["swallows", "shields"])
async def test_a_handler_that_ignores_cancellation_is_given_up_on(stage: Stage, how: str) -> None:
    """Its run is settled without it, its slot is free, and nothing it does later counts."""
    released = asyncio.Event()

    async def stubborn() -> str:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    async def shielding() -> str:
        try:
            await asyncio.shield(released.wait())
        finally:
            await released.wait()
        return "too late"

    await stage.add(stubborn if how == "swallows" else shielding, timeout_ms=50)
    executor = stage.executor(grace=0.05)
    executor.start(await claimed(stage), stage.clock.monotonic())
    try:
        await until(lambda: not executor.running)
        task = await stage.task("u1")
        assert (task.status.value, task.reason) == ("failed", "timeout")
        assert executor.stopping.excluded == {task.identity}
        assert executor.stopping.abandoned_total == 1
    finally:
        released.set()
    await until(lambda: not executor.stopping.abandoned)
    assert (await stage.task("u1")).result is None


async def test_a_late_success_after_the_timeout_is_a_timeout(still_stage: Stage) -> None:
    async def handle() -> bool:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return True
        return True

    await still_stage.add(handle, timeout_ms=20)
    assert (await run_one(still_stage)).reason == "timeout"


@pytest.mark.parametrize(("answer", "status"), [(True, "completed"), (None, "pending"), (False, "pending")])
async def test_at_shutdown_only_an_explicit_success_counts(still_stage: Stage, answer: object, status: str) -> None:
    """A bare return is what a handler does that saw `run.cancelled` and left: the work is not done."""
    started = threading.Event()

    def handle(run: Run) -> object:
        started.set()
        while not run.cancelled:
            threading.Event().wait(0.001)
        return answer

    await still_stage.add(handle)
    executor = still_stage.executor(grace=60)
    executor.start(await claimed(still_stage), 0.0)
    await until(started.is_set)
    executor.stop_all(StopCause.SHUTDOWN)
    await executor.drain()
    executor.close()
    task = await still_stage.task("u1")
    assert (task.status.value, task.errors) == (status, 0)


async def test_a_run_that_is_stopped_before_its_first_step_never_starts(still_stage: Stage) -> None:
    called: list[int] = []

    async def handle() -> None:
        called.append(1)

    await still_stage.add(handle)
    executor = still_stage.executor()
    executor.start(await claimed(still_stage), 0.0)
    executor.stop_all(StopCause.SHUTDOWN)
    await executor.drain()
    assert called == []
    assert await still_stage.status("u1") == "pending"


async def test_a_lost_lease_writes_nothing(still_stage: Stage) -> None:
    async def handle() -> None:
        await asyncio.Event().wait()

    await still_stage.add(handle)
    faulty = FaultyStore(still_stage.store)
    still_stage.store = faulty
    executor = still_stage.executor()
    running = executor.start(await claimed(still_stage), 0.0)
    await until(lambda: running.entered)
    executor.stopping.stop(running, StopCause.LOST)
    await executor.drain()
    assert "settle" not in faulty.calls
    assert await still_stage.status("u1") == "running"


# --- the store's troubles ---


async def test_a_settle_is_tried_until_the_store_is_back(still_stage: Stage) -> None:
    async def handle() -> None: ...

    await still_stage.add(handle)
    faulty = FaultyStore(still_stage.store)
    still_stage.store = faulty
    faulty.down("settle", calls=3)
    assert (await run_one(still_stage)).status.value == "completed"
    assert faulty.calls["settle"] == 4


async def test_a_settle_whose_reply_was_lost_counts_once(still_stage: Stage) -> None:
    async def handle() -> None: ...

    await still_stage.add(handle)
    faulty = FaultyStore(still_stage.store)
    still_stage.store = faulty
    faulty.torn("settle", calls=1)
    landed: list[bool] = []
    executor = still_stage.executor()
    executor.on_settled = lambda ended: landed.extend(running.landed for running in ended)
    await run_one(still_stage, executor)
    assert landed == [True]
    assert len(await still_stage.runs()) == 1


async def test_a_stale_settle_changes_nothing(still_stage: Stage) -> None:
    finish = asyncio.Event()

    async def handle() -> str:
        await finish.wait()
        return "mine"

    await still_stage.add(handle)
    executor = still_stage.executor()
    landed: list[bool] = []
    executor.on_settled = lambda ended: landed.extend(running.landed for running in ended)
    task = await claimed(still_stage)
    executor.start(task, 0.0)
    other = Settlement(task_type="work", key="u1", token=task.token, transition=Transition.DISCARD)
    assert (await still_stage.store.settle([other]))[0].answer is Answer.OK
    finish.set()
    await executor.drain()
    assert landed == [False]
    assert (await still_stage.task("u1")).result is None


# --- threads ---


async def test_threads_are_used_again(still_stage: Stage) -> None:
    seen: list[threading.Thread] = []

    def handle() -> None:
        seen.append(threading.current_thread())

    await still_stage.add(handle)
    executor = still_stage.executor()
    for key in ("a", "b", "c"):
        executor.start(await claimed(still_stage, key), 0.0)
        await executor.drain()
        # It goes back a moment after its answer.
        await until(lambda: executor._threads._idle, "its thread is idle")  # pyright: ignore[reportPrivateUsage]
    executor.close()
    assert len(set(seen)) == 1
    await until(lambda: not any(thread.is_alive() for thread in seen))
    assert all(thread.daemon for thread in seen), "a hanging handler must not keep the process alive"


async def test_the_log_calls_no_failure_a_retry_that_is_not_tried_again(still_stage: Stage) -> None:
    async def fails() -> None:
        raise RuntimeError("no")

    await still_stage.add(fails, max_retries=1)
    series = NewTask(
        task_type="work",
        key="often",
        trigger=encode_trigger(Interval(every_ms=60_000, anchor_at=still_stage.clock.now())),
    )
    await still_stage.store.schedule([NewTask(task_type="work", key="once"), series])
    await still_stage.store.apply(Transition.RUN_NOW, [series.identity])
    with capture_logs() as said:
        await still_stage.worker().run_until_idle()
    failed = [(line["key"], line["outcome"]) for line in said if line["event"] == "run failed"]
    assert sorted(failed) == [("often", "fail"), ("often", "retry"), ("once", "fail"), ("once", "retry")]
