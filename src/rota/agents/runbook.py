"""What a run reads before it begins and writes while it works: one read, one write at each end, a beat in between.

Many agents may be due in the same second. Calls that arrive while one is under way share the next transaction, so a
thousand runs cost a few dozen of them. What a run writes at its end carries its token: one that was taken over by
another changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import BindParameter, Connection, bindparam, select

from rota.agents.groups import Group, Switch, group_of, put_session, switch_over, thrown_switches
from rota.agents.ledger import MAX_OUTPUT, RESULTS_KEPT, Provenance, kept_text, provenance_of, row_of
from rota.clock import SECOND, Instant
from rota.database import Database
from rota.database.tables.agents import groups, provenance, results, running, sessions
from rota.errors import LeaseLost, StoreUnavailable
from rota.group_commit import GroupCommit

__all__ = ["Beat", "Beginning", "Brief", "End", "Ended", "Output", "RunBook"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has to know of its schedule and its group."""

    group: Group | None
    origin: Provenance | None
    session: str | None
    waiting: tuple[Provenance, ...]
    """What waits for approval, as far as the group may see it."""
    zones: dict[str, str | None]
    """The zones of the groups that it may see."""


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is about to begin."""

    id: str
    folder: str
    token: int
    origin: Provenance | None = None
    """Written down with it if the schedule has none yet."""
    digest: str | None = None
    """What the schedule does from now on, if that has changed."""


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has said so far."""

    id: str
    folder: str
    token: int
    text: str


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a sign of life: when it came, and why the run is to end, if it is."""

    at: Instant
    stop: str | None


class End(msgspec.Struct, frozen=True, kw_only=True):
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


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """When it was written, and how many runs of the schedule have failed in a row."""

    at: Instant
    failures: int


class RunBook:
    """The book that runs are written in, of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        patience = database.call_timeout
        self._briefs: GroupCommit[tuple[str, str], Brief] = GroupCommit(self._read_briefs, _one, patience=patience)
        self._beginnings: GroupCommit[Beginning, Switch | None] = GroupCommit(
            self._together(self._begin), _one, patience=patience
        )
        self._beats: GroupCommit[Output, Beat] = GroupCommit(
            self._together(self._beat), lambda output: len(output.text), patience=patience
        )
        self._ends: GroupCommit[End, Ended] = GroupCommit(self._together(self._end), _size, patience=patience)

    async def brief(self, schedule_id: str, folder: str) -> Brief:
        """What the run has to know, on one picture of the data."""
        (brief,) = await self._briefs.submit([(schedule_id, folder)])
        return brief

    async def begin(self, beginning: Beginning) -> Switch | None:
        """Put the run on the list of what runs now, in place of what a dead instance has left there. If a switch stops
        the group it is not put there, and the switch is the answer. `LeaseLost` if a later run has begun already."""
        (switch,) = await self._beginnings.submit([beginning])
        return switch

    async def beat(self, output: Output) -> Beat:
        """Show the output so far, and learn in the same step whether the run is to end. `LeaseLost` if another run of
        the schedule has begun since."""
        (beat,) = await self._beats.submit([output])
        return beat

    async def end(self, end: End) -> Ended:
        """Keep what came of the run and take it off the list, in one step. Ending the same run again, after an answer
        that got lost, changes nothing; `LeaseLost` if another run of the schedule has begun since."""
        (ended,) = await self._ends.submit([end])
        return ended

    async def leave(self, schedule_id: str, token: int) -> None:
        """Take a run off the list of which nothing is to be kept."""
        given = {"the_id": schedule_id, "the_token": token}
        await self._database.write(lambda connection: connection.execute(_LEAVE, given))

    # --- on the database's threads ---

    async def _read_briefs(self, wanted: list[tuple[str, str]]) -> list[Brief | Exception]:
        return list(await self._database.read(lambda connection: _briefs(connection, wanted)))

    def _together(
        self, write: Callable[[Connection, Sequence[Item]], list[Answer | Exception]]
    ) -> Callable[[list[Item]], Awaitable[list[Answer | Exception]]]:
        """In one transaction; if it fails one by one, so that nobody's trouble is another's."""

        async def alone(item: Item) -> Answer | Exception:
            try:
                (answer,) = await self._database.write(lambda connection: write(connection, [item]))
            except Exception as error:
                return error
            return answer

        async def together(items: list[Item]) -> list[Answer | Exception]:
            try:
                return await self._database.write(lambda connection: write(connection, items))
            except StoreUnavailable:
                raise
            except Exception:
                return [await alone(item) for item in items]

        return together

    def _now(self, connection: Connection) -> Instant:
        return self._database.backend.dialect.now(connection)

    def _begin(self, connection: Connection, beginnings: Sequence[Beginning]) -> list[Switch | Exception | None]:
        now = self._now(connection)
        thrown = thrown_switches(connection)
        ids = [beginning.id for beginning in beginnings]
        listed = {row.id: row.token for row in connection.execute(_LISTED, {"ids": ids, "since": now - _ALIVE})}
        stops = [_stop_of(beginning, listed, thrown) for beginning in beginnings]
        begun = [one for one, stop in zip(beginnings, stops, strict=True) if stop is None]
        current = [one for one, stop in zip(beginnings, stops, strict=True) if not isinstance(stop, LeaseLost)]
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

    def _beat(self, connection: Connection, outputs: Sequence[Output]) -> list[Beat | Exception]:
        now = self._now(connection)
        thrown = thrown_switches(connection)
        return [_show(connection, output, thrown, now) for output in outputs]

    def _end(self, connection: Connection, ends: Sequence[End]) -> list[Ended | Exception]:
        now = self._now(connection)
        return [_write_end(connection, end, now) for end in ends]


# --- one read --------------------------------------------------------------------------------------------------------

_IDS: Final[BindParameter[Sequence[str]]] = bindparam("ids", expanding=True)
_GROUPS: Final = select(groups).where(groups.c.removed_at.is_(None))
_SOME_GROUPS: Final = _GROUPS.where(groups.c.folder.in_(_IDS))
_ORIGINS: Final = select(provenance).where(provenance.c.id.in_(_IDS))
_SESSIONS: Final = select(sessions).where(sessions.c.folder.in_(_IDS))
_ALL_WAITING: Final = (
    select(provenance)
    .where(provenance.c.approval == "waiting")
    .order_by(provenance.c.created_at, provenance.c.id)
    .limit(1_000)
)
_SOME_WAITING: Final = _ALL_WAITING.where(provenance.c.folder.in_(_IDS))


def _briefs(connection: Connection, wanted: Sequence[tuple[str, str]]) -> list[Brief]:
    ids = sorted({schedule_id for schedule_id, _ in wanted})
    folders = sorted({folder for _, folder in wanted})
    found = [group_of(row) for row in connection.execute(_SOME_GROUPS, {"ids": folders}).mappings()]
    # Only main sees schedules of others, and so their zones and wishes.
    has_main = any(group.is_main for group in found)
    if has_main:
        found = [group_of(row) for row in connection.execute(_GROUPS).mappings()]
        wishes = connection.execute(_ALL_WAITING).mappings().all()
    else:
        wishes = connection.execute(_SOME_WAITING, {"ids": folders}).mappings().all()
    known = {group.folder: group for group in found}
    zones = {group.folder: group.timezone for group in found}
    waiting = tuple(provenance_of(row) for row in wishes)
    origins = {row["id"]: provenance_of(row) for row in connection.execute(_ORIGINS, {"ids": ids}).mappings()}
    now_in = {row.folder: row.session_id for row in connection.execute(_SESSIONS, {"ids": folders})}

    def brief(schedule_id: str, folder: str) -> Brief:
        group = known.get(folder)
        sees_all = group is not None and group.is_main
        return Brief(
            group=group,
            origin=origins.get(schedule_id),
            session=now_in.get(folder),
            waiting=waiting if sees_all else tuple(one for one in waiting if one.folder == folder),
            zones=zones if sees_all else {folder: zones.get(folder)},
        )

    return [brief(schedule_id, folder) for schedule_id, folder in wanted]


# --- the writes ------------------------------------------------------------------------------------------------------

_THIS_RUN: Final = (running.c.id == bindparam("the_id")) & (running.c.token == bindparam("the_token"))
_LEAVE: Final = running.delete().where(_THIS_RUN)
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


def _stop_of(beginning: Beginning, listed: Mapping[str, int], thrown: Sequence[Switch]) -> Switch | LeaseLost | None:
    """Why a run is not to begin. One that was held up since its claim must not push its successor off the list."""
    if listed.get(beginning.id, 0) > beginning.token:
        return LeaseLost(f"The run of {beginning.id!r} was taken over before it had begun. Nothing was run.")
    return switch_over(thrown, beginning.folder)


def _show(connection: Connection, output: Output, thrown: Sequence[Switch], now: Instant) -> Beat | Exception:
    given = {"the_id": output.id, "the_token": output.token, "now": now, "text": kept_text(output.text[-MAX_OUTPUT:])}
    row = connection.execute(_SHOW, given).first()
    if row is None:
        return LeaseLost(f"The run of {output.id!r} was taken over by another one. This one ends.")
    if row.stop_by is not None:
        return Beat(at=now, stop=f"It was stopped by {row.stop_by}.")
    switch = switch_over(thrown, output.folder)
    stop = None if switch is None else f"The kill switch was thrown by {switch.by}: {switch.reason}"
    return Beat(at=now, stop=stop)


def _write_end(connection: Connection, end: End, now: Instant) -> Ended | Exception:
    mine: dict[str, Any] = {"the_id": end.id, "the_token": end.token}
    current = connection.execute(_WHOSE, {"the_id": end.id}).scalar_one_or_none()
    if current != end.token:
        # It goes off the list as it ends: either it has ended already, or another one has its place.
        has_ended = current is None if end.status is None else connection.execute(_SAME_RUN, mine).first() is not None
        if not has_ended:
            return LeaseLost(f"The run of {end.id!r} was taken over by another one. What came of it is not kept.")
        return Ended(at=now, failures=connection.execute(_FAILURES, {"the_id": end.id}).scalar_one_or_none() or 0)
    if end.status is not None:
        _keep_result(connection, end, now)
    if end.session is not None:
        put_session(connection, end.folder, end.session, now)
    has_failed = end.reason is not None if end.status is None else end.status != "success"
    keep, more = (0, 0) if end.status == "success" else (1, int(has_failed))
    given = {"the_id": end.id, "keep": keep, "more": more, "now": now, "summary": end.summary}
    failures = connection.execute(_FARES, given).scalar_one_or_none()
    connection.execute(_LEAVE, mine)
    return Ended(at=now, failures=failures or 0)


def _keep_result(connection: Connection, end: End, now: Instant) -> None:
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


def _size(end: End) -> int:
    return len(end.result or "") + len(end.error or "")
