"""A database that was migrated step by step is the same as one that was made at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, inspect, make_url, text

from rota.database.schema import HEAD, MIGRATIONS, VERSION_TABLE, prepare
from rota.errors import SchemaMismatch
from rota.stores.sql import SqlStore
from rota.testing.servers import PostgresServer

Picture = dict[str, Any]


def picture(connection: Connection) -> Picture:
    """Everything that can be seen of a schema, in a form that compares."""
    inspector = inspect(connection)
    tables = sorted(inspector.get_table_names())
    seen: Picture = {table: _table(inspector, table) for table in tables}
    if connection.dialect.name == "postgresql":
        seen["sequences"] = sorted(inspector.get_sequence_names())
    return seen


def _table(inspector: Any, table: str) -> Picture:
    columns = {
        column["name"]: (str(column["type"]), column["nullable"], column["default"])
        for column in inspector.get_columns(table)
    }
    indexes = {
        index["name"]: (index["column_names"], sorted(f"{k}={v}" for k, v in index.get("dialect_options", {}).items()))
        for index in inspector.get_indexes(table)
    }
    return {"columns": columns, "indexes": indexes, "key": inspector.get_pk_constraint(table)["constrained_columns"]}


def alembic_config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    config.attributes["version_table"] = VERSION_TABLE
    return config


@pytest.fixture(params=["sqlite", "postgres"])
def engines(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[tuple[Engine, Engine]]:
    if request.param == "sqlite":
        urls = [f"sqlite:///{tmp_path}/migrated.db", f"sqlite:///{tmp_path}/fresh.db"]
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        urls = [server.new_url().replace("postgresql://", "postgresql+psycopg://") for _ in range(2)]
    made = [create_engine(url) for url in urls]
    yield made[0], made[1]
    for engine in made:
        engine.dispose()


def test_migrated_equals_fresh(engines: tuple[Engine, Engine]) -> None:
    migrated, fresh = engines
    with migrated.begin() as connection:
        command.upgrade(alembic_config(connection), "head")
        after_migrations = picture(connection)
        tokens = connection.execute(text("SELECT name, value FROM sequences")).all()
    with fresh.begin() as connection:
        prepare(connection)
        made_at_once = picture(connection)
        assert connection.execute(text("SELECT name, value FROM sequences")).all() == tokens
    assert after_migrations == made_at_once


def test_head_is_the_newest_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_preparing_twice_changes_nothing(engines: tuple[Engine, Engine]) -> None:
    _, fresh = engines
    with fresh.begin() as connection:
        prepare(connection)
        before = picture(connection)
    with fresh.begin() as connection:
        prepare(connection)
        assert picture(connection) == before


async def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rota.db"
    store = SqlStore(url)
    await store.open()
    await store.close()
    engine = create_engine(make_url(url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE rota_alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(SchemaMismatch, match="newer Rota"):
        await SqlStore(url).open()


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_many_instances_may_start_at_once(database: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(f"{database}_url")
    problems: list[BaseException] = []

    async def start() -> None:
        store = SqlStore(url)
        await store.open()
        await store.close()

    def run() -> None:
        try:
            asyncio.run(start())
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
