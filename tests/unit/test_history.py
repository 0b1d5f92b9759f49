"""Slices of history add up, whatever the order and the grouping."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rota.clock import DAY, HOUR, MINUTE, Millis
from rota.core.history import BOUNDS_MS, REASONS, Resolution, Slice, add, of_run, percentile

START = 1_767_603_600_000

runs = st.builds(
    of_run,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["cron", "once"]),
    st.integers(START, START + 3 * HOUR),
    reason=st.sampled_from([None, "error", "timeout", "a word of the handler's own"]),
    late_ms=st.none() | st.integers(0, 2 * DAY),
    took_ms=st.integers(0, 2 * DAY),
)


@given(st.data(), st.lists(runs, max_size=30))
def test_the_order_does_not_matter(data: st.DataObject, slices: list[Slice]) -> None:
    shuffled = data.draw(st.permutations(slices))
    assert _comparable(add(shuffled)) == _comparable(add(slices))


@given(st.lists(runs, max_size=30), st.integers(0, 30))
def test_parts_added_first_give_the_same(slices: list[Slice], cut: int) -> None:
    parts = [*add(slices[:cut]), *add(slices[cut:])]
    assert _comparable(add(parts)) == _comparable(add(slices))
    assert _comparable(add(add(slices), Resolution.HOUR)) == _comparable(add(slices, Resolution.HOUR))


@given(st.lists(runs, max_size=30))
def test_nothing_is_lost_by_adding(slices: list[Slice]) -> None:
    whole = add(slices, Resolution.HOUR)
    assert sum(each.runs for each in whole) == len(slices)
    assert sum(each.success for each in whole) == sum(each.success for each in slices)
    assert sum(each.took_sum_ms for each in whole) == sum(each.took_sum_ms for each in slices)
    assert sum(sum(each.took) for each in whole) == len(slices)
    assert max((each.took_max_ms for each in whole), default=0) == max((e.took_max_ms for e in slices), default=0)
    assert all(each.start_at % HOUR == 0 for each in whole)
    assert {name for each in whole for name in each.reasons} <= REASONS


@given(st.lists(st.integers(0, 12 * HOUR), min_size=1, max_size=60), st.floats(0.01, 1))
def test_a_percentile_is_the_bound_above_the_true_one(times: list[Millis], share: float) -> None:
    counted = [of_run("a", "cron", START, reason=None, late_ms=late, took_ms=0).late for late in times]
    found = percentile(counted, share)
    ranked = sorted(times)
    true = next(time for place, time in enumerate(ranked, 1) if place >= share * len(ranked))
    assert found == next(bound for bound in BOUNDS_MS if bound >= true)


def test_nothing_counted_has_no_percentile() -> None:
    assert percentile([], 0.5) is None
    assert percentile([of_run("a", "cron", START, reason=None, late_ms=None, took_ms=1).late], 0.5) is None


def test_a_slice_begins_with_its_minute() -> None:
    one = of_run("a", "cron", START + MINUTE + 1, reason=None, late_ms=0, took_ms=0)
    assert one.start_at == START + MINUTE


def _comparable(slices: list[Slice]) -> list[tuple[object, ...]]:
    return [(each.key, each.success, each.error, sorted(each.reasons.items()), each.late, each.took) for each in slices]
