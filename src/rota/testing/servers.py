"""Real servers for tests, started by the test session itself and stopped at its end.

PostgreSQL comes as a wheel (`pgserver`). One server per process is started when the first test asks for it; every test
gets a schema of its own, chosen by the URL's `search_path`: made in milliseconds, while a database takes a hundred.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, LiteralString, Protocol, cast
from unittest.mock import patch
from urllib.parse import quote

__all__ = ["PostgresServer", "ServerAbsent", "postgres_server", "require_server"]

START_SECONDS = 120
"""How long a server may take to start: as long as a busy machine with a slow disk may need."""

# Nothing here outlives the session, so nothing needs to reach the disk.
_SETTINGS: tuple[LiteralString, ...] = (
    "ALTER SYSTEM SET fsync = off",
    "ALTER SYSTEM SET synchronous_commit = off",
    "ALTER SYSTEM SET full_page_writes = off",
    "ALTER SYSTEM SET max_wal_size = '256MB'",
    "SELECT pg_reload_conf()",
)


class ServerAbsent(Exception):
    """A server that tests want is not installed here, or does not start; the message says which and why."""


class _Server(Protocol):
    def get_uri(self) -> str: ...
    def cleanup(self) -> None: ...


class PostgresServer:
    """A running PostgreSQL that hands out empty schemas."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._numbers = count(1)

    def new_url(self) -> str:
        """The URL of a fresh, empty schema."""
        name = f"test_{next(self._numbers)}"
        self._execute(f'CREATE SCHEMA "{name}"')
        joint = "&" if "?" in self.url else "?"
        return f"{self.url}{joint}options={quote(f'-csearch_path={name}', safe='')}"

    def drop(self, url: str) -> None:
        """Remove the schema of a URL that `new_url` gave."""
        name = url.rpartition("%3D")[2]
        self._execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')

    @contextmanager
    def schema(self) -> Generator[str]:
        """The URL of a fresh schema that is gone at the end of the block."""
        url = self.new_url()
        try:
            yield url
        finally:
            self.drop(url)

    def connections(self) -> int:
        """How many client connections are open beside the one that asks."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchone()
        return 0 if row is None else int(row[0])

    def _execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            # Every name in a statement here is made by this class.
            connection.execute(cast("LiteralString", statement))


class _Running:
    """The server's process, from its start to the removal of its files."""

    def __init__(self, directory: Path, *, durable: bool) -> None:
        self._directory = directory
        self._durable = durable
        self._server: _Server | None = None

    def __enter__(self) -> PostgresServer:
        try:
            import psycopg

            with warnings.catch_warnings():
                # A host without a login session has no such directory; the wheel then uses one under /tmp.
                warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR")
                from pgserver import postgres_server as wheel
        except ImportError as error:
            raise ServerAbsent(f"PostgreSQL cannot be started: {error}. Install rota[dev].") from error
        try:
            self._server = _start(wheel, self._directory, durable=self._durable)
        except Exception as error:
            # The wheel raises whatever its subprocesses do; a test session only needs to know that there is none.
            raise ServerAbsent(f"PostgreSQL does not start in {self._directory}: {error!r}.") from error
        url = self._server.get_uri()
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in () if self._durable else _SETTINGS:
                connection.execute(statement)
        return PostgresServer(url)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.cleanup()
        shutil.rmtree(self._directory, ignore_errors=True)


def _start(wheel: Any, directory: Path, *, durable: bool) -> _Server:
    """Start the wheel's server, with more patience than the ten seconds that the wheel has."""
    if os.name == "posix" and os.geteuid() == 0:
        # For root the server runs as a user of its own. Of two processes that make it at once one is told that it
        # exists; whoever comes later finds it.
        with suppress(subprocess.CalledProcessError):
            wheel.ensure_user_exists("pgserver")
    initdb, pg_ctl = wheel.initdb, wheel.pg_ctl

    def make(args: list[str], **given: Any) -> str:
        return initdb(args if durable else ["--no-sync", *args], **given)

    def control(args: list[str], **given: Any) -> str:
        return pg_ctl(["-t", str(START_SECONDS), *args], **{**given, "timeout": 2 * START_SECONDS})

    with patch.multiple(wheel, initdb=make, pg_ctl=control):
        return cast("_Server", wheel.get_server(directory, cleanup_mode="stop"))


def postgres_server(directory: Path, *, durable: bool = False) -> _Running:
    """A PostgreSQL with its files in `directory`, for the length of a `with` block. Raises `ServerAbsent`.

    Tests need nothing that survives a power cut; whoever measures wants a server as it comes (`durable`).
    """
    return _Running(directory, durable=durable)


def require_server(error: ServerAbsent) -> None:
    """Skip the test that needs the server, with the reason; where CI is set, fail: there it must be present."""
    import pytest

    if os.environ.get("CI"):
        pytest.fail(f"CI must run this test. {error}", pytrace=False)
    pytest.skip(str(error))
