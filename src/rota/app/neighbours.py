"""The failed runs of a type before and after one of them."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from msgspec.structs import replace

from rota.clock import Instant
from rota.core.task import RunRecord, RunStatus
from rota.stores.base import MAX_PAGE, RunQuery, Store

__all__ = ["Beside", "failed_beside"]

_FAILED: Final = (RunStatus.ERROR, RunStatus.LOST)
_LOOKS: Final = 5
"""How often it is looked for an older one where failures are rare: one look is at a bounded number of runs."""


class Beside(NamedTuple):
    """The failed runs of the same type that lie next to one in time."""

    previous: RunRecord | None = None
    next: RunRecord | None = None


async def failed_beside(store: Store, run: RunRecord) -> Beside:
    """The failed runs before and after a failed one. A newer one is looked for among the latest `MAX_PAGE`."""
    if run.status not in _FAILED:
        return Beside()
    queries = [RunQuery(task_type=run.task_type, status=status) for status in _FAILED]
    older, newer = await asyncio.gather(
        asyncio.gather(*(_older(store, query, run) for query in queries)),
        asyncio.gather(*(_newer(store, query, run) for query in queries)),
    )
    return Beside(
        max((each for each in older if each is not None), key=_ended_at, default=None),
        min((each for each in newer if each is not None), key=_ended_at, default=None),
    )


def _ended_at(run: RunRecord) -> Instant:
    return run.started_at + run.duration_ms


async def _older(store: Store, query: RunQuery, run: RunRecord) -> RunRecord | None:
    cursor: str | None = run.run_id
    for _ in range(_LOOKS):
        page = await store.runs(replace(query, cursor=cursor, limit=1))
        if page.items or page.cursor is None:
            return page.items[0] if page.items else None
        cursor = page.cursor
    return None


async def _newer(store: Store, query: RunQuery, run: RunRecord) -> RunRecord | None:
    page = await store.runs(replace(query, limit=MAX_PAGE))
    ids = [each.run_id for each in page.items]
    if run.run_id in ids:
        newer = page.items[: ids.index(run.run_id)]
    elif query.status is run.status:
        return None  # it is older than all that were looked at, and so may be many that follow it
    else:
        newer = [each for each in page.items if _ended_at(each) > _ended_at(run)]
    return newer[-1] if newer else None
