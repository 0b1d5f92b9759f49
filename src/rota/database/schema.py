"""Bringing a database to the schema that this version speaks.

On PostgreSQL Rota lives in a schema of its own, on SQLite in a file that an application may use, too. A new database
is made from the tables at once and stamped; an older one is migrated, step by step, by Alembic. A test holds the two
equal. A database from a newer major version is refused, and so is a place where somebody else's table has the name of
one of ours. Whatever is refused has not been changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, bindparam, column, select, table, text

from rota.database.names import quoted, relations
from rota.database.released import mark_as_newer, move, older_revision
from rota.database.tables import metadata
from rota.database.tables.tasks import sequences, token_sequence
from rota.errors import InvalidConfig, SchemaMismatch

__all__ = ["HEAD", "MIGRATIONS", "VERSION_TABLE", "is_current", "prepare"]

MIGRATIONS: Final = Path(__file__).parent / "migrations"

HEAD: Final = "0013"
"""The newest revision in `migrations/versions`; a test holds it true. Knowing it here keeps Alembic out of start-up."""

VERSION_TABLE: Final = "rota_alembic_version"
"""Alembic's own name for it belongs to the application, which may use Alembic as well."""

_MAKE_VERSION = text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
_version = table(VERSION_TABLE, column("version_num"))
_STAMP = _version.insert().values(version_num=bindparam("revision"))
_REVISION = select(_version.c.version_num)

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('rota:schema:' || :schema, 0))")
_CURRENT_SCHEMA = text("SELECT current_schema()")
_HAS_SCHEMA = text("SELECT 1 FROM pg_namespace WHERE nspname = :schema")
_MAY_CREATE_SCHEMA = text("SELECT has_database_privilege(current_database(), 'CREATE')")
_MAY_CREATE_TABLES = text("SELECT has_schema_privilege(:schema, 'CREATE') AND has_schema_privilege(:schema, 'USAGE')")
_WHO = text("SELECT current_user, current_database()")


def is_current(connection: Connection, schema: str | None) -> bool:
    """Whether there is nothing to prepare: then nobody has to wait for one who writes, and may be frozen."""
    return VERSION_TABLE in relations(connection, schema) and connection.execute(_REVISION).scalar() == HEAD


def prepare(connection: Connection, schema: str | None = None) -> None:
    """Create or migrate, inside the caller's transaction; others wait for it. On PostgreSQL in the schema that is
    named, or the connection's current one."""
    if connection.dialect.name == "postgresql":
        schema = schema or str(connection.execute(_CURRENT_SCHEMA).scalar_one())
        _wait_for_turn(connection, schema)
    if VERSION_TABLE not in relations(connection, schema):
        _settle_in(connection, schema)
    revision = connection.execute(_REVISION).scalar()
    if revision != HEAD:
        _migrate(connection, revision)


def _wait_for_turn(connection: Connection, schema: str) -> None:
    """One at a time, however long the others take. An index of a big table takes longer than any ordinary call may;
    but whoever waits for a table holds up all that come after it, so that is given up soon, and tried again."""
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
    # Nothing but our own schema is seen from here: a table of that name elsewhere is somebody else's.
    connection.execute(text(f"SET LOCAL search_path TO {quoted(schema)}"))
    _lock(connection, schema)


def _lock(connection: Connection, schema: str) -> None:
    usual = connection.execute(text("SELECT current_setting('lock_timeout')")).scalar()
    connection.execute(text("SET LOCAL lock_timeout = 0"))
    connection.execute(_LOCK, {"schema": schema})
    connection.execute(text("SELECT set_config('lock_timeout', :usual, true)"), {"usual": usual})


# --- a place where there is no Rota yet, or one of the older ones ---


def _settle_in(connection: Connection, schema: str | None) -> None:
    revision = older_revision(connection, schema)
    if revision is not None:
        _take_over(connection, schema, revision, schema)
        return
    if schema is None:
        _create(connection, None)
        return
    old_schema = _old_place(connection, schema)
    revision = None if old_schema is None else older_revision(connection, old_schema)
    _make_schema(connection, schema)
    if old_schema is None or revision is None:
        _create(connection, schema)
        return
    _refuse_what_is_taken(connection, schema)
    move(connection, revision, old_schema, schema)
    _take_over(connection, schema, revision, old_schema)


def _old_place(connection: Connection, schema: str) -> str | None:
    """Where a version that had no schema of its own put its tables on PostgreSQL: wherever the server led it."""
    connection.execute(text("SET LOCAL search_path TO DEFAULT"))
    old_schema = connection.execute(_CURRENT_SCHEMA).scalar()
    connection.execute(text(f"SET LOCAL search_path TO {quoted(schema)}"))
    if old_schema is None or old_schema == schema:
        return None
    if older_revision(connection, old_schema) is not None:
        # One of them may be about to open it, too.
        _lock(connection, old_schema)
    return old_schema


def _take_over(connection: Connection, schema: str | None, revision: str, old_schema: str | None) -> None:
    """The tables are in place: note their revision where this version looks, and turn older ones away."""
    connection.execute(_MAKE_VERSION)
    connection.execute(_STAMP, {"revision": revision})
    mark_as_newer(connection, old_schema, HEAD)


def _create(connection: Connection, schema: str | None) -> None:
    _refuse_what_is_taken(connection, schema)
    metadata.create_all(connection)
    connection.execute(sequences.insert(), [{"name": "token", "value": 0}, {"name": "event_position", "value": 0}])
    connection.execute(_MAKE_VERSION)
    connection.execute(_STAMP, {"revision": HEAD})


def _refuse_what_is_taken(connection: Connection, schema: str | None) -> None:
    ours = {table.name for table in metadata.tables.values()}
    ours |= {str(index.name) for table in metadata.tables.values() for index in table.indexes}
    if schema is not None:
        ours.add(token_sequence.name)
    taken = ", ".join(sorted(ours & relations(connection, schema)))
    if not taken:
        return
    if schema is None:
        where, instead = "in this file", "Give Rota a file of its own"
    else:
        where, instead = f'in the schema "{schema}"', "Name another schema in the URL, with ?schema=NAME"
    raise InvalidConfig(
        f"Rota has no tables here yet, but something with the name of one exists {where} already: {taken}."
        f" Nothing was changed. {instead}, or rename what is there."
    )


def _make_schema(connection: Connection, schema: str) -> None:
    role, database = connection.execute(_WHO).one()
    instead = "or name one in the URL where it may make tables, with ?schema=NAME"
    if connection.execute(_HAS_SCHEMA, {"schema": schema}).scalar() is None:
        if not connection.execute(_MAY_CREATE_SCHEMA).scalar_one():
            raise InvalidConfig(
                f"Rota keeps its tables in a schema of its own, {quoted(schema)}, which is not there, and the role"
                f" {role!r} may not make one in the database {database!r}. Let its owner do it:"
                f" CREATE SCHEMA {quoted(schema)} AUTHORIZATION {quoted(role)}; {instead}."
            )
        connection.execute(text(f"CREATE SCHEMA {quoted(schema)}"))
    elif not connection.execute(_MAY_CREATE_TABLES, {"schema": schema}).scalar_one():
        raise InvalidConfig(
            f"The role {role!r} may not make tables in the schema {quoted(schema)} of the database {database!r}. Let"
            f" its owner allow it: GRANT USAGE, CREATE ON SCHEMA {quoted(schema)} TO {quoted(role)}; {instead}."
        )


# --- from an older revision ---


def _migrate(connection: Connection, revision: str | None) -> None:
    # Alembic takes a while to import and is needed once per upgrade.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision not in known:
        raise SchemaMismatch(
            f"The database is at revision {revision!r}, which this version of Rota does not know (it speaks {HEAD!r}). "
            "It was written by a newer Rota: upgrade this one."
        )
    config.attributes["connection"] = connection
    config.attributes["version_table"] = VERSION_TABLE
    command.upgrade(config, HEAD)
