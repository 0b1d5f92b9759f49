"""Free slots, shared out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rota.core.rank import DueLine, Head, shares
from rota.runtime.fair_share import Lane, fair_share, own_share


def granted(slots: int, lanes: list[Lane], priorities: dict[str, int] | None = None) -> dict[str, int]:
    """How many of each type start if all that are asked have more to do than there is room for."""
    free = slots - sum(lane.running for lane in lanes)
    running = {lane.name: lane.running for lane in lanes}
    offer = fair_share(slots, free, lanes)
    heads = {name: Head(0, 0, (priorities or {}).get(name, 5)) for name, _ in offer.wants}
    heads = {name: head._replace(rank=-head.priority) for name, head in heads.items()}
    lines = [DueLine([heads[name]] * most, running[name], name in offer.own) for name, most in offer.wants]
    return {name: n for (name, _), n in zip(offer.wants, shares(lines, offer.limit), strict=True) if n}


def test_one_type_gets_everything() -> None:
    assert granted(5, [Lane("a", 0, 300)]) == {"a": 5}


def test_a_type_gets_no_more_than_it_has_room_for() -> None:
    assert granted(7, [Lane("a", 2, 1), Lane("b", 0, 0)]) == {"a": 1}


def test_the_least_served_come_first() -> None:
    assert granted(7, [Lane("a", 4, 10), Lane("b", 0, 10)]) == {"b": 3}
    assert granted(1, [Lane("a", 0, 10), Lane("b", 0, 10)]) == {"a": 1}, "the given order breaks ties"


def test_a_type_without_a_run_has_its_slot_whatever_ranks_before_it() -> None:
    lanes = [Lane("high", 3, 10), Lane("low", 0, 10)]
    assert granted(6, lanes, {"high": 9, "low": 1}) == {"high": 2, "low": 1}
    assert granted(4, lanes, {"high": 9, "low": 1}) == {"low": 1}


def test_one_type_leaves_a_slot_to_each_of_the_others() -> None:
    others = [Lane(name, 0, 10, was_asked=True) for name in "bcde"]
    assert granted(10, [Lane("a", 0, 10), *others]) == {"a": 6}


def test_with_fewer_slots_than_types_all_are_shared() -> None:
    others = [Lane(name, 0, 10, was_asked=True) for name in "bcde"]
    assert granted(4, [Lane("a", 0, 10), *others]) == {"a": 4}


def test_a_type_that_is_held_keeps_no_slot_and_is_asked() -> None:
    """The operator may have let it go since: the store knows."""
    offer = fair_share(5, 5, [Lane("a", 0, 10), Lane("b", 0, 10, is_held=True)])
    assert offer == ([("a", 5), ("b", 4)], 4, {"a"})


def test_a_slot_that_is_gone_is_the_next_that_is_free() -> None:
    offer = fair_share(3, 1, [Lane("a", 2, 10), Lane("b", 0, 10), Lane("c", 0, 10)])
    assert offer == ([("b", 1), ("c", 1)], 1, frozenset())


def test_a_quiet_type_is_asked_where_there_is_room_to_spare_or_nobody_else() -> None:
    quiet = Lane("a", 0, 9, is_quiet=True)
    assert fair_share(9, 9, [quiet, Lane("b", 0, 9)]).wants == [("a", 8), ("b", 8)]
    assert fair_share(9, 2, [quiet, Lane("b", 7, 9)]).wants == [("b", 1)]
    assert fair_share(9, 2, [quiet, Lane("b", 7, 9, was_asked=True)]).wants == [("a", 2)]
    assert fair_share(1, 1, [quiet, Lane("b", 0, 9)]).wants == [("b", 1)]


def test_slots_of_its_own_are_asked_for_whoever_else_is_there() -> None:
    assert own_share(Lane("a", 3, 61)) == ([("a", 61)], 61, frozenset())
    assert own_share(Lane("a", 0, 4, is_quiet=True, is_held=True)).wants == [("a", 4)]
    assert own_share(Lane("a", 0, 4, was_asked=True)).wants == []
    assert own_share(Lane("a", 5, -1)) == ([], 0, frozenset())


lanes = st.lists(
    st.builds(
        Lane, st.uuids().map(str), st.integers(0, 5), st.integers(0, 20), st.booleans(), st.booleans(), st.booleans()
    ),
    max_size=8,
    unique_by=lambda lane: lane.name,
)


@given(spare=st.integers(0, 40), lanes=lanes, priorities=st.lists(st.integers(0, 10), min_size=8, max_size=8))
def test_nobody_gets_too_much_and_nobody_is_left_out(spare: int, lanes: list[Lane], priorities: list[int]) -> None:
    slots = spare + sum(lane.running for lane in lanes)
    got = granted(slots, lanes, dict(zip((lane.name for lane in lanes), priorities, strict=False)))
    assert all(got.get(lane.name, 0) <= max(0, lane.room) for lane in lanes)
    assert sum(got.values()) <= spare
    serving = [lane for lane in lanes if not lane.is_held]
    idle = [lane for lane in serving if lane.running == 0]
    if len(serving) <= slots and len(idle) <= spare:
        missing = [lane for lane in idle if not got.get(lane.name)]
        assert spare - sum(got.values()) >= len(missing), "whoever runs nothing has a slot left"
    loud = [lane for lane in lanes if lane.room > 0 and not lane.is_quiet and not lane.was_asked]
    if spare and loud and len(serving) > slots:
        assert sum(got.values()) >= min(spare, sum(lane.room for lane in loud)), "no slot is left empty"
