"""Databases as released versions of Rota made them, before it had a place of its own in them."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine

from rota.database.released import OLD_VERSION_TABLE
from rota.database.schema import MIGRATIONS

__all__ = ["as_released"]


def as_released(engine: Engine, revision: str) -> None:
    """A database as the released version of that revision made it: wherever the server led it."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["version_table"] = OLD_VERSION_TABLE
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
