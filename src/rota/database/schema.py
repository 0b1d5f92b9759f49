"""Bringing a database to the schema that this version speaks.

A new database is made from the tables at once and stamped; an older one is migrated, step by step, by Alembic. A test
holds the two equal. A database from a newer major version is refused.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from rota.database.tables import metadata
from rota.database.tables.tasks import sequences
from rota.errors import SchemaMismatch

__all__ = ["HEAD", "MIGRATIONS", "prepare"]

MIGRATIONS = Path(__file__).parent / "migrations"

HEAD = "0005"
"""The newest revision in `migrations/versions`; a test holds it true. Knowing it here keeps Alembic out of start-up."""

_MAKE_VERSION = text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
_STAMP = text("INSERT INTO alembic_version (version_num) VALUES (:head)")


def prepare(connection: Connection) -> None:
    """Create or migrate, inside the caller's transaction; others wait for it."""
    if connection.dialect.name == "postgresql":
        _wait_for_turn(connection)
    present = set(inspect(connection).get_table_names())
    if "alembic_version" not in present:
        _create(connection)
        return
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if revision != HEAD:
        _migrate(connection, revision)


def _wait_for_turn(connection: Connection) -> None:
    """One at a time, however long the others take. An index of a big table takes longer than any ordinary call may;
    but whoever waits for a table holds up all that come after it, so that is given up soon, and tried again."""
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    connection.execute(text("SET LOCAL lock_timeout = 0"))
    connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('rota:schema:' || current_schema(), 0))"))
    connection.execute(text("SET LOCAL lock_timeout = 4000"))


def _create(connection: Connection) -> None:
    metadata.create_all(connection)
    connection.execute(sequences.insert(), [{"name": "token", "value": 0}])
    connection.execute(_MAKE_VERSION)
    connection.execute(_STAMP, {"head": HEAD})


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
    command.upgrade(config, HEAD)
