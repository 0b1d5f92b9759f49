"""`rota instance` and `rota queue`: who is at work, and what waits."""

from __future__ import annotations

from typing import Final

from rota.app.views import is_alive, state_words
from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.pages import WatchOption, with_watch
from rota.clock import isoformat
from rota.stores.base import Counts, Store

__all__ = ["instance_ls", "queue_ls"]

_INSTANCES: Final = (
    Column("INSTANCE", "instance"),
    Column("HOST", "host"),
    Column("PID", "pid"),
    Column("STATE", "state"),
    Column("RUNNING", "running"),
    Column("STARTED", "started_at"),
    Column("SEEN", "seen_at"),
    Column("TYPES", "types"),
)
_QUEUES: Final = (
    Column("TYPE", "task_type"),
    Column("STATE", "state"),
    Column("PENDING", "pending"),
    Column("RUNNING", "running"),
    Column("PAUSED", "paused"),
    Column("FAILED", "failed"),
    Column("FIRST DUE", "due_at"),
    Column("AT MOST", "max_pending"),
    Column("PER SECOND", "rate"),
)


async def instance_ls(cli: Cli, watch: WatchOption = False) -> None:
    """List the instances at work on the store, and those that were lost."""
    async with cli.store() as store:
        await with_watch(cli, lambda: _instances(cli, store), watch=watch)


async def _instances(cli: Cli, store: Store) -> None:
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
    cli.output.page(items, _INSTANCES, empty="Nobody is at work. Start `rota up`, or `rota worker --app module:app`.")


async def queue_ls(cli: Cli, watch: WatchOption = False) -> None:
    """List what waits, type by type, with the limits that count."""
    async with cli.store() as store:
        await with_watch(cli, lambda: _queues(cli, store), watch=watch)


async def _queues(cli: Cli, store: Store) -> None:
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
                "concurrency": settings.concurrency,
            }
        )
    cli.output.page(items, _QUEUES, empty="No task types. A worker brings them, or scheduler.tasks in the config.")
