"""Who hears of which changes: one ear per process, for everybody who waits for a commit.

Whoever changes something says so inside the transaction (`poke`), by a topic; whoever waits for such changes has a
`Subscription`. A commit of this process is heard at once, when its connection goes back to the pool. Those of others
are told by PostgreSQL (NOTIFY, with the topic as its payload, all of a transaction at its end); SQLite tells nobody, so
somebody looks whether the file has changed, and that wakes all topics. A wake-up says "look again", never what has
changed: one too many is harmless.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from sqlalchemy import Connection, event

from rota.database.backend import Backend
from rota.errors import StoreError
from rota.logs import get_logger

__all__ = ["AT_ONCE", "Changes", "Subscription"]

log = get_logger("rota.database")

LOOK_SECONDS: Final = 0.005
"""How often a file is looked at for a second after something has happened,"""
IDLE_LOOK_SECONDS: Final = 0.01
"""and after that."""
BUSY_SECONDS: Final = 1.0
ASK_SECONDS: Final = 0.05
"""For so long after a look has seen something the database itself is asked: two commits may bear the same time."""
ASK_ANYWAY_SECONDS: Final = 0.5

_POKED: Final = "rota poked"
"""Where a connection of ours keeps what was poked in its transaction."""

AT_ONCE: Final = "rota goes back at once"
"""What a connection has in its `info` that goes back to the pool as soon as it has committed."""


class Subscription:
    """What one of those who wait has heard of its topics. It belongs to the event loop that it was made in."""

    def __init__(self, changes: Changes, topics: Collection[str], on_wake: Callable[[], None] | None) -> None:
        self.topics = frozenset(topics)
        self._changes = changes
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._on_wake = on_wake or self._woken.set
        self.always_waits = on_wake is not None

    async def wait(self, seconds: float) -> bool:
        """Until something of the topics may have changed since the last wait, at most so long. True if woken."""
        if not self._woken.is_set():
            with self._changes.somebody_waits():
                try:
                    async with asyncio.timeout(max(seconds, 0)):
                        await self._woken.wait()
                except TimeoutError:
                    return False
        self._woken.clear()
        return True

    def wake(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._on_wake)

    def close(self) -> None:
        self._changes.forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Waiting:
    """How many wait now; while nobody does, nobody looks."""

    def __init__(self) -> None:
        self.any = asyncio.Event()
        self._count = 0

    def begin(self) -> None:
        self._count += 1
        self.any.set()

    def end(self) -> None:
        self._count -= 1
        if not self._count:
            self.any.clear()

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *_: object) -> None:
        self.end()


class Changes:
    """The hub of one database, in one process. `version` asks the file for the number of its last change."""

    def __init__(self, backend: Backend, version: Callable[[], Awaitable[int]], patience: float) -> None:
        self._backend = backend
        self._version = version
        self._patience = patience
        self._subscriptions: tuple[Subscription, ...] = ()
        self._waiting = _Waiting()
        self._looker: asyncio.Task[None] | None = None
        self._begins = threading.Event()
        """Set once the listener listens, or has found that it cannot now."""
        self._is_listening = False
        self.trouble: str | None = None
        """Why nothing is heard of other instances now; None if all is well."""
        self._kept: dict[int, bool] = {}
        """Our own connections, by the numbers that the database knows them by: whether whoever uses one keeps it after
        a commit, so that nobody here hears of that before the database tells. Else it is heard of already."""
        for engine in backend.engines:
            event.listen(engine, "connect", self._connected)
            event.listen(engine, "commit", self._tell)
            event.listen(engine, "checkin", self._committed)
            event.listen(engine, "close", self._disconnected)

    # --- telling ---

    def poke(self, connection: Connection, topic: str) -> None:
        """Something of this topic changes in this transaction: tell whoever waits, when it is committed."""
        poked = connection.info.get(_POKED)
        if poked is not None:
            poked.add(topic)
        else:
            # Somebody else's connection: nobody here is told when it commits.
            self._backend.dialect.tell(connection, [topic])

    def _connected(self, connection: Any, record: Any) -> None:
        record.info[_POKED] = set[str]()
        if (number := self._backend.number_of(connection)) is not None:
            self._kept[number] = True

    def _tell(self, connection: Connection) -> None:
        """About to be committed: others are told by the same transaction."""
        if topics := connection.info.get(_POKED):
            self._backend.dialect.tell(connection, sorted(topics))
            if (number := self._backend.number_of(connection.connection.dbapi_connection)) is not None:
                self._kept[number] = AT_ONCE not in connection.info

    def _committed(self, _connection: Any, record: Any) -> None:
        """A connection is back: committed, or rolled back, which makes no difference to those who look again."""
        topics: set[str] = record.info.get(_POKED, set())
        for topic in topics:
            self.wake(topic)
        topics.clear()
        record.info.pop(AT_ONCE, None)

    def _disconnected(self, connection: Any, _record: Any) -> None:
        self._kept.pop(self._backend.number_of(connection) or 0, None)

    def wake(self, topic: str | None = None) -> None:
        """From any thread: all who wait for a topic, or for whatever there is."""
        for subscription in self._subscriptions:
            if topic is None or topic in subscription.topics:
                subscription.wake()

    # --- hearing ---

    async def subscribe(self, *topics: str, on_wake: Callable[[], None] | None = None) -> Subscription:
        """An ear for some topics: whatever is committed after this is heard, until it is closed. With `on_wake` nobody
        has to wait: it is called on this event loop."""
        subscription = Subscription(self, topics, on_wake)
        is_first = not self._subscriptions
        self._subscriptions = (*self._subscriptions, subscription)
        if not self._backend.must_look:
            await self._listen()
        elif is_first:
            self._waiting = _Waiting()
            looking = self._look(self._waiting, await self._first_look())
            self._looker = asyncio.get_running_loop().create_task(looking, name="rota-changes")
        if subscription.always_waits:
            self._waiting.begin()
        return subscription

    def forget(self, subscription: Subscription) -> None:
        if subscription.always_waits and subscription in self._subscriptions:
            self._waiting.end()
        self._subscriptions = tuple(one for one in self._subscriptions if one is not subscription)
        if not self._subscriptions:
            self._end_looking()

    def somebody_waits(self) -> _Waiting:
        return self._waiting

    def close(self) -> None:
        """Before the database is closed. Whoever is still subscribed hears nothing more."""
        self._subscriptions = ()
        self._end_looking()
        self._is_listening = False
        self._begins.clear()

    # --- where somebody tells ---

    async def _listen(self) -> None:
        if not self._backend.tells:
            return
        if not self._is_listening:
            self._is_listening = True
            self._backend.listen(self._told, self._heard)
        if not self._begins.is_set():
            await asyncio.to_thread(self._begins.wait, self._patience)

    def _told(self, topic: str, number: int) -> None:
        """On the listener's thread, by the connection of this number. Versions that knew no topics sent none."""
        if self._kept.get(number, True):
            self.wake(topic or None)

    def _heard(self, trouble: str | None) -> None:
        """On the listener's thread: it listens now, or it cannot."""
        if trouble is not None and self.trouble is None:
            log.warning("deaf to other instances", database=self._backend.name, error=trouble)
        was_deaf, self.trouble = self.trouble is not None, trouble
        if was_deaf and trouble is None:
            self.wake()  # nobody knows what was missed
        self._begins.set()

    # --- where somebody has to look ---

    async def _first_look(self) -> int | None:
        try:
            return await self._version()
        except StoreError as error:
            self._heard(str(error))
            return None

    async def _look(self, waiting: _Waiting, seen: int | None) -> None:
        """Look at the file while somebody waits: often after something has happened, seldom when it is quiet."""
        loop = asyncio.get_running_loop()
        asked_at = moved_at = active_at = loop.time()
        mark: object = None
        while True:
            await waiting.any.wait()
            now = loop.time()
            if (new_mark := self._backend.mark()) != mark:
                mark, moved_at = new_mark, now
            if now - moved_at > ASK_SECONDS and now - asked_at < ASK_ANYWAY_SECONDS:
                await asyncio.sleep(LOOK_SECONDS if now - active_at < BUSY_SECONDS else IDLE_LOOK_SECONDS)
                continue
            asked_at = now
            try:
                version = await self._version()
            except StoreError as error:
                # Who writes meets the same trouble and reports it; here only patience helps.
                self._heard(str(error))
                await asyncio.sleep(BUSY_SECONDS)
                continue
            if version != seen:
                seen, active_at = version, loop.time()
                self.wake()
            if self.trouble is not None:
                self._heard(None)
            is_busy = loop.time() - active_at < BUSY_SECONDS
            await asyncio.sleep(LOOK_SECONDS if is_busy else IDLE_LOOK_SECONDS)

    def _end_looking(self) -> None:
        if self._looker is not None:
            with suppress(RuntimeError):  # its loop is closed, and it ended with it
                self._looker.cancel()
            self._looker = None
