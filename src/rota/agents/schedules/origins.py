"""The records of where schedules come from, in the database: making, deciding, listing and forgetting them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, func, select

from rota.agents.schedules.agent_task import ApprovalState, Origin, Proposal, origin_of, row_of, taken_over
from rota.clock import Instant
from rota.database import Database
from rota.database.backend import Dialect
from rota.database.later import read_later
from rota.database.tables.agents import provenance, results, running
from rota.errors import LimitExceeded

__all__ = ["Origins"]


@cache
def _some_statement(dialect: type[Dialect]) -> Select[Any]:
    """The text is the same for any number of ids: a long list of them would take longer to write than to find."""
    return select(provenance).where(dialect.among(provenance.c.id))


class Origins:
    """These records of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- where schedules come from ---

    async def get(self, ids: Sequence[str]) -> dict[str, Origin]:
        """The records of these schedules, by id."""
        dialect = self._database.backend.dialect
        statement, given = _some_statement(type(dialect)), {"keys": dialect.keys(ids)}
        rows = await self._database.read(lambda connection: read_later(connection, statement, given).rows())
        return {origin.id: origin for origin in map(origin_of, rows)}

    async def add(self, new: Origin, *, max_waiting: int | None = None) -> Origin:
        """Write down where a schedule comes from. One that waits counts against `max_waiting`, in the same step."""

        def write(connection: Connection) -> Origin:
            if new.approval == "waiting" and max_waiting is not None:
                self._check_waiting(connection, new.folder, max_waiting)
            now = self._database.backend.dialect.now(connection)
            connection.execute(provenance.delete().where(provenance.c.id == new.id))
            made = msgspec.structs.replace(new, created_at=now)
            connection.execute(provenance.insert().values(**row_of(made)))
            return made

        return await self._database.write(write)

    async def propose(self, schedule_id: str, folder: str, proposal: Proposal, *, max_waiting: int) -> Origin:
        """A change that waits to be approved; the schedule goes on as it is until then."""

        def write(connection: Connection) -> Origin:
            self._check_waiting(connection, folder, max_waiting)
            text = msgspec.json.encode(proposal).decode()
            mine = provenance.c.id == schedule_id
            connection.execute(provenance.update().where(mine).values(approval="waiting", proposal=text))
            return origin_of(connection.execute(select(provenance).where(mine)).one())

        return await self._database.write(write)

    def _check_waiting(self, connection: Connection, folder: str, most: int) -> None:
        # Two who ask at once must not both see the last free place.
        self._database.backend.dialect.lock_names(connection, [f"agent_waiting:{folder}"])
        statement = select(func.count()).where(provenance.c.folder == folder, provenance.c.approval == "waiting")
        count = connection.execute(statement).scalar_one()
        if count >= most:
            raise LimitExceeded(
                f"{count} schedules of the group {folder!r} wait for approval; {most} is the most. Ask the owner to"
                " decide on them first."
            )

    async def decide(self, seen: Origin, approval: ApprovalState, by: str, digest: str) -> Origin | None:
        """A person has approved or rejected what they have seen: the proposal is gone, the decision stays. None if it
        waits no more, or something else does: then nothing is changed."""

        def write(connection: Connection) -> Origin | None:
            dialect = self._database.backend.dialect
            mine = provenance.c.id == seen.id
            row = connection.execute(dialect.locked(select(provenance).where(mine))).one_or_none()
            current = None if row is None else origin_of(row)
            if current is None or current.approval != "waiting" or current.proposal != seen.proposal:
                return None
            assert current.proposal is not None, f"{seen.id} waits for nothing"
            decided = msgspec.structs.replace(
                current,
                approval=approval,
                proposal=current.proposal if approval == "rejected" else None,
                decided_by=by,
                decided_at=dialect.now(connection),
                digest=digest,
            )
            if approval == "approved":
                decided = msgspec.structs.replace(decided, **taken_over(current.proposal, dialect.now(connection)))
            connection.execute(provenance.update().where(mine).values(**row_of(decided)))
            return decided

        return await self._database.write(write)

    async def made_by_agents(self, folder: str, since: Instant) -> list[Origin]:
        """What the agents of a group have made since then with nobody's approval, oldest first, over or not."""
        statement = (
            select(provenance)
            .where(provenance.c.folder == folder, provenance.c.depth > 0, provenance.c.created_at > since)
            .where(provenance.c.approval == "none")
            .order_by(provenance.c.created_at, provenance.c.id)
            .limit(1_000)
        )
        rows = await self._database.read(lambda connection: connection.execute(statement).all())
        return [origin_of(row) for row in rows]

    async def set(self, schedule_id: str, **values: object) -> None:
        """Change single values of a record."""
        statement = provenance.update().where(provenance.c.id == schedule_id).values(**values)
        await self._database.write(lambda connection: connection.execute(statement))

    async def waiting(self, folder: str | None = None) -> list[Origin]:
        """What waits for approval, oldest first: of one group, or of all."""
        statement = select(provenance).where(provenance.c.approval == "waiting")
        if folder is not None:
            statement = statement.where(provenance.c.folder == folder)
        statement = statement.order_by(provenance.c.created_at, provenance.c.id).limit(1_000)
        return [origin_of(row) for row in await self._database.read(lambda c: c.execute(statement).all())]

    async def count_waiting(self) -> int:
        """How much that is, over all groups: the index holds nothing else."""
        statement = select(func.count()).select_from(provenance).where(provenance.c.approval == "waiting")
        return await self._database.read(lambda connection: int(connection.execute(statement).scalar_one()))

    # --- what is over ---

    async def old(self, before: Instant, after: str = "", limit: int = 200) -> list[str]:
        """Schedules of before that instant that have not run since and wait for nobody, by id."""
        seen_at = func.coalesce(provenance.c.last_run_at, provenance.c.decided_at, provenance.c.created_at)
        statement = select(provenance.c.id).where(
            provenance.c.id > after,
            seen_at < before,
            provenance.c.created_at < before,
            provenance.c.approval != "waiting",
        )
        statement = statement.order_by(provenance.c.id).limit(limit)
        return list(await self._database.read(lambda connection: connection.execute(statement).scalars().all()))

    async def forget(self, ids: Sequence[str]) -> None:
        """Remove everything that is kept about these schedules."""

        def write(connection: Connection) -> None:
            for table in (provenance, results, running):
                connection.execute(table.delete().where(table.c.id.in_(list(ids))))

        await self._database.write(write)
