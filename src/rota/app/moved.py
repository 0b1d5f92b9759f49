"""An app that stands elsewhere for a while: the program's own one, with all that it has declared, in a test of it.

Handlers, decorated functions and whoever holds the app go on with the same objects, and reach the other store through
them. Afterwards every one of these objects is as it was, also where it was connected meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from rota.app.rota import Rota
from rota.clock import Clock
from rota.config import Config
from rota.stores.base import Store

__all__ = ["moved"]

PATIENCE_SECONDS = 10.0


@contextmanager
def moved(app: Rota, engine: str | Store, config: Config, clock: Clock) -> Generator[Rota]:
    """Have an app on another store, with another configuration and clock, until the block ends."""
    everything = (app, app.host, app.sync, *app.host.parts.values())
    as_it_was = [(one, vars(one).copy()) for one in everything]
    app.sync.forget()
    app.host.move(engine, config, clock)
    try:
        yield app
    finally:
        _disconnect(app)
        for one, attributes in as_it_was:
            vars(one).clear()
            vars(one).update(attributes)


def _disconnect(app: Rota) -> None:
    """Close what was opened meanwhile, in whichever event loop that was; it may have ended with its test."""
    app.sync.close()
    loop = app.host.connection.loop
    if loop is not None and loop.is_running():
        asyncio.run_coroutine_threadsafe(app.host.stop(0), loop).result(PATIENCE_SECONDS)
    elif app.host.own_database.opened is not None:
        asyncio.run(app.host.own_database.close())
