"""serial: n at a time. A due task whose serial is busy is parked, and every exit of a holder lets the best one in."""

from __future__ import annotations

import pytest

from rota.clock import HOUR, MINUTE
from rota.core.task import Task, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.stores.memory import MemoryStore
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import SETTLING, Suite, World, hourly

__all__ = ["TestParking", "TestSerial", "TestTheDeadOfOneSerial"]


async def parked(world: World) -> list[str]:
    return [task.key for task in await world.all_tasks() if task.parked]


async def take(world: World, limit: int = 10) -> list[str]:
    """What can be claimed now, asking again for as long as the store says that it is worth it."""
    keys: list[str] = []
    for _ in range(50):
        claimed = await world.claimed(limit)
        keys += [task.key for task in claimed.tasks]
        if not claimed.tasks and (claimed.next_due_at is None or claimed.next_due_at > world.now):
            return keys
    raise AssertionError("the store keeps saying that something is due, and gives nothing")


class TestSerial(Suite):
    async def test_one_at_a_time(self, world: World, work: TaskType) -> None:
        for key in "abc":
            await world.schedule(key, serial="s")
        assert [task.key for task in await world.claim(3)] == ["a"]
        assert await parked(world) == ["b", "c"]
        assert await world.claim(3) == []

    async def test_n_permits(self, world: World, work: TaskType) -> None:
        for key in "abcde":
            await world.schedule(key, serial="s", permits=2)
        assert await take(world) == ["a", "b"]
        await world.settle(await world.there("a"))
        assert await take(world) == ["c"]
        await world.settle(await world.there("b"))
        await world.settle(await world.there("c"))
        assert await take(world) == ["d", "e"]

    async def test_serials_do_not_hold_each_other_up(self, world: World, work: TaskType) -> None:
        await world.type("other")
        await world.schedule("a", serial="s")
        await world.schedule("b", serial="t")
        await world.schedule("c")
        await world.schedule("d", "other", serial="s")
        assert [task.key for task in await world.claim(5, ("work", "other"))] == ["a", "b", "c", "d"]

    @pytest.mark.parametrize("transition", SETTLING)
    async def test_every_exit_lets_the_next_one_in(self, world: World, work: TaskType, transition: Transition) -> None:
        await world.schedule("a", serial="s")
        await world.schedule("b", serial="s")
        holder = (await world.claim(2))[0]
        assert await parked(world) == ["b"]
        await world.settle(holder, transition, after_ms=HOUR)
        assert await parked(world) == []
        claimed = await take(world)
        assert "b" in claimed or claimed == ["a"]
        if claimed == ["a"]:
            await world.settle(await world.there("a"))
            assert await take(world) == ["b"]

    async def test_also_a_crash(self, world: World, work: TaskType) -> None:
        await world.schedule("a", serial="s")
        await world.schedule("b", serial="s")
        await world.claim(2)
        await world.tick_past_lease()
        first = await take(world)
        assert len(first) == 1
        await world.settle(await world.there(first[0]))
        second = await take(world)
        assert sorted(first + second) == ["a", "b"]

    async def test_also_an_abandoned_claim(self, world: World, work: TaskType) -> None:
        await world.schedule("a", serial="s")
        await world.schedule("b", serial="s")
        await world.claimed(2, claim_id="lost")
        await world.store.abandon("i1", "lost", now=world.now)
        assert len(await take(world)) == 1

    async def test_also_a_cancelled_run(self, world: World, work: TaskType) -> None:
        await world.schedule("a", serial="s")
        await world.schedule("b", serial="s")
        holder = (await world.claim(2))[0]
        await world.apply(Transition.CANCEL, "a")
        await world.settle(holder, Transition.RELEASE)
        assert await take(world) == ["b"]

    async def test_a_series_that_holds_it_gives_it_up_between_its_fires(self, world: World, work: TaskType) -> None:
        await world.created("a", serial="s", trigger=hourly(world.now), scheduled_at=world.now)
        await world.schedule("b", serial="s")
        holder = (await world.claim(2))[0]
        await world.settle(holder)
        assert await take(world) == ["b"]

    async def test_the_best_one_is_let_in(self, world: World, work: TaskType) -> None:
        await world.schedule("holder", serial="s", scheduled_at=world.now - HOUR)
        for key, priority in (("low", 0), ("high", 9), ("middle", 5)):
            await world.schedule(key, serial="s", priority=priority)
        holder = (await world.claim(4))[0]
        order: list[str] = []
        while True:
            await world.settle(holder)
            tasks = await world.claim(4)
            if not tasks:
                break
            assert len(tasks) == 1
            holder = tasks[0]
            order.append(holder.key)
        assert order == ["high", "middle", "low"]


class TestParking(Suite):
    async def _busy(self, world: World, *keys: str) -> Task:
        """A serial that is held by "holder", with others parked behind it."""
        for number, key in enumerate(("holder", *keys)):
            await world.schedule(key, serial="s", scheduled_at=world.now - MINUTE + number)
        holder = (await world.claim(len(keys) + 1))[0]
        assert holder.key == "holder"
        assert await parked(world) == sorted(keys)
        return holder

    async def test_parked_tasks_count_as_pending(self, world: World, work: TaskType) -> None:
        await self._busy(world, "a", "b")
        assert (await world.counts()).pending == 2
        await world.check_counts()

    async def test_parked_tasks_keep_nobody_busy(self, world: World, work: TaskType) -> None:
        await self._busy(world, "a")
        assert (await world.claimed())[:3] == ([], None, world.now)

    async def test_many_parked_ones_do_not_hide_the_free_one(self, world: World, work: TaskType) -> None:
        await world.schedule("holder", serial="s", scheduled_at=world.now - HOUR)
        assert (await world.claim_one()).key == "holder"
        for number in range(60):
            await world.schedule(f"k{number:02}", serial="s", scheduled_at=world.now - MINUTE + number)
        await world.schedule("free")
        assert await take(world, limit=1) == ["free"]

    async def test_the_one_let_in_that_is_paused_makes_way(self, world: World, work: TaskType) -> None:
        holder = await self._busy(world, "a", "b")
        await world.settle(holder)
        await world.apply(Transition.PAUSE, "a")
        assert await take(world) == ["b"]

    async def test_the_one_let_in_that_is_put_off_makes_way(self, world: World, work: TaskType) -> None:
        holder = await self._busy(world, "a", "b")
        await world.settle(holder)
        await world.update("a", scheduled_at=world.now + HOUR)
        assert await take(world) == ["b"]

    async def test_the_one_let_in_that_is_cancelled_makes_way(self, world: World, work: TaskType) -> None:
        holder = await self._busy(world, "a", "b")
        await world.settle(holder)
        await world.apply(Transition.CANCEL, "a")
        assert await take(world) == ["b"]

    @pytest.mark.parametrize("transition", [Transition.PAUSE, Transition.CANCEL, Transition.END])
    async def test_a_parked_one_can_be_asked_for_things(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        holder = await self._busy(world, "a", "b")
        reply = await world.apply(transition, "a")
        assert reply.task is not None
        assert not reply.task.parked
        await world.settle(holder)
        assert await take(world) == ["b"]

    @pytest.mark.parametrize("transition", [Transition.RUN_NOW, Transition.UPDATE])
    async def test_what_is_brought_forward_still_waits_for_the_serial(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        holder = await self._busy(world, "a", "b")
        if transition is Transition.UPDATE:
            await world.update("b", priority=10)
        else:
            await world.apply(transition, "b")
        assert await take(world) == []
        await world.settle(holder)
        assert len(await take(world)) == 1
        await world.check_counts()

    async def test_nothing_is_stranded_whatever_is_asked(self, world: World, work: TaskType) -> None:
        keys = [f"k{number}" for number in range(8)]
        holder = await self._busy(world, *keys)
        await world.apply(Transition.PAUSE, "k0")
        await world.apply(Transition.RUN_NOW, "k1")
        await world.update("k2", scheduled_at=world.now + HOUR)
        await world.apply(Transition.PAUSE, "k3")
        await world.apply(Transition.RESUME, "k3")
        await world.settle(holder)
        done: list[str] = []
        await world.apply(Transition.RESUME, "k0")
        world.clock.advance("1h")
        while True:
            tasks = await world.claim(3)
            assert len(tasks) <= 1
            if not tasks:
                break
            done.append(tasks[0].key)
            await world.settle(tasks[0])
        assert sorted(done) == keys
        assert await world.status("k2") is TaskStatus.COMPLETED


class TestTheDeadOfOneSerial(Suite):
    @pytest.mark.parametrize("permits", [1, 2, 3])
    async def test_are_taken_back_in_one_step(self, world: World, permits: int) -> None:
        """Some had renewed and some had not; who is let in must not depend on how a store deals with each."""
        twin = World(MemoryStore(clock := FakeClock(world.now)), clock)
        assert await self._parked_after_a_crash(world, permits) == await self._parked_after_a_crash(twin, permits)

    async def _parked_after_a_crash(self, world: World, permits: int) -> dict[str, bool]:
        await world.type()
        for number in range(8):
            await world.schedule(f"k{number}", serial="s", permits=permits)
            world.clock.advance("1s")
        held = await world.claim(8, instance="doomed")
        for task in held[::2]:
            world.renew(task)
        await world.tick_past_lease()
        await world.check_counts()
        return {task.key: task.parked for task in await world.all_tasks()}
