"""What is kept about scheduled agents beside their tasks: who made one, who approved it, what runs, what came of it.

Here it is looked at and decided on; runs themselves write it through the `RunBook`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import Connection, func, select

from rota.clock import Instant, isoformat
from rota.codec import warmed
from rota.database import Database
from rota.database.tables.agents import provenance, results, running
from rota.errors import LimitExceeded

__all__ = [
    "MAX_OUTPUT",
    "RESULTS_KEPT",
    "ApprovalState",
    "Ledger",
    "Proposal",
    "ProposalKind",
    "Provenance",
    "Result",
    "RunningNow",
    "kept_text",
    "provenance_of",
    "row_of",
    "taken_over",
]

ApprovalState = Literal["none", "waiting", "approved", "rejected"]
ProposalKind = Literal["create", "update", "pause", "resume", "cancel", "run"]

RESULTS_KEPT: Final = 30
"""Full results of one schedule; older ones are dropped."""
MAX_RESULT: Final = 262_144
"""Characters of a full result that are kept."""
MAX_OUTPUT: Final = 8_000
"""Characters of the live output that are shown."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for and is not yet approved: a new schedule, a change of one, or something that a run may not do
    by itself. All in stored form: for the last, as the schedule stood."""

    kind: ProposalKind
    payload: str
    trigger: str
    expires_at: Instant | None = None
    digest: str = ""
    """Of what would be in force. Once it left the times out: what counts is worked out anew, see `wish`."""
    by: str = ""
    """Who asks for it."""
    in_run: str | None = None
    """And in which scheduled run; None: in a conversation."""
    based_on: int | None = None
    """The version of the schedule that a change was asked for."""
    maker: str | None = None
    """Whose the schedule is from then on: that of an agent that rewrites what a person has made. None: as before."""
    depth: int = 0
    standing: ApprovalState | None = None
    """What had been decided about the schedule before: that counts again if this is rejected."""


_decode_proposal = warmed(msgspec.json.Decoder(Proposal), '{"kind":"create","payload":"","trigger":""}').decode


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
        return {row["id"]: provenance_of(row) for row in rows}

    async def add(self, new: Provenance, *, max_waiting: int | None = None) -> Provenance:
        """Write down where a schedule comes from. One that waits counts against `max_waiting`, in the same step."""

        def write(connection: Connection) -> Provenance:
            if new.approval == "waiting" and max_waiting is not None:
                self._check_waiting(connection, new.folder, max_waiting)
            now = self._database.backend.dialect.now(connection)
            connection.execute(provenance.delete().where(provenance.c.id == new.id))
            made = msgspec.structs.replace(new, created_at=now)
            connection.execute(provenance.insert().values(**row_of(made)))
            return made

        return await self._database.write(write)

    async def propose(self, schedule_id: str, folder: str, proposal: Proposal, *, max_waiting: int) -> Provenance:
        """A change that waits to be approved; the schedule goes on as it is until then."""

        def write(connection: Connection) -> Provenance:
            self._check_waiting(connection, folder, max_waiting)
            text = msgspec.json.encode(proposal).decode()
            mine = provenance.c.id == schedule_id
            connection.execute(provenance.update().where(mine).values(approval="waiting", proposal=text))
            return provenance_of(connection.execute(select(provenance).where(mine)).mappings().one())

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

    async def decide(self, seen: Provenance, approval: ApprovalState, by: str, digest: str) -> Provenance | None:
        """A person has approved or rejected what they have seen: the proposal is gone, the decision stays. None if it
        waits no more, or something else does: then nothing is changed."""

        def write(connection: Connection) -> Provenance | None:
            dialect = self._database.backend.dialect
            mine = provenance.c.id == seen.id
            row = connection.execute(dialect.locked(select(provenance).where(mine))).mappings().one_or_none()
            current = None if row is None else provenance_of(row)
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

    async def made_by_agents(self, folder: str, since: Instant) -> list[Provenance]:
        """What the agents of a group have made since then with nobody's approval, oldest first, over or not."""
        statement = (
            select(provenance)
            .where(provenance.c.folder == folder, provenance.c.depth > 0, provenance.c.created_at > since)
            .where(provenance.c.approval == "none")
            .order_by(provenance.c.created_at, provenance.c.id)
            .limit(1_000)
        )
        rows = await self._database.read(lambda connection: connection.execute(statement).mappings().all())
        return [provenance_of(row) for row in rows]

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
        return [
            provenance_of(row) for row in await self._database.read(lambda c: c.execute(statement).mappings().all())
        ]

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

    async def ask_to_stop(self, schedule_id: str, token: int, by: str) -> bool:
        """Ask this run to end; False if it is not under way."""
        mine = (running.c.id == schedule_id) & (running.c.token == token)
        statement = running.update().where(mine).values(stop_by=by)
        return await self._database.write(lambda connection: connection.execute(statement).rowcount > 0)

    async def running(self, folder: str | None = None) -> list[RunningNow]:
        """What runs now, longest first: of one group, or of all. Rows of instances that died may be among them."""
        statement = select(running).order_by(running.c.started_at, running.c.id).limit(1_000)
        if folder is not None:
            statement = statement.where(running.c.folder == folder)
        rows = await self._database.read(lambda connection: connection.execute(statement).mappings().all())
        return [RunningNow(**{str(name): value for name, value in row.items()}) for row in rows]

    # --- what came of it ---

    async def results(self, schedule_id: str, limit: int = RESULTS_KEPT) -> list[Result]:
        """The kept results of a schedule, newest first."""
        statement = select(results).where(results.c.id == schedule_id).order_by(results.c.row_id.desc()).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(statement).mappings().all())
        return [Result(**{str(name): value for name, value in row.items() if name != "row_id"}) for row in rows]


def taken_over(proposal: Proposal, now: Instant) -> dict[str, Any]:
    """What is written down anew when an agent has rewritten a schedule: it is the agent's now, with an agent's limits.
    Nothing if it stays whose it was."""
    if proposal.maker is None:
        return {}
    return {"made_by": proposal.maker, "made_in_run": proposal.in_run, "depth": proposal.depth, "created_at": now}


def kept_text(text: str) -> str:
    """What a database can hold: no NUL, no lone surrogate, not too long."""
    return text[:MAX_RESULT].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def row_of(record: Provenance) -> dict[str, Any]:
    """The record as its row holds it."""
    proposal = None if record.proposal is None else msgspec.json.encode(record.proposal).decode()
    return {**msgspec.structs.asdict(record), "proposal": proposal}


def provenance_of(row: Mapping[Any, Any]) -> Provenance:
    """The record out of its row."""
    values = {str(name): value for name, value in row.items()}
    if values["proposal"] is not None:
        values["proposal"] = _decode_proposal(values["proposal"])
    return Provenance(**values)
