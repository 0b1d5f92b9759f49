"""The names of seed 002 do what they say, and what its formulas got wrong is right."""

from __future__ import annotations

from tests.batches.scene import World, opened_scene

from rota.batches.seeds import BatchScheduler, PriorityQueue, RateLimiter
from rota.clock import SECOND


async def test_a_batch_by_the_names_of_the_seed(file_world: World) -> None:
    async with opened_scene(file_world) as scene:
        scheduler, queue = BatchScheduler(scene.app), PriorityQueue(scene.app)
        first = await scheduler.schedule_detail_batch("s1", "item", 40, {"mood": "dark"}, priority=7)
        second = await scheduler.schedule_detail_batch("s1", "item", 40, {"mood": "dark"}, priority=7)
        assert first != second, "D41: two batches of one type are two"
        assert await queue.sizes() == {7: 6}
        scene.run()
        handles = [await scene.batches.handle(batch_id) for batch_id in (first, second)]
        for batch in await scene.until_over(*handles):
            assert (batch.items, batch.session_id) == (40, "s1")
        assert await queue.sizes() == {}


def test_sizes_are_those_of_the_seed_and_no_tail_is_left() -> None:
    """D51."""
    assert BatchScheduler.calculate_batch_size("skill", 50) == 10
    assert BatchScheduler.calculate_batch_size("skill", 81) == 20
    assert BatchScheduler.decompose_subtasks("location_name", 21) == [8, 13]
    assert min(BatchScheduler.decompose_subtasks("location_name", 29)) > 1


def test_a_priority_ages() -> None:
    """D40: one level is half a minute, not thirty years."""
    urgent_later = PriorityQueue.score(10, 301 * SECOND)
    assert PriorityQueue.score(0, 0) < urgent_later
    assert PriorityQueue.score(10, 60 * SECOND) < PriorityQueue.score(5, 0)


async def test_a_limiter_says_how_long_to_wait(world: World) -> None:
    """D45, D46."""
    async with opened_scene(world) as scene:
        limiter = RateLimiter(await scene.app.store(), "seed", rate=0.1, capacity=2)
        assert [(await limiter.acquire()).granted for _ in range(3)] == [True, True, False]
        refused = await limiter.acquire()
        assert 0 < refused.retry_after_ms <= 10 * SECOND
