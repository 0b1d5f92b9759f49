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

START_SECONDS = 60.0


@pytest.fixture
def sentinel_url(tmp_path: Path) -> Generator[str]:
    """One master, and one Sentinel that knows it."""
    (tmp_path / "master").mkdir()
    with redis_server(tmp_path / "master") as master:
        process, port = _start(tmp_path, urlsplit(master.url).port)
        try:
            yield f"redis+sentinel://127.0.0.1:{port}/mymaster/0"
        finally:
            process.kill()
            process.wait()


def _start(folder: Path, master: int | None) -> tuple[subprocess.Popen[bytes], int]:
    """Another process may take the free port first; then another port is tried."""
    for _ in range(5):
        port = _free_port()
        config = folder / f"sentinel-{port}.conf"
        config.write_text(f"port {port}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 {master} 1\n")
        command = [str(redis_executable()), str(config), "--sentinel"]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if _knows(process, port):
            return process, port
        process.kill()
        process.wait()
    raise AssertionError("no Sentinel could be started in five attempts")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _knows(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until it knows its master; False if it has ended instead."""
    deadline = time.monotonic() + START_SECONDS
    with Redis(host="127.0.0.1", port=port) as client:
        while process.poll() is None:
            try:
                cast("Any", client).sentinel_master("mymaster")
            except RedisError:
                if time.monotonic() > deadline:
                    raise
            else:
                return True
            time.sleep(0.02)
    return False


async def test_every_verb_works_through_a_sentinel(sentinel_url: str, clock: FakeClock) -> None:
    store = open_store(sentinel_url, clock)
    await store.open()
    try:
        await tour(World(store, clock))
    finally:
        await store.close()
