"""What goes wrong, and what happens then: each row of the table in docs/batches.md."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import Connection, insert, update
from tests.batches.scene import Scene, World, names, opened_scene

from rota.batches import BatchHandle, BatchStatus, Generated, GenerationRequest
from rota.batches.batch import Subtask, SubtaskStatus
from rota.batches.limits import CALLS_BUCKET, limits_of
from rota.batches.messages import Created, Failed
from rota.batches.names import DETAIL_BATCH
from rota.clock import MINUTE, SECOND
from rota.core.task import Identity, Settlement, TaskStatus, Transition
from rota.database.tables.batches import batch_subtasks, batches
from rota.database.tables.events import inbox
from rota.llm import BadAnswer, LlmRefused, LlmTimeout, LlmUnavailable, Throttled
from rota.runtime.run import Run
from rota.stores.base import ClaimRequest
from rota.testing.waiting import until

SOON = {"lost_after_ms": 0, "call_timeout_ms": 0, "grace_ms": 0}


def _created(subtask: Subtask, count: int | None = None) -> Created:
    items = [{"name": item.name, **item.fields} for item in names(subtask.count if count is None else count)]
    return Created(session_id="s", task_id=subtask.id, batch_id=subtask.batch_id, attempt=subtask.attempt, items=items)


async def _claim_all(scene: Scene, instance: str = "by hand") -> list[Any]:
    store = await scene.app.store()
    asked = ClaimRequest(wants=[(DETAIL_BATCH, 100)], instance=instance, claim_id=instance, lease_ms=60_000)
    return (await store.claim(asked)).tasks


async def _wait_by_hand(scene: Scene, task: Any) -> asyncio.Task[str]:
    """A handler as a worker has it, in this process."""
    work = await scene.work()
    return asyncio.create_task(work.handler(Run(task, 60_000)))


async def _one(scene: Scene, handle: BatchHandle, index: int = 0) -> Subtask:
    return (await scene.subtasks(handle))[index]


async def _is(scene: Scene, handle: BatchHandle, status: SubtaskStatus, index: int = 0) -> bool:
    return (await _one(scene, handle, index)).status is status


# --- a worker dies while it waits ---


async def test_another_worker_waits_on_and_asks_nobody(world: World) -> None:
    """D44, D52: the row says that an agent was asked; who comes next only waits."""
    async with opened_scene(world) as scene:
        handle = await scene.start(5)
        (task,) = await _claim_all(scene)
        first = await _wait_by_hand(scene, task)
        await until(lambda: _is(scene, handle, SubtaskStatus.DISPATCHED), "an agent was asked")
        first.cancel()  # as good as dead: nothing of it is written
        second = await _wait_by_hand(scene, task)
        work = await scene.work()
        subtask = await _one(scene, handle)
        await scene.write(lambda connection: work.collecting.collect_all(connection, [_created(subtask)]))
        assert await second == "5 items."
        assert len(await scene.requests()) == 1
        assert (await _one(scene, handle)).attempt == 1


async def test_a_result_before_the_wait_is_not_missed(world: World) -> None:
    """D48."""
    async with opened_scene(world) as scene:
        handle = await scene.start(5)
        (task,) = await _claim_all(scene)
        work = await scene.work()
        await work.dispatching.take_turn(task.key)
        subtask = await _one(scene, handle)
        await scene.write(lambda connection: work.collecting.collect_all(connection, [_created(subtask)]))
        assert await asyncio.wait_for(await _wait_by_hand(scene, task), 30) == "5 items."
        assert len(await scene.requests()) == 1


# --- an agent fails ---


@pytest.mark.parametrize(
    "error",
    [LlmUnavailable("It answered 500."), LlmTimeout("It took too long."), BadAnswer("That is no JSON."), KeyError("x")],
    ids=["5xx", "timeout", "bad answer", "a bug"],
)
async def test_a_failure_is_tried_again_and_counted(file_world: World, error: Exception) -> None:
    async def fails_twice(request: GenerationRequest) -> Generated:
        if sum(call.index == request.index for call in scene.maker.calls) <= 2 and request.index == 0:
            raise error
        return Generated(names(request.count))

    async with opened_scene(file_world, fails_twice) as scene:
        handle = await scene.start(20)
        scene.run()
        (batch,) = await scene.until_over(handle)
        assert (batch.status, batch.items, batch.failed) == (BatchStatus.COMPLETED, 20, 0)
        first = await _one(scene, handle)
        assert (first.attempt, first.errors, first.error) == (3, 2, None)


async def test_an_agent_that_hangs_is_ended_in_time(file_world: World) -> None:
    async def hangs_once(request: GenerationRequest) -> Generated:
        if len(scene.maker.calls) == 1:
            await asyncio.Event().wait()
        return Generated(names(request.count))

    async with opened_scene(file_world, hangs_once, call_timeout="1s") as scene:
        handle = await scene.start(5)
        scene.run()
        (batch,) = await scene.until_over(handle)
        assert batch.items == 5
        assert (await _one(scene, handle)).errors == 1


async def test_after_the_last_attempt_it_is_a_dead_letter_and_the_batch_goes_on(world: World) -> None:
    async def first_fails(request: GenerationRequest) -> Generated:
        if request.index == 0:
            raise LlmUnavailable("It answered 500.")
        return Generated(names(request.count))

    async with opened_scene(world, first_fails, tasks={"max_retries": 1}) as scene:
        handle = await scene.start(20)
        scene.run()
        (batch,) = await scene.until_over(handle)
        assert (batch.status, batch.reason, batch.items, batch.failed) == (BatchStatus.COMPLETED, "exhausted", 12, 1)
        assert batch.rounds == 0, "what failed is not asked for again"
        subtask = await _one(scene, handle)
        assert (subtask.status, subtask.attempt) == (SubtaskStatus.FAILED, 2)
        await until(lambda: _task_is(scene, subtask, TaskStatus.FAILED), "its task is a dead letter")
        task = await scene.task(subtask)
        assert task is not None
        assert "It answered 500." in (task.error or "")


async def _task_is(scene: Scene, subtask: Subtask, status: TaskStatus) -> bool:
    task = await scene.task(subtask)
    return task is not None and task.status is status


async def test_what_a_provider_refuses_is_given_up_at_once(file_world: World) -> None:
    async def refuses(_: GenerationRequest) -> Generated:
        raise LlmRefused("The key is none.", answered=401)

    async with opened_scene(file_world, refuses) as scene:
        handle = await scene.start(20)
        scene.run()
        (batch,) = await scene.until_over(handle)
        assert (batch.status, batch.failed) == (BatchStatus.FAILED, 2)
        assert len(scene.maker.calls) == 2


async def test_a_429_closes_the_bucket_for_all_and_counts_as_no_attempt(world: World) -> None:
    """D45: the provider says when; nobody starts before that, and no attempt is burned."""

    async def throttles_once(request: GenerationRequest) -> Generated:
        if len(scene.maker.calls) == 1:
            raise Throttled("Too many.", retry_after=3.0)
        return Generated(names(request.count))

    async with opened_scene(world, throttles_once, requests_per_minute=60_000) as scene:
        handle = await scene.start(5)
        scene.run()
        await until(lambda: _has_waited(scene, handle), "the provider has said no")
        calls = limits_of(scene.part.config).calls
        assert calls is not None
        store = await scene.app.store()
        asked = await store.take(CALLS_BUCKET, 1, rate=calls.rate, burst=calls.burst)
        assert asked.granted == 0
        (batch,) = await scene.until_over(handle)
        assert batch.items == 5
        subtask = await _one(scene, handle)
        assert (subtask.errors, len(scene.maker.calls)) == (0, 2)


async def _has_waited(scene: Scene, handle: BatchHandle) -> bool:
    return (await _one(scene, handle)).error_class == "throttled"


# --- an agent began, and no result comes ---


async def _dispatch_by_hand(scene: Scene, handle: BatchHandle) -> Subtask:
    work = await scene.work()
    await work.dispatching.take_turn(f"{handle.id}:0:0")
    return await _one(scene, handle)


async def _note_begun(scene: Scene, subtask: Subtask, status: str, at: int = 0) -> None:
    row = {
        "consumer": "worldbuilder",
        "event_id": subtask.event_id,
        "topic": "t",
        "key": subtask.id,
        "status": status,
        "error": "it crashed three times" if status == "dead" else None,
        "at": at,
    }
    await scene.write(lambda connection: connection.execute(insert(inbox).values(row)))


@pytest.mark.parametrize("begun", ["started", "dead"])
async def test_no_result_after_an_agent_began_is_a_failed_attempt(world: World, begun: str) -> None:
    async with opened_scene(world, tasks={"max_retries": 1}) as scene:
        handle = await scene.start(5)
        keeper = await scene.keeper(**SOON)
        work = await scene.work()
        for attempt in (1, 2):
            subtask = await _dispatch_by_hand(scene, handle)
            assert subtask.attempt == attempt
            await _note_begun(scene, subtask, begun)
            failed, sent_again = await keeper.chase(work)
            assert (failed, sent_again) == (1, 0)
        subtask = await _one(scene, handle)
        assert (subtask.status, subtask.errors) == (SubtaskStatus.FAILED, 2)
        assert (await scene.batch(handle)).status is BatchStatus.FAILED


async def test_an_agent_that_still_has_time_is_left_alone(file_world: World) -> None:
    async with opened_scene(file_world) as scene:
        handle = await scene.start(5)
        subtask = await _dispatch_by_hand(scene, handle)
        assert subtask.sent_at is not None
        await _note_begun(scene, subtask, "started", at=subtask.sent_at)
        keeper = await scene.keeper(call_timeout_ms=MINUTE, lost_after_ms=0)
        assert await keeper.chase(await scene.work()) == (0, 0)


# --- bus or agents are away ---


async def test_nothing_is_burned_while_nobody_is_there_and_it_is_sent_again(world: World) -> None:
    """D58."""
    async with opened_scene(world) as scene:
        handle = await scene.start(5)
        await _dispatch_by_hand(scene, handle)
        work = await scene.work()
        keeper = await scene.keeper(**SOON, send_again_ms=10 * MINUTE)
        assert await keeper.chase(work) == (0, 0)
        assert len(await scene.requests()) == 1
        long_ago = {"sent_at": batch_subtasks.c.sent_at - 11 * MINUTE}
        await scene.write(lambda connection: connection.execute(update(batch_subtasks).values(**long_ago)))
        assert await keeper.chase(work) == (0, 1)
        assert await keeper.chase(work) == (0, 0), "once"
        subtask = await _one(scene, handle)
        assert (subtask.status, subtask.attempt, subtask.errors) == (SubtaskStatus.DISPATCHED, 2, 0)
        assert [one["attempt"] for one in await scene.requests()] == [1, 2]


async def test_the_deadline_ends_it_and_keeps_what_came(world: World) -> None:
    async with opened_scene(world) as scene:
        handle = await scene.start(50)
        work = await scene.work()
        subtask = await _dispatch_by_hand(scene, handle)
        await scene.write(lambda connection: work.collecting.collect_all(connection, [_created(subtask)]))
        over = {"deadline_at": batches.c.created_at}
        await scene.write(lambda connection: connection.execute(update(batches).values(**over)))
        keeper = await scene.keeper()
        report = await keeper.run_once()
        assert report.ended == 1
        batch = await scene.batch(handle)
        assert (batch.status, batch.reason, batch.items) == (BatchStatus.COMPLETED, "deadline", 8)
        for one in (await scene.subtasks(handle))[1:]:
            task = await scene.task(one)
            assert task is not None
            assert task.status is TaskStatus.CANCELLED
        await keeper.close()


# --- a dead subtask is redriven ---


async def _fail_first(scene: Scene, handle: BatchHandle) -> Subtask:
    work = await scene.work()
    subtask = await _dispatch_by_hand(scene, handle)
    said = Failed(session_id="s", task_id=subtask.id, reason="refused", error="no", is_final=True)
    await scene.write(lambda connection: work.collecting.collect_all(connection, [said]))
    return await _one(scene, handle)


async def test_a_redriven_subtask_is_taken_up_again_while_its_batch_is_open(world: World) -> None:
    async with opened_scene(world) as scene:
        handle = await scene.start(20)
        subtask = await _fail_first(scene, handle)
        assert (await scene.batch(handle)).failed == 1
        store = await scene.app.store()
        await _fail_task(scene, subtask)
        await store.redrive([Identity(DETAIL_BATCH, subtask.id)])
        scene.run()
        (batch,) = await scene.until_over(handle)
        assert (batch.items, batch.failed, batch.done) == (20, 0, 2)


async def _fail_task(scene: Scene, subtask: Subtask, reason: str = "error") -> None:
    store = await scene.app.store()
    for task in await _claim_all(scene, f"to fail {subtask.id}"):
        ended = Transition.FAIL if task.key == subtask.id else Transition.RELEASE
        settlement = Settlement(
            task_type=task.task_type, key=task.key, token=task.token, transition=ended, reason=reason
        )
        await store.settle([settlement])


async def test_a_redriven_subtask_of_a_batch_that_has_ended_is_discarded(file_world: World) -> None:
    async with opened_scene(file_world) as scene:
        handle = await scene.start(5)
        subtask = await _fail_first(scene, handle)
        assert (await scene.batch(handle)).status is BatchStatus.FAILED
        await _fail_task(scene, subtask)
        store = await scene.app.store()
        await store.redrive([Identity(DETAIL_BATCH, subtask.id)])
        scene.run()
        await until(lambda: _task_is(scene, subtask, TaskStatus.COMPLETED), "it was discarded")
        task = await scene.task(subtask)
        assert task is not None
        assert "has ended" in (task.result or "")
        assert scene.maker.calls == []


# --- the queue is emptied, or loses something ---


async def test_an_emptied_redis_is_filled_again_from_the_rows(redis_world: World) -> None:
    """D44, D50: rows are the truth."""
    async with opened_scene(redis_world) as scene:
        handle = await scene.start(50)
        assert redis_world.empty_store is not None
        redis_world.empty_store()
        scene.run()
        await until(lambda: _knows_type(scene), "the worker has declared its types again")
        keeper = await scene.keeper(**SOON)
        offered, given_up = await keeper.reconcile(await scene.work())
        assert (offered, given_up) == (4, 0)
        (batch,) = await scene.until_over(handle)
        assert batch.items == 50


async def _knows_type(scene: Scene) -> bool:
    return any(one.task_type.name == DETAIL_BATCH for one in await scene.app.types())


async def test_a_task_ended_by_poison_fails_its_row(world: World) -> None:
    async with opened_scene(world) as scene:
        handle = await scene.start(5)
        subtask = await _one(scene, handle)
        await _fail_task(scene, subtask, "poison")
        keeper = await scene.keeper(**SOON)
        offered, given_up = await keeper.reconcile(await scene.work())
        assert (offered, given_up) == (0, 1)
        batch = await scene.batch(handle)
        assert (batch.status, batch.failed) == (BatchStatus.FAILED, 1)
        assert (await _one(scene, handle)).error_class == "poison"


async def test_what_was_accepted_and_never_offered_is_offered(world: World) -> None:
    """D50: whoever accepted it died before it could tell the queue."""
    async with opened_scene(world) as scene:
        handle = await scene.start(5)
        store = await scene.app.store()
        subtask = await _one(scene, handle)
        await store.cancel([Identity(DETAIL_BATCH, subtask.id)])
        await scene.write(lambda connection: connection.execute(update(batch_subtasks).values(queue_told=0)))
        keeper = await scene.keeper()
        assert await keeper.tell_queue(await scene.work()) == 1
        assert await keeper.tell_queue(await scene.work()) == 0
        assert await _task_is(scene, subtask, TaskStatus.PENDING)


# --- results that nobody wants any more ---


async def test_a_second_result_is_counted_and_never_added(world: World) -> None:
    async with opened_scene(world) as scene:
        handle = await scene.start(20)
        work = await scene.work()
        subtask = await _dispatch_by_hand(scene, handle)
        for _ in range(3):
            await scene.write(lambda connection: work.collecting.collect_all(connection, [_created(subtask)]))
        batch = await scene.batch(handle)
        assert (batch.items, batch.done, batch.late) == (8, 1, 2)


async def test_a_result_of_an_older_attempt_still_counts_if_it_is_the_first(file_world: World) -> None:
    async with opened_scene(file_world) as scene:
        handle = await scene.start(20)
        work = await scene.work()
        subtask = await _dispatch_by_hand(scene, handle)
        said = Failed(session_id="s", task_id=subtask.id, attempt=1, reason="timeout")
        await scene.write(lambda connection: work.collecting.collect_all(connection, [said]))
        assert (await _one(scene, handle)).status is SubtaskStatus.QUEUED
        await scene.write(lambda connection: work.collecting.collect_all(connection, [_created(subtask)]))
        assert (await _one(scene, handle)).status is SubtaskStatus.DONE
        await scene.write(lambda connection: work.collecting.collect_all(connection, [said]))
        assert (await _one(scene, handle)).status is SubtaskStatus.DONE, "an old failure changes nothing"


async def test_a_result_of_a_cancelled_batch_is_counted_and_never_added(file_world: World) -> None:
    async with opened_scene(file_world) as scene:
        handle = await scene.start(20)
        work = await scene.work()
        subtask = await _dispatch_by_hand(scene, handle)
        await handle.cancel()
        await scene.write(lambda connection: work.collecting.collect_all(connection, [_created(subtask)]))
        batch = await scene.batch(handle)
        assert (batch.status, batch.items, batch.late) == (BatchStatus.CANCELLED, 0, 1)


async def test_more_than_was_asked_for_is_not_added(file_world: World) -> None:
    async with opened_scene(file_world) as scene:
        handle = await scene.start(5)
        work = await scene.work()
        subtask = await _dispatch_by_hand(scene, handle)
        await scene.write(lambda connection: work.collecting.collect_all(connection, [_created(subtask, 30)]))
        assert (await scene.batch(handle)).items == 5


async def test_a_result_in_no_known_shape_is_a_dead_letter(file_world: World) -> None:
    from rota.batches.names import CREATED
    from rota.events import Event
    from rota.events.delivery import NonRetriable

    async with opened_scene(file_world) as scene:
        work = await scene.work()
        event = Event(CREATED, aggregate_id="s", event_id="e", payload={"items": 12})
        with pytest.raises(NonRetriable, match="not as agreed"):
            await work.collecting.collect(event)


# --- what is old ---


async def test_what_is_over_is_removed_when_its_time_has_come(world: World) -> None:
    async with opened_scene(world) as scene:
        old, kept = await scene.start(5), await scene.start(5)
        scene.run()
        await scene.until_over(old, kept)

        def age(connection: Connection) -> None:
            values = {"ended_at": batches.c.ended_at - 10 * SECOND}
            connection.execute(update(batches).where(batches.c.id == old.id).values(**values))

        await scene.write(age)
        keeper = await scene.keeper(retention_ms=5 * SECOND)
        assert await keeper.remove_old(await scene.work()) == 1
        assert [batch.id for batch in (await scene.batches.list()).items] == [kept.id]
