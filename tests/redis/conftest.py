"""Every test on Redis ends with the leak check."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Test modules are imported by file, not by path: what they share must be found.
sys.path.insert(0, str(Path(__file__).parent))

from rota.testing.leaks import assert_no_leaks
from rota.testing.redis_servers import RedisCluster, RedisServer


@pytest.fixture(autouse=True)
def _no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set up first, so it looks last: when every store of the test is closed."""
    servers: list[RedisServer] = []
    if "redis_url" in request.fixturenames:
        servers.append(request.getfixturevalue("redis"))
    if "redis_three" in request.fixturenames:
        cluster: RedisCluster = request.getfixturevalue("redis_three")
        servers += cluster.nodes
    yield
    assert_no_leaks(*servers)
