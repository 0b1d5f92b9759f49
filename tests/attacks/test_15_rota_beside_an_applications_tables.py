"""Number 15: Rota in a database that an application uses, too, and that an older Rota may have been in."""

from __future__ import annotations

from collections.abc import Generator
from itertools import count
from pathlib import Path
from typing import LiteralString, cast

import psycopg
import pytest
from sqlalchemy import Connection, Engine, MetaData, create_engine, text
from tests.migrations.released import as_released

from rota.core.outcome import Answer
from rota.core.task import TaskStatus, Transition
from rota.database import Database
from rota.database.released import OLD_VERSION_TABLE, TABLES
from rota.database.schema import HEAD
from rota.errors import InvalidConfig, StoreError
from rota.stores.base import Beat
from rota.stores.sql import SqlStore
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import World
from rota.testing.servers import PostgresServer

_numbers = count(1)
_APPLICATIONS_OWN: tuple[LiteralString, ...] = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)",
    "INSERT INTO alembic_version VALUES ('3f2a9c0d1b7e')",
)


@pytest.fixture
def own_database(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """The URL of an empty database without a word about schemas, as an application has it."""
    monkeypatch.setattr("rota.database.backends.postgres.LISTEN_SLICE", 0.02)
    name = f"application_{next(_numbers)}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(cast("LiteralString", f"CREATE DATABASE {name}"))
        yield postgres.url.replace("/postgres?", f"/{name}?")
        connection.execute(cast("LiteralString", f"DROP DATABASE {name} WITH (FORCE)"))


def engine_of(url: str) -> Engine:
    return create_engine(url.replace("postgresql://", "postgresql+psycopg://"))


def execute(url: str, *statements: str) -> None:
    engine = engine_of(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def tables(url: str) -> set[str]:
    """Every table of everybody's, with its schema where there are schemas."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    if url.startswith("postgresql"):
        query = (
            "SELECT schemaname || '.' || tablename FROM pg_tables"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
    return set(map(str, ask(url, query)))


def ask(url: str, query: str) -> list[object]:
    engine = engine_of(url)
    with engine.connect() as connection:
        found = list(connection.execute(text(query)).scalars())
    engine.dispose()
    return found


async def works(url: str) -> None:
    store = SqlStore(url)
    await store.open()
    await store.tick(Beat(instance="i"))
    await store.close()


def released(url: str, revision: str = "0004") -> None:
    engine = engine_of(url)
    as_released(engine, revision)
    engine.dispose()


def old_check(connection: Connection) -> str:
    """What the released version did when it opened a database: it knows the revisions up to 0004."""
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return "goes on" if revision in TABLES else "written by a newer Rota"


# --- a new Rota beside others ---


async def test_it_leaves_an_applications_schema_alone(own_database: str) -> None:
    execute(own_database, *_APPLICATIONS_OWN, "CREATE TABLE meta (id INTEGER)", "CREATE TABLE instances (id INTEGER)")
    await works(own_database)
    assert ask(own_database, "SELECT version_num FROM alembic_version") == ["3f2a9c0d1b7e"]
    assert {name for name in tables(own_database) if name.startswith("public.")} == {
        "public.alembic_version",
        "public.meta",
        "public.instances",
    }
    assert "rota.rota_alembic_version" in tables(own_database)
    assert "rota.alembic_version" not in tables(own_database), "a fresh one has no word for older ones"


async def test_it_leaves_an_applications_file_alone(sqlite_url: str) -> None:
    url = sqlite_url.partition("?")[0]
    execute(url, *_APPLICATIONS_OWN, "CREATE TABLE users (id INTEGER)")
    await works(url)
    assert ask(url, "SELECT version_num FROM alembic_version") == ["3f2a9c0d1b7e"]
    assert {"users", "rota_alembic_version", "scheduled_tasks"} <= tables(url)


async def test_an_applications_alembic_works_where_rota_came_first(own_database: str) -> None:
    await works(own_database)
    assert not any(name.startswith("public.") for name in tables(own_database))


@pytest.mark.parametrize("schema", ["jobs", "My-Jobs", "public"])
async def test_the_url_names_the_schema(own_database: str, schema: str) -> None:
    await works(f"{own_database}&schema={schema}")
    await works(f"{own_database}&schema={schema}")
    assert {name.partition(".")[0] for name in tables(own_database)} == {schema}


async def test_an_explicit_search_path_names_it_too_and_is_made(own_database: str) -> None:
    await works(f"{own_database}&options=-csearch_path%3Dmine,public")
    assert {name.partition(".")[0] for name in tables(own_database)} == {"mine"}


async def test_two_of_them_in_one_database_do_not_meet(own_database: str, clock: FakeClock) -> None:
    stores = [SqlStore(f"{own_database}&schema={name}", clock=clock) for name in ("one", "two")]
    for store in stores:
        await store.open()
        await World(store, clock).type()
    await World(stores[0], clock).schedule("only here")
    assert [len(await World(store, clock).all_tasks()) for store in stores] == [1, 0]
    for store in stores:
        await store.close()


@pytest.mark.parametrize("schema", ["pg_mine", "information_schema", "a;b", "x" * 64])
def test_a_schema_that_cannot_be(schema: str) -> None:
    with pytest.raises(InvalidConfig, match="cannot be Rota's"):
        Database(f"postgresql://h/d?schema={schema}")


# --- what is somebody else's is refused, and nothing is written ---


@pytest.mark.parametrize("taken", ["TABLE meta (id INTEGER)", "VIEW buckets AS SELECT 1 AS n"])
async def test_a_name_that_is_taken_in_a_file(taken: str, sqlite_url: str) -> None:
    url = sqlite_url.partition("?")[0]
    execute(url, f"CREATE {taken}", *_APPLICATIONS_OWN)
    before = tables(url)
    with pytest.raises(InvalidConfig, match=r"exists in this file already: (meta|buckets)\. Nothing was changed"):
        await works(url)
    assert tables(url) == before


async def test_a_name_that_is_taken_in_the_schema(own_database: str) -> None:
    execute(own_database, "CREATE SCHEMA rota", "CREATE TABLE rota.meta (id INTEGER)")
    with pytest.raises(InvalidConfig, match=r'exists in the schema "rota" already: meta\. .* \?schema=NAME'):
        await works(own_database)
    assert tables(own_database) == {"rota.meta"}


async def test_revisions_of_an_application_may_be_called_as_ours_were(own_database: str) -> None:
    execute(own_database, *_APPLICATIONS_OWN, "UPDATE alembic_version SET version_num = '0003'")
    await works(own_database)
    assert ask(own_database, "SELECT version_num FROM alembic_version") == ["0003"]


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ([], 'CREATE SCHEMA "rota" AUTHORIZATION "visitor"'),
        (["CREATE SCHEMA rota"], 'GRANT USAGE, CREATE ON SCHEMA "rota" TO "visitor"'),
    ],
)
async def test_a_role_that_may_not_make_its_schema_is_told_what_to_do(
    own_database: str, before: list[str], said: str
) -> None:
    execute(own_database, "CREATE ROLE visitor LOGIN", *before)
    try:
        with pytest.raises(InvalidConfig) as raised:
            await works(own_database.replace("postgres:@", "visitor:@"))
        assert said in str(raised.value)
        execute(own_database, "DROP SCHEMA IF EXISTS rota", "CREATE SCHEMA rota AUTHORIZATION visitor")
        await works(own_database.replace("postgres:@", "visitor:@"))
    finally:
        execute(own_database, "DROP OWNED BY visitor CASCADE", "DROP ROLE visitor")


# --- an older Rota was here ---


async def live_tasks(url: str, clock: FakeClock) -> dict[str, int]:
    """One task of each state in a database of today; the tokens of those that run."""
    store = SqlStore(url, clock=clock)
    await store.open()
    world = World(store, clock)
    await world.type(max_retries=0)
    for key in ("completed", "failed", "running", "dirty", "cancelled", "paused", "pending"):
        await world.schedule(key)
        if key in ("cancelled", "paused"):
            await world.apply(Transition.CANCEL if key == "cancelled" else Transition.PAUSE, key)
        elif key != "pending":
            task = await world.claim_one()
            if key in ("completed", "failed"):
                await world.settle(task, Transition.COMPLETE if key == "completed" else Transition.FAIL)
    await world.touch("dirty")
    for number in range(2):
        await world.schedule(f"serial-{number}", serial="one")
    await world.series("series")
    tokens = {task.key: task.token for task in await world.all_tasks() if task.status is TaskStatus.RUNNING}
    await store.close()
    return tokens


def copy(source: str, target: str) -> None:
    """Every row into an older database, in the columns that it has."""
    old, new = engine_of(target), engine_of(source)
    known, today = MetaData(), MetaData()
    known.reflect(old)
    today.reflect(new)
    with new.connect() as reading, old.begin() as writing:
        for table in known.sorted_tables:
            if table.name == OLD_VERSION_TABLE:
                continue
            rows = [dict(row) for row in reading.execute(today.tables[table.name].select()).mappings()]
            writing.execute(table.delete())
            if rows:
                names = set(table.columns.keys())
                writing.execute(table.insert(), [{k: v for k, v in row.items() if k in names} for row in rows])
        if old.dialect.name == "postgresql":
            # Rows that are copied with their numbers do not move the counters on.
            for counter in ("'task_token_seq'", "pg_get_serial_sequence('task_run_logs', 'id')"):
                writing.execute(text(f"SELECT setval({counter}, 100)"))
    old.dispose()
    new.dispose()


@pytest.mark.parametrize("place", ["public", "search_path", "own role's", "file", "other name"])
async def test_an_older_database_is_brought_along(
    place: str, own_database: str, postgres_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    url, where = own_database, "rota."
    if place == "search_path":
        execute(url, "CREATE SCHEMA mine")
        url, where = f"{url}&options=-csearch_path%3Dmine", "mine."
    elif place == "own role's":
        # The server leads a role to the schema of its own name first.
        execute(url, "CREATE SCHEMA postgres")
    elif place == "file":
        url, where = f"sqlite:///{tmp_path}/old.db", ""
    template = f"sqlite:///{tmp_path}/template.db" if place == "file" else postgres_url
    tokens = await live_tasks(template, clock)
    released(url)
    copy(template, url)
    if place == "other name":
        execute(url, "CREATE TABLE mine (id INTEGER)")
        url, where = f"{url}&schema=jobs", "jobs."

    store = SqlStore(url, clock=clock)
    await store.open()
    world = World(store, clock)
    found = {task.key: task for task in await world.all_tasks()}
    assert {key: found[key].status.value for key in found} == {
        "cancelled": "cancelled",
        "completed": "completed",
        "dirty": "running",
        "failed": "failed",
        "paused": "paused",
        "pending": "pending",
        "running": "running",
        "serial-0": "pending",
        "serial-1": "pending",
        "series": "pending",
    }
    assert {key: found[key].token for key in tokens} == tokens
    for key in tokens:
        assert (await world.settle(found[key])).answer is Answer.OK, "with the token from before"
    assert {task.key for task in await world.claim(5)} == {"pending", "serial-0"}
    assert await world.status("dirty") is TaskStatus.PENDING
    assert await world.runs("completed") != []
    await world.check_counts()
    await store.close()

    plain = own_database if place in ("other name", "public") else url
    mine = {f"{where}{name}" for name in (*TABLES["0004"], "rota_alembic_version")}
    assert mine <= tables(plain)
    assert not any(name in tables(plain) for name in ("public.scheduled_tasks", "postgres.scheduled_tasks"))
    if place == "other name":
        assert "public.mine" in tables(plain), "what is not ours has not moved"
    engine = engine_of(plain)
    with engine.connect() as connection:
        assert old_check(connection) == "written by a newer Rota"
    engine.dispose()
    await works(url)


async def test_one_that_is_newer_than_this_is_refused_in_its_own_place(own_database: str) -> None:
    await works(own_database)
    execute(own_database, "UPDATE rota.rota_alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="newer Rota"):
        await works(own_database)


async def test_an_upgrade_that_meets_a_taken_name_changes_nothing(own_database: str) -> None:
    released(own_database)
    execute(own_database, "CREATE SCHEMA rota", "CREATE TABLE rota.meta (id INTEGER)")
    before = tables(own_database)
    with pytest.raises(InvalidConfig, match="meta"):
        await works(own_database)
    assert tables(own_database) == before
    assert ask(own_database, "SELECT version_num FROM alembic_version") == ["0004"]
    assert HEAD != "0004"
