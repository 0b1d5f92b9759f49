"""Counting memories, for each user and in all.

Counting looks at every context, so it happens once an hour and its figures are kept; faces show those. As long as there
are few contexts it costs nothing, so faces count them when they are asked: nobody begins with a page of zeros. On the
way it finds the owners whose upkeep is overdue (an operator emptied the store, a process died between capturing and
touching), so that nobody is forgotten for longer than that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, case, func, select, true

from rota.clock import Instant, isoformat
from rota.codec import warmed
from rota.database.tables.memory import contexts as table
from rota.database.tables.memory import statistics, watermarks
from rota.memory.compression import Budget
from rota.memory.context import State
from rota.memory.contexts import Contexts

__all__ = ["Figures", "Statistics", "StatisticsRun"]

PAGE: Final = 50
"""Users that are counted in one transaction."""
EVERYBODY: Final = ""
FEW: Final = 2_000
"""Up to so many contexts are counted whenever somebody asks: that takes milliseconds."""


class Figures(msgspec.Struct, frozen=True):
    """The memory of one user, or of all."""

    contexts: int = 0
    fresh: int = 0
    kept: int = 0
    merged: int = 0
    results: int = 0
    """Of those kept, results of a merge."""
    characters: int = 0
    users: int = 0
    last_captured_at: Instant | None = None
    oldest_fresh_at: Instant | None = None
    compressions: int = 0

    def plus(self, other: Figures) -> Figures:
        """Both together."""
        return Figures(
            contexts=self.contexts + other.contexts,
            fresh=self.fresh + other.fresh,
            kept=self.kept + other.kept,
            merged=self.merged + other.merged,
            results=self.results + other.results,
            characters=self.characters + other.characters,
            users=self.users + other.users,
            last_captured_at=max(filter(None, (self.last_captured_at, other.last_captured_at)), default=None),
            oldest_fresh_at=min(filter(None, (self.oldest_fresh_at, other.oldest_fresh_at)), default=None),
            compressions=self.compressions + other.compressions,
        )

    def to_dict(self) -> dict[str, object]:
        plain: dict[str, object] = msgspec.to_builtins(self)
        for name in ("last_captured_at", "oldest_fresh_at"):
            plain[name] = isoformat(getattr(self, name))
        return plain


_decode_figures = warmed(msgspec.json.Decoder(Figures), "{}").decode


class StatisticsRun(msgspec.Struct):
    """What a run has done so far."""

    users: int = 0
    contexts: int = 0
    is_finished: bool = True

    def to_dict(self) -> dict[str, object]:
        return msgspec.to_builtins(self)


class Statistics:
    """The kept figures of one database."""

    def __init__(self, contexts: Contexts) -> None:
        self._database = contexts.database

    async def count(self, budget: Budget, report: Callable[[StatisticsRun], None] | None = None) -> StatisticsRun:
        """Count everything anew, a page of users at a time. Users who are gone lose their figures."""
        done, everybody, after = StatisticsRun(), Figures(), EVERYBODY
        began_at = await self._database.now()
        while not budget.is_spent():
            page = await self._database.write(lambda connection, after=after: self._count_page(connection, after))
            if not page:
                await self._database.write(lambda connection, all_=everybody: self._finish(connection, all_, began_at))
                return done
            for user_id, figures in page.items():
                everybody, after = everybody.plus(figures), max(after, user_id)
            done.users, done.contexts = everybody.users, everybody.contexts
            if report is not None:
                report(done)
        done.is_finished = False
        return done

    async def of_user(self, user_id: str) -> Figures:
        """A user's figures, counted now: one user is quick."""
        found = await self._database.read(lambda connection: _count(connection, table.c.user_id == user_id))
        return found.get(user_id, Figures())

    async def kept_of(self, user_id: str) -> dict[str, object] | None:
        """A user's figures as they were last counted, for the user; None if they were not."""
        found = (await self._kept([user_id])).get(user_id)
        return None if found is None else {"user_id": user_id, **found[0].to_dict(), "counted_at": isoformat(found[1])}

    async def in_all(self) -> tuple[Figures, Instant | None]:
        """The figures of all users, and when they were counted: now, if there are few; else when that was last due."""
        counted = await self._database.read(self._count_few)
        if counted is not None:
            by_user, now = counted
            return reduce(Figures.plus, by_user.values(), Figures()), now
        found = await self._kept([EVERYBODY])
        return found.get(EVERYBODY, (Figures(), None))

    async def largest(self, limit: int = 50) -> dict[str, Figures]:
        """The users with the most contexts, counted when `in_all` counts."""
        counted = await self._database.read(self._count_few)
        if counted is not None:
            return dict(sorted(counted[0].items(), key=lambda each: (-each[1].contexts, each[0]))[:limit])
        most_first = (statistics.c.contexts.desc(), statistics.c.user_id)
        statement = select(statistics).where(statistics.c.user_id != EVERYBODY).order_by(*most_first).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(statement).mappings().all())
        return {row["user_id"]: _decode_figures(row["figures"]) for row in rows}

    async def _kept(self, user_ids: list[str]) -> dict[str, tuple[Figures, Instant | None]]:
        statement = select(statistics).where(statistics.c.user_id.in_(user_ids))
        rows = await self._database.read(lambda connection: connection.execute(statement).mappings().all())
        return {row["user_id"]: (_decode_figures(row["figures"]), row["counted_at"]) for row in rows}

    def _count_few(self, connection: Connection) -> tuple[dict[str, Figures], Instant] | None:
        """Every user's figures, and what time it is; None if there are too many contexts to count them in passing."""
        some = select(table.c.id).limit(FEW + 1).subquery()
        if connection.execute(select(func.count()).select_from(some)).scalar_one() > FEW:
            return None
        return _count(connection, true()), self._database.backend.dialect.now(connection)

    def _count_page(self, connection: Connection, after: str) -> dict[str, Figures]:
        users = select(table.c.user_id).where(table.c.user_id > after).distinct().order_by(table.c.user_id).limit(PAGE)
        ids = list(connection.execute(users).scalars())
        page = _count(connection, table.c.user_id.in_(ids)) if ids else {}
        now = self._database.backend.dialect.now(connection)
        connection.execute(statistics.delete().where(statistics.c.user_id.in_(ids)))
        if page:
            connection.execute(statistics.insert(), [_row(user_id, figures, now) for user_id, figures in page.items()])
        return page

    def _finish(self, connection: Connection, everybody: Figures, began_at: Instant) -> None:
        connection.execute(statistics.delete().where(statistics.c.counted_at < began_at))
        now = self._database.backend.dialect.now(connection)
        connection.execute(statistics.delete().where(statistics.c.user_id == EVERYBODY))
        connection.execute(statistics.insert(), [_row(EVERYBODY, everybody, now)])


def _row(user_id: str, figures: Figures, now: Instant) -> dict[str, Any]:
    return {
        "user_id": user_id,
        "contexts": figures.contexts,
        "figures": msgspec.json.encode(figures).decode(),
        "counted_at": now,
    }


def _count(connection: Connection, condition: Any) -> dict[str, Figures]:
    def number(state: State) -> Any:
        return func.sum(case((table.c.state == state.value, 1), else_=0)).label(state.value)

    statement = (
        select(
            table.c.user_id,
            func.count().label("contexts"),
            number(State.FRESH),
            number(State.KEPT),
            number(State.MERGED),
            func.sum(table.c.has_compression).label("results"),
            func.sum(func.length(table.c.text)).label("characters"),
            func.max(table.c.captured_at).label("last_captured_at"),
            func.min(case((table.c.state == State.FRESH.value, table.c.captured_at))).label("oldest_fresh_at"),
        )
        .where(condition)
        .group_by(table.c.user_id)
    )
    rows = connection.execute(statement).mappings().all()
    ids = [row["user_id"] for row in rows]
    runs = (
        select(watermarks.c.user_id, func.sum(watermarks.c.runs))
        .where(watermarks.c.user_id.in_(ids))
        .group_by(watermarks.c.user_id)
    )
    compressions = {row[0]: int(row[1]) for row in connection.execute(runs)}
    return {row["user_id"]: _figures(row, compressions.get(row["user_id"], 0)) for row in rows}


def _figures(row: Mapping[Any, Any], compressions: int) -> Figures:
    numbers = {name: int(row[name]) for name in ("contexts", "fresh", "kept", "merged", "results", "characters")}
    return Figures(
        **numbers,
        users=1,
        last_captured_at=row["last_captured_at"],
        oldest_fresh_at=row["oldest_fresh_at"],
        compressions=compressions,
    )
