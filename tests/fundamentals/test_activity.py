"""A user is active; some time later, once, something is done for that user."""

from __future__ import annotations

from datetime import UTC, datetime

from rota import Rota
from rota.testing import FakeClock


async def test_activity_is_followed_by_one_run(app: Rota, clock: FakeClock):
    """The run comes half an hour after the activity, and not before."""
    compressed: list[str] = []

    @app.on_activity(after="30m")
    async def memory_compression(user_id: str) -> None:
        compressed.append(user_id)

    async with app:
        touch = await memory_compression.touch(user_id="u1")
        assert touch.outcome == "created"
        assert touch.scheduled_at == datetime(2026, 1, 5, 9, 30, tzinfo=UTC)

        clock.advance("29m")
        assert await app.run_until_idle() == 0

        clock.advance("1m")
        assert await app.run_until_idle() == 1
        assert compressed == ["u1"]


async def test_much_activity_is_one_task(app: Rota, clock: FakeClock):
    """Whatever a user does meanwhile joins the task that waits."""

    @app.on_activity(after="30m")
    async def memory_compression(user_id: str) -> None: ...

    async with app:
        first = await memory_compression.touch(user_id="u1")
        clock.advance("10m")
        second = await memory_compression.touch(user_id="u1")
        third = await memory_compression.touch(user_id="u1")

        assert [first.outcome, second.outcome, third.outcome] == ["created", "coalesced", "coalesced"]
        assert third.scheduled_at == first.scheduled_at
        assert third.coalesced == 2

        clock.advance("30m")
        assert await app.run_until_idle() == 1


async def test_users_devices_and_agents_have_tasks_of_their_own(app: Rota, clock: FakeClock):
    """The three ids together say whose task it is; what is not given is "default"."""
    seen: set[tuple[str, str, str]] = set()

    @app.on_activity(after="1m")
    async def refresh(user_id: str, device_id: str, agent_id: str) -> None:
        seen.add((user_id, device_id, agent_id))

    async with app:
        await refresh.touch(user_id="u1")
        await refresh.touch(user_id="u1", device_id="phone")
        await refresh.touch(user_id="u1", device_id="phone", agent_id="tutor")
        await refresh.touch(user_id="u2")
        clock.advance("1m")
        assert await app.run_until_idle() == 4

    assert ("u1", "phone", "tutor") in seen
    assert ("u2", "default", "default") in seen


async def test_debounce_waits_until_the_user_is_quiet(app: Rota, clock: FakeClock):
    """With mode="debounce" each activity puts the run off, but never past max_wait."""

    @app.on_activity(after="10m", mode="debounce", max_wait="25m")
    async def summary(user_id: str) -> None: ...

    async with app:
        await summary.touch(user_id="u1")
        clock.advance("8m")
        later = await summary.touch(user_id="u1")
        assert later.scheduled_at == datetime(2026, 1, 5, 9, 18, tzinfo=UTC)

        clock.advance("8m")
        latest = await summary.touch(user_id="u1")
        assert latest.scheduled_at == datetime(2026, 1, 5, 9, 25, tzinfo=UTC)


async def test_after_a_run_there_is_a_cooldown(app: Rota, clock: FakeClock):
    """Within one interval of the last run new activity is skipped. That is the default."""

    @app.on_activity(after="30m")
    async def statistics(user_id: str) -> None: ...

    async with app:
        await statistics.touch(user_id="u1")
        clock.advance("30m")
        await app.run_until_idle()

        clock.advance("10m")
        assert (await statistics.touch(user_id="u1")).outcome == "cooldown"
        clock.advance("20m")
        assert (await statistics.touch(user_id="u1")).outcome == "created"


async def test_deferred_activity_is_never_forgotten(app: Rota, clock: FakeClock):
    """With cooldown="defer" the same activity makes a task, due when the cooldown ends."""

    @app.on_activity(after="30m", cooldown="defer")
    async def memory_compression(user_id: str) -> None: ...

    async with app:
        await memory_compression.touch(user_id="u1")
        clock.advance("30m")
        await app.run_until_idle()

        clock.advance("10m")
        touch = await memory_compression.touch(user_id="u1")
        assert touch.outcome == "deferred"
        assert touch.scheduled_at == datetime(2026, 1, 5, 10, 0, tzinfo=UTC)


async def test_activity_during_a_run_gives_exactly_one_more(app: Rota, clock: FakeClock):
    """What arrives while the handler works is not lost: one follow-up deals with all of it."""

    @app.on_activity(after="30m")
    async def memory_compression(user_id: str) -> None:
        if len(runs) == 0:
            await memory_compression.touch(user_id=user_id)
            await memory_compression.touch(user_id=user_id)
        runs.append(user_id)

    runs: list[str] = []
    async with app:
        await memory_compression.touch(user_id="u1")
        clock.advance("30m")
        assert await app.run_until_idle() == 1
        clock.advance("30m")
        assert await app.run_until_idle() == 1
        clock.advance("30m")
        assert await app.run_until_idle() == 0


async def test_an_operator_can_switch_a_type_off(app: Rota):
    """Nothing is taken on until it is enabled again, and nothing raises."""

    @app.on_activity(after="30m")
    async def memory_compression(user_id: str) -> None: ...

    async with app:
        await app.disable("memory_compression")
        assert (await memory_compression.touch(user_id="u1")).outcome == "disabled"
        await app.enable("memory_compression")
        assert (await memory_compression.touch(user_id="u1")).outcome == "created"
