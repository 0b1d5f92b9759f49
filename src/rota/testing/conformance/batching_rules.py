"""Group commit: callers share a transaction and never each other's fate."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from rota.core.outcome import Answer, Scheduled, ScheduleOutcome, TouchOutcome
from rota.core.task import Activity, Identity, NewTask, Settlement, Transition
from rota.core.task_type import RateLimit, TaskType
from rota.errors import InvalidInput, InvalidTrigger, LimitExceeded
from rota.group_commit import MAX_GROUP
from rota.stores.base import MAX_PAYLOAD_BYTES
from rota.testing.conformance.world import WORK, Suite, World, hourly

__all__ = ["TestGroups"]


class TestGroups(Suite):
    """These calls give no `now`: a test's own time shares a group with nobody."""

    async def _schedule(self, world: World, new: NewTask) -> Scheduled:
        return (await world.store.schedule([new]))[0]

    async def test_many_callers_at_once(self, world: World, work: TaskType) -> None:
        news = [NewTask(task_type=WORK, key=f"k{number:04}") for number in range(500)]
        answers = await asyncio.gather(*(self._schedule(world, new) for new in news))
        assert {answer.outcome for answer in answers} == {ScheduleOutcome.CREATED}
        assert [answer.task.key for answer in answers if answer.task] == [new.key for new in news]
        assert (await world.counts()).pending == 500
        await world.check_counts()

    async def test_one_identity_from_many_callers_is_made_once(self, world: World, work: TaskType) -> None:
        answers = await asyncio.gather(
            *(self._schedule(world, NewTask(task_type=WORK, key="k", payload=str(number))) for number in range(50))
        )
        outcomes = [answer.outcome for answer in answers]
        assert outcomes.count(ScheduleOutcome.CREATED) == 1
        assert outcomes.count(ScheduleOutcome.EXISTS) == 49
        # Callers at the same time have no order among them; the one that was told so made it.
        assert (await world.there("k")).payload == str(outcomes.index(ScheduleOutcome.CREATED))

    async def test_one_bad_item_fails_alone(self, world: World, work: TaskType) -> None:
        news = [NewTask(task_type=WORK, key=f"k{number:03}") for number in range(MAX_GROUP)]
        news[70] = NewTask(task_type=WORK, key="bad", trigger="nonsense")
        news[71] = NewTask(task_type=WORK, key="worse", payload="\0")
        answers = await asyncio.gather(*(self._schedule(world, new) for new in news), return_exceptions=True)
        bad = [answer for answer in answers if isinstance(answer, BaseException)]
        assert [type(error) for error in bad] == [InvalidTrigger, InvalidInput]
        good = [answer for answer in answers if not isinstance(answer, BaseException)]
        assert {answer.outcome for answer in good} == {ScheduleOutcome.CREATED}
        assert (await world.counts()).pending == MAX_GROUP - 2

    async def test_neighbours_of_a_refused_item_are_answered_as_if_alone(self, world: World) -> None:
        """One that costs more than its type can ever grant, among some that are written fast and some that are not."""
        await world.type(rate_limit=RateLimit(rate=1.0, burst=2))
        for group in range(5):
            news = [
                NewTask(
                    task_type=WORK, key=f"g{group}-{number}", trigger=hourly(world.now) if number % 3 == 1 else None
                )
                for number in range(10)
            ]
            news[5] = replace(news[5], cost=9)
            # The first call is a group by itself; the others meet in the next one.
            first = self._schedule(world, NewTask(task_type=WORK, key=f"g{group}-first"))
            answers = await asyncio.gather(first, *(self._schedule(world, new) for new in news), return_exceptions=True)
            refused = [answer for answer in answers if isinstance(answer, BaseException)]
            assert [type(error) for error in refused] == [LimitExceeded]
            told = [answer.outcome for answer in answers if not isinstance(answer, BaseException)]
            assert told == [ScheduleOutcome.CREATED] * 10
        assert (await world.counts()).pending == 50
        await world.check_counts()

    async def test_one_bad_item_in_a_list_spoils_the_whole_list(self, world: World, work: TaskType) -> None:
        good, bad = NewTask(task_type=WORK, key="good"), NewTask(task_type=WORK, key="bad", trigger="nonsense")
        answers = await asyncio.gather(world.store.schedule([good, bad]), return_exceptions=True)
        assert isinstance(answers[0], InvalidTrigger)
        assert await world.task("good") is None

    async def test_more_than_a_group_in_one_call(self, world: World, work: TaskType) -> None:
        news = [NewTask(task_type=WORK, key=f"k{number:04}") for number in range(2 * MAX_GROUP + 1)]
        answers = await world.store.schedule(news)
        assert [answer.task.key for answer in answers if answer.task] == [new.key for new in news]

    async def test_large_payloads_are_split_by_size(self, world: World, work: TaskType) -> None:
        payload = "x" * MAX_PAYLOAD_BYTES
        news = [NewTask(task_type=WORK, key=f"k{number}", payload=payload) for number in range(12)]
        answers = await asyncio.gather(*(self._schedule(world, new) for new in news))
        assert {answer.outcome for answer in answers} == {ScheduleOutcome.CREATED}

    async def test_touches_of_one_user_at_once_are_one_task(self, world: World, work: TaskType) -> None:
        activity = Activity(task_type=WORK, key="k", user_id="u1")
        answers = await asyncio.gather(*(world.store.touch([activity]) for _ in range(40)))
        outcomes = [answer.outcome for (answer,) in answers]
        assert outcomes.count(TouchOutcome.CREATED) == 1
        assert outcomes.count(TouchOutcome.COALESCED) == 39
        assert (await world.counts()).coalesced_total == 39

    async def test_settles_at_once(self, world: World, work: TaskType) -> None:
        news = [NewTask(task_type=WORK, key=f"k{number:03}") for number in range(150)]
        await world.store.schedule(news)
        tasks = await world.claim(150)
        replies = await asyncio.gather(
            *(
                world.store.settle(
                    [Settlement(task_type=WORK, key=task.key, token=task.token, transition=Transition.COMPLETE)]
                )
                for task in tasks
            )
        )
        assert {reply.answer for (reply,) in replies} == {Answer.OK}
        assert (await world.counts()).completed == 150
        assert len(await world.runs(None)) == 150
        await world.check_counts()

    async def test_questions_about_one_task_at_once_have_one_order(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        replies = await asyncio.gather(
            *(world.store.apply(Transition.PAUSE, [Identity(WORK, "k")]) for _ in range(10)),
            *(world.store.apply(Transition.RESUME, [Identity(WORK, "k")]) for _ in range(10)),
        )
        paused = [reply.answer for (reply,) in replies[:10]].count(Answer.OK)
        resumed = [reply.answer for (reply,) in replies[10:]].count(Answer.OK)
        assert paused - resumed in (0, 1)
        await world.check_counts()

    async def test_a_caller_that_gives_up_cancels_nobody(self, world: World, work: TaskType) -> None:
        callers = [
            asyncio.ensure_future(self._schedule(world, NewTask(task_type=WORK, key=f"k{number}")))
            for number in range(20)
        ]
        await asyncio.sleep(0)
        callers[3].cancel()
        answers = await asyncio.gather(*callers, return_exceptions=True)
        assert isinstance(answers[3], asyncio.CancelledError)
        assert all(isinstance(answer, Scheduled) for number, answer in enumerate(answers) if number != 3)

    async def test_nothing_asked_nothing_answered(self, world: World) -> None:
        assert await world.store.schedule([]) == []
        assert await world.store.touch([]) == []
        assert await world.store.update([]) == []
        assert await world.store.settle([]) == []
        assert await world.store.pause([]) == []
