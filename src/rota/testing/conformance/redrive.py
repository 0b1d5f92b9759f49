"""redrive: failed -> pending, with fresh counts."""

from __future__ import annotations

from rota.core.outcome import Answer
from rota.core.task import Identity, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.testing.conformance.world import WORK, Suite, World

__all__ = ["TestRedrive"]


class TestRedrive(Suite):
    async def test_a_dead_letter_runs_again_with_all_its_retries(self, world: World) -> None:
        await world.type(max_retries=1)
        await world.schedule("k", payload="p")
        for _ in range(2):
            await world.run(Transition.RETRY, after_ms=0, error="boom")
        assert await world.status("k") is TaskStatus.FAILED
        world.clock.advance("1h")
        reply = await world.apply(Transition.REDRIVE)
        task = await world.there("k")
        assert reply == (Answer.OK, task)
        assert (task.status, task.scheduled_at) == (TaskStatus.PENDING, world.now)
        assert (task.errors, task.crashes, task.attempt, task.error) == (0, 0, 0, None)
        assert (task.payload, task.finished_at, task.purge_at) == ("p", None, None)
        assert (await world.run(Transition.RETRY, after_ms=0)).status is TaskStatus.PENDING
        await world.check_counts()

    async def test_many_at_once(self, world: World, work: TaskType) -> None:
        for key in "abc":
            await world.schedule(key)
            await world.run(Transition.FAIL)
        dead = await world.all_tasks(status=TaskStatus.FAILED)
        replies = await world.store.redrive([task.identity for task in dead], now=world.now)
        assert [reply.answer for reply in replies] == [Answer.OK] * 3
        assert len(await world.claim(5)) == 3

    async def test_a_dead_series_runs_once_more(self, world: World, work: TaskType) -> None:
        await world.series("k", max_runs=1)
        world.clock.advance("1h")
        await world.run(Transition.FAIL)
        assert await world.status("k") is TaskStatus.FAILED
        await world.apply(Transition.REDRIVE)
        assert (await world.run()).status is TaskStatus.COMPLETED

    async def test_only_what_failed(self, world: World, work: TaskType) -> None:
        done = await world.created("k")
        assert await world.apply(Transition.REDRIVE) == (Answer.REFUSED, done)
        replies = await world.store.redrive([Identity(WORK, "nobody")], now=world.now)
        assert replies == [(Answer.UNKNOWN, None)]
