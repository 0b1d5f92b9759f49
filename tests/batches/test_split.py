"""How a batch is cut: laws over all counts and sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.batches.split import BASE_SIZES, DEFAULT_SIZE, MAX_SIZE, base_size, split, top_up

COUNTS = st.integers(1, 3_000)
SIZES = st.integers(1, 80)
FIRSTS = st.integers(1, 60)


@pytest.mark.parametrize(
    ("count", "size", "sizes"),
    [
        (0, 20, []),
        (1, 20, [1]),
        (2, 20, [2]),
        (8, 20, [8]),
        (9, 20, [9]),
        (10, 20, [8, 2]),
        (28, 20, [8, 20]),
        (29, 20, [8, 11, 10]),
        (100, 20, [8, 19, 19, 18, 18, 18]),
        (500, 40, [8, *[38] * 11, *[37] * 2]),
    ],
)
def test_the_first_is_small_and_the_rest_alike(count: int, size: int, sizes: list[int]) -> None:
    assert split(count, size) == sizes


@given(COUNTS, SIZES, FIRSTS)
def test_the_laws_of_a_split(count: int, size: int, first: int) -> None:
    sizes = split(count, size, first=first)
    assert sum(sizes) == count
    assert max(sizes) <= MAX_SIZE
    assert min(sizes) >= 2 or count == 1
    assert abs(sizes[0] - min(first, MAX_SIZE, count)) <= 1
    rest = sizes[1:]
    assert not rest or max(rest) - min(rest) <= 1
    # A size that is too small for the rule about single items gives way to it.
    assert all(one <= size or one <= 3 for one in rest)
    assert sizes == split(count, size, first=first)


@given(COUNTS, SIZES)
def test_what_is_missing_is_asked_for_exactly(missing: int, size: int) -> None:
    sizes = top_up(missing, size)
    assert sum(sizes) == missing
    assert max(sizes) <= MAX_SIZE
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 2 or missing == 1
    assert top_up(0, size) == []


@pytest.mark.parametrize(
    ("item_type", "count", "size"),
    [
        ("character_name", 160, 20),
        ("character_name", 161, 40),
        ("item", 128, 16),
        ("item", 129, 32),
        ("skill", 80, 10),
        ("skill", 81, 20),
        ("recipe", 160, DEFAULT_SIZE),
        ("recipe", 161, 2 * DEFAULT_SIZE),
    ],
)
def test_a_large_batch_has_larger_subtasks(item_type: str, count: int, size: int) -> None:
    assert base_size(item_type, count) == size


def test_a_size_of_ones_own_is_doubled_too_but_never_over_the_limit() -> None:
    assert base_size("item", 1_000, 30) == MAX_SIZE
    assert base_size("item", 10, 30) == 30
    assert base_size("item", 10, 99) == MAX_SIZE
    assert set(BASE_SIZES) == {"character_name", "location_name", "item", "skill", "organization"}
