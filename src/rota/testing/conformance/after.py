"""after: B becomes due for a key when each of the types it comes after has completed for that key (fan-in)."""

from __future__ import annotations

import pytest

from rota.core.task import TaskStatus, Transition
from rota.core.task_type import TriggerMode
from rota.testing.conformance.world import Suite, World

__all__ = ["TestAfter"]


class TestAfter(Suite):
    @pytest.fixture
    async def chain(self, world: World) -> None:
        """b comes after a; d comes after a and c."""
        for name in "ac":
            await world.type(name)
        await world.type("b", trigger_mode=TriggerMode.AFTER, after=("a",))
        await world.type("d", trigger_mode=TriggerMode.AFTER, after=("a", "c"))

    async def _run(self, world: World, name: str, key: str = "k", transition: Transition = Transition.COMPLETE) -> None:
        await world.schedule(key, name, user_id="u1", device_id="phone")
        await world.run(transition, name)

    async def _run_and_pump(self, world: World, name: str, key: str = "k") -> None:
        await self._run(world, name, key)
        await world.pump()

    async def test_a_completion_makes_the_follower_due(self, world: World, chain: None) -> None:
        await self._run(world, "a")
        assert await world.task("k", "b") is None
        assert await world.pump() == 1
        task = await world.there("k", "b")
        assert (task.status, task.scheduled_at) == (TaskStatus.PENDING, world.now)
        assert (task.user_id, task.device_id) == ("u1", "phone")
        assert await world.pump() == 0

    async def test_pruning_hands_on_what_no_instance_pumps(self, world: World, chain: None) -> None:
        """Where no process serves the follower any more, nobody pumps: completions would be kept for ever."""
        for key in ("k1", "k2", "k3"):
            await self._run(world, "a", key)
        assert (await world.prune(limit=2)).handed_on == 2
        assert (await world.prune()).handed_on == 1
        assert (await world.prune()).handed_on == await world.pump() == 0
        assert [await world.status(key, "b") for key in ("k1", "k2", "k3")] == [TaskStatus.PENDING] * 3

    async def test_fan_in_waits_for_all(self, world: World, chain: None) -> None:
        await self._run_and_pump(world, "a")
        assert await world.task("k", "d") is None
        await self._run_and_pump(world, "c", key="other")
        assert await world.task("k", "d") is None
        await self._run_and_pump(world, "c")
        assert await world.status("k", "d") is TaskStatus.PENDING

    async def test_again_only_after_each_has_completed_again(self, world: World, chain: None) -> None:
        for name in "ac":
            await self._run(world, name)
        await world.pump()
        await world.run(task_type="d")
        await self._run_and_pump(world, "a")
        assert await world.status("k", "d") is TaskStatus.COMPLETED
        await self._run_and_pump(world, "c")
        assert await world.status("k", "d") is TaskStatus.PENDING

    async def test_one_that_was_claimed_in_between_starts_anew(self, world: World, chain: None) -> None:
        """a completes, d is claimed by other means, c completes: that is not yet both since the claim."""
        await self._run_and_pump(world, "a")
        await world.schedule("k", "d")
        await world.run(task_type="d")
        await self._run_and_pump(world, "c")
        assert await world.status("k", "d") is TaskStatus.COMPLETED
        await self._run_and_pump(world, "a")
        assert await world.status("k", "d") is TaskStatus.PENDING

    async def test_a_completion_while_the_follower_runs_is_followed_up(self, world: World, chain: None) -> None:
        await self._run_and_pump(world, "a")
        running = await world.claim_one("b")
        await self._run_and_pump(world, "a")
        await world.settle(running)
        assert await world.status("k", "b") is TaskStatus.PENDING

    async def test_several_completions_are_one_follower(self, world: World, chain: None) -> None:
        for _ in range(3):
            await self._run(world, "a")
        assert await world.pump() == 3
        assert (await world.run(task_type="b")).status is TaskStatus.COMPLETED
        assert await world.claim(1, ("b",)) == []

    @pytest.mark.parametrize("transition", [Transition.FAIL, Transition.DISCARD, Transition.RELEASE])
    async def test_only_a_completion_counts(self, world: World, chain: None, transition: Transition) -> None:
        await self._run(world, "a", transition=transition)
        assert await world.pump() == 0
        assert await world.task("k", "b") is None

    async def test_a_failed_one_leaves_the_follower_waiting_until_it_succeeds(self, world: World, chain: None) -> None:
        await self._run(world, "a", transition=Transition.FAIL)
        await self._run_and_pump(world, "c")
        assert await world.task("k", "d") is None
        await world.store.redrive([(await world.there("k", "a")).identity], now=world.now)
        await world.run(task_type="a")
        await world.pump()
        assert await world.status("k", "d") is TaskStatus.PENDING

    async def test_types_that_nobody_follows_are_not_remembered(self, world: World, chain: None) -> None:
        await world.type()
        await world.schedule("k")
        await world.run()
        assert await world.pump() == 0

    async def test_a_page_at_a_time(self, world: World, chain: None) -> None:
        for number in range(5):
            await self._run(world, "a", key=f"k{number}")
        handed = [await world.store.pump(2, now=world.now) for _ in range(4)]
        assert handed == [2, 2, 1, 0]
        assert len(await world.claim(9, ("b",))) == 5
