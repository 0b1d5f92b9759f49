"""Whoever looks for a word that only a merged member said finds the note, and groups do not drift for that."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import update
from tests.memory.stage import EMBEDDER, capture, compress, everything
from tests.opening import opened

from rota.clock import SystemClock
from rota.database import Database
from rota.database.tables.memory import contexts as table
from rota.memory import Context, Contexts, HashingEmbedder, Owner, Scope, State
from rota.memory.compression import Budget
from rota.memory.refresh import Refresh
from rota.memory.search import search
from rota.memory.vectors import to_bytes
from rota.testing import FakeClock

ADA = Owner("ada")
WALK = "I love walking in the mountains with my sister Clara and our dog Bruno on Sunday."
MEMBERS = [WALK, WALK.replace("Sunday.", "Sunday near Zermatt."), WALK.replace("Sunday.", "Sunday with snowshoes.")]


@pytest.fixture(params=["sqlite", "postgres"])
async def contexts(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncGenerator[Contexts]:
    async with opened(Database(request.getfixturevalue(f"{request.param}_url"), clock=clock)) as database:
        yield Contexts(database)


async def the_note(contexts: Contexts) -> Context:
    (note,) = [one for one in await everything(contexts, "ada") if one.state is not State.MERGED]
    return note


async def test_a_word_that_only_a_member_said_is_found(contexts: Contexts, clock: FakeClock) -> None:
    """By the note that it became part of, when it was made and when it grew."""
    for count, word in ((2, "Zermatt"), (3, "snowshoes")):
        await capture(contexts, ADA, MEMBERS[:2] if count == 2 else MEMBERS[2:])
        clock.advance("1h")
        await compress(contexts.database, "ada")
        note = await the_note(contexts)
        assert note.merge_count == count
        assert (note.embedder, note.embedding) == (EMBEDDER.name, to_bytes(EMBEDDER.embed([note.text]))[0])
        (found,) = await search(contexts, EMBEDDER, Scope("ada"), word)
        assert found.context.id == note.id
        assert found.similarity > 0.1


async def test_others_are_still_compared_with_the_first_one(contexts: Contexts, clock: FakeClock) -> None:
    """Whatever has joined meanwhile, and however long ago: what a context joins depends on the leader alone."""
    for text in [*MEMBERS, WALK]:
        await capture(contexts, ADA, [text])
        await compress(contexts.database, "ada")
        clock.advance("1d")
    await contexts.database.write(
        lambda connection: connection.execute(table.delete().where(table.c.has_compression == 0))
    )
    leaders, _ = await contexts.leaders(ADA, EMBEDDER.name, clock.now(), limit=10)
    assert [leader.embedding for leader in leaders] == to_bytes(EMBEDDER.embed([WALK]))


async def test_a_note_from_before_gets_the_vector_of_its_text(contexts: Contexts) -> None:
    """An older version gave it its leader's: refreshing knows it, and what others are compared with stays."""
    await capture(contexts, ADA, MEMBERS[:2])
    await compress(contexts.database, "ada")
    of_leader = to_bytes(EMBEDDER.embed([WALK]))[0]
    as_before = update(table).where(table.c.has_compression == 1).values(embedding=of_leader, leading_embedding=None)
    await contexts.database.write(lambda connection: connection.execute(as_before))
    refresh = Refresh(contexts, EMBEDDER)
    for refreshed in (1, 0):
        assert (await refresh.refresh(Scope("ada"), Budget(SystemClock()))).refreshed == refreshed
        note = await the_note(contexts)
        assert note.embedding == to_bytes(EMBEDDER.embed([note.text]))[0]
        leaders, _ = await contexts.leaders(ADA, EMBEDDER.name, note.captured_at, limit=10)
        assert [leader.embedding for leader in leaders] == [of_leader]


async def test_another_embedder_brings_both_vectors(contexts: Contexts) -> None:
    await capture(contexts, ADA, MEMBERS[:2])
    await compress(contexts.database, "ada")
    other = HashingEmbedder(64)
    await Refresh(contexts, other).refresh(Scope("ada"), Budget(SystemClock()))
    note = await the_note(contexts)
    leaders, _ = await contexts.leaders(ADA, other.name, note.captured_at, limit=10)
    assert [leader.embedding for leader in leaders] == to_bytes(other.embed([note.text])) == [note.embedding]
