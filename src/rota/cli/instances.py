"""`rota instance`: the processes that serve the store."""

from __future__ import annotations

from typing import Final

from rota.app.views import is_alive
from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.pages import WatchOption, show_from_store
from rota.clock import isoformat
from rota.stores.base import Store

__all__ = ["ls"]

_COLUMNS: Final = (
    Column("INSTANCE", "instance", is_id=True),
    Column("HOST", "host", is_id=True),
    Column("PID", "pid", leaves=2),
    Column("STATE", "state"),
    Column("RUNNING", "running"),
    Column("STARTED", "started_at", leaves=1),
    Column("SEEN", "seen_at"),
    Column("TYPES", "types", gives_way=True),
)


async def ls(cli: Cli, watch: WatchOption = False) -> None:
    """List the instances at work on the store, and those that were lost."""
    await show_from_store(cli, lambda store: _list(cli, store), watch=watch)


async def _list(cli: Cli, store: Store) -> None:
    now = await store.now()
    items: list[dict[str, object]] = []
    for each in await store.instances():
        beat = each.beat
        items.append(
            {
                "instance": beat.instance,
                "host": beat.host,
                "pid": beat.pid,
                "state": "alive" if is_alive(each, now) else "lost",
                "running": beat.running,
                "started_at": isoformat(beat.started_at),
                "seen_at": isoformat(each.seen_at),
                "types": list(beat.types) if cli.output.as_json else ", ".join(beat.types),
            }
        )
    cli.output.page(
        items, _COLUMNS, empty="No instances are running. Start `rota up`, or `rota worker --app module:app`."
    )
