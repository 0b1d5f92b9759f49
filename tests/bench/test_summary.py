"""Medians, spreads and ratios, and what becomes of a queue that failed."""

from __future__ import annotations

import pytest

from bench.side_by_side import Turn
from bench.summary import Best, Spread, best_of, ratio, rows_of, spread_of


def test_a_figure_is_the_median_of_its_rounds_with_the_lowest_and_the_highest() -> None:
    assert spread_of([30.0, 10.0, 11.0]) == Spread(median=11.0, low=10.0, high=30.0, rounds=3)


def test_a_turn_that_failed_counts_in_no_median_and_leaves_its_reason() -> None:
    turns = [
        Turn("slow", "work", {"run": 10.0}, version="1.0"),
        Turn("slow", "work", failed="not done within 120 s"),
        Turn("slow", "work", {"run": 20.0}, version="1.0"),
    ]

    (row,) = rows_of(turns)

    assert row.median("run") == 15.0
    assert row.figures["run"].rounds == 2
    assert row.failed == {"work": "not done within 120 s"}
    assert row.version == "1.0"


def test_a_queue_that_always_failed_is_a_row_without_figures() -> None:
    rows = rows_of([Turn("broken", "work", failed="no module"), Turn("fine", "work", {"run": 5.0})])

    assert [row.queue for row in rows] == ["broken", "fine"]
    assert rows[0].median("run") is None
    assert best_of(rows, "run", more_is_better=True) == Best("fine", 5.0)


def test_what_a_queue_cannot_do_is_no_failure() -> None:
    (row,) = rows_of([Turn("plain", "work", {"run": 5.0}, cannot={"touch": "has no keys"})])

    assert row.cannot == {"touch": "has no keys"}
    assert not row.failed


def test_the_best_is_the_highest_rate_or_the_least_lateness() -> None:
    rows = rows_of([Turn("one", "work", {"run": 5.0, "late": 1.0}), Turn("two", "work", {"run": 9.0, "late": 7.0})])

    assert best_of(rows, "run", more_is_better=True) == Best("two", 9.0)
    assert best_of(rows, "late", more_is_better=False) == Best("one", 1.0)
    assert best_of(rows, "touch", more_is_better=True) is None


@pytest.mark.parametrize(
    ("own", "other", "more_is_better", "times"),
    [(80.0, 10.0, True, 8.0), (2.0, 10.0, False, 5.0), (None, 10.0, True, None), (80.0, None, True, None)],
)
def test_a_ratio_above_one_is_better_whatever_is_counted(
    own: float | None, other: float | None, more_is_better: bool, times: float | None
) -> None:
    assert ratio(own, other, more_is_better=more_is_better) == times


def test_nothing_is_divided_by_nothing() -> None:
    assert ratio(1.0, 0.0, more_is_better=True) is None
    assert ratio(0.0, 1.0, more_is_better=False) is None
