"""What every test may ask for: a clock that is told, and real servers that are started once per process."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest
import structlog
from hypothesis import HealthCheck, settings

from rota import call_timeout
from rota.testing.clock import FakeClock
from rota.testing.redis_servers import RedisCluster, RedisServer, redis_cluster, redis_server
from rota.testing.servers import PostgresServer, ServerAbsent, postgres_server, require_server
from rota.testing.waiting import PATIENCE

# No property is about time: how long an example takes is the machine's business. The examples are the same every time
# and everywhere, so that a test that passed here passes there; `ROTA_EXPLORE=1` looks for new ones.
settings.register_profile(
    "rota",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=not os.environ.get("ROTA_EXPLORE"),
)
settings.load_profile("rota")


Server = TypeVar("Server", PostgresServer, RedisServer, RedisCluster)

_COLOURS = ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "TTY_COMPATIBLE")
_FOR_TESTS = ("ROTA_EXPLORE", "ROTA_FUZZ", "ROTA_SEQUENCES")


def pytest_configure() -> None:
    # A shell's background jobs begin with Ctrl-C ignored, and so would every program that a test starts and interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # What is set for the programs of this host, their store above all, is not for the tests; nor is a wish for colours,
    # which would stand between the letters of what the command line says.
    for name in list(os.environ):
        if (name.startswith("ROTA_") and name not in _FOR_TESTS) or name in _COLOURS:
            del os.environ[name]
    # The machine may be busy with other tests: a store that is slow today is not away. Whoever tests the limit itself
    # gives a short one. What is made from configuration reads the variable, in programs that tests start too.
    os.environ["ROTA_CALL_TIMEOUT"] = f"{PATIENCE:g}s"
    call_timeout.DEFAULT_SECONDS = PATIENCE


@pytest.fixture(autouse=True)
def _log_as_it_comes() -> Generator[None]:
    """Whoever looks at the log configures structlog, for the whole process: the next test finds it as it was."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()


@pytest.fixture
def clock() -> FakeClock:
    """It is Monday, 2026-01-05T09:00:00Z."""
    return FakeClock()


def _there(server: Server | ServerAbsent) -> Server:
    """Where it is absent the test is skipped with the reason, or fails if CI is set."""
    if isinstance(server, ServerAbsent):
        require_server(server)
        raise AssertionError("unreachable: the test was skipped or failed")
    return server


@pytest.fixture(scope="session")
def _postgres() -> Generator[PostgresServer | ServerAbsent]:
    """The server or the reason why there is none; asked for by the first test that needs it."""
    # Not below pytest's own folder: for root the server runs as another user, and the start of any other test session
    # closes that folder to everybody else.
    with tempfile.TemporaryDirectory(prefix="rota-postgres-") as folder:
        server = postgres_server(Path(folder) / "data")
        try:
            running = server.__enter__()
        except ServerAbsent as absent:
            yield absent
            return
        try:
            yield running
        finally:
            server.__exit__(None, None, None)


@pytest.fixture(scope="session")
def postgres(_postgres: PostgresServer | ServerAbsent) -> PostgresServer:
    """A real PostgreSQL. Where there is none the test is skipped with the reason, or fails if CI is set."""
    return _there(_postgres)


@pytest.fixture
def postgres_url(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """An empty schema of its own, gone after the test."""
    # A store that closes waits for its listener to look up; here it looks up often, and closing takes no seconds.
    monkeypatch.setattr("rota.database.backends.postgres.LISTEN_SLICE", 0.02)
    with postgres.schema() as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A file of its own. Nothing here survives a power cut, and nothing needs to."""
    return f"sqlite:///{tmp_path}/rota.db?synchronous=OFF"


@pytest.fixture(scope="session")
def _redis(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer | ServerAbsent]:
    try:
        with redis_server(tmp_path_factory.mktemp("redis")) as running:
            yield running
    except ServerAbsent as absent:
        yield absent


@pytest.fixture(scope="session")
def redis(_redis: RedisServer | ServerAbsent) -> RedisServer:
    """A real Redis, shared by the tests of this process: who stops it starts it again."""
    return _there(_redis)


@pytest.fixture
def redis_url(redis: RedisServer) -> str:
    """An empty Redis."""
    redis.ask("FLUSHALL")
    return redis.url


@pytest.fixture(scope="session")
def _redis_system(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer]:
    """The system's own server beside the wheel's 6.2; only asked for where there is one."""
    executable = shutil.which("redis-server")
    assert executable is not None
    with redis_server(tmp_path_factory.mktemp("redis-system"), executable=Path(executable)) as running:
        yield running


@pytest.fixture
def redis_system_url(_redis_system: RedisServer) -> str:
    """An empty Redis of the system's version."""
    _redis_system.ask("FLUSHALL")
    return _redis_system.url


@pytest.fixture(scope="session")
def _redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisCluster | ServerAbsent]:
    try:
        with redis_cluster(tmp_path_factory.mktemp("redis-cluster")) as running:
            yield running
    except ServerAbsent as absent:
        yield absent


@pytest.fixture
def redis_three(_redis_cluster: RedisCluster | ServerAbsent) -> RedisCluster:
    """An empty Redis Cluster of three nodes."""
    cluster = _there(_redis_cluster)
    cluster.flush()
    return cluster


@pytest.fixture
def redis_cluster_url(redis_three: RedisCluster) -> str:
    """The URL of an empty Redis Cluster of three nodes."""
    return redis_three.url
