"""`rota db upgrade`: what an older version of Rota wrote, brought to what this one reads."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.invocation import Cli
from rota.clock import SECOND
from rota.config.urls import masked
from rota.stores import open_store

__all__ = ["upgrade"]

ForceOption = Annotated[
    bool, typer.Option("--force", help="Also while instances work on it: what they run now runs again.")
]


async def upgrade(cli: Cli, force: ForceOption = False) -> None:
    """Bring the store of an older version to the layout of this one, in place.

    SQLite and PostgreSQL are brought along by whoever opens them; Redis is by this command. Stop all instances first.
    A run that was cut off is simply repeated.
    """
    url = cli.config.store_url
    written = await open_store(url, call_timeout=cli.config.call_timeout_ms / SECOND).upgrade(force=force)
    words = f"{written:,} records were written anew" if written else "there was nothing to write anew"
    cli.output.one({"store": masked(url), "written": written}, f"{masked(url)} is up to date: {words}.")
