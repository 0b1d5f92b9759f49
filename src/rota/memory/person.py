"""One person's memory: all of it handed out, or all of it removed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, NamedTuple

from rota.clock import isoformat
from rota.database import Database
from rota.memory.context import Scope
from rota.memory.contexts import Contexts, Watermark
from rota.memory.statistics import Statistics
from rota.memory.summary import Summaries

__all__ = ["Kept", "erase_user", "export_user"]

PAGE = 500


class Kept(NamedTuple):
    """One thing that is kept of somebody."""

    kind: Literal["context", "summary", "watermark", "statistics"]
    value: dict[str, object]

    def to_dict(self) -> dict[str, object]:
        """For a line of an export. What a context came from is its `source` there: `kind` says what the line is."""
        value = dict(self.value)
        if "kind" in value:
            value["source"] = value.pop("kind")
        return {"kind": self.kind, **value}


async def export_user(database: Database, user_id: str) -> AsyncIterator[Kept]:
    """Everything that is kept of a user: contexts, newest first; summaries; how far they are compressed; figures."""
    contexts, cursor = Contexts(database), None
    while True:
        page = await contexts.page(Scope(user_id), limit=PAGE, cursor=cursor)
        for context in page.contexts:
            yield Kept("context", context.to_dict())
        cursor = page.cursor
        if cursor is None:
            break
    for summary in await Summaries(contexts).of_user(user_id, limit=None):
        yield Kept("summary", summary.to_dict())
    for watermark in await contexts.watermarks(user_id):
        yield Kept("watermark", _told(watermark))
    figures = await Statistics(contexts).kept_of(user_id)
    if figures is not None:
        yield Kept("statistics", figures)


async def erase_user(database: Database, user_id: str) -> int:
    """Remove everything that is kept of a user, in one transaction; how many contexts it were. Again is harmless."""
    return await Contexts(database).erase_user(user_id)


def _told(watermark: Watermark) -> dict[str, object]:
    owner = watermark.owner
    return {
        "user_id": owner.user_id,
        "device_id": owner.device_id,
        "agent_id": owner.agent_id,
        "compressed_to": isoformat(watermark.compressed_to),
        "last_run_at": isoformat(watermark.last_run_at),
        "runs": watermark.runs,
    }
