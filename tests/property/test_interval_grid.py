"""Intervals, for any grid: on it, strictly later, and both directions agree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rota.triggers import LONGEST_INTERVAL, SHORTEST_INTERVAL, Interval

intervals = st.builds(Interval, st.integers(SHORTEST_INTERVAL, LONGEST_INTERVAL), st.integers(0, 10**13))


@given(intervals, st.integers(0, 10**14))
def test_fires_lie_on_the_grid(interval: Interval, at: int) -> None:
    later, latest = interval.next_after(at), interval.latest_until(at)
    assert later is not None
    assert later > at
    assert (later - interval.anchor_at) % interval.every_ms == 0
    assert later >= interval.anchor_at
    if latest is None:
        assert later == interval.anchor_at
    else:
        assert latest <= at
        assert later - latest == interval.every_ms


@given(intervals, st.integers(0, 10**14), st.integers(1, 50))
def test_a_count_is_what_a_walk_counts(interval: Interval, at: int, steps: int) -> None:
    fire_at = at
    for _ in range(steps):
        following = interval.next_after(fire_at)
        assert following is not None
        fire_at = following
    assert interval.count(at, fire_at) == steps
    assert interval.count(at, fire_at - 1) == steps - 1
