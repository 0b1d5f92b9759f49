"""500 listeners over real sockets, dropped again and again: no hole in the sequence, and memory stays flat."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.api.stage import Stage, serving

from rota.access import Role
from rota.api.live import Feed, FeedSettings, Picture
from rota.testing.waiting import until

CROWD = 500
DROPS = 2


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Ticking:
    """A world in which something is different at every look; `alerts` carries the time of the look."""

    async def look(self) -> Picture:
        return Picture(badges={"alerts": now_ms()})


class Listener:
    """One browser: it reads, is dropped, and comes back with the last id that it has seen."""

    def __init__(self, port: int, secret: str, seed: int) -> None:
        self._port, self._secret = port, secret
        self._chance = random.Random(seed)
        self.last_id: str | None = None
        self.numbers: list[int] = []
        self.snapshots = 0
        self.lags_ms: list[int] = []
        self._connected_ms = 0

    async def listen(self, drops: int) -> None:
        for _ in range(drops + 1):
            await self._listen_once(self._chance.randint(1, 5))

    async def _listen_once(self, updates: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._connected_ms = now_ms()
        resume = "" if self.last_id is None else f"Last-Event-ID: {self.last_id}\r\n"
        token = f"Authorization: Bearer {self._secret}\r\n"
        writer.write(f"GET /api/live HTTP/1.1\r\nHost: localhost\r\n{token}{resume}\r\n".encode())
        try:
            while updates > 0:
                updates -= await self._read_event(reader)
        finally:
            # No goodbye: the connection is cut, as by a train in a tunnel.
            writer.transport.abort()

    async def _read_event(self, reader: asyncio.StreamReader) -> int:
        line = (await reader.readline()).decode()
        assert line, "the server hung up"
        if not line.startswith("id: "):
            return 0
        self.last_id = line[4:].strip()
        event = (await reader.readline()).decode().strip()
        data = json.loads((await reader.readline()).decode()[6:])
        self.numbers.append(int(self.last_id.rpartition("-")[2]))
        if event == "event: snapshot":
            self.snapshots += 1
        elif data["alerts"] > self._connected_ms:  # what is replayed is late by nature
            self.lags_ms.append(now_ms() - data["alerts"])
        return 1


def memory() -> int:
    """Bytes that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def many_files() -> Generator[None]:
    """Room for both ends of every connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * CROWD)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
async def test_500_listeners_dropped_again_and_again(stage: Stage) -> None:
    stage.service.feed = feed = Feed(Ticking().look, settings=FeedSettings(look_every=0.25))
    secret = stage.secrets[Role.VIEWER]
    async with serving(stage) as port, asyncio.timeout(150):
        held: list[int] = []
        listeners: list[Listener] = []
        for wave in range(2):
            crowd = [Listener(port, secret, wave * CROWD + seed) for seed in range(CROWD)]
            listeners += crowd
            await asyncio.gather(*(listener.listen(DROPS) for listener in crowd))
            await until(lambda: feed.listeners == 0)
            held.append(memory())
    for listener in listeners:
        assert listener.numbers == list(range(listener.numbers[0], listener.numbers[0] + len(listener.numbers)))
        assert listener.snapshots == 1, "only the first connection needs one"
    assert held[-1] - held[0] < 32 * 1_048_576, f"memory grows: {held}"
    lags = sorted(lag for listener in listeners for lag in listener.lags_ms)
    connections, updates = len(listeners) * (DROPS + 1), sum(len(listener.numbers) for listener in listeners)
    print(  # noqa: T201 - the figure that the test is for
        f"\n{connections} connections, {updates} updates, {feed.looks} looks; lag p50 {lags[len(lags) // 2]} ms,"
        f" p99 {lags[len(lags) * 99 // 100]} ms; memory after each wave {[each // 1_048_576 for each in held]} MiB"
    )
