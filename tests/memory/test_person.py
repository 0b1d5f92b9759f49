"""A user's rights: all of their memory goes out, or all of it goes away, and nothing that still runs brings it back."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import Connection, select
from tests.memory.stage import capture, compress

from rota import Rota
from rota.access import Principal
from rota.app.operator import Operator
from rota.core.task import NewTask
from rota.database import Database
from rota.database.tables.memory import contexts as table
from rota.database.tables.memory import statistics, summaries, watermarks
from rota.memory import ChatPush, Contexts, Memory, Message, Owner, RuleMerger, install_memory
from rota.memory.contexts import Lost
from rota.memory.person import erase_user, export_user
from rota.stores.base import ClaimRequest, TaskQuery
from rota.testing import FakeClock

SAME = ["I love hiking in the mountains.", "I really love hiking in the mountains!"]


async def rows_of(database: Database, user_id: str) -> dict[str, int]:
    """How many rows each table has of a user."""

    def read(connection: Connection) -> dict[str, int]:
        tables = (table, watermarks, summaries, statistics)
        return {
            str(each.name): len(connection.execute(select(each).where(each.c.user_id == user_id)).all())
            for each in tables
        }

    return await database.read(read)


async def lived(database: Database, clock: FakeClock, user_id: str) -> Memory:
    """A user with something in every table."""

    async def touch(*_: str) -> None: ...

    async def open_database() -> Database:
        return database

    memory = Memory(open_database, touch, list, clock=clock)
    await capture(Contexts(database), Owner(user_id), [*SAME, "The invoice number is 2024-118."])
    clock.advance("2d")
    await compress(database, user_id)
    await memory.summarise(memory.scope_of(user_id))
    await memory.count()
    return memory


async def test_everything_goes_out_and_everything_goes_away(database: Database, clock: FakeClock) -> None:
    await lived(database, clock, "u1")
    await lived(database, clock, "u2")
    kinds = [kept.kind async for kept in export_user(database, "u1")]
    assert (kinds.count("context"), kinds.count("watermark")) == (4, 1)
    assert kinds.count("summary") >= 1
    assert kinds.count("statistics") == 1
    before = await rows_of(database, "u2")
    assert await erase_user(database, "u1") == 4
    assert set((await rows_of(database, "u1")).values()) == {0}
    assert await rows_of(database, "u2") == before
    assert [kept async for kept in export_user(database, "u1")] == []
    assert await erase_user(database, "u1") == 0


async def test_it_is_all_or_nothing(database: Database, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    await lived(database, clock, "u1")
    before = await rows_of(database, "u1")

    class Broken:
        class c:  # noqa: N801 - a table's columns
            user_id = statistics.c.user_id

        def delete(self) -> None:
            raise RuntimeError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("rota.memory.contexts.statistics", Broken())
        with pytest.raises(RuntimeError):
            await erase_user(database, "u1")
    assert await rows_of(database, "u1") == before


async def test_a_compression_that_still_runs_writes_nothing_for_who_is_gone(
    database: Database, clock: FakeClock
) -> None:
    """It has read its contexts; the erasure comes between that and everything that it writes."""
    contexts = Contexts(database)
    ids = await capture(contexts, Owner("u1"), SAME)
    await capture(contexts, Owner("u1"), ["Another note."])
    leader, member = await contexts.get_many("u1", ids)
    merged = await RuleMerger().merge([leader, member])
    assert merged is not None
    await erase_user(database, "u1")
    assert await contexts.set_watermark(Owner("u1"), await database.now()) is False
    with pytest.raises(Lost):
        await contexts.merge(leader, [member], merged, {}, embedder="any", embedding=b"")
    assert await contexts.keep(Owner("u1"), ids) == 0
    assert set((await rows_of(database, "u1")).values()) == {0}


async def test_erasing_while_compressing_leaves_nothing(database: Database, clock: FakeClock) -> None:
    """Both at once, as they come."""
    contexts = Contexts(database)
    for number in range(3):
        user_id = f"u{number}"
        await capture(contexts, Owner(user_id), [f"Note {one} about topic {one % 7}." for one in range(60)])
        await asyncio.gather(compress(database, user_id, batch_size=5), erase_user(database, user_id))
        assert set((await rows_of(database, user_id)).values()) == {0}


async def test_an_operator_erases_tasks_and_memory_together(sqlite_url: str, clock: FakeClock) -> None:
    app = Rota(sqlite_url, clock=clock)
    memory = install_memory(app)
    async with app:
        for user_id in ("u1", "u2"):
            await memory.push(ChatPush(user_id=user_id, messages=[Message(content=text) for text in SAME]))
        await memory.drain()
        operator = Operator(app, Principal.at_the_command_line())
        names = [type(item).__name__ async for item in operator.export_user("u1")]
        assert names == ["Snapshot", "dict", "dict"]
        erased = await operator.erase_user("u1")
        assert (erased.kept, erased.erasure.tasks) == ({"contexts": 2}, 1)
        assert (await memory.figures("u1")).contexts == 0
        assert (await memory.figures("u2")).contexts == 2
        assert (await app.counts())["memory_compression"].pending == 1


async def test_what_runs_keeps_an_operator_from_erasing_nothing_else(sqlite_url: str, clock: FakeClock) -> None:
    app = Rota(sqlite_url, clock=clock)

    @app.task
    async def note(payload: object) -> None:
        """Never run here."""

    async with app:
        store = await app.store()
        await store.schedule([NewTask(task_type="note", key=f"k{number:03}", user_id="u1") for number in range(601)])
        await store.claim(ClaimRequest(wants=[("note", 1)], instance="i1", claim_id="c", lease_ms=10_000))
        erased = await Operator(app, Principal.at_the_command_line()).erase_user("u1")
        assert (erased.erasure.tasks, erased.erasure.running) == (600, 1)
        assert [task.key for task in (await store.find(TaskQuery(user_id="u1"))).items] == ["k000"]
