"""The law of alerts: whatever a condition does, firing and resolved alternate, and each had its hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rota.core.alert import AlertChange, AlertState, Known, step

HOLD = 60
GAP = 1_000_000

LOOKS = st.lists(st.tuples(st.integers(0, 90), st.booleans()), max_size=60)
"""Steps of time, and whether the condition held at their end."""


def walk(
    looks: list[tuple[int, bool]], hold_ms: int = HOLD, gap_ms: int = GAP
) -> list[tuple[int, bool, Known, AlertChange | None]]:
    now, known, seen = 1_000, None, list[tuple[int, bool, Known, AlertChange | None]]()
    for passed, holds in looks:
        now += passed
        known, change = step(known, holds, now, hold_ms=hold_ms, gap_ms=gap_ms)
        seen.append((now, holds, known, change))
    return seen


@given(LOOKS)
def test_firing_and_resolved_alternate(looks: list[tuple[int, bool]]) -> None:
    changes = [change for *_, change in walk(looks) if change is not None]
    assert all(change is AlertChange.FIRING for change in changes[::2])
    assert all(change is AlertChange.RESOLVED for change in changes[1::2])


@given(LOOKS)
def test_a_change_comes_exactly_when_the_condition_was_so_for_the_hold(looks: list[tuple[int, bool]]) -> None:
    """Against the plain definition: the first look at which it has been so, at every look, for the whole hold."""
    is_firing, same_since, before = False, None, False
    for now, holds, known, change in walk(looks):
        if same_since is None or holds != before:
            same_since, before = now, holds
        expected = None
        if holds != is_firing and now - same_since >= HOLD:
            is_firing = holds
            expected = AlertChange.FIRING if holds else AlertChange.RESOLVED
        assert change == expected
        assert known.state.is_firing == is_firing


@given(LOOKS)
def test_without_a_hold_every_change_is_told_at_once(looks: list[tuple[int, bool]]) -> None:
    for _, holds, known, _change in walk(looks, hold_ms=0):
        assert known.state is (AlertState.FIRING if holds else AlertState.OK)


def test_nobody_knows_what_held_while_nobody_looked() -> None:
    first = step(None, True, 0, hold_ms=60, gap_ms=100)
    after_the_gap = step(first.known, True, 500, hold_ms=60, gap_ms=100)
    assert after_the_gap.change is None
    assert step(after_the_gap.known, True, 560, hold_ms=60, gap_ms=100).change is AlertChange.FIRING


def test_what_fires_goes_on_firing_over_a_gap() -> None:
    firing = Known(AlertState.FIRING, 0, 0)
    assert step(firing, True, 10_000, hold_ms=60, gap_ms=100) == (Known(AlertState.FIRING, 0, 10_000), None)


@given(st.integers(0, 10_000))
def test_a_clock_that_was_set_back_delays_by_one_hold_at_most(back: int) -> None:
    known = step(None, True, 20_000, hold_ms=60, gap_ms=GAP).known
    known = step(known, True, 20_000 - back, hold_ms=60, gap_ms=GAP).known
    assert step(known, True, 20_000 - back + 60, hold_ms=60, gap_ms=GAP).change is AlertChange.FIRING
