"""Free slots, shared out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rota.runtime.share import Lane, share


def test_one_type_gets_everything() -> None:
    assert share(5, [Lane("a", 0, 300)]) == [("a", 5)]


def test_a_type_gets_no_more_than_it_has_room_for() -> None:
    assert share(5, [Lane("a", 2, 1), Lane("b", 0, 0)]) == [("a", 1)]


def test_the_least_served_come_first() -> None:
    assert share(3, [Lane("a", 4, 10), Lane("b", 0, 10)]) == [("b", 2), ("a", 1)]


def test_quiet_types_are_only_asked() -> None:
    assert share(9, [Lane("a", 0, 9, is_quiet=True), Lane("b", 0, 9)]) == [("b", 8), ("a", 1)]


def test_busy_types_go_before_quiet_ones() -> None:
    assert share(1, [Lane("a", 0, 9, is_quiet=True), Lane("b", 3, 9)]) == [("b", 1)]


def test_the_given_order_breaks_ties() -> None:
    assert share(1, [Lane("b", 0, 9), Lane("a", 0, 9)]) == [("b", 1)]


lanes = st.lists(
    st.builds(Lane, st.uuids().map(str), st.integers(0, 20), st.integers(0, 20), st.booleans()), max_size=8
)


@given(free=st.integers(0, 60), lanes=lanes)
def test_nobody_gets_too_much_and_nobody_is_left_out(free: int, lanes: list[Lane]) -> None:
    granted = dict(share(free, lanes))
    room = {lane.name: lane.room for lane in lanes}
    assert all(1 <= count <= room[name] for name, count in granted.items())
    assert sum(granted.values()) <= free
    wanting = [lane for lane in lanes if lane.room > 0]
    assert len(granted) == min(free, len(wanting)), "as many types are asked as there are slots"
    if any(not lane.is_quiet for lane in wanting):
        most = sum(1 if lane.is_quiet else lane.room for lane in wanting)
        assert sum(granted.values()) == min(free, most), "no slot is left empty that a busy type could use"
