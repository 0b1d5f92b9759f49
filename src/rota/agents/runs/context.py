"""What a run has to know of its schedule and its group, out of one read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy import BindParameter, Connection, bindparam, select

from rota.agents.groups import Group, group_of
from rota.agents.schedules.origins import Origin, origin_of
from rota.database.tables.agents import groups, provenance, sessions

__all__ = ["RunContext", "read_contexts"]


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has to know of its schedule and its group."""

    group: Group | None
    origin: Origin | None
    session: str | None
    waiting: tuple[Origin, ...]
    """What waits for approval, as far as the group may see it."""
    zones: dict[str, str | None]
    """The zones of the groups that it may see."""


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


def read_contexts(connection: Connection, wanted: Sequence[tuple[str, str]]) -> list[RunContext]:
    """The contexts of these runs, each named by its schedule and its group's folder."""
    ids = sorted({schedule_id for schedule_id, _ in wanted})
    folders = sorted({folder for _, folder in wanted})
    found = [group_of(row) for row in connection.execute(_SOME_GROUPS, {"ids": folders}).mappings()]
    # Only main sees schedules of others, and so their zones and proposals.
    has_main = any(group.is_main for group in found)
    if has_main:
        found = [group_of(row) for row in connection.execute(_GROUPS).mappings()]
        proposals = connection.execute(_ALL_WAITING).mappings().all()
    else:
        proposals = connection.execute(_SOME_WAITING, {"ids": folders}).mappings().all()
    known = {group.folder: group for group in found}
    zones = {group.folder: group.timezone for group in found}
    waiting = tuple(origin_of(row) for row in proposals)
    origins = {row["id"]: origin_of(row) for row in connection.execute(_ORIGINS, {"ids": ids}).mappings()}
    now_in = {row.folder: row.session_id for row in connection.execute(_SESSIONS, {"ids": folders})}
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
