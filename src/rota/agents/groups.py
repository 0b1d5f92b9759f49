"""Agent groups: who they are, the session each is in, and the switches that stop them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypedDict

import msgspec
from sqlalchemy import Connection, bindparam, func, select
from sqlalchemy.exc import IntegrityError

from rota.agents.group_folders import check_folder
from rota.clock import Instant, isoformat
from rota.codec import warmed
from rota.database import Database
from rota.database.database import Conflict
from rota.database.tables.agents import groups as table
from rota.database.tables.agents import sessions, switches
from rota.errors import InvalidInput, UnknownGroup
from rota.triggers import zone
from rota.webhooks import Webhooks

__all__ = [
    "EVERYBODY",
    "ChannelSettings",
    "Group",
    "GroupOptions",
    "Groups",
    "Revived",
    "Switch",
    "group_of",
    "put_session",
    "switch_over",
    "thrown_switches",
    "unknown_group",
]

EVERYBODY: Final = "*"
"""The scope of the switch that stops all groups."""
MAX_CHANNELS: Final = 8


class ChannelSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One way to tell a group's owner something."""

    kind: Literal["file", "webhook"]
    url: str | None = None
    secret: str | None = None


_decode_channels = warmed(msgspec.json.Decoder(tuple[ChannelSettings, ...]), '[{"kind":"file"}]').decode


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that has agents: a folder of its own, and an owner who is told what they did."""

    folder: str
    number: int
    name: str
    chat_jid: str
    is_main: bool = False
    timezone: str | None = None
    channels: tuple[ChannelSettings, ...] = ()
    has_network: bool = False
    created_at: Instant = 0

    def to_dict(self) -> dict[str, object]:
        """For people and programs; the secrets of its channels stay here."""
        return {
            "folder": self.folder,
            "name": self.name,
            "chat_jid": self.chat_jid,
            "is_main": self.is_main,
            "timezone": self.timezone,
            "channels": [{"kind": channel.kind, "url": channel.url} for channel in self.channels],
            "has_network": self.has_network,
            "created_at": isoformat(self.created_at),
        }


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """A kill switch that was thrown: for one group, or for all of them."""

    scope: str
    at: Instant
    by: str
    reason: str

    @property
    def words(self) -> str:
        whose = "all groups" if self.scope == EVERYBODY else f"the group {self.scope!r}"
        return f"The kill switch of {whose} is on ({self.by}: {self.reason})."

    @property
    def way_back(self) -> str:
        """The command that lets it go on: the one of this very switch."""
        return "rota agent revive" if self.scope == EVERYBODY else f"rota agent revive {self.scope}"

    def to_dict(self) -> dict[str, object]:
        return {**msgspec.structs.asdict(self), "at": isoformat(self.at)}


class Revived(msgspec.Struct, frozen=True, kw_only=True):
    """What taking a switch back did, and what it did not do."""

    scope: str
    was_on: bool
    still: tuple[Switch, ...] = ()
    """Switches that go on stopping the group, or some groups."""
    kept: tuple[str, ...] = ()
    """One-time schedules that the switch has paused: their time is over, so a person says whether they still run."""

    @property
    def words(self) -> str:
        whose = "all groups" if self.scope == EVERYBODY else f"the group {self.scope!r}"
        done = f"The kill switch of {whose} is off now." if self.was_on else f"The kill switch of {whose} was not on."
        stopped = [f"{switch.words} `{switch.way_back}` turns it off." for switch in self.still]
        kept = [f"{schedule_id} is still paused by it: `rota agent resume {schedule_id}`." for schedule_id in self.kept]
        return " ".join([done, *stopped, *kept])

    def to_dict(self) -> dict[str, object]:
        return {
            "scope": self.scope,
            "revived": self.was_on,
            "still_stopped": [switch.to_dict() for switch in self.still],
            "still_paused": list(self.kept),
        }


class GroupOptions(TypedDict, total=False):
    """What may be said of a group that is added, beside its folder; `Groups.add` has what is usual."""

    name: str
    chat_jid: str
    is_main: bool
    timezone: str | None
    channels: Sequence[ChannelSettings]
    has_network: bool


class Groups:
    """The groups of one database."""

    def __init__(self, database: Database, webhooks: Webhooks | None = None) -> None:
        self._database = database
        self._webhooks = webhooks or Webhooks()

    async def add(
        self,
        folder: str,
        *,
        name: str = "",
        chat_jid: str = "",
        is_main: bool = False,
        timezone: str | None = None,
        channels: Sequence[ChannelSettings] = (),
        has_network: bool = False,
    ) -> Group:
        """Add a group, or bring back one that was removed. There is one main group at most."""
        check_folder(folder)
        if timezone is not None:
            zone(timezone)
        self._check_channels(folder, channels)
        row = {
            "name": name or folder,
            "chat_jid": chat_jid or folder,
            "is_main": int(is_main),
            "timezone": timezone,
            "channels": msgspec.json.encode(list(channels)).decode(),
            "has_network": int(has_network),
            "removed_at": None,
        }

        def write(connection: Connection) -> Group:
            self._check_free(connection, folder, is_main=is_main)
            now = self._database.backend.dialect.now(connection)
            old = connection.execute(select(table).where(table.c.folder == folder)).mappings().one_or_none()
            if old is not None:
                connection.execute(table.update().where(table.c.folder == folder).values(**row))
                return group_of({**old, **row})
            last = connection.execute(select(func.max(table.c.number))).scalar()
            new = {**row, "folder": folder, "number": (last or 0) + 1, "created_at": now}
            try:
                connection.execute(table.insert().values(**new))
            except IntegrityError as error:
                raise Conflict(f"another instance added a group at the same time ({folder})") from error
            return group_of(new)

        return await self._database.write(write)

    def _check_channels(self, folder: str, channels: Sequence[ChannelSettings]) -> None:
        """An address that must not be called is refused here, and again whenever it would be called."""
        if len(channels) > MAX_CHANNELS:
            raise InvalidInput(f"The group {folder!r} has {len(channels)} channels; {MAX_CHANNELS} is the most.")
        for channel in channels:
            if channel.kind == "webhook":
                self._webhooks.check(channel.url or "")

    def _check_free(self, connection: Connection, folder: str, *, is_main: bool) -> None:
        """Names that differ only in case would be one folder on some disks."""
        for row in connection.execute(select(table).where(table.c.removed_at.is_(None))).mappings():
            if row["folder"].lower() == folder.lower():
                raise InvalidInput(f"There is a group {row['folder']!r} already. Use another folder.")
            if is_main and row["is_main"]:
                raise InvalidInput(f"The main group is {row['folder']!r}, and there is only one. Add it as another.")
        taken = connection.execute(select(table.c.folder).where(table.c.removed_at.is_not(None))).scalars()
        if any(name.lower() == folder.lower() and name != folder for name in taken):
            raise InvalidInput(f"A group of the name {folder!r}, spelled otherwise, was removed. Use another folder.")

    async def get(self, folder: str) -> Group:
        """The group; `UnknownGroup` if there is none."""
        found = await self.find(folder)
        if found is None:
            raise unknown_group(folder)
        return found

    async def find(self, folder: str) -> Group | None:
        """The group, or None."""
        statement = select(table).where(table.c.folder == folder, table.c.removed_at.is_(None))
        row = await self._database.read(lambda connection: connection.execute(statement).mappings().one_or_none())
        return None if row is None else group_of(row)

    async def list(self) -> list[Group]:
        """All groups, main first, then by folder."""
        statement = select(table).where(table.c.removed_at.is_(None)).order_by(table.c.is_main.desc(), table.c.folder)
        return [group_of(row) for row in await self._database.read(lambda c: c.execute(statement).mappings().all())]

    async def remove(self, folder: str) -> None:
        """Forget a group. Its folder stays; its schedules are paused when they are due next, with the reason."""
        await self.get(folder)

        def write(connection: Connection) -> None:
            now = self._database.backend.dialect.now(connection)
            connection.execute(table.update().where(table.c.folder == folder).values(removed_at=now, is_main=0))
            connection.execute(sessions.delete().where(sessions.c.folder == folder))

        await self._database.write(write)

    # --- sessions ---

    async def session(self, folder: str) -> str | None:
        """The session that the group's conversation is in."""
        statement = select(sessions.c.session_id).where(sessions.c.folder == folder)
        return await self._database.read(lambda connection: connection.execute(statement).scalar_one_or_none())

    async def save_session(self, folder: str, session_id: str) -> None:
        """Go on in this session from now on."""

        dialect = self._database.backend.dialect
        await self._database.write(
            lambda connection: put_session(connection, folder, session_id, dialect.now(connection))
        )

    # --- switches ---

    async def switch_off(self, scope: str, by: str, reason: str) -> Switch:
        """Throw the switch: running agents are ended, due ones are skipped. Throwing it again changes nothing."""
        if scope != EVERYBODY:
            await self.get(scope)

        def write(connection: Connection) -> Switch:
            now = self._database.backend.dialect.now(connection)
            row = connection.execute(select(switches).where(switches.c.scope == scope)).mappings().one_or_none()
            if row is None:
                new = Switch(scope=scope, at=now, by=by, reason=reason[:500] or "no reason given")
                _insert_once(connection, switches, msgspec.structs.asdict(new))
                return new
            return Switch(**{str(name): value for name, value in row.items()})

        return await self._database.write(write)

    async def switch_on(self, scope: str) -> Switch | None:
        """Let it go on; the switch that was on. What was skipped meanwhile stays skipped."""

        def write(connection: Connection) -> Switch | None:
            was_on = next((switch for switch in thrown_switches(connection) if switch.scope == scope), None)
            connection.execute(switches.delete().where(switches.c.scope == scope))
            return was_on

        found = await self._database.write(write)
        if found is None and scope != EVERYBODY:
            await self.get(scope)  # a name that nobody has is a mistake, not a switch that was off
        return found

    async def switches(self) -> list[Switch]:
        """Every switch that is thrown, oldest first."""
        return await self._database.read(thrown_switches)

    async def switch_over(self, folder: str) -> Switch | None:
        """The switch that stops this group, if one does."""
        return switch_over(await self.switches(), folder)


_SWITCHES: Final = select(switches).order_by(switches.c.at, switches.c.scope)
_GO_ON_IN: Final = (
    sessions.update()
    .where(sessions.c.folder == bindparam("the_folder"))
    .values(session_id=bindparam("the_session"), updated_at=bindparam("now"))
)


def unknown_group(folder: str) -> UnknownGroup:
    """What is said of a group that is not there."""
    return UnknownGroup(f"Group not found: {folder[:80]}. `rota agent group ls` lists them.")


def thrown_switches(connection: Connection) -> list[Switch]:
    """Every switch that is thrown, oldest first."""
    rows = connection.execute(_SWITCHES).mappings()
    return [Switch(**{str(name): value for name, value in row.items()}) for row in rows]


def switch_over(thrown: Iterable[Switch], folder: str) -> Switch | None:
    """The first of these switches that stops a group, if one does."""
    return next((switch for switch in thrown if switch.scope in (EVERYBODY, folder)), None)


def put_session(connection: Connection, folder: str, session_id: str, now: Instant) -> None:
    """Write the session that a group is in from now on."""
    given = {"the_folder": folder, "the_session": session_id, "now": now}
    if connection.execute(_GO_ON_IN, given).rowcount == 0:
        _insert_once(connection, sessions, {"folder": folder, "session_id": session_id, "updated_at": now})


def _insert_once(connection: Connection, where: Any, row: Mapping[str, Any]) -> None:
    """Insert, or accept that another instance was first: both meant the same."""
    try:
        with connection.begin_nested():
            connection.execute(where.insert().values(**row))
    except IntegrityError:
        return


def group_of(row: Mapping[Any, Any]) -> Group:
    """The group out of its row."""
    return Group(
        folder=row["folder"],
        number=row["number"],
        name=row["name"],
        chat_jid=row["chat_jid"],
        is_main=bool(row["is_main"]),
        timezone=row["timezone"],
        channels=_decode_channels(row["channels"]),
        has_network=bool(row["has_network"]),
        created_at=row["created_at"],
    )
