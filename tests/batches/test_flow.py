"""The way of a batch, from the request to its end: nothing is lost or comes twice, everything is told in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import msgspec
import pytest
from sqlalchemy import Connection, select
from tests.batches.scene import Scene, World, names, opened_scene

from rota.batches import BatchesFrozen, BatchHandle, BatchStatus, Generated, GenerationRequest, Item, OtherRequest
from rota.batches.batch import SubtaskStatus
from rota.batches.names import CREATED, DETAIL_BATCH, FINISHED, REQUESTED, SUBMITTED
from rota.core.task import TaskStatus
from rota.database.tables.events import outbox
from rota.errors import InvalidInput
from rota.llm import Usage
from rota.testing.waiting import until


async def _told(scene: Scene, handle: BatchHandle) -> list[tuple[int, str]]:
    return [(event.number, event.event) async for event in scene.batches.follow(handle.id)]


async def test_a_batch_is_split_made_and_told_in_order(world: World) -> None:
    """D41, D42, D43, D50, D57: ids, session and correlation are its own; rows, events and items agree."""
    async with opened_scene(world) as scene:
        handle = await scene.start(50, style="norse", session_id="s1", user_id="u1", correlation_id="command-1")
        scene.run()
        items = [item async for item in handle]
        (batch,) = await scene.until_over(handle)

        assert (batch.status, batch.items, batch.shortfall) == (BatchStatus.COMPLETED, 50, 0)
        assert len({item.name for item in items}) == 50
        subtasks = await scene.subtasks(handle)
        assert [one.count for one in subtasks] == [8, 14, 14, 14]
        assert {one.id for one in subtasks} == {f"{handle.id}:{index}:0" for index in range(4)}
        assert all(one.status is SubtaskStatus.DONE and one.attempt == 1 for one in subtasks)

        told = await _told(scene, handle)
        assert [number for number, _ in told] == list(range(1, len(told) + 1))
        kinds = [event for _, event in told]
        assert (kinds[0], kinds[-1]) == ("accepted", "completed")
        assert kinds.count("item") == 50
        assert kinds.count("first_response") == 1
        assert kinds.count("progress") == 4

        for subtask in subtasks:
            await until(lambda one=subtask: _is_completed(scene, one), "its task is settled")
        asked = await scene.requests()
        assert {one["session_id"] for one in asked} == {"s1"}
        assert {one["task_id"] for one in asked} == {one.id for one in subtasks}
        await _check_outbox(scene, handle)


async def _is_completed(scene: Scene, subtask: object) -> bool:
    task = await scene.task(subtask)  # type: ignore[arg-type]
    return task is not None and task.status is TaskStatus.COMPLETED


async def _check_outbox(scene: Scene, handle: BatchHandle) -> None:
    work = await scene.work()
    rows = await work.database.read(lambda c: c.execute(select(outbox).order_by(outbox.c.seq)).all())
    kinds = [row.event_type for row in rows]
    assert [kinds.count(kind) for kind in (SUBMITTED, REQUESTED, CREATED, FINISHED)] == [1, 4, 4, 1]
    assert {row.correlation_id for row in rows} == {"command-1"}
    assert {row.aggregate_id for row in rows} == {"s1"}
    requests = {row.event_id: row.key for row in rows if row.event_type == REQUESTED}
    assert len(set(requests.values())) == 4, "each subtask has a key of its own"
    for row in rows:
        if row.event_type == CREATED:
            assert row.causation_id in requests
            assert row.key == handle.id


async def test_the_first_items_come_before_the_rest(file_world: World) -> None:
    """D52: something usable is there while the rest is still being made."""
    rest = asyncio.Event()

    async def first_at_once(request: GenerationRequest) -> Generated:
        if request.index > 0:
            await rest.wait()
        return Generated(names(request.count))

    async with opened_scene(file_world, first_at_once) as scene:
        handle = await scene.start(50)
        scene.run()
        seen: list[str] = []
        async for event in scene.batches.follow(handle.id):
            seen.append(event.event)
            if event.event == "first_response":
                batch = await scene.batch(handle)
                assert (batch.items, batch.done) == (8, 1)
                rest.set()
        assert seen[-1] == "completed"


async def test_the_same_key_is_the_same_batch(world: World) -> None:
    async with opened_scene(world) as scene:
        one = await scene.start(10, idempotency_key="k1", seed=1)
        again = await scene.start(10, idempotency_key="k1", seed=1)
        assert (again.id, one.is_new, again.is_new) == (one.id, True, False)
        with pytest.raises(OtherRequest, match="another body"):
            await scene.start(11, idempotency_key="k1", seed=1)
        others = await asyncio.gather(*(scene.start(10, idempotency_key="k2", seed=1) for _ in range(8)))
        assert len({other.id for other in others}) == 1
        assert [other.is_new for other in others].count(True) == 1
        assert (await scene.start(10, idempotency_key="k1", seed=1, owner="other")).id != one.id


async def test_those_of_one_moment_are_answered_each_for_itself(world: World) -> None:
    """They share a transaction: what is wrong with one of them is nobody else's trouble."""

    def waits() -> Awaitable[BatchHandle]:
        return scene.start(5, correlation_id="c1", resume={"flow_run_id": "f1"})

    async with opened_scene(world) as scene:
        counts = (10, 11, 10)
        keyed = [scene.start(count, idempotency_key="k", seed=1) for count in counts]
        answers = await asyncio.gather(*keyed, scene.start(5), waits(), waits(), return_exceptions=True)
        # Whichever body came first has the key.
        made = [answer for answer in answers[:3] if isinstance(answer, BatchHandle)]
        (batch_id,) = {handle.id for handle in made}
        first = (await scene.batches.get(batch_id)).count
        for count, answer in zip(counts, answers[:3], strict=True):
            assert isinstance(answer, BatchHandle if count == first else OtherRequest)
        assert [handle.is_new for handle in made].count(True) == 1
        plain, *flows = answers[3:]
        assert isinstance(plain, BatchHandle)
        (flow,) = [one for one in flows if isinstance(one, BatchHandle)]
        assert flow.handle_id is not None
        assert any(isinstance(one, InvalidInput) for one in flows), "two flows cannot wait for the same"
        assert {batch.id for batch in (await scene.batches.list()).items} == {batch_id, plain.id, flow.id}

        await scene.batches.freeze()
        again = scene.start(first, idempotency_key="k", seed=1)
        known, refused = await asyncio.gather(again, scene.start(5), return_exceptions=True)
        assert isinstance(known, BatchHandle)
        assert isinstance(refused, BatchesFrozen)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"count": 0}, "count is 0. Use a whole number from 1 to 500"),
        ({"count": 501}, "count is 501"),
        ({"count": 2.5}, "count is 2.5"),
        ({"priority": 11}, "priority is 11. Use a whole number from 0 to 10"),
        ({"priority": -1}, "priority is -1"),
        ({"style": "x" * 5_000}, "style has 5,002 bytes of JSON; 4,096 is the limit"),
        ({"seed": -1}, "seed is -1"),
        ({"budget_tokens": 0}, "budget_tokens is 0"),
        ({"deadline": "2d"}, "Use 1s to 1d"),
        ({"session_id": ""}, "session_id is empty"),
        ({"type": "locaton_name"}, "Did you mean 'location_name'"),
        ({"distinct": "world"}, "Use 'batch' or 'session'"),
        ({"style": {"a": float("nan")}}, "style cannot be written as JSON"),
    ],
)
async def test_a_wrong_request_names_the_field_and_the_limit(
    file_world: World, wrong: dict[str, object], said: str
) -> None:
    """D51: what cannot be split is refused before anything is written."""
    async with opened_scene(file_world) as scene:
        with pytest.raises(InvalidInput, match=said):
            await scene.start(**{"count": 10, **wrong})  # type: ignore[arg-type]
        assert (await scene.batches.list()).items == []


async def test_duplicates_are_dropped_with_their_twins_and_topped_up(world: World) -> None:
    """D53: over the whole batch, case and accents aside; what is missing is asked for again, told what to avoid."""

    async def repeats(request: GenerationRequest) -> Generated:
        if request.round:
            return Generated(names(request.count))
        first = [Item("Ásgarðr"), Item("asgarðr"), Item("")] if request.index == 0 else [Item("ÁSGARÐR")]
        return Generated([*first, *names(request.count - len(first))], invalid=0)

    async with opened_scene(world, repeats) as scene:
        handle = await scene.start(20)
        scene.run()
        (batch,) = await scene.until_over(handle)
        assert (batch.status, batch.items, batch.rounds) == (BatchStatus.COMPLETED, 20, 1)
        assert (batch.duplicates, batch.invalid) == (2, 1)
        dropped = await scene.batches.items(handle.id, outcome="duplicate")
        twins = {item.twin for item in dropped.items}
        assert {str(twin).casefold() for twin in twins} == {"ásgarðr"}
        topped = next(call for call in scene.maker.calls if call.round == 1)
        assert topped.count == 3
        assert twins <= set(topped.avoid)


async def test_a_batch_that_never_gets_enough_ends_short(file_world: World) -> None:
    async def the_same(request: GenerationRequest) -> Generated:
        return Generated([Item("Always")] * request.count)

    async with opened_scene(file_world, the_same) as scene:
        handle = await scene.start(10)
        scene.run()
        (batch,) = await scene.until_over(handle)
        assert (batch.status, batch.reason, batch.items, batch.rounds) == (BatchStatus.COMPLETED, "exhausted", 1, 2)
        result = await handle.result()
        assert not result.is_complete
        assert [item.name for item in result.items] == ["Always"]


async def test_a_session_can_be_one_world(file_world: World) -> None:
    async def numbered(request: GenerationRequest) -> Generated:
        return Generated([Item("Only one")] if not request.round else names(request.count))

    async with opened_scene(file_world, numbered) as scene:
        scene.run()
        first = await scene.start(1, session_id="s1", distinct="session")
        await scene.until_over(first)
        second = await scene.start(1, session_id="s1", distinct="session")
        third = await scene.start(1, session_id="s1")
        (of_second, of_third) = await scene.until_over(second, third)
        assert (of_second.duplicates, of_second.items) == (1, 1)
        assert of_third.duplicates == 0


async def test_nothing_usable_is_a_failure(file_world: World) -> None:
    async def nothing(_: GenerationRequest) -> Generated:
        return Generated([], invalid=3)

    async with opened_scene(file_world, nothing, top_up_rounds=0) as scene:
        handle = await scene.start(10)
        scene.run()
        (batch,) = await scene.until_over(handle)
        assert (batch.status, batch.reason, batch.invalid) == (BatchStatus.FAILED, "exhausted", 6)


async def test_the_budget_ends_a_batch_and_what_came_stays(file_world: World) -> None:
    async def costly(request: GenerationRequest) -> Generated:
        if request.index:
            await asyncio.Event().wait()
        return Generated(names(request.count), Usage(400, 700))

    async with opened_scene(file_world, costly) as scene:
        handle = await scene.start(30, budget_tokens=1_000)
        scene.run()
        (batch,) = await scene.until_over(handle)
        assert (batch.status, batch.reason, batch.items) == (BatchStatus.COMPLETED, "budget", 8)
        assert (batch.tokens_in, batch.tokens_out) == (400, 700)
        assert {one.status for one in await scene.subtasks(handle)} == {SubtaskStatus.DONE, SubtaskStatus.CANCELLED}


async def test_pause_holds_what_has_not_begun_and_resume_goes_on(world: World) -> None:
    async with opened_scene(world, per_session=1) as scene:
        scene.maker.gate.clear()
        handle = await scene.start(50, session_id="s1")
        scene.run()
        await scene.until_calls(1)
        assert (await handle.pause()).status is BatchStatus.PAUSED
        scene.maker.gate.set()
        await until(lambda: _has(scene, handle, 8), "what had begun has come in")
        assert len(scene.maker.calls) == 1
        assert (await handle.resume()).status is BatchStatus.RUNNING
        (batch,) = await scene.until_over(handle)
        assert (batch.items, batch.failed) == (50, 0)


async def _has(scene: Scene, handle: BatchHandle, items: int) -> bool:
    return (await scene.batch(handle)).items == items


async def test_a_cancelled_batch_keeps_what_came_and_spends_nothing_more(world: World) -> None:
    rest = asyncio.Event()

    async def first_at_once(request: GenerationRequest) -> Generated:
        if request.index:
            await rest.wait()
        return Generated(names(request.count))

    async with opened_scene(world, first_at_once, per_session=1) as scene:
        handle = await scene.start(50, session_id="s1")
        scene.run()
        await until(lambda: _has_some(scene, handle), "the first items are there")
        batch = await handle.cancel()
        rest.set()
        assert (batch.status, batch.items) == (BatchStatus.CANCELLED, 8)
        calls = len(scene.maker.calls)
        tasks = [await scene.task(one) for one in await scene.subtasks(handle)]
        await until(lambda: _are_over(scene, handle), "no task of it is live")
        assert len(scene.maker.calls) <= calls + 1
        assert all(task is not None for task in tasks)
        assert (await handle.cancel()).status is BatchStatus.CANCELLED, "again is harmless"


async def _has_some(scene: Scene, handle: BatchHandle) -> bool:
    return (await scene.batch(handle)).items > 0


async def _are_over(scene: Scene, handle: BatchHandle) -> bool:
    tasks = [await scene.task(one) for one in await scene.subtasks(handle)]
    return all(task is None or not task.status.is_live for task in tasks)


async def test_frozen_takes_nothing_on_and_degraded_asks_once(file_world: World) -> None:
    async with opened_scene(file_world) as scene:
        open_ = await scene.start(10)
        assert (await scene.batches.freeze()).is_frozen
        with pytest.raises(BatchesFrozen, match="rota batch restore"):
            await scene.start(10)
        scene.run()
        await scene.until_over(open_)
        await scene.batches.restore()
        await scene.batches.degrade()
        handle = await scene.start(50)
        (batch,) = await scene.until_over(handle)
        assert (batch.expected, batch.items) == (1, 50)
        switches = await scene.batches.restore()
        assert (switches.is_frozen, switches.is_degraded, switches.open) == (False, False, 0)


async def test_a_generator_of_the_app_makes_its_own_type(file_world: World) -> None:
    async with opened_scene(file_world) as scene:

        @scene.app.generator("recipe", agent="cook", size=5, similarity=0.9)
        async def recipe(request: GenerationRequest) -> list[object]:
            made = names(request.count - 1)
            return [{"name": "Borscht", "time": "2 h"}, *[item.name for item in made[:-1]], made[-1], 12]

        handle = await scene.start(8, "recipe")
        scene.run()
        (batch,) = await scene.until_over(handle)
        assert (batch.status, batch.agent, batch.items) == (BatchStatus.COMPLETED, "cook", 8)
        assert scene.maker.calls == [], "the configured generator was not asked"
        result = await handle.result()
        assert result.items[0].fields == {"time": "2 h"}
        assert recipe.__name__ == "recipe"


async def test_a_flow_is_resumed_by_the_end_and_not_by_the_first_result(file_world: World) -> None:
    """D47, D48: one handle for all subtasks, made before the first of them."""
    rest = asyncio.Event()

    async def first_at_once(request: GenerationRequest) -> Generated:
        if request.index:
            await rest.wait()
        return Generated(names(request.count))

    async with opened_scene(file_world, first_at_once) as scene:
        handle = await scene.start(30, correlation_id="flow-1", resume={})
        scene.run()
        await until(lambda: _has_some(scene, handle), "the first items are there")
        events = await scene.app.events()
        with pytest.raises(TimeoutError):
            await events.handles.wait("flow-1", timeout=0.05)
        rest.set()
        resumed = await events.handles.wait("flow-1")
        assert resumed.done == 1
        assert (await scene.batch(handle)).items == 30


async def test_a_type_that_is_full_refuses_more(file_world: World) -> None:
    from rota.batches import BatchesFull

    async with opened_scene(file_world, tasks={"max_pending": 4}) as scene:
        await scene.start(50)
        with pytest.raises(BatchesFull, match=f"tasks.{DETAIL_BATCH}.max_pending") as refused:
            await scene.start(50)
        assert (refused.value.retry_after or 0) > 0


async def test_an_owner_has_its_share_of_a_minute(file_world: World) -> None:
    from rota.batches import BatchesFull

    async with opened_scene(file_world, owner_items_per_minute=60) as scene:
        await scene.start(50, owner="a")
        with pytest.raises(BatchesFull, match="60 items a minute") as refused:
            await scene.start(50, owner="a")
        assert 30 < (refused.value.retry_after or 0) <= 41
        known = await scene.start(50, owner="b", idempotency_key="k")
        again = await scene.start(50, owner="b", idempotency_key="k")
        assert again.id == known.id, "who asks again has had their share for it already"
        with pytest.raises(InvalidInput, match="Ask for fewer"):
            await scene.start(61, owner="c")


async def test_what_is_told_is_json(file_world: World) -> None:
    async with opened_scene(file_world) as scene:
        handle = await scene.start(5)
        scene.run()
        async for event in handle.events():
            assert isinstance(msgspec.json.decode(event.data), dict)

        def count(connection: Connection) -> int:
            return len(connection.execute(select(outbox)).all())

        assert await scene.write(count) > 0
