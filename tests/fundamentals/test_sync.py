"""The same for code without an event loop."""

from __future__ import annotations

import asyncio

import pytest

from rota import Rota, RotaError
from rota.testing import FakeClock


def test_a_script_needs_no_event_loop(app: Rota, clock: FakeClock):
    seen: list[str] = []

    @app.on_activity(after="30m")
    def memory_compression(user_id: str) -> None:
        seen.append(user_id)

    with app.sync as sync:
        assert memory_compression.sync.touch(user_id="u1").outcome == "created"
        assert sync.schedule_user_task("memory_compression", "u1") is False
        clock.advance("30m")
        assert sync.run_until_idle() == 1

    assert seen == ["u1"]


def test_anything_else_can_be_waited_for(app: Rota):
    @app.task
    def agent() -> None: ...

    with app.sync as sync:
        sync.schedule("agent", delay="1h", key="k")
        sync.wait(app.schedules.upsert("brief", type=agent.name, every="1h"))
        (schedule,) = sync.wait(app.schedules.list()).items

    assert schedule.words == "every hour"


async def test_a_handler_in_a_thread_uses_the_loop_that_is_there(app: Rota):
    """The app is connected in this loop; the thread's call is handed to it."""
    made: list[str] = []

    @app.task
    def second(payload: str) -> None:
        made.append(payload)

    @app.task
    def first() -> None:
        second.sync.schedule("from the first")

    async with app:
        await first.schedule()
        assert await app.run_until_idle() == 2

    assert made == ["from the first"]


async def test_inside_an_event_loop_it_refuses(app: Rota):
    """It would block the loop for ever."""

    @app.task
    def work() -> None: ...

    with pytest.raises(RotaError, match="Await the call instead"):
        work.sync.schedule()


def test_closing_twice_is_harmless_and_the_next_call_connects_again(app: Rota):
    @app.task
    def work() -> None: ...

    work.sync.schedule(key="k")
    app.sync.close()
    app.sync.close()
    assert work.sync.schedule(key="k").outcome == "exists"
    app.sync.close()


def test_an_app_lives_in_one_loop_at_a_time(app: Rota):
    @app.task
    async def work() -> None: ...

    async def elsewhere() -> None:
        async with app:
            pass

    with app.sync, pytest.raises(RotaError, match="connected in another event loop"):
        asyncio.run(elsewhere())
