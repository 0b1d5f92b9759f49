"""What is old enough goes, what somebody may still need stays, and what a user leaves behind is erased."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from tests.events.event_scene import dead_letter, published, read_up_to, refused, rows, seen, set_all

from rota import Rota
from rota.clock import DAY
from rota.database.tables.events import handles as table
from rota.database.tables.events import inbox, outbox
from rota.errors import BusAway
from rota.events.buses.local import LocalBus
from rota.events.handles import Handles
from rota.events.part import EventsPart
from rota.events.person import erase_user, export_user
from rota.events.pruning import EventPruner, PrunedEvents
from rota.runtime.duty import DutyContext
from rota.runtime.health import Pulse

RETENTION, DEAD_RETENTION = 7 * DAY, 30 * DAY


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def app(request: pytest.FixtureRequest) -> AsyncGenerator[Rota]:
    async with Rota(str(request.getfixturevalue(request.param))) as app:
        yield app


async def context_of(app: Rota, instance: str = "i1") -> DutyContext:
    return DutyContext(await app.store(), instance, app.host.clock, Pulse(app.host.clock), lambda: 0.5, 10.0)


async def pruner_of(app: Rota, instance: str = "i1", *, batch: int = 2) -> EventPruner:
    part = app.host.part(EventsPart)
    return EventPruner(part.events_if_wanted, await context_of(app, instance), batch=batch)


async def pruned(app: Rota) -> PrunedEvents:
    return await (await pruner_of(app)).run_once()


async def placed(app: Rota, *keys: str) -> list[str]:
    """Events in the log of the local bus, whose consumers have read none of them."""
    ids = await published(app, *keys)
    bus = (await app.events()).bus
    assert isinstance(bus, LocalBus)
    while await bus.place(100):
        pass
    return ids


async def aged(app: Rota, days: float) -> None:
    database = await app.database()
    at = await database.now() - round(days * DAY)
    await set_all(database, outbox, sent_at=at)
    await set_all(database, inbox, at=at)


async def test_what_was_sent_goes_when_it_is_old_and_everybody_has_read_it(app: Rota) -> None:
    database = await app.database()
    await placed(app, "a", "b", "c", "d", "e")
    await read_up_to(database, "billing", 5)
    await read_up_to(database, "slow", 3)
    await aged(app, 6.9)
    assert (await pruned(app)).sent == 0
    await aged(app, 7.1)
    assert (await pruned(app)).sent == 3
    assert [row.position for row in await rows(database, outbox)] == [4, 5]
    await aged(app, 30.1)
    assert (await pruned(app)).sent == 2, "a consumer that is gone for good keeps nothing for ever"


async def test_without_a_consumer_age_alone_counts_and_what_is_new_stays(app: Rota) -> None:
    database = await app.database()
    await placed(app, "a", "b")
    await aged(app, 8)
    await published(app, "c")
    assert (await pruned(app)).sent == 2
    assert [row.status for row in await rows(database, outbox)] == ["new"]


async def test_what_is_done_is_remembered_as_long_as_the_event_is_there(app: Rota) -> None:
    database = await app.database()
    (kept, gone) = await placed(app, "a", "b")
    for event_id in (kept, gone, "from elsewhere"):
        await seen(database, event_id)
    await aged(app, 8)
    await database.write(lambda connection: connection.execute(outbox.delete().where(outbox.c.event_id == gone)))
    await read_up_to(database, "slow", 0)
    report = await pruned(app)
    assert (report.sent, report.done) == (0, 2)
    assert [row.event_id for row in await rows(database, inbox)] == [kept]
    await set_all(database, inbox, status="retrying")
    await aged(app, 400)
    await pruned(app)
    assert len(await rows(database, inbox)) == 1, "what is still to be done never goes"


async def test_dead_letters_are_kept_longer(app: Rota) -> None:
    database = await app.database()
    await refused(app, "a", "b", "c")
    for number in range(3):
        await dead_letter(database, f"e{number}")
    await aged(app, 29.9)
    report = await pruned(app)
    assert (report.dead, report.refused) == (0, 0)
    await aged(app, 30.1)
    report = await pruned(app)
    assert (report.dead, report.refused) == (3, 3)
    assert await rows(database, inbox) == await rows(database, outbox) == []


async def test_one_instance_prunes_at_a_time_and_hands_its_turn_over(app: Rota) -> None:
    first, second = await pruner_of(app, "i1"), await pruner_of(app, "i2")
    assert [(await one.run_once()).was_ours for one in (first, second, first)] == [True, False, True]
    await first.close()
    assert (await second.run_once()).was_ours


async def test_a_bus_that_is_away_keeps_nothing_else_from_being_pruned(
    app: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(self: LocalBus, keep_ms: int) -> int:
        raise BusAway("The bus is away.")

    monkeypatch.setattr(LocalBus, "trim", away)
    await placed(app, "a")
    await aged(app, 8)
    report = await pruned(app)
    assert (report.sent, report.trimmed) == (1, 0)


async def test_ended_handles_go_and_open_ones_stay(app: Rota) -> None:
    database = await app.database()
    handles = Handles(database)
    for number in range(3):
        await database.write(
            lambda connection, number=number: handles.create(
                connection,
                correlation_id=f"c{number}",
                expected=["Shop.Order.Created"],
                expected_count=1,
                task_name="x",
            )
        )
    old = await database.now() - 8 * DAY
    await set_all(database, table, created_at=old, expires_at=old, status="expired")
    await database.write(
        lambda connection: connection.execute(
            table.update().where(table.c.correlation_id == "c0").values(status="pending")
        )
    )
    assert (await pruned(app)).handles == 2


async def test_where_nobody_wants_a_database_nothing_is_pruned() -> None:
    async with Rota("memory://") as app:
        report = await pruned(app)
        assert report.is_idle
        assert not app.host.wants_database


# --- people's data ---------------------------------------------------------------------------------------------------


async def test_all_of_a_user_is_exported_and_erased(app: Rota) -> None:
    database = await app.database()
    mine = await published(app, "a", "b", user_id="u1")
    await published(app, "c", user_id="u2")
    await dead_letter(database, mine[0], user_id="u1", key="a")
    await seen(database, mine[1], user_id="u1", key="b", lease_token="t", status="started")
    await seen(database, "other", user_id="u2")
    handles = Handles(database)
    await database.write(
        lambda connection: handles.create(
            connection,
            correlation_id="c1",
            expected=["Shop.Order.Created"],
            expected_count=1,
            task_name="x",
            user_id="u1",
        )
    )
    part = app.host.part(EventsPart)
    exported = [one async for one in part.export_user("u1")]
    assert [one["kind"] for one in exported] == ["event", "event", "received_event", "received_event", "handle"]
    assert exported[0]["payload"] == {"of": "a"}
    assert str(exported[-1]["created_at"]).endswith("Z")

    assert await erase_user(database, "u1") == {"events": 2, "received_events": 2, "handles": 1}
    assert [one async for one in export_user(database, "u1")] == []
    assert [row.key for row in await rows(database, outbox)] == ["c"]
    left = {row.event_id: row for row in await rows(database, inbox)}
    assert {left[event_id].status for event_id in mine} == {"done"}, "brought once more, it is not handled again"
    assert {(left[event_id].key, left[event_id].envelope, left[event_id].error) for event_id in mine} == {
        ("", None, None)
    }
    assert left["other"].user_id == "u2"
    assert await erase_user(database, "u1") == {"events": 0, "received_events": 0, "handles": 0}


async def test_a_user_is_erased_through_the_part_without_making_a_database() -> None:
    async with Rota("memory://") as app:
        part = app.host.part(EventsPart)
        assert await part.erase_user("u1") == {}
        assert [one async for one in part.export_user("u1")] == []
        assert not app.host.wants_database
