"""The rule of grouping: what it promises, held against a plain reading of it."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.memory.test_merging import a_context

from rota.memory.compression import who_joins_whom
from rota.memory.contexts import Vector
from rota.memory.grouping import assign, groups
from rota.memory.vectors import Vectors, cosines, from_bytes, quantise, to_bytes

# Few dimensions and small numbers: many are similar, many are the same, and ties are common.
VECTORS = arrays.arrays(np.int8, st.tuples(st.integers(0, 40), st.just(3)), elements=st.integers(-4, 4))
THRESHOLDS = st.sampled_from([0.5, 0.85, 0.95, 1.0])


def plainly(vectors: Vectors, known: list[bool], threshold: float, reach: int) -> list[int]:
    """The rule, read aloud: one context after another, one cosine after another."""
    joins: list[int] = []
    leaders: list[int] = []
    for row in range(len(vectors)):
        chances = [(float(cosines(vectors[row : row + 1], vectors[one : one + 1])[0, 0]), -one) for one in leaders]
        best = max(chances[-reach:], default=(-1.0, 0))
        if known[row] or best[0] < threshold:
            leaders.append(row)
            joins.append(row)
        else:
            joins.append(-best[1])
    return joins


@given(vectors=VECTORS, threshold=THRESHOLDS, reach=st.integers(1, 50), block=st.integers(1, 50), data=st.data())
def test_blocks_of_any_size_read_the_rule_as_it_stands(
    vectors: Vectors, threshold: float, reach: int, block: int, data: st.DataObject
) -> None:
    known = data.draw(st.lists(st.booleans(), min_size=len(vectors), max_size=len(vectors)))
    joins = assign(vectors, np.array(known, dtype=np.bool_), threshold=threshold, reach=reach, block=block)
    assert joins.tolist() == plainly(vectors, known, threshold, reach)


@given(vectors=VECTORS, threshold=THRESHOLDS)
def test_nothing_chains(vectors: Vectors, threshold: float) -> None:
    """Every member is similar to its leader itself; no leader is similar to an earlier one."""
    joins = assign(vectors, threshold=threshold).tolist()
    leaders = [row for row, leader in enumerate(joins) if row == leader]
    similar = cosines(vectors, vectors)
    for row, leader in enumerate(joins):
        if row != leader:
            assert joins[leader] == leader < row
            assert similar[row, leader] >= threshold
    for later in leaders:
        assert all(similar[later, earlier] < threshold for earlier in leaders if earlier < later)


@given(vectors=VECTORS, threshold=THRESHOLDS, cut=st.integers(0, 40), reach=st.integers(1, 50))
def test_what_is_cut_in_two_gives_the_same_groups(vectors: Vectors, threshold: float, cut: int, reach: int) -> None:
    """The second part only gets the leaders of the first."""
    whole = assign(vectors, threshold=threshold, reach=reach).tolist()
    first = assign(vectors[:cut], threshold=threshold, reach=reach)
    leaders = [row for row, leader in enumerate(first.tolist()) if row == leader]
    rows = [*leaders, *range(len(first), len(vectors))]
    known = np.array([row < len(first) for row in rows], dtype=np.bool_)
    second = assign(vectors[rows], known, threshold=threshold, reach=reach)
    assert [*first.tolist(), *(rows[join] for join in second.tolist()[len(leaders) :])] == whole


@given(vectors=VECTORS)
def test_groups_are_those_that_others_joined(vectors: Vectors) -> None:
    joins = assign(vectors)
    found = dict(groups(joins))
    members = [row for rows in found.values() for row in rows]
    assert sorted(members) == [row for row, leader in enumerate(joins.tolist()) if row != leader]


@settings(max_examples=30)
@given(arrays.arrays(np.int8, (6, 600), elements=st.integers(-127, 127)))
def test_a_cosine_is_the_same_number_in_any_matrix(vectors: Vectors) -> None:
    together = cosines(vectors, vectors)
    for row in range(6):
        for column in range(6):
            assert cosines(vectors[row : row + 1], vectors[column : column + 1])[0, 0] == together[row, column]


@given(arrays.arrays(np.float64, (4, 16), elements=st.floats(-1e6, 1e6)))
def test_vectors_survive_the_database(values: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> None:
    vectors = quantise(values)
    assert (from_bytes(to_bytes(vectors)) == vectors).all()


def test_a_vector_of_zeros_is_similar_to_nothing() -> None:
    zeros = np.zeros((2, 8), dtype=np.int8)
    assert assign(zeros).tolist() == [0, 1]


@pytest.mark.parametrize("dimensions", [64, 1_024, 2_048])
def test_the_greatest_numbers_are_still_exact(dimensions: int) -> None:
    full = np.full((1, dimensions), 127, dtype=np.int8)
    nearly = full.copy()
    nearly[0, 0] = 126
    assert cosines(full, full)[0, 0] == 1.0
    assert cosines(full, nearly)[0, 0] == (127 * 127 * (dimensions - 1) + 127 * 126) / (
        np.sqrt(127.0 * 127 * dimensions) * np.sqrt(127.0 * 127 * (dimensions - 1) + 126 * 126)
    )


@given(vectors=VECTORS, known=st.integers(0, 40), chance=st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(vectors: Vectors, known: int, chance: Random) -> None:
    """Leaders and chunk are shuffled; who joins whom stays the same."""
    chunk = [
        a_context("", id=row, captured_at=row // 2, embedding=vector) for row, vector in enumerate(to_bytes(vectors))
    ]
    leaders = [Vector(one.id, one.place, one.embedding or b"") for one in chunk[:known]]
    fresh = chunk[known:]
    expected = who_joins_whom(leaders, fresh)
    chance.shuffle(leaders)
    chance.shuffle(fresh)
    assert who_joins_whom(leaders, fresh) == expected
