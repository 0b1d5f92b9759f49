"""Kafka goes away under load, stopped for a while and then killed: no caller notices, and everything gets there."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.events.chain import FAST, TYPE, Instance
from tests.kafka.real_kafka import RealKafka, require_or_skip
from tests.opening import opened

from rota.database import Database
from rota.database.tables.events import inbox, outbox
from rota.events.buses.kafka import KafkaBus
from rota.events.envelope import Event
from rota.events.events import Events
from rota.events.outbox import Outbox
from rota.testing.waiting import until

AWAY_SECONDS = 60.0 if os.environ.get("ROTA_FUZZ") else 6.0
A_SECOND = 200
KEYS = 200


@pytest.fixture
def kafka(tmp_path: Path) -> RealKafka:
    require_or_skip()
    return RealKafka(tmp_path)


@pytest.fixture
async def database(sqlite_url: str) -> AsyncGenerator[Database]:
    async with opened(Database(sqlite_url)) as database:
        yield database


@pytest.mark.timeout(600)
async def test_an_outage_costs_no_caller_and_no_event_anything(kafka: RealKafka, database: Database) -> None:
    prefix = f"{uuid.uuid4().hex[:8]}."
    box = Outbox(database, prefix=prefix)
    seen: dict[str, list[int]] = {}
    count = 0

    async def handle(event: Event) -> None:
        nonlocal count
        count += 1
        assert event.key is not None
        seen.setdefault(event.key, []).append(event.payload)

    published: dict[str, list[int]] = {}
    number = 0

    async def publish_for(seconds: float) -> None:
        nonlocal number
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            added = [
                Event(event_type=TYPE, aggregate_id=f"k{(number + at) % KEYS}", payload=number + at)
                for at in range(A_SECOND // 20)
            ]
            for event in added:
                published.setdefault(event.aggregate_id, []).append(event.payload)
            number += len(added)
            await box.publish(*added)
            await asyncio.sleep(1 / 20)

    with kafka:
        async with opened(KafkaBus(kafka.url(), partitions=8)) as bus:
            one = Instance("one", Events(database, bus, FAST, box), lease_ms=10_000).relay()
            async with one.consume(handle, concurrency=100).running():
                await publish_for(2)
                await until(lambda: count > 0, "some are through")
                await asyncio.to_thread(kafka.stop)
                await publish_for(AWAY_SECONDS)
                before = count
                waiting = number - count
                await asyncio.to_thread(kafka.start)
                back_at = time.monotonic()
                await until(lambda: count > before, "it goes on")
                began = time.monotonic()
                await until(lambda: count >= number, "all are through")
                took = time.monotonic() - began
                sys.stdout.write(
                    f"{waiting:,} waited; the first {began - back_at:.1f} s after Kafka was back,"
                    f" then {waiting / took:,.0f} a second\n"
                )
                await asyncio.to_thread(kafka.kill)
                await publish_for(2)
                await asyncio.to_thread(kafka.start)
                await until(lambda: count >= number, "all are through again")
    assert seen == published, "each once, in the order of its key"
    statuses = await database.read(
        lambda connection: (
            set(connection.execute(outbox.select().with_only_columns(outbox.c.status)).scalars()),
            set(connection.execute(inbox.select().with_only_columns(inbox.c.status)).scalars()),
        )
    )
    assert statuses == ({"sent"}, {"done"})
