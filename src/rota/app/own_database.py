"""The database of one process, for what has no place in the store: access, alerts, memory, agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from rota.clock import SECOND, Clock
from rota.config import Config
from rota.config.model import default_database
from rota.errors import StoreUnavailable
from rota.forking import keep_for_ever
from rota.runtime.database_owner import DatabaseOwnership, location_of
from rota.stores import database_for
from rota.stores.base import Store

if TYPE_CHECKING:
    # Importing Rota imports no engine.
    from rota.database import Database

__all__ = ["OwnDatabase"]


class OwnDatabase:
    """Opened when it is first asked for, and closed with the store. A SQL store shares its own.

    `connected` is the store if it is open in this event loop, `ready` connects it first. One that lies elsewhere is
    there while the store is away, for those who can do without the store (`survives_outages`).
    """

    def __init__(
        self,
        config: Config,
        store_url: Callable[[], str],
        connected: Callable[[], Store | None],
        ready: Callable[[], Awaitable[Store]],
        *,
        clock: Clock,
        given_clock: Clock | None,
        survives_outages: Callable[[], bool],
    ) -> None:
        self._config = config
        self._store_url = store_url
        self._connected = connected
        self._ready = ready
        self._given_clock = given_clock
        self._survives_outages = survives_outages
        self._call_timeout = config.call_timeout_ms / SECOND
        self.opened: Database | None = None
        """What `open` would give without waiting; None if it would have to wait."""
        self._kept: Database | None = None
        self.owner = DatabaseOwnership(
            connected,
            self.open,
            lambda: location_of(self._url(store_url())),
            clock=clock,
            call_timeout=self._call_timeout,
        )
        """Whether this is the database that the tasks of memory and agents belong to."""

    async def open(self) -> Database:
        """The open database."""
        self._connected()  # which refuses another event loop than the store's
        if self.opened is None:
            database = self._make(await self._sharing_store())
            await database.open()
            if self.opened is not None:  # somebody else was faster
                await database.close()
            else:
                self.opened = database
        return self.opened

    async def of_part(self, part: str, *, settle: bool = False) -> Database:
        """The database for what is of a part. `DatabaseElsewhere` if the store's tasks of that part belong to another
        one; with `settle` they belong to this one from now on, if to none yet."""
        return await self.open() if self.is_the_store else await self.owner.check(part, take=settle)

    @property
    def is_the_store(self) -> bool:
        """Whether there is no question which database belongs to the store: it is the store."""
        return self._url(self._store_url()) == self._store_url()

    @property
    def is_chosen(self) -> bool:
        """Whether somebody wants a database here: it is the store, it is configured, or it is in use already."""
        return self.is_the_store or "database" in self._config.sources or self.opened is not None

    async def troubles(self) -> list[str]:
        """Why some of the tasks that this process could run are not run here, as far as that can be known now."""
        store = self._connected()
        if store is None or self.is_the_store:
            return []
        try:
            return await self.owner.conflicts(store)
        except StoreUnavailable:
            return []  # who serves asks again and again

    @property
    def deafness(self) -> tuple[str, ...]:
        """Why this process hears nothing of what others commit, if so: it then finds it later, by looking."""
        trouble = None if self.opened is None else self.opened.changes.trouble
        return () if trouble is None else (f"Nothing is heard of other instances. {trouble}",)

    async def close(self) -> None:
        if self.opened is not None:
            database, self.opened = self.opened, None
            await database.close()

    def forget_parent(self) -> None:
        """In a forked child: it is open in the parent, and not here."""
        keep_for_ever(self.opened, self._kept)
        self.opened = self._kept = None

    async def _sharing_store(self) -> Store | None:
        """The store, which may share its database; None if it is away and the database lies elsewhere."""
        try:
            return await self._ready()
        except StoreUnavailable:
            if not self._survives_outages() or self.is_the_store:
                raise
            return None

    def _make(self, store: Store | None) -> Database:
        url = self._url(self._store_url() if store is None else store.url)
        made = self._kept or database_for(store, url, self._given_clock, call_timeout=self._call_timeout)
        if made.is_in_memory:
            self._kept = made  # what is in memory would not be found again in another one
        return made

    def _url(self, store_url: str) -> str:
        given = self._config.database_url if "database" in self._config.sources else None
        return given or default_database(store_url)
