"""`rota queue`: what waits, type by type."""

from __future__ import annotations

from typing import Final

from rota.app.views import state_words
from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.pages import WatchOption, show_from_store
from rota.clock import isoformat
from rota.stores.base import Counts, Store

__all__ = ["ls"]

_COLUMNS: Final = (
    Column("TYPE", "task_type", is_id=True),
    Column("STATE", "state"),
    Column("PENDING", "pending"),
    Column("RUNNING", "running"),
    Column("PAUSED", "paused", leaves=3),
    Column("FAILED", "failed"),
    Column("NEXT DUE", "due_at"),
    Column("MAX PENDING", "max_pending", leaves=2),
    Column("PER SECOND", "rate", leaves=1),
)


async def ls(cli: Cli, watch: WatchOption = False) -> None:
    """List what waits, type by type, with the limits that count."""
    await show_from_store(cli, lambda store: _list(cli, store), watch=watch)


async def _list(cli: Cli, store: Store) -> None:
    counts, heads = await store.counts(), await store.next_due_by_type()
    items: list[dict[str, object]] = []
    for record in await store.list_types():
        name, settings = record.task_type.name, record.effective
        mine = counts.get(name, Counts())
        items.append(
            {
                "task_type": name,
                "state": state_words(record),
                "pending": mine.pending,
                "running": mine.running,
                "paused": mine.paused,
                "failed": mine.failed,
                "due_at": isoformat(heads.get(name)),
                "max_pending": settings.max_pending,
                "rate": None if settings.rate_limit is None else settings.rate_limit.rate,
                "burst": None if settings.rate_limit is None else settings.rate_limit.burst,
                "start_rate": None if settings.start_limit is None else settings.start_limit.rate,
                "start_burst": None if settings.start_limit is None else settings.start_limit.burst,
                "concurrency": settings.concurrency,
                "slots": settings.slots,
            }
        )
    cli.output.page(
        items, _COLUMNS, empty="No task types. They come from a worker, or from scheduler.tasks in the config."
    )
