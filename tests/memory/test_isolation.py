"""Nobody's memory is read or written for somebody else, whatever the ids look like."""

from __future__ import annotations

import pytest
from tests.memory.stage import EMBEDDER, capture, compress, everything

from rota.database import Database
from rota.errors import InvalidInput, LimitExceeded
from rota.memory import Contexts, HashingEmbedder, Memory, Owner, Scope
from rota.memory.search import search

SAME = ["The key is under the mat.", "the key is under the mat"]

ADVERSARIES = [
    "u1",
    "U1",
    "u1 ",
    " u1",
    "u1:phone",
    "u1%3Aphone",
    "u1%",
    "u_",
    "%",
    "_",
    "*",
    "' OR '1'='1",
    "u1'; DROP TABLE memory_contexts; --",
    "u1\\",
    "u1\n",
    "ù1",
    "u\u03001",
    "\u0075\u200b1",
    "null",
    "None",
    "default",
    "global",
    "%global",
    "x" * 255,
    "\U0001f600" * 100,
]


async def test_ids_that_look_alike_are_different_users(database: Database, contexts: Contexts) -> None:
    for user_id in ADVERSARIES:
        await capture(contexts, Owner(user_id), SAME)
    await compress(database, "u1")

    for user_id in ADVERSARIES:
        rows = await everything(contexts, user_id)
        assert {row.owner for row in rows} == {Owner(user_id)}
        is_first = user_id == "u1"
        assert sum(row.state == "fresh" for row in rows) == (0 if is_first else 2)
        assert len(rows) == (3 if is_first else 2)
        found = await search(contexts, EMBEDDER, Scope(user_id), "key under the mat", limit=100)
        assert {one.context.owner.user_id for one in found} == {user_id}


async def test_another_users_context_is_not_there(sqlite: Database) -> None:
    contexts = Contexts(sqlite)
    (mine,) = await capture(contexts, Owner("u1"), ["A secret."])
    assert await contexts.get("u2", mine) is None
    assert await contexts.sources("u2", mine) == []
    await contexts.set_embeddings("u2", "other", [(mine, b"x")])
    assert await contexts.keep(Owner("u2"), [mine]) == 0
    kept = await contexts.get("u1", mine)
    assert kept is not None
    assert (kept.embedder, kept.state) == (EMBEDDER.name, "fresh")


async def test_erasing_one_user_leaves_the_others(sqlite: Database) -> None:
    contexts = Contexts(sqlite)
    for user_id in ADVERSARIES:
        await capture(contexts, Owner(user_id), SAME)
        await compress(sqlite, user_id)
    assert await contexts.erase_user("u1") == 3
    assert await everything(contexts, "u1") == []
    assert await contexts.watermarks("u1") == []
    for user_id in ADVERSARIES[1:]:
        assert len(await everything(contexts, user_id)) == 3
        assert len(await contexts.watermarks(user_id)) == 1
    assert await contexts.erase_user("u1") == 0


@pytest.mark.parametrize(
    ("owner", "error"),
    [
        (Owner(""), InvalidInput),
        (Owner("a\0b"), InvalidInput),
        (Owner("\ud800"), InvalidInput),
        (Owner("u" * 256), LimitExceeded),
        (Owner("u", "d" * 101), LimitExceeded),
        (Owner("u", "d", "a" * 101), LimitExceeded),
        (Owner("u", ""), InvalidInput),
    ],
)
async def test_ids_that_cannot_be_kept_are_refused(sqlite: Database, owner: Owner, error: type[Exception]) -> None:
    with pytest.raises(error):
        await capture(Contexts(sqlite), owner, ["Hello."])


async def test_what_is_exported_is_all_of_one_user(sqlite: Database) -> None:
    async def database() -> Database:
        return sqlite

    async def touch(*_: str) -> None: ...

    memory = Memory(database, touch, list, embedder=HashingEmbedder())
    for user_id in ("u1", "u2"):
        await capture(Contexts(sqlite), Owner(user_id), [f"note {index}" for index in range(600)])
    exported = await memory.export_user("u1")
    assert len(exported) == 600
    assert {one["user_id"] for one in exported} == {"u1"}
