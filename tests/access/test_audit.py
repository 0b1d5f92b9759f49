"""The audit log: an entry for every action, also for one that failed or never ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.opening import opened

from rota.access import AuditLog, AuditQuery, Principal, Role
from rota.database import Database
from rota.errors import IllegalTransition, InvalidInput, StoreUnavailable
from rota.testing.clock import FakeClock

ANA = Principal("token:1", "ana", Role.OPERATOR, "api")


@pytest.fixture
async def database(sqlite_url: str, clock: FakeClock) -> AsyncIterator[Database]:
    async with opened(Database(sqlite_url, clock=clock)) as database:
        yield database


async def test_who_what_before_after(database: Database, clock: FakeClock) -> None:
    log = AuditLog(database)
    async with log.recording(ANA, "task.pause", "agent/brief") as note:
        note.before, note.after = {"status": "pending"}, {"status": "paused"}
    (entry,), cursor = await log.page(AuditQuery())
    assert cursor is None
    assert (entry.at, entry.actor, entry.role, entry.via) == (clock.now(), "token:1", "operator", "api")
    assert (entry.action, entry.target, entry.outcome) == ("task.pause", "agent/brief", "ok")
    assert (entry.before, entry.after) == ('{"status":"pending"}', '{"status":"paused"}')


async def test_a_refusal_is_kept_and_goes_on(database: Database) -> None:
    log = AuditLog(database)
    with pytest.raises(IllegalTransition):
        async with log.recording(ANA, "task.pause", "agent/brief"):
            raise IllegalTransition("It is completed.")
    with pytest.raises(ZeroDivisionError):
        async with log.recording(ANA, "task.pause", "agent/brief"):
            _ = 1 / 0
    entries, _ = await log.page(AuditQuery())
    assert [entry.outcome for entry in entries] == ["error: ZeroDivisionError", "illegal_transition: It is completed."]


async def test_what_was_broken_off_is_not_said_to_be_done(database: Database) -> None:
    log = AuditLog(database)
    has_begun = asyncio.Event()

    async def act() -> None:
        async with log.recording(ANA, "user.export", "u1"):
            has_begun.set()
            await asyncio.Event().wait()

    acting = asyncio.create_task(act())
    await has_begun.wait()
    acting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acting
    (entry,), _ = await log.page(AuditQuery())
    assert entry.outcome == "interrupted"


async def test_what_was_done_is_done_though_its_entry_cannot_be_completed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(function: object) -> None:
        raise StoreUnavailable("away")

    log = AuditLog(database)

    async def act(error: Exception | None) -> None:
        with monkeypatch.context() as patch:
            async with log.recording(ANA, "task.pause", "agent/brief"):
                patch.setattr(database, "write", away)
                if error is not None:
                    raise error

    await act(None)
    with pytest.raises(IllegalTransition):
        await act(IllegalTransition("It is completed."))
    entries, _ = await log.page(AuditQuery())
    assert [entry.outcome for entry in entries] == [None, None]


async def test_the_entry_is_there_before_the_action_ends(database: Database) -> None:
    log = AuditLog(database)
    async with log.recording(ANA, "user.erase", "u1"):
        (entry,), _ = await log.page(AuditQuery())
        assert entry.outcome is None


async def test_pages_and_filters(database: Database) -> None:
    log = AuditLog(database)
    for number in range(7):
        async with log.recording(ANA, "task.pause" if number % 2 else "task.resume", f"agent/{number}"):
            pass
    seen: list[str] = []
    cursor: str | None = None
    while True:
        entries, cursor = await log.page(AuditQuery(limit=3, cursor=cursor))
        seen += [entry.target for entry in entries]
        if cursor is None:
            break
    assert seen == [f"agent/{number}" for number in reversed(range(7))]
    paused, _ = await log.page(AuditQuery(action="task.pause"))
    assert [entry.target for entry in paused] == ["agent/5", "agent/3", "agent/1"]
    assert await log.page(AuditQuery(actor="nobody")) == ([], None)
    one, _ = await log.page(AuditQuery(target="agent/4"))
    assert [entry.action for entry in one] == ["task.resume"]


async def test_what_cannot_be_is_refused(database: Database) -> None:
    log = AuditLog(database)
    for query in (AuditQuery(limit=0), AuditQuery(limit=201), AuditQuery(cursor="x"), AuditQuery(cursor="9" * 30)):
        with pytest.raises(InvalidInput):
            await log.page(query)


async def test_a_picture_has_an_end(database: Database) -> None:
    log = AuditLog(database)
    async with log.recording(ANA, "task.pause", "t" * 9_000) as note:
        note.after = {"payload": "x" * 50_000}
    (entry,), _ = await log.page(AuditQuery())
    assert len(entry.after or "") == 4_000
    assert len(entry.target) == 4_000
