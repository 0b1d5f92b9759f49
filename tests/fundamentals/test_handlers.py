"""What a handler is told, and what it can say."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from rota import Discard, Retry, Rota, Run, Snooze
from rota.testing import FakeClock


async def test_a_handler_gets_what_it_declares(app: Rota):
    """Arguments are passed by name; a parameter annotated `Run` gets the run."""
    seen: list[tuple[object, ...]] = []

    @app.task
    async def transcribe(payload: str, run: Run) -> None:
        seen.append((payload, run.task_type, run.key, run.attempt))

    async with app:
        await transcribe.schedule("tape 1", key="t1")
        await app.run_until_idle()

    assert seen == [("tape 1", "transcribe", "t1", 1)]


async def test_a_handler_is_still_a_function(app: Rota):
    @app.task
    def double(payload: int) -> int:
        return 2 * payload

    @app.task
    async def triple(payload: int) -> int:
        return 3 * payload

    assert double(payload=2) == 4
    assert await triple(payload=2) == 6


async def test_a_plain_function_runs_in_a_thread(app: Rota):
    """It may block: the event loop does not notice."""
    threads: list[threading.Thread] = []

    @app.task
    def resize_picture() -> None:
        threads.append(threading.current_thread())

    async with app:
        await resize_picture.schedule()
        await app.run_until_idle()

    assert threads[0] is not threading.main_thread()


async def test_a_failure_is_tried_again(app: Rota, clock: FakeClock):
    """Any exception, or False, is a failure. The waits grow, and the counts are in the record."""
    attempts: list[int] = []

    @app.task(max_retries=2)
    async def call_model(run: Run) -> None:
        attempts.append(run.attempt)
        if run.attempt < 3:
            raise ConnectionError("the model is away")

    async with app:
        await call_model.schedule(key="q1")
        for _ in range(3):
            await app.run_until_idle()
            clock.advance("1h")
        task = await app.tasks.get("call_model", "q1")

    assert attempts == [1, 2, 3]
    assert task is not None
    assert task.status == "completed"


async def test_what_fails_for_good_is_a_dead_letter(app: Rota):
    """It is kept with its error, and can be given another chance."""
    broken = True

    @app.task(max_retries=0)
    async def call_model() -> None:
        if broken:
            raise ConnectionError("the model is away")

    async with app:
        await call_model.schedule(key="q1")
        await app.run_until_idle()
        (dead,) = (await app.tasks.find(status="failed")).items
        assert "the model is away" in (dead.error or "")

        broken = False
        await app.tasks.redrive("call_model", "q1")
        await app.run_until_idle()
        again = await app.tasks.get("call_model", "q1")
        assert again is not None
        assert again.status == "completed"


async def test_a_handler_may_ask_for_time(app: Rota, clock: FakeClock):
    """`Retry(after=...)` counts as a failure, `Snooze` counts nowhere."""
    answers = [Retry(after="5m"), Snooze("10m"), None]

    @app.task
    async def fetch() -> object:
        return answers.pop(0)

    async with app:
        await fetch.schedule(key="page")
        await app.run_until_idle()
        waiting = await app.tasks.get("fetch", "page")
        assert waiting is not None
        assert (waiting.scheduled_at, waiting.errors) == (datetime(2026, 1, 5, 9, 5, tzinfo=UTC), 1)

        clock.advance("5m")
        await app.run_until_idle()
        waiting = await app.tasks.get("fetch", "page")
        assert waiting is not None
        assert (waiting.scheduled_at, waiting.errors) == (datetime(2026, 1, 5, 9, 15, tzinfo=UTC), 1)

        clock.advance("10m")
        assert await app.run_until_idle() == 1


async def test_discard_is_done_with_without_a_dead_letter(app: Rota):
    @app.task
    async def index() -> None:
        raise Discard("the document is gone")

    async with app:
        await index.schedule(key="d1")
        await app.run_until_idle()
        task = await app.tasks.get("index", "d1")
        (run,) = (await app.runs("index")).items

    assert task is not None
    assert task.status == "completed"
    assert (run.reason, run.result) == ("discarded", "the document is gone")


async def test_many_failures_in_a_row_stop_new_activity(app: Rota, clock: FakeClock):
    """The breaker: nothing more is taken on for this user, until somebody has looked or a day has passed."""

    @app.on_activity(after="1m", max_retries=1)
    async def memory_compression(user_id: str) -> bool:
        return False

    async with app:
        await memory_compression.touch(user_id="u1")
        for _ in range(2):
            clock.advance("1h")
            await app.run_until_idle()
        clock.advance("1h")
        assert (await memory_compression.touch(user_id="u1")).outcome == "blocked"

        await app.tasks.reset("memory_compression", user_id="u1")
        assert (await memory_compression.touch(user_id="u1")).outcome == "created"
