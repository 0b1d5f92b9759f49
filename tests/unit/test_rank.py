"""Rank: priority that ages."""

from __future__ import annotations

from rota.clock import SECOND
from rota.core.rank import HIGHEST_PRIORITY, LOWEST_PRIORITY, by_rank, rank
from rota.core.task import Task, TaskStatus

AGING = 30 * SECOND


def task(key: str, scheduled_at: int, priority: int = 5) -> Task:
    return Task(
        task_type="work",
        key=key,
        status=TaskStatus.PENDING,
        scheduled_at=scheduled_at,
        created_at=0,
        updated_at=0,
        priority=priority,
    )


def test_a_level_is_worth_one_aging_of_waiting() -> None:
    assert rank(task("a", 0, 4), AGING) < rank(task("b", AGING + 1, 5), AGING)
    assert rank(task("a", 0, 4), AGING) > rank(task("b", AGING - 1, 5), AGING)


def test_ties_go_to_the_earlier_then_to_the_key() -> None:
    assert rank(task("z", 0, 4), AGING) < rank(task("a", AGING, 5), AGING)
    assert rank(task("a", 0), AGING) < rank(task("b", 0), AGING)


def test_the_lowest_waits_at_most_ten_levels_behind_the_highest() -> None:
    patient = task("patient", 0, LOWEST_PRIORITY)
    levels = HIGHEST_PRIORITY - LOWEST_PRIORITY
    assert rank(patient, AGING) < rank(task("rush", levels * AGING + 1, HIGHEST_PRIORITY), AGING)


def test_lanes_in_due_order_merge_into_rank_order() -> None:
    lanes = [[task(f"{priority}-{at}", at * SECOND, priority) for at in (0, 20, 50)] for priority in (0, 5, 6)]
    merged = list(by_rank(lanes, AGING))
    assert merged == sorted(merged, key=lambda each: rank(each, AGING))
    assert len(merged) == 9
    assert list(by_rank([], AGING)) == []


def test_without_aging_only_the_due_time_counts() -> None:
    assert rank(task("a", 1, 0), 0) < rank(task("b", 2, 10), 0)
