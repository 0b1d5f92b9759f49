"""The pure rules of consuming: how far a place is done, who runs, what becomes of an event."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.clock import SECOND
from rota.core.lifecycle import MAX_CRASHES, SUSPECT_CRASHES
from rota.core.task_type import RetryPolicy
from rota.errors import InvalidInput
from rota.events.buses.base import Place
from rota.events.consumer import Consumer, Consumers
from rota.events.delivery import (
    Begin,
    InboxRow,
    InboxStatus,
    Later,
    NonRetriable,
    after_failure,
    how_to_begin,
)
from rota.events.progress import Progress
from rota.events.turns import Turns
from rota.testing.waiting import until

PLACE = Place("t", 0)
NOW = 1_000_000
RETRY = RetryPolicy(base_ms=SECOND, factor=2.0, max_ms=300 * SECOND)


@given(order=st.permutations(range(12)), also=st.integers(0, 11))
def test_a_place_is_done_as_far_as_everything_before_is(order: list[int], also: int) -> None:
    progress = Progress()
    for offset in range(12):
        progress.note(PLACE, offset)
    done: set[int] = set()

    def reached(those: set[int]) -> int | None:
        first_open = next((offset for offset in range(12) if offset not in those), 12)
        return first_open - 1 if first_open else None

    for offset in order:
        assert progress.reached([(PLACE, also)]).get(PLACE) == reached(done | {also})
        progress.done(PLACE, offset)
        done.add(offset)
        assert progress.reached().get(PLACE) == reached(done)
    progress.committed(progress.reached())
    assert progress.reached() == {}


def test_what_is_somebody_elses_is_not_committed() -> None:
    progress = Progress()
    progress.note(PLACE, 1)
    progress.done(PLACE, 1)
    progress.forget([Place("t", 1)])
    assert progress.reached() == {}


async def test_whoever_runs_alone_waits_for_the_others_and_keeps_them_out() -> None:
    turns = Turns(3)
    log: list[str] = []
    go_on = asyncio.Event()

    async def one(name: str) -> None:
        async with turns:
            log.append(f"{name} in")
            await go_on.wait()
            log.append(f"{name} out")

    async def alone() -> None:
        async with turns.alone():
            log.append("alone in")
            assert turns.free == 0
            log.append("alone out")

    first = [asyncio.create_task(one(name)) for name in "ab"]
    await until(lambda: len(log) == 2, "two run")
    second = [asyncio.create_task(alone()), asyncio.create_task(alone())]
    await until(lambda: turns.free == 0, "one waits to be alone")
    late = asyncio.create_task(one("c"))
    go_on.set()
    await asyncio.gather(*first, *second, late)
    assert log[:2] == ["a in", "b in"]
    for at, entry in enumerate(log):
        if entry == "alone in":
            assert log[at + 1] == "alone out"
            assert at >= 4
    assert turns.free == 3


_row = st.builds(
    InboxRow,
    status=st.sampled_from(InboxStatus),
    crashes=st.integers(0, 4),
    lease_until=st.integers(NOW - 10, NOW + 10),
    lease_token=st.sampled_from(["me", "other", None]),
)


@given(row=st.none() | _row, ahead=st.none() | _row, alone=st.booleans())
def test_nothing_is_begun_that_could_run_twice_or_out_of_order(
    row: InboxRow | None, ahead: InboxRow | None, alone: bool
) -> None:
    begin = how_to_begin(row, ahead, "me", NOW, alone=alone)
    if row is not None and row.status is not InboxStatus.STARTED:
        assert begin is Begin.KNOWN
    elif row is not None:
        somebody_has_it = row.lease_until > NOW and row.lease_token != "me"
        assert (begin is Begin.HELD) == somebody_has_it
        if not somebody_has_it and row.lease_until <= NOW:
            assert (begin is Begin.DEAD) == (row.crashes >= MAX_CRASHES)
            is_behind = ahead is not None and ahead.status is InboxStatus.RETRYING
            is_suspect = SUSPECT_CRASHES <= row.crashes < MAX_CRASHES
            assert (begin is Begin.BEHIND) == (is_behind and row.crashes < MAX_CRASHES)
            assert (begin is Begin.ALONE) == (is_suspect and not alone and not is_behind)
    elif ahead is not None and ahead.status is InboxStatus.RETRYING:
        assert begin is Begin.BEHIND


@given(attempts=st.integers(0, 10), max_attempts=st.integers(1, 10), chance=st.floats(0, 0.999))
def test_attempts_count_up_to_their_limit(attempts: int, max_attempts: int, chance: float) -> None:
    given = {"max_attempts": max_attempts, "retry": RETRY, "now": NOW, "chance": chance}
    failed = after_failure(ValueError("x"), None, attempts, **given)  # pyright: ignore[reportArgumentType]
    assert failed.attempts == attempts + 1
    assert (failed.status is InboxStatus.DEAD) == (attempts + 1 >= max_attempts)
    if failed.status is InboxStatus.RETRYING:
        assert NOW <= failed.next_at <= NOW + RETRY.max_ms
    final = after_failure(NonRetriable("x"), None, attempts, **given)  # pyright: ignore[reportArgumentType]
    assert final.status is InboxStatus.DEAD
    later = after_failure(Later("7s"), None, attempts, **given)  # pyright: ignore[reportArgumentType]
    assert (later.status, later.attempts, later.next_at) == (InboxStatus.RETRYING, attempts, NOW + 7 * SECOND)
    said = after_failure(ValueError("x"), Later("7s"), attempts, **given)  # pyright: ignore[reportArgumentType]
    assert (said.status, said.attempts) == (InboxStatus.RETRYING, attempts)


async def _handle(event: object) -> None: ...


def test_a_consumer_is_known_by_one_name() -> None:
    consumers = Consumers()
    consumers.add(Consumer(name="worldbuilder", event_types=("A.B.Created",), function=_handle))
    assert consumers.find("world_builder").name == consumers.find("worldbuilder").name == "worldbuilder"
    with pytest.raises(InvalidInput, match="Did you mean 'worldbuilder'"):
        consumers.find("wordbuilder")
    with pytest.raises(InvalidInput, match="two consumers 'worldbuilder'"):
        consumers.add(Consumer(name="worldbuilder", event_types=("A.B.Created",), function=lambda event: None))


@pytest.mark.parametrize(
    "given",
    [
        {"name": "With Space"},
        {"name": ""},
        {"event_types": ()},
        {"event_types": ("A.B.Create",)},
        {"topics": ("with space",)},
        {"concurrency": 0},
        {"concurrency": 1_001},
        {"timeout_ms": 0},
        {"max_attempts": 0},
    ],
)
def test_a_consumer_that_makes_no_sense_is_refused(given: dict[str, object]) -> None:
    usual: dict[str, object] = {"name": "mail", "event_types": ("A.B.Created",), "function": _handle}
    with pytest.raises(InvalidInput):
        Consumer(**{**usual, **given}).checked()  # pyright: ignore[reportArgumentType]
