"""What a run reads before it begins and writes while it works: one read, one write at each end, a beat in between.

Many agents may be due in the same second. Calls that arrive while one is under way share the next transaction, so a
thousand runs cost a few dozen of them. What a run writes at its end carries its token: one that was taken over by
another changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import BindParameter, Connection, bindparam, select

from rota.agents.groups import Switch, put_session, switch_over, thrown_switches
from rota.agents.runs.context import RunContext, read_contexts
from rota.agents.schedules.origins import Origin, row_of
from rota.clock import SECOND, Instant, isoformat
from rota.database import Database
from rota.database.tables.agents import provenance, results, running
from rota.errors import LeaseLost, StoreUnavailable
from rota.group_commit import GroupCommit

__all__ = [
    "RESULTS_KEPT",
    "FinishedRun",
    "Result",
    "RunEnd",
    "RunOutput",
    "RunStart",
    "RunStore",
    "RunningNow",
    "StopCheck",
]

RESULTS_KEPT: Final = 30
"""Full results of one schedule; older ones are dropped."""
MAX_RESULT: Final = 262_144
"""Characters of a full result that are kept."""
MAX_OUTPUT: Final = 8_000
"""Characters of the live output that are shown."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class RunStart(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is about to begin."""

    id: str
    folder: str
    token: int
    origin: Origin | None = None
    """Written down with it if the schedule has none yet."""
    digest: str | None = None
    """What the schedule does from now on, if that has changed."""


class RunOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has said so far."""

    id: str
    folder: str
    token: int
    text: str


class StopCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a sign of life: when it came, and why the run is to end, if it is."""

    at: Instant
    stop: str | None


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a run has ended. A `status` of None stands for one in which no agent was woken: the gate stayed closed or,
    with a `reason`, is broken."""

    id: str
    folder: str
    token: int
    summary: str
    status: str | None = None
    reason: str | None = None
    result: str | None = None
    error: str | None = None
    session: str | None = None
    """The group's session from now on; None leaves it."""


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """When it was written, and how many runs of the schedule have failed in a row."""

    at: Instant
    failures: int


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


class RunStore:
    """The runs of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        patience = database.call_timeout
        self._contexts: GroupCommit[tuple[str, str], RunContext] = GroupCommit(
            self._read_contexts, len, patience=patience
        )
        self._starts: GroupCommit[RunStart, Switch | None] = GroupCommit(
            self._together(self._start_all), _one, patience=patience
        )
        self._heartbeats: GroupCommit[RunOutput, StopCheck] = GroupCommit(
            self._together(self._heartbeat_all), lambda output: len(output.text), patience=patience
        )
        self._finishes: GroupCommit[RunEnd, FinishedRun] = GroupCommit(
            self._together(self._finish_all), _size, patience=patience
        )

    async def context(self, schedule_id: str, folder: str) -> RunContext:
        """What the run has to know, on one picture of the data."""
        (context,) = await self._contexts.submit([(schedule_id, folder)])
        return context

    async def start(self, start: RunStart) -> Switch | None:
        """Put the run on the list of what runs now, in place of what a dead instance has left there. If a switch stops
        the group it is not put there, and the switch is the answer. `LeaseLost` if a later run has begun already."""
        (switch,) = await self._starts.submit([start])
        return switch

    async def heartbeat(self, output: RunOutput) -> StopCheck:
        """Show the output so far, and learn in the same step whether the run is to end. `LeaseLost` if another run of
        the schedule has begun since."""
        (beat,) = await self._heartbeats.submit([output])
        return beat

    async def finish(self, end: RunEnd) -> FinishedRun:
        """Keep what came of the run and take it off the list, in one step. Ending the same run again, after an answer
        that got lost, changes nothing; `LeaseLost` if another run of the schedule has begun since."""
        (ended,) = await self._finishes.submit([end])
        return ended

    async def remove(self, schedule_id: str, token: int) -> None:
        """Take a run off the list of which nothing is to be kept."""
        given = {"the_id": schedule_id, "the_token": token}
        await self._database.write(lambda connection: connection.execute(_REMOVE, given))

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

    # --- on the database's threads ---

    async def _read_contexts(self, wanted: list[tuple[str, str]]) -> list[RunContext]:
        return await self._database.read(partial(read_contexts, wanted=wanted))

    def _together(
        self, write: Callable[[Sequence[Item], Connection], list[Answer | Exception]]
    ) -> Callable[[list[Item]], Awaitable[list[Answer | Exception]]]:
        """In one transaction; if it fails one by one, so that nobody's trouble is another's."""

        async def alone(item: Item) -> Answer | Exception:
            try:
                (answer,) = await self._database.write(partial(write, [item]))
            except Exception as error:
                return error
            return answer

        async def together(items: list[Item]) -> list[Answer | Exception]:
            try:
                return await self._database.write(partial(write, items))
            except StoreUnavailable:
                raise
            except Exception:
                return [await alone(item) for item in items]

        return together

    def _start_all(self, starts: Sequence[RunStart], connection: Connection) -> list[Switch | Exception | None]:
        now = self._database.backend.dialect.now(connection)
        thrown = thrown_switches(connection)
        ids = [start.id for start in starts]
        listed = {row.id: row.token for row in connection.execute(_LISTED, {"ids": ids, "since": now - _ALIVE})}
        stops = [_stop_of(start, listed, thrown) for start in starts]
        begun = [one for one, stop in zip(starts, stops, strict=True) if stop is None]
        current = [one for one, stop in zip(starts, stops, strict=True) if not isinstance(stop, LeaseLost)]
        origins = [one.origin for one in current if one.origin is not None]
        if origins:
            connection.execute(_FORGET, {"ids": [origin.id for origin in origins]})
            made = [row_of(msgspec.structs.replace(origin, created_at=now)) for origin in origins]
            connection.execute(provenance.insert(), made)
        digests = [{"the_id": one.id, "the_digest": one.digest} for one in current if one.digest is not None]
        if digests:
            connection.execute(_SET_DIGEST, digests)
        if begun:
            connection.execute(_CLEAR, {"ids": [one.id for one in begun]})
            connection.execute(
                running.insert(),
                [
                    {"id": one.id, "folder": one.folder, "token": one.token, "started_at": now, "seen_at": now}
                    for one in begun
                ],
            )
        return list(stops)

    def _heartbeat_all(self, outputs: Sequence[RunOutput], connection: Connection) -> list[StopCheck | Exception]:
        now = self._database.backend.dialect.now(connection)
        thrown = thrown_switches(connection)
        return [_show(connection, output, thrown, now) for output in outputs]

    def _finish_all(self, ends: Sequence[RunEnd], connection: Connection) -> list[FinishedRun | Exception]:
        now = self._database.backend.dialect.now(connection)
        return [_write_end(connection, end, now) for end in ends]


# --- the writes ------------------------------------------------------------------------------------------------------

_IDS: Final[BindParameter[Sequence[str]]] = bindparam("ids", expanding=True)
_THIS_RUN: Final = (running.c.id == bindparam("the_id")) & (running.c.token == bindparam("the_token"))
_REMOVE: Final = running.delete().where(_THIS_RUN)
_ALIVE: Final = 30 * SECOND
"""A run that was seen within this time may well be alive: it beats every second while the database is there."""
_LISTED: Final = select(running.c.id, running.c.token).where(
    running.c.id.in_(_IDS), running.c.seen_at > bindparam("since")
)
_CLEAR: Final = running.delete().where(running.c.id.in_(_IDS))
_FORGET: Final = provenance.delete().where(provenance.c.id.in_(_IDS))
_SET_DIGEST: Final = (
    provenance.update().where(provenance.c.id == bindparam("the_id")).values(digest=bindparam("the_digest"))
)
_SHOW: Final = (
    running.update()
    .where(_THIS_RUN)
    .values(seen_at=bindparam("now"), output=bindparam("text"))
    .returning(running.c.stop_by)
)
_WHOSE: Final = select(running.c.token).where(running.c.id == bindparam("the_id"))
_SAME_RUN: Final = select(results.c.row_id).where(
    results.c.id == bindparam("the_id"), results.c.token == bindparam("the_token")
)
_FAILURES: Final = select(provenance.c.failures).where(provenance.c.id == bindparam("the_id"))
_NEWEST: Final = (
    select(results.c.row_id)
    .where(results.c.id == bindparam("the_id"))
    .order_by(results.c.row_id.desc())
    .offset(RESULTS_KEPT - 1)
    .limit(1)
)
_DROP_OLD: Final = results.delete().where(results.c.id == bindparam("the_id"), results.c.row_id < bindparam("oldest"))
_FARES: Final = (
    provenance.update()
    .where(provenance.c.id == bindparam("the_id"))
    .values(
        # A success begins anew, a failure counts, a gate that stayed closed leaves the count as it is.
        failures=provenance.c.failures * bindparam("keep") + bindparam("more"),
        last_run_at=bindparam("now"),
        last_result=bindparam("summary"),
    )
    .returning(provenance.c.failures)
)


def _stop_of(start: RunStart, listed: Mapping[str, int], thrown: Sequence[Switch]) -> Switch | LeaseLost | None:
    """Why a run is not to begin. One that was held up since its claim must not push its successor off the list."""
    if listed.get(start.id, 0) > start.token:
        return LeaseLost(f"The run of {start.id!r} was taken over before it had begun. Nothing was run.")
    return switch_over(thrown, start.folder)


def _show(connection: Connection, output: RunOutput, thrown: Sequence[Switch], now: Instant) -> StopCheck | Exception:
    given = {"the_id": output.id, "the_token": output.token, "now": now, "text": kept_text(output.text[-MAX_OUTPUT:])}
    row = connection.execute(_SHOW, given).first()
    if row is None:
        return LeaseLost(f"The run of {output.id!r} was taken over by another one. This one ends.")
    if row.stop_by is not None:
        return StopCheck(at=now, stop=f"It was stopped by {row.stop_by}.")
    switch = switch_over(thrown, output.folder)
    stop = None if switch is None else f"The kill switch was thrown by {switch.by}: {switch.reason}"
    return StopCheck(at=now, stop=stop)


def _write_end(connection: Connection, end: RunEnd, now: Instant) -> FinishedRun | Exception:
    mine: dict[str, Any] = {"the_id": end.id, "the_token": end.token}
    current = connection.execute(_WHOSE, {"the_id": end.id}).scalar_one_or_none()
    if current != end.token:
        # It goes off the list as it ends: either it has ended already, or another one has its place.
        has_ended = current is None if end.status is None else connection.execute(_SAME_RUN, mine).first() is not None
        if not has_ended:
            return LeaseLost(f"The run of {end.id!r} was taken over by another one. What came of it is not kept.")
        return FinishedRun(at=now, failures=connection.execute(_FAILURES, {"the_id": end.id}).scalar_one_or_none() or 0)
    if end.status is not None:
        _keep_result(connection, end, now)
    if end.session is not None:
        put_session(connection, end.folder, end.session, now)
    has_failed = end.reason is not None if end.status is None else end.status != "success"
    keep, more = (0, 0) if end.status == "success" else (1, int(has_failed))
    given = {"the_id": end.id, "keep": keep, "more": more, "now": now, "summary": end.summary}
    failures = connection.execute(_FARES, given).scalar_one_or_none()
    connection.execute(_REMOVE, mine)
    return FinishedRun(at=now, failures=failures or 0)


def _keep_result(connection: Connection, end: RunEnd, now: Instant) -> None:
    row = {
        "id": end.id,
        "folder": end.folder,
        "token": end.token,
        "at": now,
        "status": end.status,
        "reason": end.reason,
        "result": None if end.result is None else kept_text(end.result),
        "error": None if end.error is None else kept_text(end.error),
    }
    connection.execute(results.insert(), row)
    oldest = connection.execute(_NEWEST, {"the_id": end.id}).scalar_one_or_none()
    if oldest is not None:
        connection.execute(_DROP_OLD, {"the_id": end.id, "oldest": oldest})


def _one(_item: object) -> int:
    return 1


def _size(end: RunEnd) -> int:
    return len(end.result or "") + len(end.error or "")


def kept_text(text: str) -> str:
    """What a database can hold: no NUL, no lone surrogate, not too long."""
    return text[:MAX_RESULT].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
