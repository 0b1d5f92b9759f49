"""record and history: what ran, in slices of time that add up."""

from __future__ import annotations

import asyncio

from rota.clock import DAY, HOUR, MINUTE
from rota.core.history import KEPT_MS, Resolution, Slice, add, of_run
from rota.core.task_type import TaskType
from rota.testing.conformance.world import WORK, Suite, World

__all__ = ["TestHistory"]


def ran(at: int, *, task_type: str = WORK, mode: str = "user_activity", reason: str | None = None) -> Slice:
    return of_run(task_type, mode, at, reason=reason, late_ms=3, took_ms=40)


class TestHistory(Suite):
    async def test_minutes_and_hours_add_up(self, world: World, work: TaskType) -> None:
        start = Resolution.HOUR.start_of(world.now)
        slices = [ran(start), ran(start + 1), ran(start + MINUTE, reason="timeout"), ran(start + HOUR)]
        world.clock.set(start + HOUR + 1)
        await world.store.record(slices[:2], now=world.now)
        await world.store.record(slices[2:], now=world.now)
        assert await world.store.history(Resolution.MINUTE, 0) == add(slices)
        assert await world.store.history(Resolution.HOUR, 0) == add(slices, Resolution.HOUR)
        assert [each.runs for each in await world.store.history(Resolution.HOUR, 0)] == [3, 1]

    async def test_in_order_and_within_bounds(self, world: World, work: TaskType) -> None:
        await world.type("other")
        start = Resolution.HOUR.start_of(world.now)
        slices = [
            ran(start + minute * MINUTE, task_type=name, mode=mode)
            for minute in (2, 0, 1)
            for name in ("work", "other")
            for mode in ("manual", "cron")
        ]
        await world.store.record(slices, now=start + HOUR)
        found = await world.store.history(Resolution.MINUTE, start)
        assert found == sorted(slices, key=lambda each: each.key)
        some = await world.store.history(Resolution.MINUTE, start + MINUTE, start + 2 * MINUTE, task_type=WORK)
        assert [each.key for each in some] == [(start + MINUTE, WORK, "cron"), (start + MINUTE, WORK, "manual")]
        assert await world.store.history(Resolution.MINUTE, start + HOUR) == []

    async def test_nothing_is_nothing(self, world: World, work: TaskType) -> None:
        await world.store.record([], now=world.now)
        assert await world.store.history(Resolution.MINUTE, 0) == []

    async def test_two_at_once_lose_nothing(self, world: World, work: TaskType) -> None:
        calls = 12
        slices = [ran(world.now), ran(world.now, mode="manual", reason="error")]
        await asyncio.gather(*(world.store.record(slices, now=world.now) for _ in range(calls)))
        for resolution in Resolution:
            found = await world.store.history(resolution, 0)
            assert [(each.success, each.error) for each in found] == [(0, calls), (calls, 0)]
            assert [sum(each.took) for each in found] == [calls, calls]

    async def test_what_is_too_old_is_dropped(self, world: World, work: TaskType) -> None:
        start = Resolution.HOUR.start_of(world.now)
        await world.store.record([ran(start)], now=world.now)
        world.clock.set(start + KEPT_MS[Resolution.MINUTE])
        await world.prune()
        assert len(await world.store.history(Resolution.MINUTE, 0)) == 1
        world.clock.advance("1m")
        await world.prune()
        assert await world.store.history(Resolution.MINUTE, 0) == []
        assert len(await world.store.history(Resolution.HOUR, 0)) == 1
        world.clock.set(start + 31 * DAY + MINUTE)
        await world.prune()
        assert await world.store.history(Resolution.HOUR, 0) == []

    async def test_what_comes_too_late_is_not_kept(self, world: World, work: TaskType) -> None:
        await world.store.record([ran(world.now - 2 * DAY)], now=world.now)
        assert await world.store.history(Resolution.MINUTE, 0) == []
        assert len(await world.store.history(Resolution.HOUR, 0)) == 1
