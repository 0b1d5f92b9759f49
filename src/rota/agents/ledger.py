"""What is kept about scheduled agents beside their tasks: who made one, who approved it, what runs, what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import Connection, func, select

from rota.clock import Instant, isoformat
from rota.database import Database
from rota.database.tables.agents import provenance, results, running, switches
from rota.errors import LimitExceeded

__all__ = ["Ledger", "Proposal", "Provenance", "Result", "RunningNow"]

ApprovalState = Literal["none", "waiting", "approved", "rejected"]

RESULTS_KEPT: Final = 30
"""Full results of one schedule; older ones are dropped."""
MAX_RESULT: Final = 262_144
"""Characters of a full result that are kept."""
MAX_OUTPUT: Final = 8_000
"""Characters of the live output that are shown."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for and is not yet approved: a new schedule, or a change of one. All in stored form."""

    kind: Literal["create", "update"]
    payload: str
    trigger: str
    expires_at: Instant | None = None
    digest: str = ""
    by: str = ""
    """Who asks for it."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where a schedule comes from, and how it has fared."""

    id: str
    folder: str
    made_by: str
    made_in_run: str | None = None
    depth: int = 0
    approval: ApprovalState = "none"
    proposal: Proposal | None = None
    decided_by: str | None = None
    decided_at: Instant | None = None
    digest: str = ""
    created_at: Instant = 0
    failures: int = 0
    last_run_at: Instant | None = None
    last_result: str | None = None
    held: str | None = None


class RunningNow(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is under way, with the last of what it said."""

    id: str
    folder: str
    token: int
    started_at: Instant
    seen_at: Instant
    output: str
    stop_by: str | None

    def to_dict(self) -> dict[str, object]:
        return {
            **msgspec.structs.asdict(self),
            "started_at": isoformat(self.started_at),
            "seen_at": isoformat(self.seen_at),
        }


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The whole result of one run."""

    id: str
    folder: str
    token: int
    at: Instant
    status: str
    reason: str | None
    result: str | None
    error: str | None

    def to_dict(self) -> dict[str, object]:
        return {**msgspec.structs.asdict(self), "at": isoformat(self.at)}


class Ledger:
    """These records of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- where schedules come from ---

    async def get(self, ids: Sequence[str]) -> dict[str, Provenance]:
        """The records of these schedules, by id."""
        statement = select(provenance).where(provenance.c.id.in_(list(ids)))
        rows = await self._database.read(lambda connection: connection.execute(statement).mappings().all())
        return {row["id"]: _provenance(row) for row in rows}

    async def add(self, new: Provenance, *, max_waiting: int | None = None) -> Provenance:
        """Write down where a schedule comes from. One that waits counts against `max_waiting`, in the same step."""

        def write(connection: Connection) -> Provenance:
            if new.approval == "waiting" and max_waiting is not None:
                self._check_waiting(connection, new.folder, max_waiting)
            now = self._database.backend.dialect.now(connection)
            connection.execute(provenance.delete().where(provenance.c.id == new.id))
            made = msgspec.structs.replace(new, created_at=now)
            connection.execute(provenance.insert().values(**_row(made)))
            return made

        return await self._database.write(write)

    async def propose(self, schedule_id: str, folder: str, proposal: Proposal, *, max_waiting: int) -> Provenance:
        """A change that waits to be approved; the schedule goes on as it is until then."""

        def write(connection: Connection) -> Provenance:
            self._check_waiting(connection, folder, max_waiting)
            text = msgspec.json.encode(proposal).decode()
            mine = provenance.c.id == schedule_id
            connection.execute(provenance.update().where(mine).values(approval="waiting", proposal=text))
            return _provenance(connection.execute(select(provenance).where(mine)).mappings().one())

        return await self._database.write(write)

    def _check_waiting(self, connection: Connection, folder: str, most: int) -> None:
        statement = select(func.count()).where(provenance.c.folder == folder, provenance.c.approval == "waiting")
        count = connection.execute(statement).scalar_one()
        if count >= most:
            raise LimitExceeded(
                f"{count} schedules of the group {folder!r} wait for approval; {most} is the most. Ask the owner to"
                " decide on them first."
            )

    async def decide(self, schedule_id: str, approval: ApprovalState, by: str, digest: str) -> Provenance:
        """A person has approved or rejected: the proposal is gone, the decision stays."""

        def write(connection: Connection) -> Provenance:
            now = self._database.backend.dialect.now(connection)
            mine = provenance.c.id == schedule_id
            values: dict[str, object] = {"approval": approval, "decided_by": by, "decided_at": now, "digest": digest}
            if approval == "approved":
                values["proposal"] = None
            connection.execute(provenance.update().where(mine).values(**values))
            return _provenance(connection.execute(select(provenance).where(mine)).mappings().one())

        return await self._database.write(write)

    async def set(self, schedule_id: str, **values: object) -> None:
        """Change single values of a record."""
        statement = provenance.update().where(provenance.c.id == schedule_id).values(**values)
        await self._database.write(lambda connection: connection.execute(statement))

    async def waiting(self, folder: str | None = None) -> list[Provenance]:
        """What waits for approval, oldest first: of one group, or of all."""
        statement = select(provenance).where(provenance.c.approval == "waiting")
        if folder is not None:
            statement = statement.where(provenance.c.folder == folder)
        statement = statement.order_by(provenance.c.created_at, provenance.c.id).limit(1_000)
        return [_provenance(row) for row in await self._database.read(lambda c: c.execute(statement).mappings().all())]

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

    # --- what runs now ---

    async def begin(self, schedule_id: str, folder: str, token: int) -> None:
        """A run has begun. A row that a dead instance has left behind is replaced."""

        def write(connection: Connection) -> None:
            now = self._database.backend.dialect.now(connection)
            connection.execute(running.delete().where(running.c.id == schedule_id))
            row = {"id": schedule_id, "folder": folder, "token": token, "started_at": now, "seen_at": now}
            connection.execute(running.insert().values(**row))

        await self._database.write(write)

    async def beat(self, schedule_id: str, folder: str, token: int, output: str) -> str | None:
        """Show the output so far, and learn in the same step whether the run is to end: the reason, or None."""

        def write(connection: Connection) -> str | None:
            now = self._database.backend.dialect.now(connection)
            mine = (running.c.id == schedule_id) & (running.c.token == token)
            connection.execute(running.update().where(mine).values(seen_at=now, output=output[-MAX_OUTPUT:]))
            stop_by = connection.execute(select(running.c.stop_by).where(mine)).scalar_one_or_none()
            if stop_by is not None:
                return f"It was stopped by {stop_by}."
            thrown = select(switches.c.by, switches.c.reason).where(switches.c.scope.in_(["*", folder]))
            switch = connection.execute(thrown).first()
            return None if switch is None else f"The kill switch was thrown by {switch.by}: {switch.reason}"

        return await self._database.write(write)

    async def end(self, schedule_id: str, token: int) -> None:
        """A run has ended."""
        statement = running.delete().where(running.c.id == schedule_id, running.c.token == token)
        await self._database.write(lambda connection: connection.execute(statement))

    async def ask_to_stop(self, schedule_id: str, by: str) -> bool:
        """Ask the run that is under way to end; False if there is none."""
        statement = running.update().where(running.c.id == schedule_id).values(stop_by=by)
        return await self._database.write(lambda connection: connection.execute(statement).rowcount > 0)

    async def running(self, folder: str | None = None) -> list[RunningNow]:
        """What runs now, longest first: of one group, or of all. Rows of instances that died may be among them."""
        statement = select(running).order_by(running.c.started_at, running.c.id).limit(1_000)
        if folder is not None:
            statement = statement.where(running.c.folder == folder)
        rows = await self._database.read(lambda connection: connection.execute(statement).mappings().all())
        return [RunningNow(**{str(name): value for name, value in row.items()}) for row in rows]

    # --- what came of it ---

    async def record(self, result: Result, summary: str) -> int:
        """Keep a run's result and how its schedule fares; how many runs have failed in a row.

        Recording the same run again, after an answer that got lost, changes nothing.
        """
        row = msgspec.structs.asdict(result)
        for name in ("result", "error"):
            row[name] = None if row[name] is None else _kept(row[name])

        def write(connection: Connection) -> int:
            mine = provenance.c.id == result.id
            count = select(provenance.c.failures).where(mine)
            same_run = (results.c.id == result.id) & (results.c.token == result.token)
            if connection.execute(select(results.c.row_id).where(same_run)).first() is not None:
                return connection.execute(count).scalar_one_or_none() or 0
            now = self._database.backend.dialect.now(connection)
            connection.execute(results.insert().values(**{**row, "at": now}))
            _drop_old(connection, result.id)
            is_failed = result.status != "success"
            failures = provenance.c.failures + 1 if is_failed else 0
            values = {"failures": failures, "last_run_at": now, "last_result": summary}
            connection.execute(provenance.update().where(mine).values(**values))
            return connection.execute(count).scalar_one_or_none() or 0

        return await self._database.write(write)

    async def results(self, schedule_id: str, limit: int = RESULTS_KEPT) -> list[Result]:
        """The kept results of a schedule, newest first."""
        statement = select(results).where(results.c.id == schedule_id).order_by(results.c.row_id.desc()).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(statement).mappings().all())
        return [Result(**{str(name): value for name, value in row.items() if name != "row_id"}) for row in rows]


def _drop_old(connection: Connection, schedule_id: str) -> None:
    mine = results.c.id == schedule_id
    newest = select(results.c.row_id).where(mine).order_by(results.c.row_id.desc())
    oldest_kept = connection.execute(newest.offset(RESULTS_KEPT - 1).limit(1)).scalar_one_or_none()
    if oldest_kept is not None:
        connection.execute(results.delete().where(mine, results.c.row_id < oldest_kept))


def _kept(text: str) -> str:
    """What a database can hold: no NUL, no lone surrogate, not too long."""
    return text[:MAX_RESULT].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def _row(record: Provenance) -> dict[str, Any]:
    proposal = None if record.proposal is None else msgspec.json.encode(record.proposal).decode()
    return {**msgspec.structs.asdict(record), "proposal": proposal}


def _provenance(row: Mapping[Any, Any]) -> Provenance:
    values = {str(name): value for name, value in row.items()}
    if values["proposal"] is not None:
        values["proposal"] = msgspec.json.decode(values["proposal"], type=Proposal)
    return Provenance(**values)
