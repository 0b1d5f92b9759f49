"""Tokens carry the store's time (`core/token.py`)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.clock import DAY
from rota.core.token import EPOCH, LONGEST, ROOM, floor_at, last_before, spread_of

NOW = EPOCH + 500 * DAY
INSTANTS = st.integers(0, EPOCH + 200 * 365 * DAY)
SPREADS = st.integers(0, ROOM - 1)


def test_each_millisecond_has_its_own_room() -> None:
    assert floor_at(NOW + 1) - floor_at(NOW) == ROOM


@pytest.mark.parametrize("early", [0, EPOCH - 1, EPOCH])
def test_a_clock_from_before_the_epoch_leaves_it_to_the_counter(early: int) -> None:
    assert floor_at(early) == 0


def test_where_a_claim_begins_is_the_same_in_lua() -> None:
    # redis.sha1hex('c1') begins with 9be.
    assert spread_of("c1") == int(__import__("hashlib").sha1(b"c1").hexdigest()[:3], 16)
    assert all(0 <= spread_of(f"claim-{number}") < ROOM for number in range(1_000))


@given(now=INSTANTS, spread=SPREADS)
def test_the_next_token_is_above_the_time_and_exact_in_a_double(now: int, spread: int) -> None:
    token = last_before(0, floor_at(now), spread) + 1
    assert floor_at(now) < token < 2**53
    assert int(float(token)) == token


@given(last=st.integers(0, 2**52), now=INSTANTS, spread=SPREADS)
def test_the_next_token_is_above_the_last_one(last: int, now: int, spread: int) -> None:
    assert last_before(last, floor_at(now), spread) >= last


@given(nows=st.lists(st.integers(NOW - 10, NOW + 10), min_size=2, max_size=50), spread=SPREADS)
def test_tokens_grow_whatever_the_clock_does(nows: list[int], spread: int) -> None:
    last, seen = 0, list[int]()
    for now in nows:
        last = last_before(last, floor_at(now), spread) + 1
        seen.append(last)
    assert seen == sorted(set(seen))


@given(spreads=st.tuples(SPREADS, SPREADS), gap_ms=st.integers(2, 10_000), claims=st.integers(1, ROOM))
def test_after_a_loss_the_first_token_is_above_all_from_before(
    spreads: tuple[int, int], gap_ms: int, claims: int
) -> None:
    before = last_before(0, floor_at(NOW), spreads[0]) + claims
    assert last_before(0, floor_at(NOW + gap_ms), spreads[1]) + 1 > before


def test_after_the_last_year_the_counter_goes_on_alone() -> None:
    assert floor_at(EPOCH + 2 * LONGEST) == LONGEST * ROOM
