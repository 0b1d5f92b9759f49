"""Claims work for free slots, by rank and fairly across types, as soon as it is due.

Event-driven: woken by the store (`listener.py`), by a run that ended, by the sweeper's news, and by the next due
time. The check interval is only the safety net.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from rota.clock import SECOND, Instant, Millis
from rota.core.lifecycle import SUSPECT_CRASHES
from rota.core.task_type import TaskType
from rota.logs import get_logger
from rota.runtime.declare import declare, tell_of_another
from rota.runtime.duty import Duty, DutyContext, with_timeout
from rota.runtime.executor import Executor
from rota.runtime.fair_share import Lane, Offer, fair_share, own_share
from rota.runtime.handler import Handler
from rota.runtime.suspects import Suspects
from rota.stores.base import Claimed, ClaimRequest, Store

__all__ = ["BlockedTypes", "DispatchReport", "Dispatcher", "Slots"]

BlockedTypes = Callable[[Store], Awaitable[frozenset[str]]]
"""The types that have a handler here and are not to be run here all the same, as things are now."""

QUIET_SECONDS = 0.1
"""For so long after a type had nothing due it is not asked where types that have work fill the slots: only a wake-up
would change the answer, and that ends the quiet. Else every claim of a busy type would be a look at all of them."""

_WAITS = "It may have crashed its process, and so may another task that runs here: they run one at a time."

log = get_logger("rota.dispatcher")


@dataclass(frozen=True, slots=True)
class DispatchReport:
    """What one round of claims brought. `next_due_at` lies ahead of `now`, the store's; `is_full`: no slot is left, not
    even one that a type has of its own; `passes_over`: a type that was quiet has a slot and was not asked."""

    claimed: int = 0
    is_full: bool = False
    next_due_at: Instant | None = None
    now: Instant = 0
    passes_over: bool = False


@dataclass(slots=True)
class _Round:
    """What a round of claims has brought so far."""

    claimed: int = 0
    next_due_at: Instant | None = None
    now: Instant = 0
    passes_over: bool = False
    satisfied: set[str] = field(default_factory=set[str])

    def add(self, claimed: Claimed) -> None:
        self.claimed += len(claimed.tasks)
        self.now = claimed.now
        # What is due already and was not to be had needs a slot or a permit: whoever gives one back wakes us.
        ahead = [at for at in (self.next_due_at, claimed.next_due_at) if at is not None and at > self.now]
        self.next_due_at = min(ahead, default=None)


@dataclass(frozen=True, slots=True)
class Slots:
    """The limits of one instance. Types share `total` slots, except those that have slots of their own. Handlers that
    cannot be ended may leave at most `abandoned` behind."""

    total: int
    abandoned: int
    lease_ms: Millis
    check_interval_ms: Millis


class Dispatcher(Duty[DispatchReport]):
    """Feeds the executor."""

    name = "dispatcher"

    def __init__(
        self,
        context: DutyContext,
        executor: Executor,
        handlers: Mapping[str, Handler],
        types: Mapping[str, TaskType],
        *,
        slots: Slots,
        blocked_types: BlockedTypes | None = None,
    ) -> None:
        super().__init__(context.pulse, context.chance)
        self._store = context.store
        self._executor = executor
        self._suspects = Suspects(executor)
        self._handlers = handlers
        self._types = types
        self._instance = context.instance
        self._slots = slots
        self.patience = 2 * slots.check_interval_ms / SECOND + context.call_timeout
        self._clock = context.clock
        self._call_timeout = context.call_timeout
        self._names: list[str] = []
        """The one that was served last comes last: so equals take turns."""
        self._limits: dict[str, int] = {}
        self._own_slots: set[str] = set()
        """The types whose limit is a pool of their own: their runs take no slot of the others, and the reverse."""
        self._held: set[str] = set()
        self._ask_blocked_types = blocked_types
        self._blocked_types: frozenset[str] = frozenset()
        self._look_again_at = context.clock.monotonic()
        self._quiet_until: dict[str, float] = {}
        self._unanswered: list[str] = []
        """Claims whose reply never came: what they took is given back before the next claim."""
        self._due_at: Instant | None = None
        self._woken_for: set[str] = set()
        """The types whose runs have ended, if the next round is to be made for nothing but their slots."""
        self._news = asyncio.Event()
        """A claim under way is answered, or slots have come free."""
        self._asked: Counter[str] = Counter()
        """How many tasks of each type the claims under way may bring, and how many for shared slots."""
        self._asked_shared = 0
        self._told: dict[str, TaskType] = {}
        """Each type as the store kept it when it was last looked at."""
        self.take_on()

    @property
    def names(self) -> tuple[str, ...]:
        """The types that are claimed."""
        return tuple(sorted(name for name in self._names if name not in self._blocked_types))

    def poke(self) -> None:
        """Something became due earlier than was known: whoever was quiet may have work now."""
        self._quiet_until.clear()
        self.wake()

    def freed(self, task_types: Collection[str]) -> None:
        """Slots are free again that runs of these types had. Types that had nothing due a moment ago are not asked
        again for that: if they have something now, it was heard of."""
        self._news.set()
        is_held_up = self._suspects.waiting or self._unanswered or self._executor.stopping.abandoned
        if is_held_up or not all(map(self._all_quiet, task_types)):
            woken_for = {*self._woken_for, *task_types} if self._woken_for or not self._woken.is_set() else set[str]()
            self.wake()
            self._woken_for = woken_for

    def wake(self) -> None:
        self._woken_for.clear()
        super().wake()

    def _all_quiet(self, task_type: str) -> bool:
        """Whether nobody whom a slot of this type's pool is for has anything to do, as far as is known."""
        at = self._clock.monotonic()
        if self._quiet_until.get(task_type, 0.0) <= at:
            return False
        return task_type in self._own_slots or all(
            self._quiet_until.get(name, 0.0) > at or name in self._own_slots or name in self._held
            for name in self._names
        )

    def expect(self, next_due_at: Instant | None) -> None:
        """News of the next due time, from somebody who has looked at all types."""
        if next_due_at is not None and (self._due_at is None or next_due_at < self._due_at):
            self._quiet_until.clear()
            self.wake()

    def take_on(self) -> None:
        """Serve what there are handlers for by now; some may have come while it runs, with types of their own."""
        served = sorted(name for name in self._handlers if self._types[name].enabled)
        self._names = [name for name in self._names if name in served]
        self._names += [name for name in served if name not in self._names]
        for name in served:
            if name not in self._limits:
                self._set_slots(self._types[name])
        self._look_again_at = self._clock.monotonic()
        self.poke()

    # --- one round ---

    async def run_once(self, now: Instant | None = None) -> DispatchReport:
        """Claim until nothing is due or no slot is free, in the slots that types share and in those of their own."""
        if self._unanswered:
            await self.give_back(now)
        if self._names and self._clock.monotonic() >= self._look_again_at:
            await self._look_at_types()
        so_far = _Round()
        for pool in self._pools():
            await self._fill(pool, so_far, now)
        self._due_at = so_far.next_due_at
        return DispatchReport(
            so_far.claimed, self._is_full(), so_far.next_due_at, so_far.now, passes_over=so_far.passes_over
        )

    async def _fill(self, pool: str | None, so_far: _Round, now: Instant | None) -> None:
        """Claim for the slots of one type, or for those that are shared, until nothing is due or none is free."""
        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:
                self._news.clear()
                for job in [job for job in under_way if job.done()]:
                    under_way.remove(job)
                    job.result()
                offer = None if self.is_stopping else self._next_offer(pool, so_far, len(under_way))
                if offer is not None:
                    self._count_freed(offer)
                    self._reserve(pool, offer, 1)
                    job = asyncio.get_running_loop().create_task(self._ask(pool, offer, so_far, now))
                    job.add_done_callback(lambda _: self._news.set())
                    under_way.add(job)
                elif not under_way:
                    return
                await self._news.wait()
        finally:
            for job in under_way:
                job.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
            # Also of one that was cancelled before it began.
            self._asked.clear()
            self._asked_shared = 0

    def _next_offer(self, pool: str | None, so_far: _Round, under_way: int) -> Offer | None:
        """What is to be asked now, if anything. While one claim is answered, another one is worth a call if so many
        slots have come free meanwhile that the store would wait for us."""
        lanes = self._lanes(pool, so_far.satisfied)
        offer = self._offer(pool, lanes)
        if not offer.wants:
            return None
        busy = {lane.name for lane in lanes if not lane.is_quiet}
        if so_far.claimed and busy.isdisjoint(name for name, _ in offer.wants):
            so_far.passes_over |= under_way == 0
            return None
        is_worth_it = pool is None and not self._suspects.waiting and offer.limit >= max(1, self._slots.total // 4)
        return offer if under_way == 0 or (under_way == 1 and is_worth_it) else None

    def _count_freed(self, offer: Offer) -> None:
        """Slots that are free again are counted in this offer: no other round need be made for them. Unless it does not
        ask the types whose runs have ended: what waited for one of these may be due now."""
        if self._woken_for and not self._own_slots and self._woken_for <= {name for name, _ in offer.wants}:
            self._woken.clear()
            self._woken_for.clear()

    async def _ask(self, pool: str | None, offer: Offer, so_far: _Round, now: Instant | None) -> None:
        try:
            claimed = await self._claim(offer, now)
        finally:
            self._reserve(pool, offer, -1)
        so_far.satisfied |= self._note(offer, claimed)
        if self._suspects.waiting and not self._suspects.one_runs():
            # The one that was let come was not to be had: it is the next one's turn, whatever its type.
            so_far.satisfied.clear()
        so_far.add(claimed)

    def _reserve(self, pool: str | None, offer: Offer, times: int) -> None:
        """The slots that a claim under way may fill are not offered once more."""
        for name, want in offer.wants:
            self._asked[name] += times * want
        if pool is None:
            self._asked_shared += times * (offer.limit + len(offer.own))

    async def _look_at_types(self) -> None:
        """An operator may have set another concurrency, or emptied the store, or said where the data is: it looks once
        per check interval."""
        known = set[str]()
        for record in await with_timeout(self._call_timeout, "list_types", self._store.list_types()):
            name = record.task_type.name
            known.add(name)
            self._compare(record.task_type)
            if name in self._limits:
                self._set_slots(record.effective)
                (self._held.discard if record.runs else self._held.add)(name)
        if self._ask_blocked_types is not None:
            self._blocked_types = await self._ask_blocked_types(self._store)
        await self._declare_again([task_type for name, task_type in self._types.items() if name not in known])
        self._look_again_at = self._clock.monotonic() + self._slots.check_interval_ms / 1_000

    def _compare(self, kept: TaskType) -> None:
        """Say once if another app has declared one of our types in its own way."""
        ours = self._types.get(kept.name)
        if ours is not None and kept != self._told.setdefault(kept.name, ours):
            self._told[kept.name] = kept
            if kept != ours:
                tell_of_another(ours, kept)

    async def _declare_again(self, forgotten: list[TaskType]) -> None:
        """A store that was emptied knows nothing of our types; what recurs begins anew."""
        if forgotten:
            log.warning(
                "types declared",
                reason="the store did not know them",
                types=[task_type.name for task_type in forgotten],
            )
            await with_timeout(self._call_timeout, "declare", declare(self._store, forgotten))

    def pause_after(self, report: DispatchReport) -> float:
        longest = QUIET_SECONDS if report.passes_over else self._slots.check_interval_ms / 1_000
        if report.is_full or report.next_due_at is None:
            return longest
        return min((report.next_due_at - report.now) / 1_000, longest)

    async def give_back(self, now: Instant | None = None) -> int:
        """Release what claims took whose reply was lost; how many claims that were."""
        returned = 0
        while self._unanswered:
            claim_id = self._unanswered[0]
            tasks = await with_timeout(
                self._call_timeout, "abandon", self._store.abandon(self._instance, claim_id, now=now)
            )
            self._unanswered.remove(claim_id)
            returned += 1
            if tasks:
                log.warning("claim abandoned", claim_id=claim_id, tasks=len(tasks), reason="its reply was lost")
        return returned

    async def _claim(self, offer: Offer, now: Instant | None) -> Claimed:
        if self._suspects.waiting:
            self._suspects.let_next_come()
        exclude = frozenset(self._suspects.waiting)
        if self._executor.stopping.abandoned:
            exclude |= self._executor.stopping.excluded
        request = ClaimRequest(
            wants=offer.wants,
            limit=offer.limit,
            own=offer.own,
            running=dict(self._executor.per_type),
            instance=self._instance,
            claim_id=uuid.uuid4().hex,
            lease_ms=self._slots.lease_ms,
            exclude=exclude,
        )
        sent_at = self._clock.monotonic()
        # Noted before the call and struck out after it: cancelled, timed out or broken, it is not forgotten.
        self._unanswered.append(request.claim_id)
        claimed = await with_timeout(self._call_timeout, "claim", self._store.claim(request, now=now))
        if self.is_stopping:
            # Nothing new is begun any more: `give_back` releases it.
            return Claimed([], claimed.next_due_at, claimed.now)
        self._unanswered.remove(request.claim_id)
        for task in claimed.tasks:
            if task.crashes >= SUSPECT_CRASHES and self._suspects.must_wait(task):
                self._executor.put_back(task, sent_at, _WAITS)
            else:
                self._executor.start(task, sent_at)
        for observer in self._executor.observers:
            observer.claimed(len(claimed.tasks))
        return claimed

    def _note(self, offer: Offer, claimed: Claimed) -> set[str]:
        """Which types have nothing left that is due."""
        got = Counter(task.task_type for task in claimed.tasks)
        quiet_until = self._clock.monotonic() + QUIET_SECONDS
        for name, _ in offer.wants:
            if name in claimed.idle:
                self._quiet_until[name] = quiet_until
            else:
                self._quiet_until.pop(name, None)
        self._names.sort(key=got.__contains__)
        if claimed.tasks and sum(max(0, got[name] - (name in offer.own)) for name in got) >= offer.limit:
            # Whoever else got less than was offered may have been outranked.
            return {name for name, _ in offer.wants if name in claimed.idle}
        return {name for name, most in offer.wants if got[name] < most}

    # --- who may claim ---

    def _set_slots(self, task_type: TaskType) -> None:
        self._limits[task_type.name] = task_type.concurrency or self._slots.total
        (self._own_slots.add if task_type.slots == "own" else self._own_slots.discard)(task_type.name)

    def _pools(self) -> list[str | None]:
        """None for the slots that are shared, and the types that have their own; those where all are quiet come last:
        they are not asked while others have work."""
        pools = [None, *(name for name in self._names if name in self._own_slots)]
        return sorted(pools, key=lambda pool: all(lane.is_quiet for lane in self._lanes(pool, set())))

    def _offer(self, pool: str | None, lanes: list[Lane]) -> Offer:
        if pool is None:
            return fair_share(self._slots.total, self._shared_left(), lanes)
        return own_share(lanes[0]) if lanes else Offer([], 0, frozenset())

    def _shared_left(self) -> int:
        in_own = sum(self._executor.per_type[name] for name in self._own_slots)
        return self._slots.total - (len(self._executor.running) - in_own) - self._asked_shared

    def _is_full(self) -> bool:
        has_room = any(self._executor.per_type[name] < self._limits[name] for name in self._own_slots)
        return self._shared_left() <= 0 and not has_room

    def _lanes(self, pool: str | None, satisfied: set[str]) -> list[Lane]:
        at = self._clock.monotonic()
        too_many = len(self._executor.stopping.abandoned) >= self._slots.abandoned
        lanes: list[Lane] = []
        for name in self._names:
            if pool != (name if name in self._own_slots else None):
                continue
            # Past the limit of handlers left behind, those that cannot be ended are not started any more.
            if name in self._blocked_types or (too_many and self._handlers[name].kind == "thread"):
                continue
            running = self._executor.per_type[name] + self._asked[name]
            room = self._limits[name] - running
            is_quiet = self._quiet_until.get(name, 0.0) > at
            lanes.append(Lane(name, running, room, is_quiet, name in self._held, name in satisfied))
        return lanes
