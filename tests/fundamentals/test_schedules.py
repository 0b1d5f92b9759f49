"""Schedules that are made at run time: by a person, by a program, by an agent."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rota import Rota, TaskHandle
from rota.testing import FakeClock

Agent = TaskHandle[..., object]


@pytest.fixture
def prompts() -> list[object]:
    return []


@pytest.fixture
def agent(app: Rota, prompts: list[object]) -> Agent:
    """One type for everything that agents do; what to do is in the payload."""

    @app.task
    async def agent(payload: str) -> None:
        prompts.append(payload)

    return agent


async def test_a_schedule_has_a_trigger_of_its_own(app: Rota, agent: Agent, clock: FakeClock, prompts: list[object]):
    async with app:
        schedule = await app.schedules.upsert(
            "brief", type=agent.name, cron="0 9 * * 1-5", timezone="Europe/Berlin", payload="What changed?"
        )
        assert schedule.next_fire == datetime(2026, 1, 6, 8, 0, tzinfo=UTC)
        assert "09:00" in schedule.words

        clock.set(datetime(2026, 1, 6, 8, 0, tzinfo=UTC))
        assert await app.run_until_idle() == 1

    assert prompts == ["What changed?"]


@pytest.mark.usefixtures("agent")
async def test_the_same_id_changes_the_schedule(app: Rota, clock: FakeClock):
    """Saying the same again changes nothing, not even the grid; saying something else does."""
    async with app:
        first = await app.schedules.upsert("brief", type="agent", every="1h")
        clock.advance("10m")
        same = await app.schedules.upsert("brief", type="agent", every="1h")
        other = await app.schedules.upsert("brief", type="agent", every="2h")

        assert same == first
        assert other.next_fire == datetime(2026, 1, 5, 11, 10, tzinfo=UTC)
        assert len((await app.schedules.list()).items) == 1


@pytest.mark.usefixtures("agent")
async def test_pause_and_resume(app: Rota, clock: FakeClock):
    """What would have fired meanwhile is skipped, and the log says so."""
    async with app:
        await app.schedules.upsert("brief", type="agent", every="1h")
        paused = await app.schedules.pause("brief", "agent")
        assert paused.status == "paused"

        clock.advance("150m")
        assert await app.run_until_idle() == 0
        resumed = await app.schedules.resume("brief", "agent")
        assert resumed.next_fire == datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
        (skipped,) = (await app.runs("agent")).items
        assert (skipped.status, skipped.reason, skipped.fires) == ("skipped", "paused", 2)


@pytest.mark.usefixtures("agent")
async def test_run_now_does_not_shift_the_series(app: Rota):
    async with app:
        before = await app.schedules.upsert("brief", type="agent", every="1h")
        await app.schedules.run_now("brief", "agent")
        assert await app.run_until_idle() == 1
        after = await app.schedules.get("brief", "agent")
        assert after is not None
        assert after.next_fire == before.next_fire


@pytest.mark.usefixtures("agent")
async def test_cancelled_is_over(app: Rota, clock: FakeClock):
    async with app:
        await app.schedules.upsert("brief", type="agent", every="1h")
        cancelled = await app.schedules.cancel("brief", "agent")
        assert (cancelled.status, cancelled.next_fire) == ("cancelled", None)
        clock.advance("3h")
        assert await app.run_until_idle() == 0


@pytest.mark.usefixtures("agent")
async def test_once_and_a_limited_number_of_times(app: Rota, clock: FakeClock):
    async with app:
        await app.schedules.upsert("reminder", type="agent", at="2026-01-05T12:00:00", timezone="UTC")
        await app.schedules.upsert("tips", type="agent", every="1h", max_runs=2)
        runs = 0
        for _ in range(6):
            clock.advance("1h")
            runs += await app.run_until_idle()

    assert runs == 1 + 2


@pytest.mark.usefixtures("agent")
async def test_schedules_by_owner(app: Rota):
    async with app:
        await app.schedules.upsert("a", type="agent", every="1h", owner="family")
        await app.schedules.upsert("b", type="agent", every="1h", owner="work")
        page = await app.schedules.list(owner="family")

    assert [schedule.id for schedule in page.items] == ["a"]


def test_explain_says_what_a_trigger_means(app: Rota):
    """Also where the clocks change: 02:30 does not exist in New York on 8 March 2026."""
    explanation = app.schedules.explain(
        cron="30 2 * * *", timezone="America/New_York", n=2, start=datetime(2026, 3, 7, 5, tzinfo=UTC)
    )

    assert explanation.fires == ("2026-03-07T02:30:00-05:00", "2026-03-08T03:00:00-04:00")
    assert len(explanation.notes) == 1
