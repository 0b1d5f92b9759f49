"""The token bucket: never more than rate x window + burst, over all instances."""

from __future__ import annotations

import asyncio
import math
import random

import pytest

from rota.clock import MINUTE, SECOND
from rota.core.task import Transition
from rota.core.task_type import RateLimit
from rota.errors import InvalidInput, LimitExceeded
from rota.testing.conformance.world import Suite, World, policy

__all__ = ["TestOwing", "TestRateLimit", "TestStartLimit", "TestTake"]


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

    @pytest.mark.parametrize(("rate", "burst"), [(0.0, 5), (-1.0, 5), (1.0, 0), (math.inf, 5), (math.nan, 5)])
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


class TestOwing(Suite):
    """What is taken over what is there is owed, and everybody waits until it is paid off."""

    async def _take(self, world: World, amount: int, *, owe: bool = False, bucket: str = "api") -> tuple[int, int]:
        return await world.store.take(bucket, amount, rate=2.0, burst=5, owe=owe, now=world.now)

    async def test_it_is_always_granted_and_says_when_it_is_paid_off(self, world: World) -> None:
        assert await self._take(world, 4, owe=True) == (4, 0), "nothing is owed yet"
        assert await self._take(world, 4, owe=True) == (4, 1_500)
        assert await self._take(world, 1, owe=True) == (1, 2_000)

    async def test_everybody_waits_until_it_is_paid_off(self, world: World) -> None:
        await self._take(world, 8, owe=True)
        assert await self._take(world, 2) == (0, 2_500)
        world.clock.advance(1.5)
        assert await self._take(world, 1) == (0, 500), "nothing is owed any more, but there is nothing yet"
        world.clock.advance(0.5)
        assert await self._take(world, 1) == (1, 0)

    async def test_more_than_the_bucket_ever_holds_may_be_owed(self, world: World) -> None:
        """As after "come back in an hour"."""
        assert await self._take(world, 7_200, owe=True) == (7_200, 3_597_500)
        world.clock.advance("59m")
        assert (await self._take(world, 1))[0] == 0
        world.clock.advance("1m")
        assert await self._take(world, 5) == (5, 0)
        assert (await self._take(world, 1))[0] == 0, "and it is no fuller than any other"

    async def test_giving_back_adds_and_wipes_no_debt(self, world: World) -> None:
        await self._take(world, 15, owe=True)
        assert await self._take(world, -4) == (-4, 0)
        assert await self._take(world, 1) == (0, 3_500)
        await self._take(world, -6, owe=True)
        assert await self._take(world, 1) == (0, 500)
        await self._take(world, -100)
        assert await self._take(world, 5) == (5, 0), "never over the brim"
        assert (await self._take(world, 1))[0] == 0

    async def test_asking_wipes_no_debt(self, world: World) -> None:
        await self._take(world, 10, owe=True)
        for _ in range(3):
            assert await self._take(world, 1) == (0, 3_000)
        assert await self._take(world, 0) == (0, 2_500), "nothing is asked for: until it is paid off"

    async def test_a_debt_outlives_a_long_time(self, world: World) -> None:
        await world.store.take("slow", 40, rate=1 / 3_600, burst=1, owe=True, now=world.now)
        world.clock.advance("38h")
        await world.prune()
        assert (await world.store.take("slow", 1, rate=1 / 3_600, burst=1, now=world.now))[0] == 0
        world.clock.advance("2h")
        assert (await world.store.take("slow", 1, rate=1 / 3_600, burst=1, now=world.now))[0] == 1

    async def test_a_clock_that_steps_back_pays_nothing_twice(self, world: World) -> None:
        await self._take(world, 7, owe=True)
        world.clock.set(world.now - MINUTE)
        assert await self._take(world, 0) == (0, 1_000)
        world.clock.set(world.now + MINUTE)
        assert await self._take(world, 0) == (0, 1_000)

    async def test_a_debt_that_nobody_could_pay_is_refused(self, world: World) -> None:
        with pytest.raises(LimitExceeded, match="api"):
            await self._take(world, 10**12, owe=True)
        assert await self._take(world, 5) == (5, 0), "and nothing was taken"

    async def test_from_many_callers_at_once(self, world: World) -> None:
        await asyncio.gather(*(self._take(world, 3, owe=True) for _ in range(10)))
        assert await self._take(world, 0) == (0, 12_500)

    async def test_a_type_starts_nothing_while_its_bucket_owes(self, world: World) -> None:
        await world.type(rate_limit=RateLimit(rate=2.0, burst=5))
        for key in "ab":
            await world.schedule(key)
        await self._take(world, 9, owe=True, bucket="type:work")
        for _ in range(2):
            claimed = await world.claimed(5)
            assert (claimed.tasks, claimed.next_due_at) == ([], world.now + 2_500)
        world.clock.advance(2.5)
        assert len(await world.claim(5)) == 1

    async def test_what_a_run_did_not_use_comes_back_to_its_type(self, world: World) -> None:
        await world.type(rate_limit=RateLimit(rate=2.0, burst=5))
        for key in "ab":
            await world.schedule(key, cost=5)
        assert len(await world.claim(2)) == 1
        await self._take(world, -5, bucket="type:work")
        assert len(await world.claim(2)) == 1

    async def test_a_claim_that_looks_at_what_recurs_wipes_no_debt(self, world: World) -> None:
        """On Redis that is a unit of work, not a script."""
        await world.type(rate_limit=RateLimit(rate=2.0, burst=5))
        await world.series("s")
        world.clock.advance("1h1m")
        await self._take(world, 9, owe=True, bucket="type:work")
        for _ in range(2):
            claimed = await world.claimed(5)
            assert (claimed.tasks, claimed.next_due_at) == ([], world.now + 2_500)
        world.clock.advance(2.5)
        assert len(await world.claim(5)) == 1


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


class TestStartLimit(Suite):
    """Beside what the tasks cost: how many of them start."""

    async def _limited(self, world: World, tasks: int, *, cost: int = 1, burst: int = 100) -> None:
        await world.type(rate_limit=RateLimit(rate=10.0, burst=burst), start_limit=RateLimit(rate=1.0, burst=2))
        for number in range(tasks):
            await world.schedule(f"k{number}", cost=cost)

    async def test_each_start_takes_one_whatever_it_costs(self, world: World) -> None:
        await self._limited(world, 4, cost=20)
        claimed = await world.claimed(4)
        assert (len(claimed.tasks), claimed.next_due_at) == (2, world.now + SECOND)
        assert await world.claim(4) == []
        world.clock.advance(1)
        assert len(await world.claim(4)) == 1

    async def test_without_a_rate_limit(self, world: World) -> None:
        await world.type(start_limit=RateLimit(rate=1.0, burst=2))
        for key in "abc":
            await world.schedule(key)
        claimed = await world.claimed(5)
        assert (len(claimed.tasks), claimed.next_due_at) == (2, world.now + SECOND)

    async def test_what_the_cost_refuses_takes_no_start(self, world: World) -> None:
        await self._limited(world, 2, cost=8, burst=10)
        assert len(await world.claim(2)) == 1
        for _ in range(3):
            assert await world.claim(2) == []
        taken = await world.store.take("type:work:starts", 1, rate=1.0, burst=2, now=world.now)
        assert taken.granted == 1, "one is left"

    async def test_what_the_starts_refuse_costs_nothing(self, world: World) -> None:
        await self._limited(world, 4, cost=20)
        await world.claim(4)
        for _ in range(3):
            assert await world.claim(4) == []
        assert (await world.store.take("type:work", 60, rate=10.0, burst=100, now=world.now)).granted == 60

    async def test_the_wait_is_the_later_of_the_two(self, world: World) -> None:
        await self._limited(world, 4, cost=50)
        await world.claim(4)
        claimed = await world.claimed(4)
        assert (claimed.tasks, claimed.next_due_at) == ([], world.now + 5 * SECOND), "the cost"
        world.clock.advance(5)
        await world.store.take("type:work:starts", 9, rate=1.0, burst=2, owe=True, now=world.now)
        claimed = await world.claimed(4)
        assert (claimed.tasks, claimed.next_due_at) == ([], world.now + 8 * SECOND), "the starts"
        world.clock.advance(8)
        assert len(await world.claim(4)) == 1

    async def test_others_are_not_held_up(self, world: World) -> None:
        await self._limited(world, 3)
        await world.type("free")
        for key in "fg":
            await world.schedule(key, "free")
        assert len(await world.claim(5, ("work", "free"))) == 4

    async def test_where_several_types_share_one_limit(self, world: World) -> None:
        """What cannot start leaves its place to others."""
        await self._limited(world, 5)
        await world.type("free", priority=1)
        for key in "fgh":
            await world.schedule(key, "free")
        claimed = await world.claimed(4, ("work", "free"), in_all=4)
        assert sorted(task.task_type for task in claimed.tasks) == ["free", "free", "work", "work"]
        claimed = await world.claimed(4, ("work", "free"), in_all=4)
        assert [task.task_type for task in claimed.tasks] == ["free"]
        assert claimed.next_due_at == world.now + SECOND

    async def test_what_was_skipped_takes_no_start(self, world: World) -> None:
        await world.type(start_limit=RateLimit(rate=0.001, burst=1))
        await world.series("late", policy=policy(grace_ms=SECOND))
        world.clock.advance("1h1m")
        await world.schedule("k")
        assert [task.key for task in await world.claim(2)] == ["k"]
        await world.series("again")
        world.clock.advance("16m")
        assert await world.claim(2) == [], "what recurs is held back, too"

    async def test_over_a_minute_of_hungry_claims(self, world: World) -> None:
        await self._limited(world, 100, cost=5)
        started = 0
        for _ in range(240):
            started += len(await world.claim(10))
            world.clock.advance(0.25)
        assert started == 2 + 59
