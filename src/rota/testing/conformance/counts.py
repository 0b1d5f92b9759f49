"""counts: kept counters that always equal a scan."""

from __future__ import annotations

import random

from rota.core.task import TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.testing.conformance.world import WORK, Suite, World

__all__ = ["TestCounts"]


class TestCounts(Suite):
    async def test_one_of_each(self, world: World, work: TaskType) -> None:
        for key in ("completed", "failed", "running"):
            await world.schedule(key)
            if key != "running":
                await world.run(Transition.COMPLETE if key == "completed" else Transition.FAIL)
            else:
                await world.claim_one()
        for key, transition in (("cancelled", Transition.CANCEL), ("paused", Transition.PAUSE)):
            await world.schedule(key)
            await world.apply(transition, key)
        await world.schedule("pending")
        counts = await world.counts()
        assert [getattr(counts, status) for status in TaskStatus] == [1] * 6
        assert (counts.created_total, counts.succeeded_total, counts.errored_total) == (6, 1, 1)
        await world.check_counts()

    async def test_types_are_counted_apart(self, world: World, work: TaskType) -> None:
        await world.type("other")
        await world.schedule("k")
        await world.schedule("k", "other")
        await world.schedule("l", "other")
        counts = await world.store.counts()
        assert (counts[WORK].pending, counts["other"].pending) == (1, 2)

    async def test_they_equal_a_scan_after_anything(self, world: World, work: TaskType) -> None:
        chance = random.Random(6)  # noqa: S311 - a test that repeats, not a secret
        keys = [f"k{number}" for number in range(6)]
        for _ in range(150):
            key = chance.choice(keys)
            match chance.randrange(5):
                case 0:
                    await world.schedule(key)
                case 1:
                    await world.touch(key)
                case 2:
                    await world.apply(
                        chance.choice([Transition.PAUSE, Transition.RESUME, Transition.CANCEL, Transition.RUN_NOW]), key
                    )
                case 3:
                    await world.apply(chance.choice([Transition.REDRIVE, Transition.PURGE, Transition.END]), key)
                case _:
                    for task in await world.claim(2):
                        transition = chance.choice(
                            [Transition.COMPLETE, Transition.RETRY, Transition.FAIL, Transition.RELEASE]
                        )
                        await world.settle(task, transition)
            world.clock.advance(chance.choice([0, 1, 60]))
        await world.check_counts()
