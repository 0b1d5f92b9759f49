"""settle: running -> wherever leaving leads, if the token is current."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from rota.clock import DAY, HOUR, MINUTE, SECOND
from rota.core.lifecycle import MAX_SNOOZES
from rota.core.outcome import Answer
from rota.core.task import NewTask, RunStatus, Settlement, TaskStatus, Transition
from rota.core.task_type import RetryPolicy, TaskType
from rota.errors import InvalidInput
from rota.stores.base import MAX_TEXT, RunQuery
from rota.testing.conformance.world import SETTLING, WORK, Suite, World

__all__ = ["TestComplete", "TestFencing", "TestLostReplies", "TestRetry", "TestSnoozeAndRelease"]


class TestComplete(Suite):
    async def test_complete_finishes_the_task_and_writes_the_run(self, world: World, work: TaskType) -> None:
        due = await world.created("k", user_id="u1")
        claimed = await world.claim_one()
        started_at = world.now
        world.clock.advance("3s")
        await world.settle(claimed, result="42 lines", duration_ms=2_900)
        task = await world.there("k")
        assert (task.status, task.result, task.finished_at) == (TaskStatus.COMPLETED, "42 lines", world.now)
        assert task.purge_at == world.now + work.task_ttl_ms
        assert (task.token, task.lease_until, task.instance, task.claim_id) == (0, None, None, None)
        (run,) = await world.runs()
        assert (run.status, run.result, run.duration_ms) == (RunStatus.SUCCESS, "42 lines", 2_900)
        assert (run.started_at, run.fire_at, run.token) == (started_at, due.scheduled_at, claimed.token)
        assert (run.attempt, run.instance, run.user_id) == (1, "i1", "u1")
        assert run.run_id

    async def test_discard_is_done_without_a_dead_letter(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.run(Transition.DISCARD, reason="no longer wanted")
        assert (task.status, task.reason) == (TaskStatus.COMPLETED, "no longer wanted")
        assert [(run.status, run.reason) for run in await world.runs()] == [("skipped", "no longer wanted")]

    async def test_fail_is_a_dead_letter(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.run(Transition.FAIL, reason="error", error="boom")
        assert (task.status, task.error, task.errors) == (TaskStatus.FAILED, "boom", 1)
        assert task.purge_at == world.now + 30 * DAY
        assert [found.key for found in await world.all_tasks(status=TaskStatus.FAILED)] == ["k"]
        assert [(run.status, run.error) for run in await world.runs()] == [("error", "boom")]

    async def test_many_at_once_answer_in_order(self, world: World, work: TaskType) -> None:
        news = [NewTask(task_type=WORK, key=f"k{number}") for number in range(9)]
        await world.store.schedule(news, now=world.now)
        tasks = await world.claim(9)
        items = [
            Settlement(
                task_type=WORK, key=task.key, token=task.token + number % 2 * 1_000, transition=Transition.COMPLETE
            )
            for number, task in enumerate(tasks)
        ]
        replies = await world.store.settle(items, now=world.now)
        assert [reply.answer for reply in replies] == [Answer.OK, Answer.STALE] * 4 + [Answer.OK]
        assert [reply.task.key for reply in replies if reply.task] == [task.key for task in tasks]
        await world.check_counts()

    async def test_a_worker_is_told_what_each_of_its_runs_led_to(self, world: World, work: TaskType) -> None:
        await world.store.schedule([NewTask(task_type=WORK, key=f"k{number}") for number in range(4)], now=world.now)
        ends = (Transition.COMPLETE, Transition.FAIL, Transition.SNOOZE, Transition.COMPLETE)
        items = [
            Settlement(task_type=WORK, key=task.key, token=task.token, transition=transition)
            for task, transition in zip(await world.claim(4), ends, strict=True)
        ]
        items[3] = replace(items[3], token=items[3].token + 1_000)
        assert await world.store.settle_runs(items, now=world.now) == [
            (Answer.OK, TaskStatus.COMPLETED),
            (Answer.OK, TaskStatus.FAILED),
            (Answer.OK, TaskStatus.PENDING),
            (Answer.STALE, TaskStatus.RUNNING),
        ]
        (said_again,) = await world.store.settle_runs(items[:1], now=world.now)
        assert said_again == (Answer.ALREADY, TaskStatus.COMPLETED)
        await world.check_counts()

    async def test_whatever_stands_in_a_key_it_is_claimed_and_ended(self, world: World, work: TaskType) -> None:
        """Keys travel in groups, in whatever a store writes them down as."""
        keys = [
            'a"b',
            "back\\slash",
            "\\u0041",
            "new\nline",
            "\x01",
            "emoji😀",
            "\u2028",
            "%global",
            "null",
            "1.5",
            "$.x",
            "a/b",
        ]
        await world.store.schedule([NewTask(task_type=WORK, key=key) for key in keys], now=world.now)
        tasks = await world.claim(len(keys))
        assert sorted(task.key for task in tasks) == sorted(keys)
        assert [(await world.there(task.key)).token for task in tasks] == [task.token for task in tasks]
        ends = [
            Settlement(task_type=WORK, key=task.key, token=task.token, transition=Transition.COMPLETE) for task in tasks
        ]
        answers = await world.store.settle_runs(ends, now=world.now)
        assert answers == [(Answer.OK, TaskStatus.COMPLETED)] * len(keys)
        runs = (await world.store.runs(RunQuery(limit=100))).items
        assert sorted(run.key for run in runs) == sorted(keys)
        await world.check_counts()

    async def test_only_the_end_of_a_run_settles_it(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        with pytest.raises(InvalidInput):
            await world.settle(await world.claim_one(), Transition.PAUSE)

    async def test_totals_count_runs(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.run(Transition.RETRY, after_ms=0)
        await world.run(Transition.RELEASE)
        await world.run(Transition.COMPLETE)
        counts = await world.counts()
        assert (counts.succeeded_total, counts.errored_total, counts.created_total) == (1, 1, 1)

    async def test_long_texts_are_cut(self, world: World, work: TaskType) -> None:
        """Kept up to a limit and marked as cut; no character is split."""
        await world.schedule("k")
        await world.run(Transition.COMPLETE, result="é" * 3 * MAX_TEXT, error="x" * MAX_TEXT)
        task = await world.there("k")
        assert task.result == "é" * (MAX_TEXT - 1) + "…"
        assert task.error == "x" * MAX_TEXT


class TestRetry(Suite):
    async def test_one_run_and_max_retries_more(self, world: World) -> None:
        await world.type(max_retries=2)
        await world.schedule("k")
        statuses = [(await world.run(Transition.RETRY, after_ms=0)).status for _ in range(3)]
        assert statuses == [TaskStatus.PENDING, TaskStatus.PENDING, TaskStatus.FAILED]
        assert await world.claim() == []
        assert [run.attempt for run in await world.runs()] == [1, 2, 3]

    async def test_no_retries_at_all(self, world: World) -> None:
        await world.type(max_retries=0)
        await world.schedule("k")
        assert (await world.run(Transition.RETRY)).status is TaskStatus.FAILED

    async def test_back_off_grows_and_is_capped_with_full_jitter(self, world: World) -> None:
        await world.type(max_retries=9, retry=RetryPolicy(base_ms=10 * SECOND, factor=3.0, max_ms=MINUTE))
        await world.schedule("k")
        waits: list[int] = []
        for _ in range(4):
            await world.claim_due("k")
            reply = await world.settle(await world.there("k"), Transition.RETRY, chance=0.5)
            assert reply.task is not None
            waits.append(reply.task.scheduled_at - world.now)
        assert waits == [5 * SECOND, 15 * SECOND, 30 * SECOND, 30 * SECOND]
        await world.claim_due("k")
        reply = await world.settle(await world.there("k"), Transition.RETRY, chance=0.0)
        assert reply.task is not None
        assert reply.task.scheduled_at == world.now

    async def test_the_handler_may_say_when(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        assert (await world.run(Transition.RETRY, after_ms=HOUR)).scheduled_at == world.now + HOUR

    async def test_the_retry_keeps_its_payload_and_its_fire(self, world: World, work: TaskType) -> None:
        made = await world.series("k", payload="p")
        world.clock.advance("1h")
        await world.run(Transition.RETRY, after_ms=MINUTE)
        world.clock.advance("1m")
        again = await world.claim_one()
        assert (again.payload, again.fire_at, again.errors) == ("p", made.next_fire, 1)

    async def test_complete_resets_the_counts_of_a_series(self, world: World, work: TaskType) -> None:
        await world.series("k")
        world.clock.advance("1h")
        await world.run(Transition.RETRY, after_ms=0)
        task = await world.run(Transition.COMPLETE)
        assert (task.errors, task.crashes, task.attempt) == (0, 0, 0)


class TestSnoozeAndRelease(Suite):
    async def test_snooze_waits_and_counts_nowhere(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.run(Transition.SNOOZE, after_ms=MINUTE)
        assert (task.status, task.scheduled_at) == (TaskStatus.PENDING, world.now + MINUTE)
        assert (task.errors, task.crashes, task.attempt) == (0, 0, 0)

    async def test_a_hundred_snoozes_in_a_row_are_enough(self, world: World) -> None:
        await world.type(max_retries=0)
        await world.schedule("k")
        for _ in range(MAX_SNOOZES):
            assert (await world.run(Transition.SNOOZE, after_ms=0)).status is TaskStatus.PENDING
        last = await world.claim_one()
        first = await world.settle(last, Transition.SNOOZE, after_ms=0)
        assert first.task is not None
        assert first.task.status is TaskStatus.FAILED
        assert (await world.settle(last, Transition.SNOOZE, after_ms=0)).answer is Answer.ALREADY

    async def test_release_is_due_at_once_and_burns_no_retry(self, world: World) -> None:
        await world.type(max_retries=0)
        made = await world.created("k")
        for _ in range(5):
            world.clock.advance("1s")
            task = await world.run(Transition.RELEASE)
            assert (task.status, task.scheduled_at) == (TaskStatus.PENDING, made.scheduled_at)
            assert (task.errors, task.crashes, task.attempt) == (0, 0, 0)
        assert (await world.run()).status is TaskStatus.COMPLETED

    async def test_what_was_interrupted_keeps_its_place_in_the_line(self, world: World, work: TaskType) -> None:
        await world.schedule("first")
        interrupted = await world.claim_one()
        world.clock.advance("1s")
        await world.schedule("second")
        world.clock.advance("1s")
        await world.settle(interrupted, Transition.RELEASE)
        assert [task.key for task in await world.claim(2)] == ["first", "second"]

    async def test_a_clock_that_stepped_back_does_not_make_what_is_released_wait(
        self, world: World, work: TaskType
    ) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        world.clock.set(world.now - HOUR)
        await world.settle(task, Transition.RELEASE)
        assert (await world.claim_one()).key == "k"


class TestFencing(Suite):
    @pytest.mark.parametrize("transition", SETTLING)
    async def test_a_stale_settle_changes_nothing(self, world: World, work: TaskType, transition: Transition) -> None:
        await world.schedule("k")
        old = await world.claim_one()
        await world.tick_past_lease()
        await world.claim_one(instance="i2")
        before = (await world.there("k"), await world.runs(), await world.counts())
        reply = await world.settle(old, transition, result="late", error="late", after_ms=1)
        assert reply.answer is Answer.STALE
        assert (await world.there("k"), await world.runs(), await world.counts()) == before

    async def test_a_stale_settle_of_what_is_gone(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        old = await world.claim_one()
        await world.settle(old, Transition.FAIL)
        await world.apply(Transition.PURGE)
        assert await world.settle(old) == (Answer.STALE, None)
        assert await world.task("k") is None

    async def test_the_lease_may_have_run_out_if_nobody_took_the_task(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        world.clock.advance("1h")
        assert (await world.settle(task)).answer is Answer.OK

    async def test_of_two_that_settle_at_once_one_wins(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        replies = await asyncio.gather(world.settle(task, Transition.COMPLETE), world.settle(task, Transition.FAIL))
        assert sorted(reply.answer for reply in replies) == [Answer.OK, Answer.STALE]
        assert len(await world.runs()) == 1


class TestLostReplies(Suite):
    @pytest.mark.parametrize("transition", SETTLING)
    async def test_the_same_settle_again_is_already_done(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        first = await world.settle(task, transition, after_ms=MINUTE)
        before = (await world.there("k"), await world.runs(), await world.counts())
        world.clock.advance("1s")
        again = await world.settle(task, transition, after_ms=MINUTE)
        assert (first.answer, again.answer) == (Answer.OK, Answer.ALREADY)
        assert again.task == first.task
        assert (await world.there("k"), await world.runs(), await world.counts()) == before

    async def test_twice_in_one_call(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        item = Settlement(task_type=WORK, key="k", token=task.token, transition=Transition.COMPLETE)
        replies = await world.store.settle([item, item], now=world.now)
        assert [reply.answer for reply in replies] == [Answer.OK, Answer.ALREADY]

    async def test_another_settle_is_stale(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        await world.settle(task, Transition.COMPLETE)
        assert (await world.settle(task, Transition.FAIL)).answer is Answer.STALE

    async def test_also_after_the_identity_was_made_again(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        await world.settle(task)
        await world.schedule("k")
        assert (await world.settle(task)).answer is Answer.ALREADY
