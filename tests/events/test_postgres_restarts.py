"""PostgreSQL goes down under load, again and again: what was committed is handled, once and in order."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.events.chain import EFFECTS, FAST, Chain
from tests.events.conftest import LocalWorld
from tests.opening import opened

from rota.database import Database
from rota.errors import StoreError
from rota.events.consumer import Effect
from rota.events.envelope import Event
from rota.testing.servers import PostgresServer, ServerAbsent, postgres_server, require_server
from rota.testing.waiting import until

RESTARTS = 20 if os.environ.get("ROTA_FUZZ") else 4
KEYS = 50


class Restarts:
    """A server of its own, which may be shut down in any way."""

    def __init__(self, server: PostgresServer, directory: Path) -> None:
        self.server = server
        self._directory = directory

    def restart(self, how: str) -> None:
        commands: Any = import_module("pgserver._commands")
        user = "pgserver" if os.geteuid() == 0 else None
        given = ["-w", "-t", "60", "-m", how, "restart"]
        commands.pg_ctl(given, pgdata=self._directory, user=user, timeout=120)


@pytest.fixture
def restarts(tmp_path_factory: pytest.TempPathFactory) -> Generator[Restarts]:
    directory = tmp_path_factory.mktemp("postgres") / "data"
    try:
        # As it comes: the others of these tests do without what an immediate shutdown leaves to the journal.
        with postgres_server(directory, durable=True) as server:
            yield Restarts(server, directory)
    except ServerAbsent as absent:
        require_server(absent)


async def test_restarts_of_postgres_lose_nothing(restarts: Restarts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.database.backends.postgres.LISTEN_SLICE", 0.02)
    url = restarts.server.new_url()
    async with LocalWorld(url).opened() as world, opened(Database(url)) as database:
        await database.write(lambda connection: EFFECTS.create(connection))
        chain = Chain(database, world, FAST)
        published: dict[str, list[int]] = {}
        is_over = asyncio.Event()

        async def handle(event: Event) -> Effect:
            return chain.effect(event)

        async def publish() -> None:
            """A caller that is told that the database is away tries again, under the same id."""
            number = 0
            while not is_over.is_set():
                key = f"k{number % KEYS}"
                event = chain.event(key, number, event_id=str(uuid.uuid4()))
                while True:
                    try:
                        await chain.publish(event)
                        break
                    except StoreError as error:
                        if "duplicate key" in str(error):
                            break  # it was committed, and only the answer was lost
                        await asyncio.sleep(0.05)
                published.setdefault(key, []).append(number)
                number += 1
                await asyncio.sleep(0.002)

        one = (await chain.instance("one")).relay().consume(handle)
        two = (await chain.instance("two")).relay().consume(handle)
        async with one.running(), two.running():
            caller = asyncio.create_task(publish())
            for restart in range(RESTARTS):
                await asyncio.to_thread(restarts.restart, ("immediate", "fast")[restart % 2])
                before = await _count(chain)
                await _until_more(chain, before + 20)
            is_over.set()
            await caller
            await _until_more(chain, sum(map(len, published.values())))
        assert await chain.effects() == published
        assert {row.status for row in await chain.outbox_rows()} == {"sent"}
        assert {row.status for row in await chain.inbox()} == {"done"}


async def _count(chain: Chain) -> int:
    try:
        return await chain.count()
    except StoreError:
        return 0


async def _until_more(chain: Chain, count: int) -> None:
    async def is_there() -> bool:
        return await _count(chain) >= count

    await until(is_there, f"there are {count} effects", seconds=120)
