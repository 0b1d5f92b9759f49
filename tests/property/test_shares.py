"""One limit, several types: who starts, as laws."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rota.core.rank import DueLine, Head, shares

AGING = 30


def head(due_at: int, priority: int) -> Head:
    return Head(due_at - priority * AGING, due_at, priority)


heads = st.builds(head, st.integers(0, 300), st.integers(0, 10))
lines = st.builds(DueLine, st.lists(heads, max_size=6).map(sorted), st.integers(0, 4), st.booleans())
limits = st.integers(0, 12)


@given(lines=st.lists(lines, max_size=6), limit=limits)
def test_the_limit_holds_and_no_room_is_left_empty(lines: list[DueLine], limit: int) -> None:
    started = shares(lines, limit)
    assert all(number <= len(line.heads) for line, number in zip(lines, started, strict=True))
    shared = sum(number - (line.has_own and number > 0) for line, number in zip(lines, started, strict=True))
    assert shared <= limit
    assert all(number for line, number in zip(lines, started, strict=True) if line.has_own and line.heads)
    if shared < limit:
        assert started == [len(line.heads) for line in lines]


@given(priorities=st.lists(st.integers(0, 10), unique=True, max_size=6), dues=st.data(), limit=limits)
def test_between_types_of_different_priorities_rank_alone_decides(
    priorities: list[int], dues: st.DataObject, limit: int
) -> None:
    lines = [
        DueLine([head(at, priority) for at in sorted(dues.draw(st.lists(st.integers(0, 300))))])
        for priority in priorities
    ]
    every = sorted(
        ((each.rank, each.due_at, -each.priority), at) for at, line in enumerate(lines) for each in line.heads
    )
    first = [at for _, at in every[:limit]]
    assert shares(lines, limit) == [first.count(at) for at in range(len(lines))]


@given(ages=st.lists(st.integers(0, 300), min_size=1, max_size=6), running=st.data(), limit=limits)
def test_among_equals_whoever_runs_the_fewest_is_never_passed_over(
    ages: list[int], running: st.DataObject, limit: int
) -> None:
    """However old the queues are: nobody who has started one runs over one more than another who could have."""
    lines = [DueLine([Head(age, age, 5)] * 20, running.draw(st.integers(0, 4))) for age in ages]
    started = shares(lines, limit)
    assert sum(started) == min(limit, 20 * len(lines))
    fewest = min(line.running + number for line, number in zip(lines, started, strict=True))
    assert all(line.running + number <= fewest + 1 for line, number in zip(lines, started, strict=True) if number)


@given(lines=st.lists(lines, max_size=5), limit=limits)
def test_one_more_slot_takes_nothing_from_anybody(lines: list[DueLine], limit: int) -> None:
    before, after = shares(lines, limit), shares(lines, limit + 1)
    assert all(one <= other for one, other in zip(before, after, strict=True))
