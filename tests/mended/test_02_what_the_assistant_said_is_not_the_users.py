"""Contexts of different roles never merge, and what a merged note's details say is what its sources' said."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.memory.stage import compress, everything
from tests.memory.test_merging import a_context
from tests.opening import opened

from rota.database import Database
from rota.memory import Context, Contexts, Merged, NewContext, Owner, State
from rota.memory.compression import who_joins_whom
from rota.memory.context import MAX_DETAILS_BYTES
from rota.memory.contexts import Vector
from rota.memory.grouping import assign
from rota.memory.merging import items_of, merged_details
from rota.memory.vectors import Vectors
from rota.testing import FakeClock

ADA = Owner("ada")
SAID = "Your blood pressure medicine should be taken twice a day."
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)
DETAILS = st.dictionaries(st.sampled_from(["url", "window"]), JSON, max_size=2)


@pytest.fixture(params=["sqlite", "postgres"])
async def contexts(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncGenerator[Contexts]:
    async with opened(Database(request.getfixturevalue(f"{request.param}_url"), clock=clock)) as database:
        yield Contexts(database)


async def tell(contexts: Contexts, *told: tuple[str, dict[str, Any]]) -> list[int]:
    return await contexts.add(ADA, [NewContext(text=text, details=details) for text, details in told])


async def living(contexts: Contexts) -> list[Context]:
    return [one for one in reversed(await everything(contexts, "ada")) if one.state is not State.MERGED]


def spoken_by(context: Context) -> str:
    return context.details.get("role", "")


@pytest.mark.parametrize("chunk", [1, 2, 100])
async def test_contexts_of_different_roles_never_merge(contexts: Contexts, clock: FakeClock, chunk: int) -> None:
    """Not in one chunk, nor with a leader of an earlier one or its result; a document is nobody's word."""
    for details in ({"role": "assistant"}, {"role": "user"}, {"role": "system"}, {}):
        await tell(contexts, (SAID, details), (SAID, details))
    await compress(contexts.database, "ada", batch_size=chunk)
    clock.advance("1h")
    for details in ({"role": "user"}, {"role": "assistant"}, {"url": "https://a.example"}):
        await tell(contexts, (SAID, details))
    await compress(contexts.database, "ada", batch_size=chunk)

    assert sorted((spoken_by(one), one.merge_count) for one in await living(contexts)) == [
        ("", 3),
        ("assistant", 3),
        ("system", 2),
        ("user", 3),
    ]
    for one in await living(contexts):
        assert {spoken_by(source) for source in await contexts.sources("ada", one.id)} == {spoken_by(one)}


async def test_no_merger_and_no_caller_can_mix_roles(contexts: Contexts) -> None:
    ids = await tell(contexts, (SAID, {"role": "user"}), (SAID, {"role": "assistant"}))
    user, assistant = await contexts.get_many("ada", ids)
    with pytest.raises(AssertionError, match="different roles"):
        await contexts.merge(user, [assistant], Merged("", SAID, (), 5), {}, embedder="any", embedding=b"")


async def test_a_merged_notes_details_are_those_of_its_sources(contexts: Contexts, clock: FakeClock) -> None:
    await tell(
        contexts, (SAID, {"app": "Mail", "window": "Inbox", "tags": ["a"]}), (SAID, {"app": "Mail", "window": "Note"})
    )
    await compress(contexts.database, "ada")
    clock.advance("1h")
    await tell(contexts, (SAID, {"window": "Inbox", "url": "https://a.example", "tags": ["b"]}))
    await compress(contexts.database, "ada")
    (note,) = await living(contexts)
    assert note.details == {
        "app": "Mail",
        "window": ["Inbox", "Note"],
        "url": "https://a.example",
        "tags": ["a", "b"],
    }


async def test_who_would_make_the_details_too_large_stands_for_itself(contexts: Contexts) -> None:
    large = "x" * (MAX_DETAILS_BYTES // 2)
    await tell(contexts, (SAID, {"path": large}), (SAID, {"path": large}), (SAID, {"path": large[:-9] + "different"}))
    await compress(contexts.database, "ada", batch_size=2)
    assert [one.details["path"][-1] for one in await living(contexts)] == ["t", "x"]


@given(st.lists(DETAILS, min_size=2, max_size=5), st.data())
def test_details_do_not_depend_on_how_the_merge_was_cut(
    given_details: list[dict[str, Any]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(given_details) - 1))
    sources = [a_context("", details=details) for details in given_details]
    at_once = merged_details(sources)
    first = a_context("", details=merged_details(sources[:cut]))
    assert merged_details([first, *sources[cut:]]) == at_once
    for details in given_details:
        for name, value in details.items():
            assert value == at_once[name] or all(one in items_of(at_once[name]) for one in items_of(value))


@given(
    vectors=arrays.arrays(np.int8, st.tuples(st.integers(0, 30), st.just(3)), elements=st.integers(-3, 3)),
    block=st.integers(1, 40),
    data=st.data(),
)
def test_grouping_never_crosses_voices_whatever_the_blocks(vectors: Vectors, block: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, 2), min_size=len(vectors), max_size=len(vectors)))
    voices = np.array(numbers, dtype=np.int64)
    joins = assign(vectors, voices=voices, block=block)
    assert (voices[joins] == voices).all()
    for voice in range(3):
        rows = np.flatnonzero(voices == voice)
        assert rows[assign(vectors[rows])].tolist() == joins[rows].tolist(), "a voice groups as if it were alone"


def test_a_leader_of_another_role_is_not_joined() -> None:
    vector = bytes([100, 0, 0])
    leaders = [Vector(1, (0, 1), vector, "assistant"), Vector(2, (1, 2), vector, "user")]
    fresh = [a_context("", id=3, captured_at=2, embedding=vector, details={"role": "user"})]
    assert who_joins_whom(leaders, fresh) == {2: [3]}
