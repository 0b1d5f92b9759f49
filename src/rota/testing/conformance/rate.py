"""The token bucket: never more than rate x window + burst, over all instances."""

from __future__ import annotations

import asyncio
import random

import pytest

from rota.clock import MINUTE, SECOND
from rota.core.task import Transition
from rota.core.task_type import RateLimit
from rota.errors import InvalidInput, LimitExceeded
from rota.testing.conformance.world import Suite, World, policy

__all__ = ["TestRateLimit", "TestTake"]


class TestTake(Suite):
    async def _take(self, world: World, amount: int, rate: float = 2.0, burst: int = 5) -> tuple[int, int]:
        return await world.store.take("api", amount, rate=rate, burst=burst, now=world.now)

    async def test_a_fresh_bucket_is_full(self, world: World) -> None:
        assert await self._take(world, 5) == (5, 0)
        assert await self._take(world, 1) == (0, 500)

    async def test_all_or_nothing_and_how_long_to_wait(self, world: World) -> None:
        await self._take(world, 4)
        assert await self._take(world, 3) == (0, 1_000)
        assert await self._take(world, 1) == (1, 0)
        world.clock.advance(1)
        assert await self._take(world, 2) == (2, 0)

    async def test_waiting_as_long_as_it_says_is_enough(self, world: World) -> None:
        await self._take(world, 5, rate=3.0)
        granted, wait_ms = await self._take(world, 2, rate=3.0)
        assert granted == 0
        world.clock.set(world.now + wait_ms)
        assert (await self._take(world, 2, rate=3.0))[0] == 2

    async def test_a_negative_amount_gives_back_but_never_over_the_brim(self, world: World) -> None:
        await self._take(world, 3)
        await self._take(world, -2)
        assert await self._take(world, 4) == (4, 0)
        await self._take(world, -100)
        assert await self._take(world, 5) == (5, 0)
        assert (await self._take(world, 1))[0] == 0

    async def test_more_than_the_capacity_is_refused(self, world: World) -> None:
        with pytest.raises(LimitExceeded, match="api"):
            await self._take(world, 6)

    @pytest.mark.parametrize(("rate", "burst"), [(0.0, 5), (-1.0, 5), (1.0, 0)])
    async def test_an_impossible_bucket_is_refused(self, world: World, rate: float, burst: int) -> None:
        with pytest.raises(InvalidInput):
            await self._take(world, 1, rate=rate, burst=burst)

    async def test_a_clock_that_steps_back_credits_nothing_twice(self, world: World) -> None:
        await self._take(world, 5)
        world.clock.set(world.now - MINUTE)
        assert (await self._take(world, 1))[0] == 0
        world.clock.set(world.now + MINUTE)
        assert (await self._take(world, 1))[0] == 0

    async def test_an_idle_bucket_does_not_come_back_fuller(self, world: World) -> None:
        await self._take(world, 5, rate=1 / 60)
        world.clock.advance("61s")
        await world.prune()
        assert (await self._take(world, 2, rate=1 / 60))[0] == 0
        assert (await self._take(world, 1, rate=1 / 60))[0] == 1

    async def test_over_any_window(self, world: World) -> None:
        """Many takers at random times: in every window at most rate x window + burst."""
        chance = random.Random(46)  # noqa: S311 - a test that repeats, not a secret
        granted: list[tuple[int, int]] = []
        for _ in range(300):
            world.clock.advance(chance.choice([0, 0.001, 0.05, 0.3, 1.7]))
            amount = chance.randint(1, 3)
            if (await self._take(world, amount))[0]:
                granted.append((world.now, amount))
        for first in range(len(granted)):
            total = 0
            for at, amount in granted[first:]:
                total += amount
                assert total <= 2.0 * (at - granted[first][0]) / SECOND + 5 + 1e-6

    async def test_at_once_from_many_callers(self, world: World) -> None:
        answers = await asyncio.gather(*(self._take(world, 1) for _ in range(20)))
        assert sum(granted for granted, _ in answers) == 5


class TestRateLimit(Suite):
    async def _limited(self, world: World, tasks: int, cost: int = 1) -> None:
        await world.type(rate_limit=RateLimit(rate=1.0, burst=2))
        for number in range(tasks):
            await world.schedule(f"k{number}", cost=cost)

    async def test_a_claim_takes_no_more_than_the_bucket_holds(self, world: World) -> None:
        await self._limited(world, 5)
        claimed = await world.claimed(5)
        assert len(claimed.tasks) == 2
        assert claimed.next_due_at == world.now + SECOND
        assert await world.claim(5) == []
        world.clock.advance(1)
        assert len(await world.claim(5)) == 1

    async def test_what_is_held_back_stays_pending(self, world: World) -> None:
        await self._limited(world, 3)
        await world.claim(3)
        assert (await world.counts()).pending == 1

    async def test_others_are_not_held_up(self, world: World) -> None:
        await self._limited(world, 3)
        await world.type("free")
        await world.schedule("f", "free")
        assert len(await world.claim(5, ("work", "free"))) == 3

    async def test_weighted_cost(self, world: World) -> None:
        await self._limited(world, 3, cost=2)
        assert len(await world.claim(3)) == 1
        world.clock.advance(1)
        assert await world.claim(3) == []
        world.clock.advance(1)
        assert len(await world.claim(3)) == 1

    async def test_what_was_skipped_costs_nothing(self, world: World) -> None:
        await world.type(rate_limit=RateLimit(rate=0.001, burst=1))
        await world.series("late", policy=policy(grace_ms=SECOND))
        world.clock.advance("1h1m")
        await world.schedule("k")
        assert [task.key for task in await world.claim(2)] == ["k"]

    async def test_over_a_minute_of_hungry_claims(self, world: World) -> None:
        await self._limited(world, 100)
        started = 0
        for _ in range(240):
            started += len(await world.claim(10))
            world.clock.advance(0.25)
        assert started == 2 + 59

    async def test_a_cost_over_a_capacity_that_was_lowered_still_runs(self, world: World) -> None:
        await world.type(rate_limit=RateLimit(rate=1.0, burst=5))
        await world.schedule("k", cost=5)
        await world.type(rate_limit=RateLimit(rate=1.0, burst=2))
        assert len(await world.claim()) == 1

    async def test_a_released_run_is_paid_for_again(self, world: World) -> None:
        await self._limited(world, 1)
        await world.run(Transition.RELEASE)
        await world.run(Transition.RELEASE)
        assert await world.claim() == []
