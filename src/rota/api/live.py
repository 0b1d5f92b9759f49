"""The live feed: what changed, numbered, so that whoever was away for a moment misses nothing.

There is one `Feed` per process. While somebody listens it looks at the store's kept counters at most four times a
second; what differs from the last look becomes one numbered event, kept in a ring. A listener has no queue of its own,
only its place in the ring: 500 of them cost one look and no memory. Who comes back with the number of the last event
that they saw gets exactly the following ones; if that number is too old, or of another process, they get one
`snapshot` with everything instead. So there is never a hole.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec

from rota.clock import Clock, SystemClock
from rota.errors import StoreError
from rota.logs import get_logger
from rota.stores.base import Counts

__all__ = ["ALIVE", "RETRY_MS", "Feed", "FeedSettings", "Picture", "Update"]

RETRY_MS: Final = 1_000
"""After how long a browser comes back when the stream broke."""
ALIVE: Final = b": still here\n\n"
"""Sent after a silence, so that nobody in between takes the line for dead."""

log = get_logger("rota.live")


@dataclass(frozen=True, slots=True)
class Picture:
    """What the feed shows, at one moment."""

    counts: Mapping[str, Counts] = field(default_factory=dict[str, Counts])
    badges: Mapping[str, int] = field(default_factory=dict[str, int])
    """How much waits for somebody, by the entries of the dashboard's menu."""
    instances: int = 0
    is_store_away: bool = False


@dataclass(frozen=True, slots=True)
class FeedSettings:
    """How often to look, how much to keep, and how long to be silent; all in seconds but `kept`."""

    look_every: float = 0.25
    kept: int = 512
    heartbeat: float = 15.0
    linger: float = 2.0
    """How long looking goes on after the last listener left: most come back at once."""


class Update(msgspec.Struct, frozen=True):
    """One event of the stream."""

    number: int
    event: str
    data: bytes

    def encode(self, boot: str) -> bytes:
        """As it goes over the wire."""
        return f"id: {boot}-{self.number}\nevent: {self.event}\ndata: ".encode() + self.data + b"\n\n"


class Feed:
    """The live feed of one process. `look` gives what there is to see."""

    def __init__(
        self,
        look: Callable[[], Awaitable[Picture]],
        *,
        settings: FeedSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._look = look
        self._settings = settings or FeedSettings()
        self._clock: Clock = clock or SystemClock()
        self.boot = secrets.token_hex(4)
        """New with every process: numbers of another one mean nothing here."""
        self.listeners = 0
        self.looks = 0
        self._ring: deque[Update] = deque(maxlen=self._settings.kept)
        self._number = 0
        self._picture = Picture()
        self._has_looked = False
        self._news = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self.closed = asyncio.Event()
        """Set when every stream of the service is to end, those of its parts as well."""

    @property
    def heartbeat(self) -> float:
        """For so many seconds a stream says nothing, at most."""
        return self._settings.heartbeat

    @property
    def last_id(self) -> str:
        """The id of the newest event."""
        return f"{self.boot}-{self._number}"

    @property
    def is_looking(self) -> bool:
        """Whether it looks again and again: while somebody listens, and a moment longer."""
        return self._looking is not None and not self._looking.done()

    @property
    def is_fresh(self) -> bool:
        """Whether the picture is no older than a look."""
        return self.is_looking and self._has_looked

    @property
    def picture(self) -> Picture:
        """What was seen last."""
        return self._picture

    async def close(self) -> None:
        """End every stream and stop looking. Closing twice is harmless."""
        self.closed.set()
        self._wake()
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.wait([looking])

    async def listen(
        self, last_id: str | None = None, *, is_welcome: Callable[[], Awaitable[bool]] | None = None
    ) -> AsyncGenerator[bytes]:
        """The stream of one listener, from after `last_id`, as bytes to send.

        It ends when the feed is closed, when the listener has fallen behind by more than is kept (coming back gives a
        snapshot), and when `is_welcome`, which is asked once a heartbeat, says no.
        """
        self.listeners += 1
        try:
            yield f"retry: {RETRY_MS}\n\n".encode()
            await self._first_look()
            place = self._place_of(last_id)
            if place is None:
                place = self._number
                yield self._snapshot().encode(self.boot)
            async with aclosing(self._follow(place, is_welcome)) as following:
                async for chunk in following:
                    yield chunk
        finally:
            self.listeners -= 1

    async def _follow(self, place: int, is_welcome: Callable[[], Awaitable[bool]] | None) -> AsyncGenerator[bytes]:
        asked = self._clock.monotonic()

        async def is_sent_away() -> bool:
            nonlocal asked
            asked = self._clock.monotonic()
            return is_welcome is not None and not await is_welcome()

        while not self.closed.is_set():
            # Where there is always news there is never a silence to ask in.
            if self._clock.monotonic() - asked >= self._settings.heartbeat and await is_sent_away():
                return
            news = self._news
            oldest = self._number - len(self._ring)
            if place < oldest:
                log.info("slow listener dropped", behind=self._number - place)
                return
            if place < self._number:
                waiting = list(islice(self._ring, place - oldest, None))
                place = self._number
                yield b"".join(update.encode(self.boot) for update in waiting)
            elif not await self._wait(news):
                if await is_sent_away():
                    return
                yield ALIVE

    async def _wait(self, news: asyncio.Event) -> bool:
        """Until there is news; False if there was none for a heartbeat."""
        try:
            async with asyncio.timeout(self._settings.heartbeat):
                await news.wait()
        except TimeoutError:
            return False
        return True

    def _place_of(self, last_id: str | None) -> int | None:
        """The number that a listener has seen last; None if what follows it is not known any more."""
        boot, _, number = (last_id or "").rpartition("-")
        if boot != self.boot or not (number.isascii() and number.isdigit() and len(number) < 19):
            return None
        oldest = self._number - len(self._ring)
        return int(number) if oldest <= int(number) <= self._number else None

    def _snapshot(self) -> Update:
        return Update(self._number, "snapshot", _data(self._picture, list(self._picture.counts)))

    # --- queries ---

    async def _first_look(self) -> None:
        """Look at once if nobody did for a while, so that a new listener sees what is, not what was."""
        if self.closed.is_set():
            return
        if not self.is_looking:
            self._has_looked = False
            self._looking = asyncio.create_task(self._keep_looking(), name="rota-live")
        while not self._has_looked and not self.closed.is_set():
            await self._news.wait()

    async def _keep_looking(self) -> None:
        idle_since: float | None = None
        while not self.closed.is_set():
            await self._look_once()
            await asyncio.sleep(self._settings.look_every)
            now = self._clock.monotonic()
            idle_since = None if self.listeners else (idle_since if idle_since is not None else now)
            if idle_since is not None and now - idle_since >= self._settings.linger:
                return

    async def _look_once(self) -> None:
        self.looks += 1
        try:
            picture = await self._look()
        except StoreError:
            # The last counts are the best that is known; the listeners are told that they are old.
            known = self._picture
            picture = Picture(known.counts, known.badges, known.instances, is_store_away=True)
        except Exception:
            log.exception("live feed could not look")
            picture = self._picture
        self.show(picture)

    def show(self, picture: Picture) -> None:
        """Number what is different from the last picture, and wake everybody."""
        before, self._picture = self._picture, picture
        if picture != before:
            names = sorted({*picture.counts, *before.counts})
            changed = [name for name in names if picture.counts.get(name) != before.counts.get(name)]
            self._number += 1
            self._ring.append(Update(self._number, "changed", _data(picture, changed)))
            self._wake()
        if not self._has_looked:
            self._has_looked = True
            self._wake()

    def _wake(self) -> None:
        # A new event for the next news: whoever waits holds the old one and sees it set, however late it wakes.
        news, self._news = self._news, asyncio.Event()
        news.set()


def _data(picture: Picture, types: list[str]) -> bytes:
    return msgspec.json.encode(
        {
            "types": types,
            "counts": {name: picture.counts[name] for name in types if name in picture.counts},
            "alerts": picture.badges.get("alerts", 0),
            "badges": picture.badges,
            "instances": picture.instances,
            "is_store_away": picture.is_store_away,
        }
    )
