"""renew: running -> running, batched, blocking, from any thread."""

from __future__ import annotations

import asyncio

import pytest

from rota.clock import MINUTE
from rota.core.outcome import Answer
from rota.core.task import NewTask, Renewal, Transition
from rota.core.task_type import TaskType
from rota.errors import LimitExceeded
from rota.stores.base import MAX_PROGRESS_BYTES
from rota.testing.conformance.world import LEASE, WORK, Suite, World

__all__ = ["TestRenew"]


class TestRenew(Suite):
    async def test_the_lease_ends_later(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        world.clock.advance("4s")
        reply = world.renew(task)
        assert reply.answer is Answer.OK
        assert (await world.there("k")).lease_until == world.now + LEASE

    async def test_progress_is_kept_until_there_is_more(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        world.renew(task, progress='{"done": 1}')
        world.renew(task)
        assert (await world.there("k")).progress == '{"done": 1}'
        await world.settle(task, Transition.RELEASE)
        assert (await world.claim_one()).progress is None

    async def test_a_wish_to_cancel_is_told_and_the_lease_kept(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        await world.apply(Transition.CANCEL)
        world.clock.advance("4s")
        assert world.renew(task).answer is Answer.CANCEL
        assert (await world.there("k")).lease_until == world.now + LEASE

    async def test_a_stale_one_changes_nothing(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        old = await world.claim_one()
        await world.settle(old, Transition.RELEASE)
        before = await world.there("k")
        assert world.renew(old, progress="late") == (Answer.STALE, before)
        await world.claim_one(instance="i2")
        running = await world.there("k")
        assert world.renew(old, progress="late").answer is Answer.STALE
        assert await world.there("k") == running

    async def test_a_task_that_is_gone_is_stale(self, world: World, work: TaskType) -> None:
        assert world.store.renew([Renewal(WORK, "never", 1)], LEASE, now=world.now) == [(Answer.STALE, None)]
        assert world.store.renew([], LEASE, now=world.now) == []

    async def test_a_lease_taken_by_hand_is_not_shortened(self, world: World) -> None:
        await world.type(timeout_ms=5 * MINUTE)
        await world.schedule("k")
        task = (await world.claimed(lease_ms=None)).tasks[0]
        world.renew(task)
        assert (await world.there("k")).lease_until == task.lease_until

    async def test_all_leases_of_an_instance_in_one_call_from_another_thread(
        self, world: World, work: TaskType
    ) -> None:
        news = [NewTask(task_type=WORK, key=f"k{number:03}") for number in range(50)]
        await world.store.schedule(news, now=world.now)
        tasks = await world.claim(50)
        world.clock.advance("5s")
        renewals = [Renewal(WORK, task.key, task.token, f'"{task.key}"') for task in tasks]
        replies = await asyncio.to_thread(world.store.renew, renewals, LEASE, now=world.now)
        assert {reply.answer for reply in replies} == {Answer.OK}
        for task in await world.all_tasks():
            assert (task.lease_until, task.progress) == (world.now + LEASE, f'"{task.key}"')

    async def test_progress_has_a_limit(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        with pytest.raises(LimitExceeded):
            world.renew(task, progress="x" * (MAX_PROGRESS_BYTES + 1))
        assert world.renew(task, progress="x" * MAX_PROGRESS_BYTES).answer is Answer.OK
