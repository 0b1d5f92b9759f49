"""How many calls a model bears: halved once a burst, raised slowly, in order, and never leaked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.batches.generators.base import Bounded, Generated, GenerationRequest, Item
from rota.batches.generators.concurrency import Concurrency
from rota.errors import InvalidConfig
from rota.llm import LlmFailed, LlmRefused, LlmTimeout, LlmUnavailable, Throttled
from rota.testing.waiting import until

Failure = Callable[[], LlmFailed]


def throttled() -> LlmFailed:
    return Throttled("Busy.")


async def burst(concurrency: Concurrency, outcomes: list[LlmFailed | None]) -> None:
    """So many calls that are all under way before the first of them ends."""
    gate = asyncio.Event()

    async def call(outcome: LlmFailed | None) -> None:
        async with concurrency.slot():
            await gate.wait()
            if outcome is not None:
                raise outcome

    calls = [asyncio.create_task(call(outcome)) for outcome in outcomes]
    await until(lambda: concurrency.in_use == min(len(outcomes), concurrency.limit))
    gate.set()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_one_burst_of_refusals_halves_once() -> None:
    concurrency = Concurrency(32)
    await burst(concurrency, [throttled() for _ in range(32)])
    assert (concurrency.limit, concurrency.throttled, concurrency.in_use) == (16, 32, 0)
    await burst(concurrency, [throttled() for _ in range(16)])
    assert concurrency.limit == 8


@pytest.mark.parametrize(
    ("failure", "limit"),
    [
        (throttled, 4),
        (lambda: LlmTimeout("Late."), 4),
        (lambda: LlmUnavailable("Away."), 8),
        (lambda: LlmRefused("No."), 8),
    ],
)
async def test_only_a_server_that_has_too_much_is_asked_less(failure: Failure, limit: int) -> None:
    concurrency = Concurrency(8)
    await burst(concurrency, [failure()])
    assert concurrency.limit == limit


async def test_it_never_falls_below_one_and_comes_back_slowly() -> None:
    concurrency = Concurrency(4)
    for _ in range(5):
        await burst(concurrency, [throttled()])
    assert concurrency.limit == 1
    for limit, good in ((2, 1), (3, 2), (4, 3), (4, 4)):
        for _ in range(good):
            await burst(concurrency, [None])
        assert concurrency.limit == limit


async def test_what_began_before_it_was_halved_raises_nothing() -> None:
    concurrency = Concurrency(4)
    await burst(concurrency, [throttled(), None, None, None])
    assert concurrency.limit == 2


async def test_slots_are_given_in_order() -> None:
    concurrency, order = Concurrency(1), list[int]()

    async def call(number: int) -> None:
        async with concurrency.slot():
            order.append(number)

    async with concurrency.slot():
        calls = list[asyncio.Task[None]]()
        for number in range(5):
            calls.append(asyncio.create_task(call(number)))
            await until(lambda: concurrency.waiting == len(calls))
    await asyncio.gather(*calls)
    assert order == [0, 1, 2, 3, 4]


async def test_whoever_is_cancelled_takes_no_slot_along() -> None:
    concurrency = Concurrency(1)
    ran: list[str] = []

    async def call(name: str) -> None:
        async with concurrency.slot():
            ran.append(name)

    async with concurrency.slot():
        first, second, third = (asyncio.create_task(call(name)) for name in ("first", "second", "third"))
        await until(lambda: concurrency.waiting == 3)
        second.cancel()
    # The first has been given the slot, and is cancelled before it could run.
    first.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert (ran, concurrency.in_use, concurrency.waiting) == (["third"], 0, 0)


def test_none_at_once_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="at least 1"):
        Concurrency(0)


@given(st.integers(1, 8), st.lists(st.sampled_from(["good", "throttled", "away", "cancelled"]), max_size=60))
def test_the_laws_of_slots(most: int, outcomes: list[str]) -> None:
    asyncio.run(_check_laws(most, outcomes))


async def _check_laws(most: int, outcomes: list[str]) -> None:
    concurrency = Concurrency(most)

    async def call(outcome: str) -> None:
        async with concurrency.slot():
            assert 1 <= concurrency.in_use <= most
            await asyncio.sleep(0)
            if outcome == "throttled":
                raise Throttled("Busy.")
            if outcome == "away":
                raise LlmUnavailable("Away.")

    calls = [asyncio.create_task(call(outcome)) for outcome in outcomes]
    await asyncio.sleep(0)
    for task, outcome in zip(calls, outcomes, strict=True):
        if outcome == "cancelled":
            task.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert (concurrency.in_use, concurrency.waiting) == (0, 0)
    assert 1 <= concurrency.limit <= most
    assert concurrency.throttled == outcomes.count("throttled")
    assert not any(isinstance(task.exception(), AssertionError) for task in calls if not task.cancelled())


class Slow:
    """A generator that shows how often it runs at once."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.gate = asyncio.Event()

    async def generate(self, request: GenerationRequest) -> Generated:
        self.running += 1
        self.most = max(self.most, self.running)
        await self.gate.wait()
        self.running -= 1
        return Generated([Item(request.subtask_id)])

    def estimate(self, type: str, count: int, style: object) -> int:  # noqa: A002 - the word of requests
        return count

    async def close(self) -> None:
        self.gate.clear()


async def test_another_generator_runs_within_the_bounds() -> None:
    slow = Slow()
    bounded = Bounded(slow, Concurrency(3))
    requests = [
        GenerationRequest(subtask_id=str(n), batch_id="b", session_id="s", type="item", count=1) for n in range(9)
    ]
    calls = [asyncio.create_task(bounded.generate(request)) for request in requests]
    await until(lambda: bounded.concurrency.waiting == 6)
    slow.gate.set()
    assert [one.items[0].name for one in await asyncio.gather(*calls)] == [str(n) for n in range(9)]
    assert slow.most == 3
    assert bounded.estimate("item", 7, "") == 7
    await bounded.close()
    assert not slow.gate.is_set()
