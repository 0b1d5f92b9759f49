"""Whoever looks is killed, with SIGKILL, at the worst moments: firing and resolved are still made once each."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from scene import Scene

from rota import Rota
from rota.alerts import Alerts
from rota.clock import SECOND, Millis
from rota.core.task import Identity
from rota.database import Database
from rota.testing import FakeClock
from rota.testing.waiting import PATIENCE, until

WATCHER = Path(__file__).parent / "watcher.py"
HOLD_MS: Millis = 120 * SECOND
"""Longer than any call may take, on however busy a machine: nobody takes from another what it is telling."""
HOLD_OF_THE_DEAD_MS: Millis = 1_500
"""The one that is killed is alone. What it held is free soon, so that the test need not wait for half a minute."""


@dataclass
class Receiver:
    """Takes webhooks; as long as `is_mute` it does not answer them."""

    is_mute: bool = False
    url: str = ""
    told: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The id and the state of every call, in order."""
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            _, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = msgspec.json.decode(await reader.readexactly(int(headers["content-length"])))
            self.told.append((headers["webhook-id"], body["data"]["state"]))
            self._arrived.set()
            if self.is_mute:
                await reader.read()  # until whoever called is gone
            else:
                writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def until_told(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.told) < count:
                self._arrived.clear()
                await self._arrived.wait()


@asynccontextmanager
async def receiving() -> AsyncGenerator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server:
        yield receiver


@asynccontextmanager
async def watching(
    store_url: str, receiver: Receiver, hold_ms: Millis = HOLD_MS
) -> AsyncGenerator[asyncio.subprocess.Process]:
    command = [sys.executable, str(WATCHER), store_url, receiver.url, str(hold_ms)]
    process = await asyncio.create_subprocess_exec(*command)
    try:
        yield process
    finally:
        await kill(process)


async def kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        os.kill(process.pid, signal.SIGKILL)
    await process.wait()


async def is_noted(database: Database, count: int) -> bool:
    """Whether so many alerts were made, and every sink has taken them."""
    events = (await Alerts(database).history()).items
    return len(events) == count and all(event.delivered["there"]["ok"] for event in events)


@pytest.mark.parametrize(
    ("database_url", "moment"),
    [("sqlite", "after telling"), ("sqlite", "while telling"), ("postgresql", "while telling")],
    indirect=["database_url"],
)
async def test_firing_and_resolved_are_made_once_though_whoever_looks_is_killed(
    database_url: str, clock: FakeClock, moment: str
) -> None:
    async with Rota({"store": database_url, "spool": "off"}) as app, receiving() as receiver:
        database = await app.database()
        scene = Scene(await app.store(), database, clock)
        await scene.add_type()
        await scene.fail("u1")
        receiver.is_mute = moment == "while telling"
        async with watching(database_url, receiver, HOLD_OF_THE_DEAD_MS) as first:
            await receiver.until_told(1)
            if moment == "after telling":
                await until(lambda: is_noted(database, 1))
            await kill(first)
        receiver.is_mute = False
        async with watching(database_url, receiver), watching(database_url, receiver):
            await until(lambda: is_noted(database, 1))
            await scene.store.purge([Identity("work", "u1")])
            await until(lambda: is_noted(database, 2))
        events = (await Alerts(database).history()).items
    assert [event.state.value for event in events] == ["resolved", "firing"]
    # One that was killed while it told is the one case in which a sink hears it again: under the same id.
    again = 1 if moment == "while telling" else 0
    assert [state for _, state in receiver.told] == ["firing"] * (1 + again) + ["resolved"]
    assert len({message_id for message_id, _ in receiver.told}) == 2
