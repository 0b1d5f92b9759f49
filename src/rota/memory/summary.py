"""Summaries of days and weeks: the example of an upkeep that an application adds for itself.

A day that has ended, and has settled, is summarised once, from what was captured of it; a week from its days. What is
there is never written again, so a run may be broken off or come twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import Connection, select

from rota.clock import Instant, Millis, from_datetime, isoformat, to_datetime
from rota.codec import warmed
from rota.database.tables.memory import contexts as context_table
from rota.database.tables.memory import summaries as table
from rota.database.upsert import upsert
from rota.memory.compression import SETTLING_MS, Budget
from rota.memory.context import MAX_KEYWORDS, Context, Owner, Scope
from rota.memory.contexts import Contexts
from rota.memory.merging import merged_keywords, merged_texts

__all__ = ["BACKFILL_DAYS", "Summaries", "Summarised", "Summary"]

_decode_words = warmed(msgspec.json.Decoder(list[str]), "[]").decode

BACKFILL_DAYS: Final = 7
STATEMENTS: Final = 20
"""What a summary tells at most, the most important first chosen, then told in order."""


class Summary(msgspec.Struct, frozen=True):
    """What happened in a day or a week."""

    owner: Owner
    level: str
    period: str
    text: str
    keywords: tuple[str, ...]
    sources: int
    created_at: Instant

    def to_dict(self) -> dict[str, object]:
        return {
            **msgspec.to_builtins(self.owner),
            "level": self.level,
            "period": self.period,
            "text": self.text,
            "keywords": list(self.keywords),
            "sources": self.sources,
            "created_at": isoformat(self.created_at),
        }


class Summarised(msgspec.Struct):
    """What a run has done so far."""

    days: int = 0
    weeks: int = 0
    is_finished: bool = True

    def to_dict(self) -> dict[str, object]:
        return msgspec.to_builtins(self)


class Summaries:
    """Writes and reads the summaries of one database."""

    def __init__(
        self,
        contexts: Contexts,
        *,
        timezone: str = "UTC",
        backfill_days: int = BACKFILL_DAYS,
        settling_ms: Millis = SETTLING_MS,
    ) -> None:
        self._contexts = contexts
        self._zone = ZoneInfo(timezone)
        self._backfill_days = backfill_days
        self._settling_ms = settling_ms

    async def summarise(self, scope: Scope, budget: Budget) -> Summarised:
        """The days of the last while that have ended and have no summary, then the weeks that have ended."""
        done = Summarised()
        settled_at = await self._contexts.database.now() - self._settling_ms
        today = to_datetime(settled_at).astimezone(self._zone).date()
        for owner in await self._owners(scope):
            for day in (today - timedelta(days=back) for back in range(1, self._backfill_days + 1)):
                if budget.is_spent():
                    done.is_finished = False
                    return done
                done.days += await self._summarise_day(owner, day)
            for week in sorted({_week(today - timedelta(days=7 * back)) for back in (1, 2)}):
                done.weeks += await self._summarise_week(owner, week)
        return done

    async def of_user(self, user_id: str, *, level: str | None = None, limit: int | None = 50) -> list[Summary]:
        """A user's summaries, latest first."""
        conditions = [table.c.user_id == user_id, *([table.c.level == level] if level else [])]
        statement = select(table).where(*conditions).order_by(table.c.period.desc(), table.c.level).limit(limit)
        rows = await self._contexts.database.read(lambda connection: connection.execute(statement).mappings().all())
        return [
            Summary(
                Owner(row["user_id"], row["device_id"], row["agent_id"]),
                row["level"],
                row["period"],
                row["text"],
                tuple(msgspec.json.decode(row["keywords"])),
                row["sources"],
                row["created_at"],
            )
            for row in rows
        ]

    async def _owners(self, scope: Scope) -> list[Owner]:
        columns = context_table.c
        conditions = [columns.user_id == scope.user_id]
        if scope.device_id is not None:
            conditions.append(columns.device_id == scope.device_id)
        if scope.agent_id is not None:
            conditions.append(columns.agent_id == scope.agent_id)
        statement = select(columns.user_id, columns.device_id, columns.agent_id).where(*conditions).distinct()
        rows = await self._contexts.database.read(lambda connection: connection.execute(statement).all())
        return sorted(Owner(*row) for row in rows)

    async def _summarise_day(self, owner: Owner, day: date) -> int:
        if await self._has(owner, "day", day.isoformat()):
            return 0
        found = await self._contexts.happened(owner, self._begins(day), self._begins(day + timedelta(days=1)))
        if not found:
            return 0
        keywords = merged_keywords(found)
        return await self._put(owner, "day", day.isoformat(), _told(found), keywords, len(found))

    async def _summarise_week(self, owner: Owner, week: str) -> int:
        monday = datetime.strptime(f"{week}-1", "%G-W%V-%u").replace(tzinfo=UTC).date()
        days = [(monday + timedelta(days=offset)).isoformat() for offset in range(7)]
        if await self._has(owner, "week", week):
            return 0
        statement = select(table).where(_mine(owner, "day"), table.c.period.in_(days)).order_by(table.c.period)
        rows = await self._contexts.database.read(lambda connection: connection.execute(statement).mappings().all())
        if not rows:
            return 0
        text = "\n".join(f"{row['period']}: {_first_lines(row['text'])}" for row in rows)
        keywords = _frequent(word for row in rows for word in _decode_words(row["keywords"]))
        return await self._put(owner, "week", week, text, keywords, sum(row["sources"] for row in rows))

    def _begins(self, day: date) -> Instant:
        return from_datetime(datetime.combine(day, time(), self._zone))

    async def _has(self, owner: Owner, level: str, period: str) -> bool:
        statement = select(table.c.period).where(_mine(owner, level), table.c.period == period)
        return await self._contexts.database.read(lambda connection: connection.execute(statement).first()) is not None

    async def _put(
        self, owner: Owner, level: str, period: str, text: str, keywords: tuple[str, ...], sources: int
    ) -> int:
        """Write a summary, unless somebody else has: how many that were."""

        def write(connection: Connection) -> int:
            if not self._contexts.holds(connection, owner):
                return 0  # erased meanwhile: nothing must remind of them
            statement = upsert(connection.dialect.name, table).values(
                **msgspec.to_builtins(owner),
                level=level,
                period=period,
                text=text,
                keywords=msgspec.json.encode(keywords).decode(),
                sources=sources,
                created_at=self._contexts.database.backend.dialect.now(connection),
            )
            made = connection.execute(statement.on_conflict_do_nothing().returning(table.c.period)).first()
            return int(made is not None)

        return await self._contexts.database.write(write)


def _mine(owner: Owner, level: str) -> Any:
    return (
        (table.c.user_id == owner.user_id)
        & (table.c.device_id == owner.device_id)
        & (table.c.agent_id == owner.agent_id)
        & (table.c.level == level)
    )


def _week(day: date) -> str:
    return day.strftime("%G-W%V")


def _told(found: Sequence[Context]) -> str:
    chosen = sorted(found, key=lambda context: (-context.importance, context.created_at, context.id))[:STATEMENTS]
    return merged_texts([one.text for one in sorted(chosen, key=lambda one: (one.created_at, one.id))])


def _first_lines(text: str, count: int = 3) -> str:
    return " ".join(text.splitlines()[:count])


def _frequent(words: Iterable[str]) -> tuple[str, ...]:
    counts = Counter(words)
    return tuple(sorted(counts, key=lambda word: (-counts[word], word))[:MAX_KEYWORDS])
