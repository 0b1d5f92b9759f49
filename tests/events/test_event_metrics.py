"""What events count, what fires, what a person should look at: figures that agree with what was done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from tests.events.event_scene import dead_letter, published, read_up_to, refused, seen, set_all

from rota import Rota
from rota.clock import HOUR, MINUTE
from rota.config import Config
from rota.database.tables.events import outbox
from rota.errors import BusAway
from rota.events import Event, NonRetriable
from rota.events.buses.local import LocalBus
from rota.events.part import EventsPart
from rota.events.reading import EventReading
from rota.part import AlertContext
from rota.telemetry import Metrics
from rota.testing.waiting import until

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
NAMES = {
    "rota_outbox_waiting",
    "rota_outbox_oldest_seconds",
    "rota_events_published",
    "rota_publish_seconds",
    "rota_consumer_lag",
    "rota_events_handled",
    "rota_event_retries_open",
    "agent_processing_latency_seconds",
    "agent_errors",
    "agent_dlt",
}


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def app(request: pytest.FixtureRequest) -> AsyncGenerator[Rota]:
    async with Rota(str(request.getfixturevalue(request.param))) as app:
        yield app


def part_of(app: Rota) -> EventsPart:
    return app.host.part(EventsPart)


async def families(app: Rota) -> dict[str, Metric]:
    return {family.name: family for family in await part_of(app).metrics()}


async def samples(app: Rota) -> Samples:
    found = [sample for family in (await families(app)).values() for sample in family.samples]
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in found}


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


async def test_what_was_published_and_handled_is_counted(app: Rota) -> None:
    handled: list[str] = []

    @app.consumer("Shop.Order.Created", name="billing")
    async def bill(event: Event) -> None:
        handled.append(event.aggregate_id)
        if event.aggregate_id == "bad":
            raise NonRetriable("no such customer")

    await published(app, "a", "b", "bad")
    await app.start()
    await until(lambda: len(handled) == 3, "all are handled")
    reading = EventReading(await app.database())
    await until(reading.count_dead, "one is dead")
    stats = (await part_of(app).events()).stats
    await until(lambda: stats.published.total() == 4 and stats.handled.total() == 3, "all is counted, and the letter")
    found = await samples(app)
    assert set(await families(app)) == NAMES
    assert value(found, "rota_events_published_total", topic="rota.shop.order", outcome="sent") == 3
    assert value(found, "rota_events_published_total", topic="rota.shop.order.DLT", outcome="sent") == 1
    assert value(found, "rota_events_handled_total", consumer="billing", outcome="done") == 2
    assert value(found, "rota_events_handled_total", consumer="billing", outcome="dead") == 1
    assert value(found, "agent_dlt_total", agent="billing") == 1
    assert value(found, "agent_errors_total", agent="billing", error="NonRetriable") == 1
    assert value(found, "agent_processing_latency_seconds_count", agent="billing") == 3
    assert value(found, "rota_publish_seconds_count") >= 1
    await app.stop(timeout=1)
    text = (await Metrics(app).render())[1].decode()
    assert 'rota_consumer_lag{consumer="billing",topic="rota.shop.order"} 0.0' in text


async def test_how_outbox_and_consumers_stand(app: Rota) -> None:
    database = await app.database()
    await published(app, "a", "b", event_id=None)
    await read_up_to(database, "billing", 0)
    await seen(database, "e1", status="retrying")
    found = await samples(app)
    assert value(found, "rota_outbox_waiting") == 2
    assert 0 <= value(found, "rota_outbox_oldest_seconds") < 60
    assert value(found, "rota_consumer_lag", consumer="billing", topic="rota.shop.order") == 2
    assert value(found, "rota_event_retries_open", consumer="billing") == 1


async def test_a_bus_that_is_away_costs_the_lag_alone(app: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(self: LocalBus, consumer: str, topics: object) -> dict[str, int]:
        raise BusAway("The bus is away.")

    monkeypatch.setattr(LocalBus, "lag", away)
    await read_up_to(await app.database(), "billing", 0)
    assert set(await families(app)) == NAMES - {"rota_consumer_lag"}


async def test_topics_and_errors_beyond_the_limit_are_one(app: Rota) -> None:
    stats = (await app.events()).stats
    for number in range(150):
        stats.published[f"t{number}", "sent"] += 1
        stats.errors["billing", f"Error{number}"] += 1
    found = await samples(app)
    assert value(found, "rota_events_published_total", topic="other", outcome="sent") == 50
    assert value(found, "agent_errors_total", agent="billing", error="other") == 50
    assert len([1 for name, _ in found if name == "rota_events_published_total"]) == 101


async def test_the_oldest_counts_from_when_it_came_not_from_what_it_tells_of(app: Rota) -> None:
    reading = EventReading(await app.database())
    assert await reading.waits_ms() is None
    await published(app, "a", occurred_at=1)
    waited = await reading.waits_ms()
    assert waited is not None
    assert waited < MINUTE
    now = await reading.database.now()
    await set_all(reading.database, outbox, event_id="my own", occurred_at=now - HOUR)
    waited = await reading.waits_ms()
    assert waited is not None
    assert HOUR <= waited < HOUR + MINUTE


# --- alerts, the overview, the doctor --------------------------------------------------------------------------------


async def measured(app: Rota, name: str) -> dict[str, float]:
    kind = next(kind for kind in part_of(app).alert_kinds() if kind.name == name)
    context = AlertContext(await app.store(), await app.database(), ())
    return {one.subject: one.amount for one in await kind.measure(context)}


async def test_what_rules_can_look_at(app: Rota) -> None:
    database = await app.database()
    assert await measured(app, "outbox_lag") == {"outbox": 0.0}
    assert await measured(app, "event_dead_letters") == {}
    await refused(app, "x")
    await published(app, "a")
    await dead_letter(database, "e1")
    await dead_letter(database, "e1", "mail")
    await dead_letter(database, "e2")
    assert await measured(app, "event_dead_letters") == {"billing": 2, "mail": 1, "outbox": 1}
    assert (await measured(app, "outbox_lag"))["outbox"] >= 0


async def test_what_a_person_should_look_at(app: Rota) -> None:
    part, database = part_of(app), await app.database()
    assert await part.attention() == []
    await published(app, "a")
    assert await part.attention() == [], "it may well be relayed in a moment"
    await set_all(database, outbox, event_id="old", occurred_at=await database.now() - 6 * MINUTE)
    (waits,) = await part.attention()
    assert "has waited for 6m" in waits.text
    await dead_letter(database, "e1")
    await dead_letter(database, "e2")
    dead, _ = await part.attention()
    assert (dead.title, dead.text) == ("Dead events", "2 events were given up. Redrive or purge them.")
    assert await part.badges() == {"events": 2}


async def test_nothing_of_it_makes_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with Rota("memory://") as app:
        part = part_of(app)
        assert list(await part.metrics()) == []
        assert not await part.attention()
        assert not app.host.wants_database
    assert await asyncio.to_thread(lambda: list(tmp_path.iterdir())) == []


@pytest.mark.parametrize(
    ("bus", "status", "says"),
    [
        ("local://", "ok", "local"),
        ("redis://:secret@127.0.0.1:1/0", "error", "cannot be reached"),
        ("kafka://127.0.0.1:1", "error", "127.0.0.1:1"),
    ],
)
async def test_what_the_doctor_finds(bus: str, status: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.events.checks.PATIENCE_SECONDS", 3.0)
    (found,) = await EventsPart().diagnose(Config(bus_url=bus, call_timeout_ms=1_000))
    assert (found.check, found.status) == ("bus", status), found
    assert says in found.detail
    assert "secret" not in f"{found.detail} {found.advice}"
