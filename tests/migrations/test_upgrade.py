"""A database with data in it, from each older revision to this one: everything is there, and works."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import (
    BigInteger,
    Connection,
    Engine,
    Float,
    LargeBinary,
    MetaData,
    Table,
    create_engine,
    func,
    text,
)
from sqlalchemy.event import listens_for
from tests.migrations.released import as_released

from rota.clock import HOUR
from rota.core.history import Resolution
from rota.core.outcome import Answer
from rota.core.task import TaskStatus, Transition
from rota.core.task_type import TriggerMode
from rota.database import Database
from rota.database.released import OLD_VERSION_TABLE, TABLES
from rota.database.schema import HEAD, VERSION_TABLE
from rota.stores.base import Store
from rota.stores.sql import SqlStore
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import WORK, World
from rota.testing.servers import PostgresServer
from rota.testing.waiting import PATIENCE

OLDER = list(TABLES)
"""The revisions that were released before Rota had a place of its own."""
DATABASES = ["sqlite", "postgres"]

Rows = dict[str, list[dict[str, Any]]]


def new_url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if database == "sqlite":
        return f"sqlite:///{tmp_path}/{uuid4().hex}.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_url()


def migrate(engine: Engine, revision: str) -> None:
    as_released(engine, revision)
    assert revision_of(engine, OLD_VERSION_TABLE) == revision, "this database was newer before"


def revision_of(engine: Engine, version_table: str = VERSION_TABLE) -> str:
    with engine.connect() as connection:
        return str(connection.execute(text(f"SELECT version_num FROM {version_table}")).scalar_one())


def engine_of(url: str) -> Engine:
    # Another one that writes the file may take its time, on a busy machine.
    patience = {"timeout": PATIENCE} if url.startswith("sqlite") else {}
    return create_engine(url.replace("postgresql://", "postgresql+psycopg://"), connect_args=patience)


def tables_of(engine: Engine) -> list[Table]:
    known = MetaData()
    known.reflect(engine)
    return [table for table in known.sorted_tables if table.name not in (VERSION_TABLE, OLD_VERSION_TABLE)]


def rows_of(engine: Engine, tables: Sequence[Table]) -> Rows:
    """Every row of some tables, with the columns that they have there."""
    with engine.connect() as connection:
        return {
            table.name: [
                dict(row) for row in connection.execute(table.select().order_by(*table.primary_key)).mappings()
            ]
            for table in tables
        }


def made_up(table: Table) -> dict[str, Any]:
    """A row of a table in which nothing has been written: something in every column."""
    return {column.name: _something(column.type) for column in table.columns}


def _something(kind: object) -> object:
    match kind:
        case LargeBinary():
            return b"\x00\xff"
        case Float():
            return 1.5
        case BigInteger():
            return 1_767_603_600_000
        case _:
            # Read back as a number where the column holds small ones.
            return "1" if str(kind).startswith("TEXT") else 1


async def lived_in(store: Store, clock: FakeClock) -> None:
    """A bit of everything: each state, a series, an owner, a serial that is waited for, activity and a wish during a
    run, a run log, counters."""
    world = World(store, clock)
    await world.type(max_retries=0)
    await world.type("off")
    await world.type("next", after=(WORK,), trigger_mode=TriggerMode.AFTER)
    await store.override_type("off", {"enabled": False})
    for key in ("failed", "completed", "running"):
        await world.schedule(key, user_id="ann")
    for task in await world.claim(3):
        if task.key != "running":
            await world.settle(task, Transition.FAIL if task.key == "failed" else Transition.COMPLETE)
    for number in range(3):
        await world.schedule(f"serial-{number}", serial="one")
    assert len(await world.claim(3)) == 1
    for key in ("dirty", "wanted"):
        await world.schedule(key)
        await world.claim_one()
    await world.touch("dirty")
    await world.apply(Transition.PAUSE, "wanted")
    for key, transition in (("paused", Transition.PAUSE), ("cancelled", Transition.CANCEL)):
        await world.schedule(key, scheduled_at=clock.now() + HOUR)
        await world.apply(transition, key)
    await world.series("series", owner="ben")
    await world.schedule("low", priority=1, expires_at=clock.now() + 9 * HOUR, scheduled_at=clock.now() + HOUR)
    await world.touch("ann")
    await world.tick()
    await store.take("bucket", 1, rate=1, burst=5, now=clock.now())


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def old_url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_url(database, request, tmp_path)


@pytest.fixture
async def template(database: str, request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Engine:
    """A database of today that has been lived in, to be copied into an old one."""
    url = new_url(database, request, tmp_path)
    store = SqlStore(url, clock=clock)
    await store.open()
    await lived_in(store, clock)
    await store.close()
    return engine_of(url)


def fill(engine: Engine, template: Engine) -> Rows:
    """Every table of an old database with rows: those of the template, in the columns that are there; or made up."""
    tables = tables_of(engine)
    today = rows_of(template, tables_of(template))
    with engine.begin() as connection:
        for table in tables:
            names = {column.name for column in table.columns}
            rows = [{k: v for k, v in row.items() if k in names} for row in today.get(table.name, [])] or [
                made_up(table)
            ]
            connection.execute(table.delete())
            connection.execute(table.insert(), rows)
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT setval('task_token_seq', 100)"))
            _move_on_numbers(connection, tables)
    return rows_of(engine, tables)


def _move_on_numbers(connection: Connection, tables: Sequence[Table]) -> None:
    """Whoever copies rows with their numbers tells PostgreSQL where the next one comes."""
    for table in tables:
        column = table.primary_key.columns[0]
        if table.autoincrement_column is column:
            highest = connection.execute(func.max(column).select()).scalar_one()
            connection.execute(text(f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), {highest})"))


@pytest.mark.parametrize("revision", OLDER)
async def test_everything_is_there_after_an_upgrade_and_works(
    revision: str, old_url: str, template: Engine, clock: FakeClock
) -> None:
    engine = engine_of(old_url)
    migrate(engine, revision)
    tables = tables_of(engine)
    before = fill(engine, template)
    assert all(before.values()), "every table of the old revision has rows"

    store = SqlStore(old_url, clock=clock)
    await store.open()

    assert rows_of(engine, tables) == before, "in the columns that there were"
    engine.dispose()
    template.dispose()
    await check_it_works(store, clock)
    await store.close()


async def check_it_works(store: Store, clock: FakeClock) -> None:
    world = World(store, clock)
    found = {task.key: task for task in await world.all_tasks()}
    assert {task.status for task in found.values()} == set(TaskStatus)
    assert [record.overrides.enabled for record in await store.list_types() if record.task_type.name == "off"] == [
        False
    ]
    await world.check_counts()
    # What was running before the upgrade can still be settled by whoever ran it, and only once.
    assert (await world.settle(found["running"])).answer is Answer.OK
    assert (await world.settle(found["running"], Transition.FAIL)).answer is Answer.STALE
    holder = next(task for task in found.values() if task.serial and task.status is TaskStatus.RUNNING)
    assert (await world.settle(holder)).answer is Answer.OK
    assert found["dirty"].dirty
    assert (await world.settle(found["dirty"])).answer is Answer.OK
    assert await world.status("dirty") is TaskStatus.PENDING, "once more, for what happened during its run"
    assert (await world.settle(found["wanted"], Transition.RELEASE)).answer is Answer.OK
    assert await world.status("wanted") is TaskStatus.PAUSED
    following = await world.claim_one()
    assert following.serial == "one"
    assert following.token > max(task.token for task in found.values())
    assert (await world.apply(Transition.REDRIVE, "failed")).answer is Answer.OK
    assert (await world.apply(Transition.RESUME, "paused")).answer is Answer.OK
    assert [task.key for task in await world.all_tasks(owner="ben")] == ["series"]
    assert [task.key for task in await world.all_tasks(schedules=True)] == ["series"]
    position = await store.queue_position(found["serial-2"].identity, now=clock.now())
    assert (position.serial_running, position.ahead) == (1, 1), "one of its serial runs, and `failed` is due before it"
    assert (await store.next_due_by_type())[WORK] == clock.now()
    assert await world.pump() > 0
    erasure = await store.erase_user("ann", now=clock.now())
    assert erasure.done_at is not None
    assert await world.all_tasks(user_id="ann") == []
    assert await store.history(Resolution.MINUTE, 0) is not None


def test_an_upgrade_may_take_longer_than_a_call(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """An ordinary statement is ended after a few seconds; an index of a big table is not."""
    url = new_url("postgres", request, tmp_path)
    busy = engine_of(url)
    migrate(busy, "0001")
    upgrading = Database(url)
    problems: list[Exception] = []

    @listens_for(upgrading.engine, "connect")
    def _cut_short(connection: Any, _record: Any) -> None:  # pyright: ignore[reportUnusedFunction] -- SQLAlchemy calls it
        # The patience of a call. A session's setting counts until a transaction has its own.
        connection.execute("SET statement_timeout = 1000")
        connection.commit()

    async def open_and_close() -> None:
        await upgrading.open()
        await upgrading.close()

    def upgrade() -> None:
        try:
            asyncio.run(open_and_close())
        except Exception as error:
            problems.append(error)

    # An older instance in the middle of something: the index must wait for it, longer than a call would be given.
    with busy.begin() as holding, busy.connect() as looking:
        holding.execute(text("LOCK TABLE task_run_logs IN ROW EXCLUSIVE MODE"))
        thread = Thread(target=upgrade)
        thread.start()
        waiting = text(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE INDEX%'"
            " AND clock_timestamp() - query_start > interval '1300 ms'"
        )
        while thread.is_alive() and not looking.execute(waiting).scalar_one():
            looking.rollback()
            looking.execute(text("SELECT pg_sleep(0.02)"))
    thread.join()
    assert problems == []
    assert revision_of(busy) == HEAD
    busy.dispose()


_AS_RELEASED = text(
    "INSERT INTO scheduled_tasks (task_type, key, status, scheduled_at, created_at, updated_at)"
    " VALUES ('work', :key, 'pending', :now, :now, :now)"
)
"""As the first version writes a task: only columns that are no default are named."""


async def test_an_instance_that_is_at_work_goes_on_through_an_upgrade(
    database: str, old_url: str, template: Engine, clock: FakeClock
) -> None:
    """Its statements name the tables and columns that it knows. Where those did not have to move they are still there,
    and mean the same."""
    engine = engine_of(old_url)
    if database == "sqlite":
        # As every released version has it: a file that is written to meanwhile cannot be switched over.
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    migrate(engine, "0001")
    fill(engine, template)

    def schedule(key: str) -> None:
        with engine.begin() as connection:
            connection.execute(_AS_RELEASED, {"key": key, "now": clock.now()})

    await asyncio.to_thread(schedule, "before")
    new = SqlStore(old_url, clock=clock)
    opening = asyncio.create_task(new.open())
    made = 0
    while not opening.done():
        await asyncio.to_thread(schedule, f"during-{made}")
        made += 1
    await opening
    await asyncio.to_thread(schedule, "after")
    claimed = {task.key for task in await World(new, clock).claim(made + 2)}
    assert claimed == {"before", "after", *(f"during-{number}" for number in range(made))}
    await new.close()
    engine.dispose()
    template.dispose()
