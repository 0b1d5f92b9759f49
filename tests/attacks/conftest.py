"""What the attacks are made on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.testing.redis_servers import RedisCluster, redis_cluster
from rota.testing.servers import ServerAbsent, require_server


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    """One of the test's own, to be mistreated: nodes go down, and slots do not stay where they were."""
    try:
        with redis_cluster(tmp_path / "cluster", 2) as made:
            yield made
    except ServerAbsent as absent:
        require_server(absent)
