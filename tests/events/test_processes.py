"""`rota worker` alone relays and consumes, in real processes that die: killed from outside, or by their own handler."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select, text

from rota import Rota
from rota.app.duties import duties_alone
from rota.database import Database
from rota.database.tables.events import inbox, outbox
from rota.events.envelope import Event
from rota.testing.waiting import until

APP = """
import asyncio, os
from sqlalchemy import text
from rota import Rota
from rota.events import Event

app = Rota({config!r})

@app.consumer("Shop.Order.Created", name="mail", concurrency=5)
async def handle(event: Event):
    number = event.payload["number"]
    if number == -1:
        os._exit(1)
    await asyncio.sleep(0.01)
    def effect(connection):
        connection.execute(text("INSERT INTO effects (key, number) VALUES (:k, :n)"), {{"k": event.key, "n": number}})
    return effect
"""


@pytest.fixture(params=["sqlite_url", "postgres_url"])
def config(request: pytest.FixtureRequest) -> dict[str, object]:
    url = str(request.getfixturevalue(str(request.param)))
    return {"store": url, "lease": "3s", "call_timeout": "60s"}


@asynccontextmanager
async def worker(folder: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A real `rota worker`; killed at the end, if it is still there."""
    log = folder / "worker.log"
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "rota.cli",
            "worker",
            env={**os.environ, "ROTA_APP": "shop:app", "PYTHONPATH": str(folder)},
            cwd=folder,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _effects(database: Database) -> dict[str, list[int]]:
    rows = await database.read(
        lambda connection: connection.execute(text("SELECT key, number FROM effects ORDER BY seq")).all()
    )
    found: dict[str, list[int]] = {}
    for key, number in rows:
        found.setdefault(key, []).append(number)
    return found


async def _make_table(database: Database, url: str) -> None:
    serial = "INTEGER PRIMARY KEY AUTOINCREMENT" if url.startswith("sqlite") else "BIGSERIAL PRIMARY KEY"
    await database.write(
        lambda connection: connection.execute(text(f"CREATE TABLE effects (seq {serial}, key TEXT, number INTEGER)"))
    )


def _event(key: str, number: int) -> Event:
    return Event(event_type="Shop.Order.Created", aggregate_id=key, payload={"number": number})


async def test_a_handler_that_ends_its_process_is_dead_after_three_and_stops_nobody(
    tmp_path: Path, config: dict[str, object]
) -> None:
    (tmp_path / "shop.py").write_text(APP.format(config=config))
    app = Rota(dict(config))
    async with app:
        database = await app.database()
        await _make_table(database, str(config["store"]))
        events = await app.events()
        expected: dict[str, list[int]] = {}
        for number in range(6):
            added = [_event(f"k{key}", number) for key in range(10)]
            if number == 2:
                added.insert(5, _event("k3", -1))
            await events.outbox.publish(*added)
            for key in range(10):
                expected.setdefault(f"k{key}", []).append(number)

        async def is_over() -> bool:
            return await _effects(database) == expected

        deaths = 0
        while not await is_over():
            assert deaths <= 3, (tmp_path / "worker.log").read_text()
            async with worker(tmp_path) as process:
                ended = asyncio.create_task(process.wait())
                await until(partial(_either, ended, is_over), "all is done, or the process is dead")
                deaths += ended.done()
        assert deaths == 3
        dead = await database.read(
            lambda connection: connection.execute(select(inbox).where(inbox.c.status == "dead")).all()
        )
        assert [(row.key, row.crashes, row.error_class) for row in dead] == [("k3", 3, "Crashed")]
        assert "ended the process 3 times" in dead[0].error


async def _either(ended: asyncio.Task[int], holds: Callable[[], Awaitable[bool]]) -> bool:
    return await holds() or ended.done()


async def test_workers_that_are_killed_lose_nothing_and_do_nothing_twice(
    tmp_path: Path, config: dict[str, object]
) -> None:
    (tmp_path / "shop.py").write_text(APP.format(config=config))
    app = Rota(dict(config))
    async with app:
        database = await app.database()
        await _make_table(database, str(config["store"]))
        events = await app.events()
        count = 0
        for _ in range(2):
            async with worker(tmp_path) as first, worker(tmp_path):
                for _ in range(20):
                    await events.outbox.publish(*(_event(f"k{key}", count // 10) for key in range(10)))
                    count += 10
                await until(partial(_some, database, count // 2), "half of it is done")
                first.send_signal(signal.SIGKILL)
                await first.wait()

        async with worker(tmp_path):
            await until(partial(_some, database, count), "all is done")
        assert await _effects(database) == {f"k{key}": list(range(count // 10)) for key in range(10)}


async def _some(database: Database, count: int) -> bool:
    return sum(map(len, (await _effects(database)).values())) >= count


async def test_a_service_of_pages_alone_relays_and_runs_no_consumer(tmp_path: Path) -> None:
    app = Rota(f"sqlite:///{tmp_path}/rota.db")
    seen: list[str] = []

    @app.consumer("Shop.Order.Created", name="mail")
    async def handle(event: Event) -> None:
        seen.append(event.aggregate_id)

    async with app:
        events = await app.events()
        await events.outbox.publish(_event("k", 1))
        async with duties_alone(app.host):
            await until(partial(_is_sent, events.database), "it is sent")
            duties = {task.get_name() for task in asyncio.all_tasks()}
            assert "rota-relay" in duties
            assert not [name for name in duties if "mail" in name]
        assert seen == []
        await app.start()
        await until(lambda: seen, "a worker has handled it")
        await app.stop()


async def _is_sent(database: Database) -> bool:
    rows = await database.read(lambda connection: connection.execute(select(outbox.c.status)).scalars().all())
    return rows == ["sent"]
