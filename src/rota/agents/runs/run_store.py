"""What a run reads before it begins and writes while it works: one read, one write at each end, a beat in between.

Many agents may be due in the same second. Calls that arrive while one is under way share the next transaction, so a
thousand runs cost a few dozen of them. What a run writes at its end carries its token: one that was taken over by
another changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import cache, partial
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Connection, Executable, bindparam, select

from rota.agents.groups import Group, Switch, group_of, put_session, switch_over, thrown_switches
from rota.agents.runs.characters import is_within_character
from rota.agents.schedules.agent_task import Origin, origin_of, row_of
from rota.clock import SECOND, Instant, isoformat
from rota.database import Database
from rota.database.backend import Dialect
from rota.database.later import write_later
from rota.database.many import as_document, given_rows, insert_many, update_many
from rota.database.tables.agents import groups, provenance, results, running, sessions
from rota.errors import LeaseLost
from rota.group_commit import GroupCommit, write_together
from rota.runtime.verdict import shortened

__all__ = [
    "RESULTS_KEPT",
    "SUMMARY_LENGTH",
    "FinishedRun",
    "Result",
    "RunContext",
    "RunEnd",
    "RunOutput",
    "RunStart",
    "RunStore",
    "RunningNow",
    "StopCheck",
    "cut",
    "summary_of",
]

RESULTS_KEPT: Final = 30
"""Full results of one schedule; older ones are dropped."""
MAX_RESULT: Final = 262_144
"""Characters of a full result that are kept."""
MAX_OUTPUT: Final = 8_000
"""Characters of the live output that are shown."""
SUMMARY_LENGTH: Final = 200
"""Characters of the short form of a result."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has to know of its schedule and its group."""

    group: Group | None
    origin: Origin | None
    session: str | None
    waiting: tuple[Origin, ...]
    """What waits for approval, as far as the group may see it."""
    zones: dict[str, str | None]
    """The zones of the groups that it may see."""


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
        self._dialect = database.backend.dialect
        patience = database.call_timeout
        self._contexts: GroupCommit[tuple[str, str], RunContext] = GroupCommit(
            _together(database.read, self._read_contexts), len, patience=patience
        )
        self._starts: GroupCommit[RunStart, Switch | None] = GroupCommit(
            _together(database.shared, self._start_all), _size, patience=patience
        )
        self._heartbeats: GroupCommit[RunOutput, StopCheck] = GroupCommit(
            _together(database.shared, self._heartbeat_all), _size, patience=patience
        )
        self._finishes: GroupCommit[RunEnd, FinishedRun] = GroupCommit(
            _together(database.shared, self._finish_all), _size, patience=patience
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

    def _read_contexts(self, wanted: Sequence[tuple[str, str]], connection: Connection) -> list[RunContext]:
        return _contexts_of(wanted, connection, _Statements.of(self._dialect), self._dialect.keys)

    def _start_all(self, starts: Sequence[RunStart], connection: Connection) -> list[Switch | Exception | None]:
        now, asked = self._dialect.now(connection), _Statements.of(self._dialect)
        thrown = thrown_switches(connection)
        given = {"keys": self._dialect.keys([start.id for start in starts]), "since": now - _ALIVE}
        listed = {row.id: row.token for row in connection.execute(asked.listed, given)}
        stops = [
            # One that was held up since its claim must not push its successor off the list.
            LeaseLost(f"The run of {start.id!r} was taken over before it had begun. Nothing was run.")
            if listed.get(start.id, 0) > start.token
            else switch_over(thrown, start.folder)
            for start in starts
        ]
        begun = [one for one, stop in zip(starts, stops, strict=True) if stop is None]
        current = [one for one, stop in zip(starts, stops, strict=True) if not isinstance(stop, LeaseLost)]
        origins = [one.origin for one in current if one.origin is not None]
        if origins:
            write_later(connection, asked.forget, {"keys": self._dialect.keys([origin.id for origin in origins])})
            made = [row_of(msgspec.structs.replace(origin, created_at=now)) for origin in origins]
            insert_many(connection, provenance, made)
        digests = [{"id": one.id, "digest": one.digest} for one in current if one.digest is not None]
        update_many(connection, provenance, digests)
        if begun:
            write_later(connection, asked.clear, {"keys": self._dialect.keys([one.id for one in begun])})
            insert_many(
                connection,
                running,
                [
                    {"id": one.id, "folder": one.folder, "token": one.token, "started_at": now, "seen_at": now}
                    for one in begun
                ],
            )
        return list(stops)

    def _heartbeat_all(self, outputs: Sequence[RunOutput], connection: Connection) -> list[StopCheck | Exception]:
        now = self._dialect.now(connection)
        thrown = thrown_switches(connection)
        return [_show(connection, output, thrown, now) for output in outputs]

    def _finish_all(self, ends: Sequence[RunEnd], connection: Connection) -> list[FinishedRun | Exception]:
        if len({end.id for end in ends}) < len(ends):
            # One that is ended again, after an answer that got lost: the second is to see what the first has done.
            return [answer for end in ends for answer in self._finish_all([end], connection)]
        now, keys = self._dialect.now(connection), self._dialect.keys
        given = {"keys": keys([end.id for end in ends])}
        tokens = {row.id: row.token for row in connection.execute(_Statements.of(self._dialect).whose, given)}
        current = [end for end in ends if tokens.get(end.id) == end.token]
        _keep_results(connection, [end for end in current if end.status is not None], now)
        for end in current:
            if end.session is not None:
                put_session(connection, end.folder, end.session, now)
        failures = _note_fares(connection, current, now)
        if current:
            connection.execute(_REMOVE, [{"the_id": end.id, "the_token": end.token} for end in current])
        return [
            FinishedRun(at=now, failures=failures[end.id])
            if end.id in failures
            else _ended_before(connection, end, now, tokens.get(end.id))
            for end in ends
        ]


def _together(
    transact: Callable[[Callable[[Connection], Sequence[Answer | Exception]]], Awaitable[Sequence[Answer | Exception]]],
    work: Callable[[Sequence[Item], Connection], Sequence[Answer | Exception]],
) -> Callable[[list[Item]], Awaitable[Sequence[Answer | Exception]]]:
    """In one transaction; if it fails one by one, so that nobody's trouble is another's."""

    async def write(items: list[Item]) -> Sequence[Answer | Exception]:
        return await transact(partial(work, items))

    return partial(write_together, write)


def _size(item: RunStart | RunOutput | RunEnd) -> int:
    """Roughly how many bytes it brings into its group."""
    match item:
        case RunStart():
            return 1
        case RunOutput():
            return len(item.text)
        case RunEnd():
            return len(item.result or "") + len(item.error or "")


# --- the read --------------------------------------------------------------------------------------------------------

_GROUPS: Final = select(groups).where(groups.c.removed_at.is_(None))
_ALL_WAITING: Final = (
    select(provenance)
    .where(provenance.c.approval == "waiting")
    .order_by(provenance.c.created_at, provenance.c.id)
    .limit(1_000)
)


class _Statements:
    """The statements about some schedules or groups, whose text is the same for any number of them."""

    def __init__(self, dialect: type[Dialect]) -> None:
        among = dialect.among
        self.groups: Final = _GROUPS.where(among(groups.c.folder))
        self.origins: Final = select(provenance).where(among(provenance.c.id))
        self.sessions: Final = select(sessions).where(among(sessions.c.folder))
        self.waiting: Final = _ALL_WAITING.where(among(provenance.c.folder))
        self.listed: Final = select(running.c.id, running.c.token).where(
            among(running.c.id), running.c.seen_at > bindparam("since")
        )
        self.whose: Final = select(running.c.id, running.c.token).where(among(running.c.id))
        self.clear: Final = running.delete().where(among(running.c.id))
        self.forget: Final = provenance.delete().where(among(provenance.c.id))

    @staticmethod
    def of(dialect: Dialect) -> _Statements:
        return _statements_of(type(dialect))


_statements_of = cache(_Statements)


def _contexts_of(
    wanted: Sequence[tuple[str, str]],
    connection: Connection,
    asked: _Statements,
    keys: Callable[[Collection[str]], object],
) -> list[RunContext]:
    """The contexts of these runs, each named by its schedule and its group's folder."""
    ids = {"keys": keys(sorted({schedule_id for schedule_id, _ in wanted}))}
    folders = {"keys": keys(sorted({folder for _, folder in wanted}))}
    found = [group_of(row) for row in connection.execute(asked.groups, folders).mappings()]
    # Only main sees schedules of others, and so their zones and proposals.
    has_main = any(group.is_main for group in found)
    if has_main:
        found = [group_of(row) for row in connection.execute(_GROUPS).mappings()]
        proposals = connection.execute(_ALL_WAITING).all()
    else:
        proposals = connection.execute(asked.waiting, folders).all()
    known = {group.folder: group for group in found}
    zones = {group.folder: group.timezone for group in found}
    waiting = tuple(origin_of(row) for row in proposals)
    origins = {origin.id: origin for origin in map(origin_of, connection.execute(asked.origins, ids))}
    now_in = {row.folder: row.session_id for row in connection.execute(asked.sessions, folders)}
    contexts: list[RunContext] = []
    for schedule_id, folder in wanted:
        group = known.get(folder)
        sees_all = group is not None and group.is_main
        context = RunContext(
            group=group,
            origin=origins.get(schedule_id),
            session=now_in.get(folder),
            waiting=waiting if sees_all else tuple(one for one in waiting if one.folder == folder),
            zones=zones if sees_all else {folder: zones.get(folder)},
        )
        contexts.append(context)
    return contexts


# --- the writes ------------------------------------------------------------------------------------------------------

_THIS_RUN: Final = (running.c.id == bindparam("the_id")) & (running.c.token == bindparam("the_token"))
_REMOVE: Final = running.delete().where(_THIS_RUN)
_ALIVE: Final = 30 * SECOND
"""A run that was seen within this time may well be alive: it beats every second while the database is there."""
_SHOW: Final = (
    running.update()
    .where(_THIS_RUN)
    .values(seen_at=bindparam("now"), output=bindparam("text"))
    .returning(running.c.stop_by)
)
_SAME_RUN: Final = select(results.c.row_id).where(
    results.c.id == bindparam("the_id"), results.c.token == bindparam("the_token")
)
_FAILURES: Final = select(provenance.c.failures).where(provenance.c.id == bindparam("the_id"))
_DROP_OLD: Final = results.delete().where(results.c.id == bindparam("the_id"), results.c.row_id < bindparam("oldest"))
_FARES: Final = (
    provenance.update()
    .where(provenance.c.id == bindparam("the_id"))
    .values(
        # A failure counts, a gate that stayed closed leaves the count as it is.
        failures=provenance.c.failures + bindparam("more"),
        last_run_at=bindparam("now"),
        last_result=bindparam("summary"),
    )
    .returning(provenance.c.failures)
)


def _show(connection: Connection, output: RunOutput, thrown: Sequence[Switch], now: Instant) -> StopCheck | Exception:
    given = {
        "the_id": output.id,
        "the_token": output.token,
        "now": now,
        "text": shortened(output.text[-MAX_OUTPUT:], MAX_OUTPUT),
    }
    row = connection.execute(_SHOW, given).first()
    if row is None:
        return LeaseLost(f"The run of {output.id!r} was taken over by another one. This one ends.")
    if row.stop_by is not None:
        return StopCheck(at=now, stop=f"It was stopped by {row.stop_by}.")
    switch = switch_over(thrown, output.folder)
    stop = None if switch is None else f"The kill switch was thrown by {switch.by}: {switch.reason}"
    return StopCheck(at=now, stop=stop)


def _keep_results(connection: Connection, ends: Sequence[RunEnd], now: Instant) -> None:
    """The results of these runs, and of each of their schedules only the newest ones."""
    if not ends:
        return
    rows = [
        {
            "id": end.id,
            "folder": end.folder,
            "token": end.token,
            "at": now,
            "status": end.status,
            "reason": end.reason,
            "result": None if end.result is None else shortened(end.result, MAX_RESULT),
            "error": None if end.error is None else shortened(end.error, MAX_RESULT),
        }
        for end in ends
    ]
    insert_many(connection, results, rows)
    given = {"rows": as_document([{"id": end.id} for end in ends])}
    kept = connection.execute(_oldest_kept_statement(connection.dialect.name), given)
    old = [{"the_id": row.id, "oldest": row.oldest} for row in kept if row.oldest is not None]
    if old:
        connection.execute(_DROP_OLD, old)


@cache
def _oldest_kept_statement(database: str) -> Executable:
    """Of each schedule the last result that is kept, if it has as many: one probe of the index for each."""
    given = given_rows(database, results, ["id"])
    oldest = (
        select(results.c.row_id)
        .where(results.c.id == given.c.id)
        .order_by(results.c.row_id.desc())
        .offset(RESULTS_KEPT - 1)
        .limit(1)
        .scalar_subquery()
    )
    return select(given.c.id, oldest.label("oldest"))


def _note_fares(connection: Connection, ends: Sequence[RunEnd], now: Instant) -> dict[str, int]:
    """Write down with each schedule how it has fared; how many of its runs have failed in a row."""
    failures: dict[str, int] = {}
    well: list[dict[str, Any]] = []
    for end in ends:
        if end.status == "success":
            well.append({"id": end.id, "failures": 0, "last_run_at": now, "last_result": end.summary})
            failures[end.id] = 0
            continue
        has_failed = end.status is not None or end.reason is not None
        given = {"the_id": end.id, "more": int(has_failed), "now": now, "summary": end.summary}
        failures[end.id] = connection.execute(_FARES, given).scalar_one_or_none() or 0
    update_many(connection, provenance, well)
    return failures


def _ended_before(connection: Connection, end: RunEnd, now: Instant, current: int | None) -> FinishedRun | Exception:
    """It goes off the list as it ends: either it has ended already, or another one has its place."""
    mine: dict[str, Any] = {"the_id": end.id, "the_token": end.token}
    has_ended = current is None if end.status is None else connection.execute(_SAME_RUN, mine).first() is not None
    if not has_ended:
        return LeaseLost(f"The run of {end.id!r} was taken over by another one. What came of it is not kept.")
    return FinishedRun(at=now, failures=connection.execute(_FAILURES, {"the_id": end.id}).scalar_one_or_none() or 0)


# --- the short form --------------------------------------------------------------------------------------------------


def summary_of(result: str | None, error: str | None) -> str:
    """What a schedule shows as `last_result`: "Error: ...", the beginning of the result, or "Completed"."""
    if error is not None:
        return cut(f"Error: {error}")
    return cut(result.strip()) or "Completed" if result else "Completed"


def cut(text: str, most: int = SUMMARY_LENGTH) -> str:
    """The beginning of a text, at most so many code points, cut between two characters as people count them. One that
    is longer than the limit by itself is cut after all."""
    clean = shortened(text, most + 1)  # so much tells whether the cut falls into a character
    if len(clean) <= most:
        return clean
    end = most
    while end > 0 and is_within_character(clean, end):
        end -= 1
    return clean[: end or most]
