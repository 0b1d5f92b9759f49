"""The spool: while the store is away, touches wait on this host's disk, and are offered when it is back.

A touch that the store does not answer within 250 ms is written to the spool's file and answered `spooled`; connecting,
which takes a fresh process longer than that, has the time of a call. From then on touches go there at once, until the
store has answered an offer. Nothing is run here, so nothing can run twice:

- An offer says when the user was last active. The store answers `coalesced` if that lies before the identity's last
  claim: whatever ran meanwhile has dealt with it. So a touch whose reply was lost, or an offer that is made twice,
  makes no second task.
- A row is removed only after the store has answered for it, and only if it was not touched again meanwhile.

A process that ends hands over what waits, or says where it waits and who will send it.

Times in the file are this host's. They are moved to the store's clock when they are offered, since that one rules.
"""

from __future__ import annotations

import asyncio
import atexit
import dataclasses
import os
import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakSet

from msgspec.structs import replace

from rota.call_timeout import seconds_of
from rota.clock import Clock, Instant, Millis
from rota.config.urls import masked
from rota.core.outcome import Touched, TouchOutcome
from rota.core.task import Activity
from rota.errors import RotaError, StoreUnavailable, UnknownTaskType
from rota.logs import get_logger
from rota.runtime.duty import Duty, with_timeout
from rota.runtime.health import Health, Pulse
from rota.runtime.spool_file import SpooledTouch, SpoolFile
from rota.stores.base import Store
from rota.stores.limits import check_activity

__all__ = ["PATIENCE", "PERIOD_SECONDS", "Offered", "Offerer", "Spool", "spool_at"]

PATIENCE: Final = 0.25
"""Seconds that a touch waits for the store, once that is connected."""
HAND_OVER_SHARE: Final = 0.4
"""So much of the limit for a call may handing over what waits take, in a process that ends."""
PERIOD_SECONDS: Final = 5.0
"""How often an idle process looks whether another one has left something in the file."""
PAGE: Final = 200

log = get_logger("rota.spool")

Connected = Callable[[], Store | None]
"""The store if it is open and ready, without waiting."""
Ready = Callable[[], Awaitable[Store]]
"""The store, connected first if need be."""
DeclareAgain = Callable[[Collection[str]], Awaitable[bool]]
"""Tells a store that was emptied of types with these names; whether there were any to tell of."""
Takes = Callable[[str], bool]
"""Whether a type takes activity on, as far as that is known without the store."""


class Offered(NamedTuple):
    """One pass over the file: rows that the store has answered for, and rows that it would not take."""

    taken: int
    refused: int


def spool_at(
    path: str,
    store_url: str,
    connected: Connected,
    ready: Ready,
    *,
    clock: Clock,
    call_timeout: float | None = None,
    declare_again: DeclareAgain | None = None,
    takes: Takes | None = None,
) -> Spool:
    """The spool in a file, for the store of a URL."""
    file = SpoolFile(Path(path), _place(store_url))
    return Spool(
        file, connected, ready, clock=clock, call_timeout=call_timeout, declare_again=declare_again, takes=takes
    )


def _place(url: str) -> str:
    """What tells one store from another. Users and passwords change, and do not belong on a disk."""
    scheme, _, rest = masked(url).partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


class Spool:
    """Takes touches, to the store or to the disk. `start` offers what waits there, until `close`."""

    def __init__(
        self,
        file: SpoolFile,
        connected: Connected,
        ready: Ready,
        *,
        clock: Clock,
        chance: Callable[[], float] = random.random,
        patience: float = PATIENCE,
        call_timeout: float | None = None,
        declare_again: DeclareAgain | None = None,
        takes: Takes | None = None,
    ) -> None:
        self.last_offered_at: Instant | None = None
        """When the store last answered for a row."""
        self._file = file
        self._connected = connected
        self._ready = ready
        self._clock = clock
        self._chance = chance
        self._patience = patience
        self._call_timeout = seconds_of(call_timeout)
        self._declare_again = declare_again
        self._takes = takes
        self._process = os.getpid()
        self._away: str | None = None
        self._full: str | None = None
        self._refused: str | None = None
        self._objection: str | None = None
        self._calls: set[asyncio.Task[Store]] = set()
        self._offerer: Offerer | None = None
        self._offering: asyncio.Task[None] | None = None

    # --- what others see ---

    @property
    def spooled(self) -> int:
        """How many identities wait."""
        return self._file.rows

    @property
    def is_away(self) -> bool:
        """Whether touches go to the disk at once, because the store did not answer the last time."""
        return self._away is not None

    def reasons(self) -> list[str]:
        """What a person should look at, one sentence each."""
        away = self._away and f"Touches are spooled to {self._file.path}, {self.spooled} users wait. {self._away}"
        return [reason for reason in (away, self._full, self._refused) if reason]

    def seen_in(self, health: Health) -> Health:
        """The health of a process that has this spool."""
        reasons = (*health.reasons, *self.reasons())
        return dataclasses.replace(
            health,
            ok=health.ok and not reasons,
            reasons=reasons,
            spooled=self.spooled,
            last_offered_at=self.last_offered_at,
        )

    # --- its life ---

    def start(self) -> None:
        """Offer what waits, in the background of this event loop. Starting again is harmless."""
        if self._offering is None:
            self._file.check()
            self._offerer = Offerer(self, pulse=Pulse(self._clock), chance=self._chance)
            self._offering = asyncio.get_running_loop().create_task(self._offerer.run(), name="rota-spool")

    async def hand_over(self) -> None:
        """Offer what waits once more, for a process that is about to end; or say what is left, and who will send it."""
        if self not in _UNSAID or not self.spooled:
            return
        await self._stop_offering()
        seconds = HAND_OVER_SHARE * self._call_timeout
        try:
            async with asyncio.timeout(seconds):
                await self.offer()
        except (RotaError, TimeoutError) as error:
            log.info("spool not offered", error=str(error) or f"no answer within {seconds:g} s")
        self.say_what_is_left()

    def say_what_is_left(self) -> None:
        """To the log: whoever was told `spooled` counts on somebody to send it. Once, and not in a forked child."""
        _UNSAID.discard(self)
        if self.spooled and self._process == os.getpid():
            log.warning(
                "touches left in the spool",
                users=self.spooled,
                spool=str(self._file.path.absolute()),
                advice="They are on the disk. The next process that uses this spool and this store sends them.",
            )

    async def close(self) -> None:
        """Stop offering and let go of the file. What waits there is offered by the next process, or after a start."""
        _UNSAID.discard(self)
        await self._stop_offering()
        await self._file.close()

    async def _stop_offering(self) -> None:
        offering, self._offering = self._offering, None
        tasks = [*self._calls, *([] if offering is None else [offering])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- touches ---

    async def touch(self, activity: Activity) -> Touched:
        """The store's answer, or `spooled`. If the disk will not take it either: `StoreUnavailable`."""
        if self._away is None:
            try:
                store = self._connected() or await self._connect()
                # The group that it has joined goes on without it: giving up here cancels nothing.
                async with asyncio.timeout(self._patience):
                    return (await store.touch([activity]))[0]
            except TimeoutError:
                self._lost_the_store(
                    StoreUnavailable(
                        f"The store did not answer 'touch' within {self._patience:g} s. It is asked again; check that"
                        " it is up."
                    )
                )
            except StoreUnavailable as error:
                self._lost_the_store(error)
        return await self._keep(activity)

    async def _connect(self) -> Store:
        """The store, connected within the time of a call. It goes on connecting when that is over."""
        call = asyncio.get_running_loop().create_task(self._open())
        self._calls.add(call)
        call.add_done_callback(self._call_is_done)
        await asyncio.wait([call], timeout=self._call_timeout)
        if not call.done():
            raise StoreUnavailable(
                f"The store could not be connected within {self._call_timeout:g} s. Check that it is up."
            )
        return call.result()

    async def _open(self) -> Store:
        return await self._ready()

    def _call_is_done(self, call: asyncio.Task[Store]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # looked at: the caller was answered long ago

    async def _keep(self, activity: Activity) -> Touched:
        check_activity(activity)
        if self._takes is not None and not self._takes(activity.task_type):
            # The store would answer the same, later, when whoever was told `spooled` is gone.
            self._ask_again()
            return Touched(TouchOutcome.DISABLED, None, 0)
        _UNSAID.add(self)
        try:
            await self._file.put(activity, self._clock.now())
        except StoreUnavailable as error:
            self._full = str(error)
            raise StoreUnavailable(f"The touch was not taken. {self._away} {error}") from error
        finally:
            # Also when the disk is full: the store must be asked whether it is back.
            self._ask_again()
        self._full = None
        return Touched(TouchOutcome.SPOOLED, None, 0)

    def _ask_again(self) -> None:
        self.start()
        if self._offerer is not None:
            self._offerer.wake()

    def _lost_the_store(self, error: StoreUnavailable) -> None:
        if self._away is None:
            log.warning("store away", spool=str(self._file.path), error=str(error))
        self._away = str(error)

    def _found_the_store(self) -> None:
        if self._away is not None:
            log.info("store back", spooled=self.spooled)
        self._away = self._full = None

    # --- offers ---

    async def offer(self, now: Instant | None = None) -> Offered:
        """One pass over everything that waits. The store's silence ends it; nothing is lost by that."""
        if self._away is None and await self._file.is_empty():
            self._refused = None
            return Offered(0, 0)
        store = await self._ready()
        ahead_ms = await self._ahead(store)
        erased_at = await self._erased(store)
        total = Offered(0, 0)
        self._objection = None
        await self._file.count()
        page = await self._file.page(None, PAGE)
        while page:
            # What a user did before they were erased would make them known again.
            live = [row for row in page if row.last_at + ahead_ms > erased_at.get(row.activity.user_id, -1)]
            if len(live) < len(page):
                await self._file.remove([row for row in page if row not in live])
            answered = await self._hand_over(store, live, ahead_ms, now)
            self._found_the_store()
            total = Offered(total.taken + len(answered), total.refused + len(live) - len(answered))
            page = await self._file.page(page[-1].activity.identity, PAGE)
        self._found_the_store()
        self._report(total)
        return total

    async def _ahead(self, store: Store) -> Millis:
        """How far the store's clock is ahead of this one's, or a little more: an activity that seems too late by the
        time of a round trip costs at most a run, one that seems too early would be forgotten."""
        asked_at = self._clock.now()
        return await with_timeout(self._call_timeout, "now", store.now()) - asked_at

    async def _erased(self, store: Store) -> dict[str, Instant]:
        """When the users that are to be forgotten, or were of late, asked for it."""
        erasures = await with_timeout(self._call_timeout, "erasures", store.erasures(with_done=True))
        return {erasure.user_id: erasure.asked_at for erasure in erasures}

    async def _hand_over(
        self, store: Store, page: Sequence[SpooledTouch], ahead_ms: Millis, now: Instant | None
    ) -> list[SpooledTouch]:
        """Offer some rows; those that the store has answered for, which are removed."""
        if not page:
            return []
        activities = [replace(row.activity, at=row.last_at + ahead_ms) for row in page]
        outcomes = await self._offer(store, activities, now)
        # A type that is full has no room now, but may have later; whoever was told `spooled` counts on it.
        done = [
            row
            for row, outcome in zip(page, outcomes, strict=True)
            if outcome is not None and outcome is not TouchOutcome.FULL
        ]
        if done:
            await self._file.remove(done)
            self.last_offered_at = self._clock.now()
        return done

    async def _offer(self, store: Store, activities: list[Activity], now: Instant | None) -> list[TouchOutcome | None]:
        """What the store says to each; None for one that it refuses."""
        try:
            touched = await with_timeout(self._call_timeout, "touch", store.touch(activities, now=now))
        except StoreUnavailable:
            raise
        except RotaError as error:
            if isinstance(error, UnknownTaskType) and await self._has_forgotten(activities):
                return await self._offer(store, activities, now)
            if len(activities) == 1:
                log.warning("spooled touch refused", task_type=activities[0].task_type, error=str(error))
                self._objection = str(error)
                return [None]
            # One of them spoils the group. Each by itself.
            return [(await self._offer(store, [activity], now))[0] for activity in activities]
        return [one.outcome for one in touched]

    async def _has_forgotten(self, activities: list[Activity]) -> bool:
        """Whether the store came back empty; it knows the types again by then."""
        if self._declare_again is None:
            return False
        return await self._declare_again({activity.task_type for activity in activities})

    def _report(self, total: Offered) -> None:
        why = self._objection or "Their type has as many pending tasks as it may have."
        refused = f"{total.refused} touches wait in {self._file.path}: the store would not take them. {why}"
        self._refused = refused if total.refused else None
        if total.taken:
            log.info("spool offered", taken=total.taken, refused=total.refused)


class Offerer(Duty[Offered]):
    """Offers what waits: again and again while the store is away, every few seconds otherwise."""

    name = "spool"

    def __init__(self, spool: Spool, *, pulse: Pulse, chance: Callable[[], float]) -> None:
        super().__init__(pulse, chance)
        self._spool = spool

    async def run_once(self, now: Instant | None = None) -> Offered:
        return await self._spool.offer(now)

    def pause_after(self, report: Offered) -> float:
        return PERIOD_SECONDS


_UNSAID: Final[WeakSet[Spool]] = WeakSet()
"""The spools that took something and were not closed: of what is left there nobody has heard."""


def _at_exit() -> None:
    for spool in list(_UNSAID):
        spool.say_what_is_left()


atexit.register(_at_exit)
