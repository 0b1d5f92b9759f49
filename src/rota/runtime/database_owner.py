"""Which database the tasks of a part belong to.

Memory and agents keep what their tasks are about in a database, which beside a shared store may be a file of each host.
An instance with another file would find nothing there to do, and call that a success. So the store notes the database
of the first one that captures for a part or serves it. An instance with another one leaves the part's tasks alone and
refuses to capture, until a person says that the database is its own now (`rota database adopt`).

A store that is away is no reason to refuse: what is captured meanwhile is in this database, and not lost.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rota.clock import Clock
from rota.config.urls import masked
from rota.errors import DatabaseElsewhere, StoreUnavailable
from rota.logs import get_logger
from rota.runtime.duty import with_timeout
from rota.stores.base import Store

if TYPE_CHECKING:
    # Importing Rota imports no engine.
    from rota.database import Database

__all__ = [
    "DatabaseIdentity",
    "DatabaseOwnership",
    "identity_of",
    "location_of",
    "owner_of",
    "refusal",
]

LOOK_AGAIN_SECONDS: Final = 10.0
"""How long a capture relies on what was last seen: a person may have said that it is another one now."""
PATIENCE: Final = 0.25
"""Seconds that a capture waits for the store once it has been told where the part belongs."""

log = get_logger("rota.database_owner")


class DatabaseIdentity(NamedTuple):
    """A database as the store notes it: its identity, and where it was when that was noted."""

    identity: str
    location: str

    def __str__(self) -> str:
        return f"{self.identity} {self.location}"


async def owner_of(store: Store, part: str) -> DatabaseIdentity | None:
    """The database that the tasks of a part belong to; None if nobody has captured or served any yet."""
    noted = await store.noted(_name(part))
    return None if noted is None else _read(noted)


async def identity_of(database: Database) -> str:
    """What tells a database from every other, also after it has moved."""
    return await database.identify(uuid.uuid4().hex)


def location_of(url: str) -> str:
    """Where a database is, for people on other hosts."""
    name, _, file = masked(url).partition(":///")
    if name != "sqlite" or file == ":memory:":
        return masked(url)
    return f"{Path(file.partition('?')[0]).absolute()} on {socket.gethostname()}"


def refusal(part: str, store: str, here: str, owner: DatabaseIdentity) -> str:
    """Why an instance leaves a part alone, and what to do about it: the same words at every face.

    The first sentence names no location: anybody may read it, at `/readyz`.
    """
    return (
        f"The {part} tasks of this store belong to another database than this instance has. They belong to"
        f" {owner.location}; this is {here}, with the store {masked(store)}. Nothing of {part} is run or taken on here:"
        " it would find nothing, and call that a success. Let all instances share one database"
        " (`database: postgresql://...`), or give this one a store of its own (another server, or ?prefix=...). If the"
        " other database is gone for good, say that it is this one now: `rota database adopt`."
    )


def _name(part: str) -> str:
    return f"database of {part}"


def _read(noted: str) -> DatabaseIdentity:
    identity, _, location = noted.partition(" ")
    return DatabaseIdentity(identity, location or "nobody knows where")


class DatabaseOwnership:
    """What one instance knows about the parts that it has.

    `connected` is the store if it is open, `database` gives the open database; `location` is where that is, for people
    elsewhere.
    """

    def __init__(
        self,
        connected: Callable[[], Store | None],
        database: Callable[[], Awaitable[Database]],
        location: Callable[[], str],
        *,
        clock: Clock,
        call_timeout: float,
    ) -> None:
        self._connected = connected
        self._database = database
        self._location = location
        self._clock = clock
        self._call_timeout = call_timeout
        self._types: dict[str, frozenset[str]] = {}
        self._identity: str | None = None
        self._elsewhere: dict[str, str] = {}
        """Why a part is left alone, by its name; a part that is not left alone is not there."""
        self._unknown: str | None = None
        """Why this database could not be asked who it is."""
        self._looked_at: dict[str, float] = {}

    def register(self, part: str, types: Collection[str]) -> None:
        """The tasks of these types are about something in the database."""
        self._types[part] = frozenset(types)

    def follow(self, other: DatabaseOwnership) -> None:
        """What was registered with another one, here too."""
        self._types.update(other._types)

    @property
    def reasons(self) -> list[str]:
        """What a person should look at, one text for each thing."""
        return [*self._elsewhere.values(), *([] if self._unknown is None else [self._unknown])]

    async def blocked_types(self, store: Store) -> frozenset[str]:
        """The types that are not to be run here, as the store says now. Whoever asks serves: a part that belongs
        nowhere yet belongs here.

        A database that cannot be used holds back the types that need it, and no other ones.
        """
        try:
            here = await self._here() if self._types else None
        except StoreUnavailable as error:
            self._unknown = f"The tasks of {' and '.join(self._types)} wait for the database. {error}"
            return frozenset[str]().union(*self._types.values())
        self._unknown = None
        for part in self._types:
            assert here is not None, "there is a part"
            await self._compare(store, part, here, take=True)
        return frozenset[str]().union(*(types for part, types in self._types.items() if part in self._elsewhere))

    async def conflicts(self, store: Store) -> list[str]:
        """The same in words, for who serves nothing yet: looking notes nothing."""
        for part in self._types:
            await self._compare(store, part, await self._here(), take=False)
        return list(self._elsewhere.values())

    async def check(self, part: str, *, take: bool) -> Database:
        """The database, for what is of a part; `DatabaseElsewhere` if that must not be this one.

        With `take` something is to be kept there: a part that belongs nowhere yet belongs here.
        """
        database = await self._database()
        store = self._connected()
        if store is not None and self._is_due(part):
            patience = PATIENCE if part in self._looked_at else self._call_timeout
            try:
                await with_timeout(patience, "noted", self._compare(store, part, await self._here(), take=take))
            except StoreUnavailable as error:
                self._looked_at[part] = self._clock.monotonic()
                log.info("database not compared", part=part, error=str(error))
        if part in self._elsewhere:
            raise DatabaseElsewhere(self._elsewhere[part])
        return database

    async def adopt(self, store: Store, part: str) -> DatabaseIdentity | None:
        """A person says that it is this database from now on; the one that it was, if it was another."""
        here, before = await self._here(), await owner_of(store, part)
        await store.note(_name(part), str(here), replace=True)
        self._elsewhere.pop(part, None)
        return None if before is None or before.identity == here.identity else before

    def _is_due(self, part: str) -> bool:
        looked_at = self._looked_at.get(part)
        return looked_at is None or self._clock.monotonic() - looked_at >= LOOK_AGAIN_SECONDS

    async def _here(self) -> DatabaseIdentity:
        if self._identity is None:
            self._identity = await identity_of(await self._database())
        return DatabaseIdentity(self._identity, self._location())

    async def _compare(self, store: Store, part: str, here: DatabaseIdentity, *, take: bool) -> None:
        owner = await with_timeout(self._call_timeout, "noted", owner_of(store, part))
        # Once a store was emptied whoever has the data is the first again: one that was turned away leaves it to them.
        if owner is None and take and part not in self._elsewhere:
            owner = _read(await with_timeout(self._call_timeout, "note", store.note(_name(part), str(here))))
        if owner is not None or take:
            self._looked_at[part] = self._clock.monotonic()
        if owner is None:
            return
        if owner.identity != here.identity:
            self._leave_alone(part, refusal(part, store.url, here.location, owner), serves=take and part in self._types)
        elif self._elsewhere.pop(part, None):
            log.info("database is this one", part=part)

    def _leave_alone(self, part: str, reason: str, *, serves: bool) -> None:
        is_news = self._elsewhere.get(part) != reason
        self._elsewhere[part] = reason
        if is_news and serves:
            log.error("database elsewhere", part=part, types=sorted(self._types[part]), reason=reason)
