"""A store that is found through a Sentinel: the master is asked for, not written down."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from redis import Redis
from redis.exceptions import RedisError
from tour import tour

from rota.stores import open_store
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import World
from rota.testing.redis_servers import redis_executable, redis_server

START_SECONDS = 30.0


@pytest.fixture
def sentinel_url(tmp_path: Path) -> Generator[str]:
    """One master, and one Sentinel that knows it."""
    (tmp_path / "master").mkdir()
    with redis_server(tmp_path / "master") as master:
        port = _free_port()
        config = tmp_path / "sentinel.conf"
        config.write_text(f"port {port}\nsentinel monitor mymaster 127.0.0.1 {urlsplit(master.url).port} 1\n")
        command = [str(redis_executable()), str(config), "--sentinel"]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_until_it_knows(port)
            yield f"redis+sentinel://127.0.0.1:{port}/mymaster/0"
        finally:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_knows(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    with Redis(port=port) as client:
        while True:
            try:
                cast("Any", client).sentinel_master("mymaster")
                return
            except RedisError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.02)


async def test_every_verb_works_through_a_sentinel(sentinel_url: str, clock: FakeClock) -> None:
    store = open_store(sentinel_url, clock)
    await store.open()
    try:
        await tour(World(store, clock))
    finally:
        await store.close()
