"""Who comes first: something for everybody before anybody has a second helping, priorities, sessions, and rates."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.batches.scene import Scene, World, names, opened_scene

from rota.batches import BatchHandle, Generated, GenerationRequest
from rota.batches.batch import priority_of
from rota.batches.limits import Limits, limits_of, per_minute
from rota.batches.names import DETAIL_BATCH
from rota.batches.section import BatchesConfig
from rota.clock import SECOND
from rota.core import bucket as buckets
from rota.core.task import NewTask
from rota.core.task_type import TaskType, TriggerMode
from rota.stores.base import ClaimRequest
from rota.stores.memory import MemoryStore


async def _started_in_one_go(scene: Scene, *asked: Mapping[str, object]) -> list[BatchHandle]:
    """Batches that are all there before the first of them can begin."""
    await scene.app.freeze(DETAIL_BATCH)
    handles = [await scene.start(**one) for one in asked]  # type: ignore[arg-type]
    scene.run()
    await scene.app.thaw(DETAIL_BATCH)
    return handles


async def test_every_first_response_comes_before_any_second_subtask(world: World) -> None:
    """D40, D45, D56: a bucket that allows ten calls a second, and a batch of priority 10 that was sent last."""
    async with opened_scene(world, requests_per_minute=1_200, per_session=1) as scene:
        usual = [{"count": 24, "priority": 5} for _ in range(8)]
        handles = await _started_in_one_go(scene, *usual, {"count": 24, "priority": 10})
        await scene.until_over(*handles)
        order = [(call.batch_id, call.index) for call in scene.maker.calls]
        urgent, others = handles[-1].id, {handle.id for handle in handles[:-1]}
        # What is claimed together is handed to agents together; which of them begins first is the bus's business.
        burst = limits_of(scene.part.config).calls
        assert burst is not None
        place = order.index((urgent, 0))
        assert place < burst.burst
        firsts = [at for at, (batch_id, index) in enumerate(order) if batch_id in others and index == 0]
        seconds = [at for at, (batch_id, index) in enumerate(order) if batch_id in others and index > 0]
        assert max(firsts) < min(seconds) + burst.burst
        dispatched = await _dispatched(scene, handles[:-1])
        assert max(at for at, index in dispatched if index == 0) <= min(at for at, index in dispatched if index > 0)


async def _dispatched(scene: Scene, handles: list[BatchHandle]) -> list[tuple[int, int]]:
    """When each subtask was handed to an agent, by the database's clock."""
    found: list[tuple[int, int]] = []
    for handle in handles:
        found += [(subtask.dispatched_at or 0, subtask.index) for subtask in await scene.subtasks(handle)]
    return found


async def test_a_hundred_batches_of_one_session_leave_room_for_another(file_world: World) -> None:
    async with opened_scene(file_world) as scene:
        crowd: list[dict[str, object]] = [{"count": 8, "session_id": "crowd"} for _ in range(100)]
        handles = await _started_in_one_go(scene, *crowd, {"count": 8, "session_id": "other"})
        await scene.until_over(*handles)
        order = [call.session_id for call in scene.maker.calls]
        # The permits of the crowd, and then it is the other's turn: not one call more.
        assert order.index("other") <= scene.part.config.per_session


async def test_a_session_never_has_more_than_its_permits(file_world: World) -> None:
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def counted(request: GenerationRequest) -> Generated:
        running[request.session_id] += 1
        most[request.session_id] = max(most[request.session_id], running[request.session_id])
        for _ in range(3):
            await asyncio.sleep(0)
        running[request.session_id] -= 1
        return Generated(names(request.count))

    async with opened_scene(file_world, counted, per_session=2) as scene:
        handles = await _started_in_one_go(scene, *({"count": 50, "session_id": f"s{n % 2}"} for n in range(6)))
        await scene.until_over(*handles)
        assert most
        assert max(most.values()) <= 2


@pytest.mark.parametrize("priority", [0, 3, 9])
async def test_a_stream_of_the_highest_priority_holds_nobody_longer_than_the_bound(priority: int) -> None:
    """D40: one start a second, and each second one of priority 10 comes. What waits has its turn when it has aged by as
    many levels as it is lower; not before, and not after those that came within the same level."""
    task_type = TaskType(name="t", trigger_mode=TriggerMode.ONCE)
    store, now, urgent = MemoryStore(), 1_000_000, itertools.count()
    await store.open()
    await store.put_types([task_type])
    first = priority_of(priority, is_first=True)
    await store.schedule([NewTask(task_type="t", key="first", priority=first)], now=now)
    bound = (10 - first) * task_type.aging_ms
    for _ in range(bound // SECOND + 2):
        await store.schedule([NewTask(task_type="t", key=f"{next(urgent)}", priority=10)], now=now)
        asked = ClaimRequest(wants=[("t", 1)], instance="i", claim_id=f"{now}", lease_ms=10 * bound)
        (task,) = (await store.claim(asked, now=now)).tasks
        if task.key == "first":
            break
        now += SECOND
    else:
        pytest.fail("it never had its turn")
    waited = now - 1_000_000
    assert bound - SECOND <= waited <= bound + SECOND


@given(st.integers(0, 10), st.integers(0, 10))
def test_a_first_subtask_outranks_every_later_one_of_its_priority(one: int, other: int) -> None:
    first, rest = priority_of(one, is_first=True), priority_of(other, is_first=False)
    assert 0 <= rest < priority_of(other, is_first=True) <= 10
    if one >= other:
        assert first > rest


@given(st.integers(1, 100_000), st.data())
def test_no_minute_has_more_than_was_allowed(most: int, data: st.DataObject) -> None:
    """In any sixty seconds, whatever was asked for before, also after an hour of nothing."""
    limit = per_minute(most, data.draw(st.integers(1, max(1, most // 2))))
    bucket, now, granted = None, 0, list[int]()
    for _ in range(data.draw(st.integers(1, 60))):
        now += data.draw(st.sampled_from([0, 1, 10, 900, 30_000, 3_600_000]))
        bucket = buckets.refill(bucket, rate=limit.rate, burst=limit.burst, now=now)
        while (left := buckets.take(bucket, 1, limit.burst)) is not None and len(granted) < 5_000:
            bucket = left
            granted.append(now)
    for start in set(granted):
        assert sum(start <= at < start + 60_000 for at in granted) <= most


def test_nothing_is_limited_where_nobody_is_asked() -> None:
    assert limits_of(BatchesConfig()) == Limits(None, None)
    asking = limits_of(BatchesConfig(generator="openai"))
    assert asking.calls is not None
    assert asking.calls.rate > 900
    both = limits_of(BatchesConfig(generator="openai", requests_per_minute=60, tokens_per_minute=90_000))
    assert both.calls is not None
    assert both.calls.burst == 1
    assert both.tokens is not None
    assert both.tokens.rate * 60 + both.tokens.burst <= 90_001
