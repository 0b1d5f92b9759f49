"""trace: the context in which a task was made stays with it, and goes to what comes after it."""

from __future__ import annotations

from rota.core.task import TaskStatus, Transition
from rota.core.task_type import TriggerMode
from rota.testing.conformance.world import Suite, World

__all__ = ["TestTrace"]

MADE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-01"


class TestTrace(Suite):
    async def test_every_try_has_the_trace_of_the_maker(self, world: World) -> None:
        await world.type()
        assert (await world.created(trace=MADE)).trace == MADE
        for transition in (Transition.RETRY, Transition.SNOOZE, Transition.RELEASE):
            claimed = await world.claim_due()
            assert claimed.trace == MADE
            await world.settle(claimed, transition, after_ms=1_000)
        await world.claim_due()
        await world.tick_past_lease()
        assert (await world.claim_due()).trace == MADE

    async def test_every_fire_of_a_series_has_it(self, world: World) -> None:
        await world.type()
        await world.series(trace=MADE)
        for _ in range(2):
            claimed = await world.claim_due()
            assert claimed.trace == MADE
            await world.settle(claimed)

    async def test_the_first_touch_is_the_maker(self, world: World) -> None:
        await world.type(interval_ms=1_000)
        await world.touch(trace=MADE)
        await world.touch(trace=OTHER)
        claimed = await world.claim_due()
        assert claimed.trace == MADE
        await world.touch(trace=OTHER)
        await world.settle(claimed)
        assert (await world.there("k")).status is TaskStatus.PENDING
        assert (await world.claim_due()).trace == MADE

    async def test_a_change_leaves_it(self, world: World) -> None:
        await world.type()
        await world.series(trace=MADE)
        await world.schedule(trigger=None, delay_ms=5_000, replace=True, trace=OTHER)
        assert (await world.there("k")).trace == MADE

    async def test_a_new_life_has_its_own(self, world: World) -> None:
        await world.type()
        for trace in (MADE, OTHER, None):
            await world.schedule(trace=trace)
            assert (await world.run()).trace == trace

    async def test_people_run_it_again_in_it(self, world: World) -> None:
        await world.type(max_retries=0)
        await world.schedule(trace=MADE)
        await world.run(Transition.FAIL)
        await world.apply(Transition.REDRIVE)
        assert (await world.run()).trace == MADE

    async def test_what_comes_after_it_has_it_too(self, world: World) -> None:
        """Also after a run of which there is nothing else to be said, which stores may end by a shorter way."""
        await world.type("a")
        await world.type("b", trigger_mode=TriggerMode.AFTER, after=("a",))
        await world.type("c", trigger_mode=TriggerMode.AFTER, after=("b",))
        for result in (None, '"done"'):
            await world.schedule("k", "a", trace=MADE)
            await world.run(task_type="a", result=result)
            await world.pump()
            assert (await world.run(task_type="b")).trace == MADE
            await world.pump()
            assert (await world.run(task_type="c")).trace == MADE

    async def test_of_several_the_last_one_counts(self, world: World) -> None:
        """What comes after several is made by the one that it waited for."""
        for name in "ac":
            await world.type(name)
        await world.type("d", trigger_mode=TriggerMode.AFTER, after=("a", "c"))
        for name, trace in (("a", OTHER), ("c", MADE)):
            await world.schedule("k", name, trace=trace)
            await world.run(task_type=name)
            await world.pump()
        assert (await world.there("k", "d")).trace == MADE
