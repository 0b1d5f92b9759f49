"""The store contract: one verb per transition, batch-first, every step atomic.

A store keeps tasks, their past, the types and the run log, and its own clock rules (law 7). Lists go in, answers come
back in the same order, one per item. `now` is None in production (the store's clock) and an instant in tests.

What holds for every verb:

- An item is written whole or not at all, together with its run records, counters and the next due time.
- Two items of one identity in one call apply in order.
- A store that cannot answer, or does not within its limit (`call_timeout`), raises `StoreUnavailable`; an empty answer
  always means that there is nothing.
- Every write-back (`renew`, `settle`) carries a token and changes nothing if the token is not the current one.

`renew` and `tick_blocking` block and may be called from any thread: heartbeat and sweeper run beside the event loop, so
that a handler that blocks the loop keeps its lease, and the dead are found all the same. Everything else is awaited on
the loop that opened the store.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from rota.clock import Instant, Millis
from rota.codec import warmed
from rota.core.failure import FailureGroup, FailureReport
from rota.core.history import Resolution, Slice
from rota.core.outcome import Answer, Reply, Scheduled, Settled, Touched
from rota.core.task import (
    Activity,
    Change,
    Identity,
    NewTask,
    Past,
    Renewal,
    RunRecord,
    RunStatus,
    Settlement,
    Task,
    TaskStatus,
    Transition,
)
from rota.core.task_type import RateLimit, TaskType
from rota.group_commit import MAX_GROUP

__all__ = [
    "DEFAULT_PAGE",
    "DETAILED_RUNS",
    "LIMITS",
    "MAX_AHEAD",
    "MAX_DETAILS_BYTES",
    "MAX_PAGE",
    "MAX_PAYLOAD_BYTES",
    "MAX_PROGRESS_BYTES",
    "MAX_TEXT",
    "MOST_COUNTED",
    "Beat",
    "ClaimRequest",
    "Claimed",
    "Counts",
    "Erasure",
    "Failures",
    "Instance",
    "Overrides",
    "Page",
    "Purged",
    "QueuePosition",
    "Restored",
    "RunLeft",
    "RunQuery",
    "RunRef",
    "RunSort",
    "Snapshot",
    "Store",
    "Taken",
    "TaskQuery",
    "TaskSort",
    "Tick",
    "TypeRecord",
    "decode_beat",
    "decode_instance",
    "decode_overrides",
    "page_of",
]

T = TypeVar("T")

MAX_PAYLOAD_BYTES = 262_144
MAX_PROGRESS_BYTES = 4_096
MAX_TEXT = 2_000
"""Characters of a result summary or an error message that are kept."""
MAX_DETAILS_BYTES = 65_536
"""Of all that a run leaves (`core/run_details.py`), as JSON."""
DETAILED_RUNS = 20
"""Runs of one identity whose details are kept, at most: the last ones."""
MOST_COUNTED = 10_000
"""How many dead letters of a group of failures are counted."""
MAX_PAGE = 1_000
DEFAULT_PAGE = 50
MAX_AHEAD = 10_000
"""How far a task's place in the queue is counted."""


class Overrides(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an operator has set over the configuration, for all instances and over restarts. None: nothing."""

    enabled: bool | None = None
    """False: off. Nothing is taken on, nothing starts."""
    frozen: bool | None = None
    """True: nothing starts; what comes is taken on and waits."""
    draining: bool | None = None
    """True: nothing new is taken on; what is there is worked off."""
    concurrency: int | None = None
    max_pending: int | None = None
    rate_limit: RateLimit | None = None
    start_limit: RateLimit | None = None


_NOTHING_OVERRIDDEN = Overrides()

decode_overrides = warmed(msgspec.json.Decoder(Overrides), '{"rate_limit":{"rate":1.0,"burst":1}}').decode

LIMITS: Final = ("concurrency", "max_pending", "rate_limit", "start_limit")
"""The settings of a type that can be overridden."""


class TypeRecord(msgspec.Struct, frozen=True):
    """A type as the store holds it: what the configuration says, and what an operator has overridden."""

    task_type: TaskType
    overrides: Overrides = _NOTHING_OVERRIDDEN

    @property
    def enabled(self) -> bool:
        """Configuration AND override: an operator can switch off what the configuration allows, not the reverse."""
        return self.task_type.enabled and self.overrides.enabled is not False

    @property
    def accepts(self) -> bool:
        """Whether new tasks are taken on."""
        return self.enabled and not self.overrides.draining

    @property
    def runs(self) -> bool:
        """Whether tasks are handed out to be run."""
        return self.enabled and not self.overrides.frozen

    @property
    def effective(self) -> TaskType:
        """The settings that count: the configured ones with the overridden limits."""
        over = self.overrides
        if over == _NOTHING_OVERRIDDEN:
            return self.task_type
        given = {name: value for name in LIMITS if (value := getattr(over, name)) is not None}
        return replace(self.task_type, **given) if given else self.task_type


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants how many tasks of which types, at most so many of each.

    What is wanted may be more than there is room for: then `limit` is how many start in all. One after the other, the
    due task that ranks first over all of these types says which priority is served (rank = scheduled_at - priority x
    the type's own aging); types whose first task has that same priority take turns, whoever has the fewest in
    `running`, this claim included, before the others, and in the order of `wants` where that is equal. Within a type
    nothing is passed over. A type in `own` starts its first one beyond the limit, whatever else is due.

    `lease_ms` None takes each type's timeout as its lease: work claimed by hand is renewed by nobody.
    """

    wants: Sequence[tuple[str, int]]
    instance: str
    claim_id: str
    lease_ms: Millis | None
    exclude: frozenset[Identity] = frozenset()
    limit: int | None = None
    """None: all that is wanted."""
    running: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    """How many of each type run with whoever claims."""
    own: frozenset[str] = frozenset()


class Claimed(NamedTuple):
    """The running tasks, type by type as they were wanted and in rank order within each, and when the next of these
    types is due. `idle` names the wanted types of which nothing could have started now, with all the room there is."""

    tasks: list[Task]
    next_due_at: Instant | None
    now: Instant
    idle: frozenset[str] = frozenset()


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """An instance's sign of life. The incarnation is new with every start; a host name is only a label."""

    instance: str
    host: str = ""
    pid: int = 0
    started_at: Instant = 0
    types: tuple[str, ...] = ()
    running: int = 0
    lease_ms: Millis = 10_000


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance as the others see it."""

    beat: Beat
    seen_at: Instant


decode_beat = warmed(msgspec.json.Decoder(Beat), '{"instance":"i"}').decode
decode_instance = warmed(msgspec.json.Decoder(Instance), '{"beat":{"instance":"i"},"seen_at":0}').decode


class Tick(NamedTuple):
    """What one tick found: tasks taken back from the dead, and when the next one is due.

    `extended` counts the leases that were prolonged instead, because nobody had swept for a while.
    """

    reaped: list[Task]
    extended: int
    next_due_at: Instant | None
    now: Instant


class Purged(NamedTuple):
    """What one pass of the pruner removed or ended, and how many completions it handed on."""

    ended: int
    purged: int
    forgotten: int
    runs: int
    handed_on: int = 0


class Taken(NamedTuple):
    """The answer of a token bucket: how much was granted, and how long to wait for the rest, or until what is owed is
    paid off."""

    granted: int
    retry_after_ms: Millis


class Counts(msgspec.Struct, frozen=True):
    """Kept counters of one type: how many tasks are in each state now, and running totals."""

    pending: int = 0
    running: int = 0
    paused: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    created_total: int = 0
    coalesced_total: int = 0
    succeeded_total: int = 0
    errored_total: int = 0
    lost_total: int = 0


class TaskSort(StrEnum):
    """What tasks are sorted by; with a minus the other way round. Equal ones go by (type, key)."""

    KEY = "key"
    """By type and key: the one order that has an end for any number of tasks."""
    SOONEST = "due"
    LATEST = "-due"
    OLDEST = "changed"
    NEWEST = "-changed"
    FEWEST_ATTEMPTS = "attempts"
    MOST_ATTEMPTS = "-attempts"

    @property
    def field(self) -> Literal["scheduled_at", "updated_at", "attempt"]:
        """Whose value decides."""
        return _SORTED_TASKS[self.value.lstrip("-")]

    @property
    def is_descending(self) -> bool:
        return self.value.startswith("-")


_SORTED_TASKS: Final[Mapping[str, Literal["scheduled_at", "updated_at", "attempt"]]] = {
    "due": "scheduled_at",
    "changed": "updated_at",
    "attempts": "attempt",
}


class RunSort(StrEnum):
    """What run records are sorted by; with a minus the other way round. Of equal ones the newest goes first."""

    NEWEST = "-ended"
    """As they were written: the one order that has an end for any number of runs."""
    SHORTEST = "duration"
    LONGEST = "-duration"
    FEWEST_ATTEMPTS = "attempts"
    MOST_ATTEMPTS = "-attempts"

    @property
    def field(self) -> Literal["duration_ms", "attempt"]:
        """Whose value decides, but for the newest."""
        return "attempt" if self.value.endswith("attempts") else "duration_ms"

    @property
    def is_descending(self) -> bool:
        return self.value.startswith("-")


class TaskQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks to list, by type and key unless `sort` says otherwise. `cursor` is what the last page ended with.

    `schedules` leaves only those with a trigger of their own; the global task of a periodic type is none. `search` is a
    text that the key or the user id contains (upper and lower case differ). `without` leaves out tasks in a state.

    One call looks at a bounded number of tasks: a page may hold fewer than `limit`, even none, and yet have a cursor.
    Only a page without one is the last. With another order than by key so many are looked at and sorted, and no more:
    where there are others, the page says so (`Page.looked_at`).
    """

    task_type: str | None = None
    status: TaskStatus | None = None
    user_id: str | None = None
    owner: str | None = None
    schedules: bool = False
    search: str | None = None
    without: TaskStatus | None = None
    failure: str | None = None
    """The group that the last failure belongs to."""
    since_at: Instant | None = None
    """Only those that have changed then or later."""
    until_at: Instant | None = None
    """Only those that have not changed since."""
    sort: TaskSort = TaskSort.KEY
    cursor: str | None = None
    limit: int = DEFAULT_PAGE


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which run records to list, newest first unless `sort` says otherwise: then the newest ones, so many, are sorted.

    One call looks at a bounded number of records, as with `TaskQuery`: only a page without a cursor is the last.
    """

    task_type: str | None = None
    key: str | None = None
    status: RunStatus | None = None
    user_id: str | None = None
    run_id: str | None = None
    failure: str | None = None
    """The group that the failure belongs to."""
    since_at: Instant | None = None
    """Only those that ended then or later."""
    until_at: Instant | None = None
    """Only those that ended before."""
    sort: RunSort = RunSort.NEWEST
    cursor: str | None = None
    limit: int = DEFAULT_PAGE


class RunRef(NamedTuple):
    """One run: no token is ever used twice."""

    task_type: str
    key: str
    token: int

    @property
    def identity(self) -> Identity:
        return Identity(self.task_type, self.key)


class RunLeft(NamedTuple):
    """What a run has left so far, as `core/run_details.py` writes it."""

    run: RunRef
    details: str

    @property
    def task_type(self) -> str:
        return self.run.task_type


class Failures(NamedTuple):
    """A group of failures, and how many dead letters belong to it now; `MOST_COUNTED` at most are counted."""

    group: FailureGroup
    dead: int


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a store knows of one identity, to be taken to another store.

    `arrived` names the types it comes after that have completed since its last claim (fan-in).
    """

    identity: Identity
    task: Task | None
    past: Past
    arrived: tuple[str, ...] = ()


class Restored(StrEnum):
    """What became of a snapshot."""

    MOVED = "moved"
    ALREADY = "already"
    """It is there as it was sent: an earlier call has written it."""
    KEPT = "kept"
    """The store has a live task of this identity, or knows something newer of it: nothing was written."""
    UNKNOWN_TYPE = "unknown_type"
    """The store does not know its type: nothing was written."""


class QueuePosition(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides when one task runs, seen at one moment; `core/waiting.py` puts it into words."""

    record: TypeRecord
    task: Task | None
    past: Past
    now: Instant
    ahead: int = 0
    """How many due tasks of its type rank before it; at most `MAX_AHEAD` are counted. Of those that are parked, only
    the ones under its own serial are in its way."""
    running: int = 0
    """How many of its type run now, over all instances."""
    serial_running: int = 0
    """How many run under its serial."""
    tokens: float | None = None
    """What its type's bucket holds now, below zero what it owes; None without a rate limit."""
    start_tokens: float | None = None
    """The same of the bucket of its starts; None without a start limit."""
    arrived: tuple[str, ...] = ()
    """Which of the types it comes after have completed since it was last claimed."""


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """The removal of all that is known of one user: asked for, under way, done.

    What was made after `asked_at` is kept: a user who comes back is a new one.
    """

    user_id: str
    asked_at: Instant
    tasks: int = 0
    runs: int = 0
    running: int = 0
    """Tasks that still run; they are told to stop, and removed when they have ended."""
    done_at: Instant | None = None

    def has_more(self, before: Erasure | None) -> bool:
        """Whether another step may move something; `before` is how it was before the last one. What waits for a run
        to end is no reason not to remove the rest."""
        return self.done_at is None and not (self.running and self == before)


class Page(NamedTuple, Generic[T]):
    """One page of a list, and the cursor of the next one (None at the end)."""

    items: list[T]
    cursor: str | None
    looked_at: int | None = None
    """How many were looked at and sorted, where there are more than that; None: the order is that of all."""


def page_of(found: list[T], limit: int, cursor_of: Callable[[T], str]) -> Page[T]:
    """The page out of what was found when one more than `limit` was asked for."""
    items = found[:limit]
    return Page(items, cursor_of(items[-1]) if len(found) > limit else None)


class Store(ABC):
    """Where tasks live. See the module's docstring for what holds for every verb."""

    url: str
    group_size: int = MAX_GROUP
    """How many ends of runs it is best given at a time, at the most."""

    # --- coming and going ---

    @abstractmethod
    async def open(self) -> None:
        """Connect, bring the schema up to date, refuse a newer major version (`SchemaMismatch`)."""

    async def upgrade(self, *, force: bool = False) -> int:
        """Bring along what an older version wrote, where opening does not do that by itself; how many records were
        written anew. Not while somebody works on it, unless forced. The store is closed before and after."""
        await self.open()
        await self.close()
        return 0

    @abstractmethod
    async def close(self) -> None:
        """Finish the groups in flight and let go of everything. Closing twice is harmless."""

    @abstractmethod
    async def now(self) -> Instant:
        """The store's clock."""

    # --- types ---

    @abstractmethod
    async def put_types(self, types: Sequence[TaskType]) -> list[TypeRecord]:
        """Register types. Config with an older `version` never overwrites newer; overrides are kept."""

    @abstractmethod
    async def list_types(self) -> list[TypeRecord]:
        """All registered types, by name."""

    @abstractmethod
    async def override_type(self, name: str, changes: Mapping[str, object]) -> TypeRecord:
        """Set some of an operator's `Overrides` by name; None clears one, and what is not named stays.

        They survive restarts and win over the configuration. Unknown type: `UnknownTaskType`; a name or a value that
        cannot be: `InvalidInput`.
        """

    # --- what all instances must agree on ---

    @abstractmethod
    async def note(self, name: str, value: str, *, replace: bool = False) -> str:
        """Remember a short text under a name; the one that counts from now on.

        The first one wins, and whoever comes later is told of it; with `replace` the new one counts. It is kept for as
        long as the store is, and gone with it.
        """

    @abstractmethod
    async def noted(self, name: str) -> str | None:
        """What is remembered under a name; None if nothing is."""

    # --- making work ---

    @abstractmethod
    async def schedule(self, tasks: Sequence[NewTask], *, now: Instant | None = None) -> list[Scheduled]:
        """absent, completed, failed, cancelled -> pending.

        A live identity is kept (`exists`) or, with `replace`, updated. Guards: the type is enabled, not full, and the
        owner within its limit. The check and the write are one step. Unknown type: `UnknownTaskType`, before any write.
        """

    @abstractmethod
    async def touch(self, activities: Sequence[Activity], *, now: Instant | None = None) -> list[Touched]:
        """A user was active: every check of `core/activity.py` and its effect, in one step."""

    @abstractmethod
    async def update(self, changes: Sequence[Change], *, now: Instant | None = None) -> list[Reply]:
        """pending, paused, running -> same, with new values and `version` + 1."""

    # --- running it ---

    @abstractmethod
    async def claim(self, request: ClaimRequest, *, now: Instant | None = None) -> Claimed:
        """pending -> running: due, in rank order over all wanted types, within rate and serial limits.

        Where more is due than may start, `ClaimRequest` says who does. Status, lease, token and the missed fires'
        records are one step. A due task whose serial is busy is parked, and its place goes to another.
        """

    @abstractmethod
    async def abandon(self, instance: str, claim_id: str, *, now: Instant | None = None) -> list[Task]:
        """Release whatever a claim took whose reply was lost: running -> pending, counted nowhere."""

    @abstractmethod
    def renew(
        self, renewals: Sequence[Renewal], lease_ms: Millis, *, now: Instant | None = None, timeout: float | None = None
    ) -> list[Reply]:
        """running -> running: leases end `lease_ms` from now. Answers ok, stale, or cancel. Blocking, any thread."""

    @abstractmethod
    async def settle(self, settlements: Sequence[Settlement], *, now: Instant | None = None) -> list[Reply]:
        """running -> wherever leaving leads (complete, discard, retry, fail, snooze, release).

        Guard: the token. The run's record, the counters, the next due time and the un-parking of whoever waited for
        the serial are one step. Answers ok, already (the same settle again) or stale.
        """

    @abstractmethod
    async def settle_runs(
        self, settlements: Sequence[Settlement], *, now: Instant | None = None
    ) -> list[Settled | Exception]:
        """The same for a worker, which settles thousands a second and has made the settlements itself.

        Each is answered by itself, without its task: what cannot be written is answered by its error, and the others
        are written all the same.
        """

    # --- what a run leaves ---

    @abstractmethod
    async def keep_details(self, left: Sequence[RunLeft], *, now: Instant | None = None) -> list[Answer]:
        """What running tasks have left so far, in the place of what was kept before. Answers ok or, where the token is
        not the current one, stale: then nothing is written. The end of a run brings its details with `settle`.

        Those of the last `DETAILED_RUNS` runs of an identity are kept, as long as run records are.
        """

    @abstractmethod
    async def details(self, runs: Sequence[RunRef]) -> list[str | None]:
        """What these runs have left, also one that was lost; None if nothing is kept."""

    # --- failures, by groups ---

    @abstractmethod
    async def count_failures(self, reports: Sequence[FailureReport], *, now: Instant | None = None) -> None:
        """Add to the groups of failures. A type keeps `MAX_GROUPS`: the one seen longest ago makes room."""

    @abstractmethod
    async def failures(self, task_type: str | None = None, failure_id: str | None = None) -> list[Failures]:
        """The groups, the one seen last first, `MAX_PAGE` at most. Never a scan of tasks or runs."""

    @abstractmethod
    async def mute_failure(
        self, task_type: str, failure_id: str, until: Instant | None, by: str, *, now: Instant | None = None
    ) -> FailureGroup | None:
        """Mute a group until an instant; None lets it be heard again. None if there is no such group."""

    # --- what people ask for ---

    @abstractmethod
    async def apply(
        self, transition: Transition, identities: Sequence[Identity], *, now: Instant | None = None
    ) -> list[Reply]:
        """One of the operator's events on each task; the named verbs below are the way to call it."""

    async def pause(self, identities: Sequence[Identity], *, now: Instant | None = None) -> list[Reply]:
        """pending -> paused; running: when the run ends."""
        return await self.apply(Transition.PAUSE, identities, now=now)

    async def resume(self, identities: Sequence[Identity], *, now: Instant | None = None) -> list[Reply]:
        """paused -> pending, at a fire that lies ahead; running: the wish to pause is taken back."""
        return await self.apply(Transition.RESUME, identities, now=now)

    async def cancel(self, identities: Sequence[Identity], *, now: Instant | None = None) -> list[Reply]:
        """pending, paused -> cancelled; running: the handler is told within one renewal."""
        return await self.apply(Transition.CANCEL, identities, now=now)

    async def run_now(self, identities: Sequence[Identity], *, now: Instant | None = None) -> list[Reply]:
        """pending, paused, completed, failed -> pending, due now; the series is not shifted."""
        return await self.apply(Transition.RUN_NOW, identities, now=now)

    async def redrive(self, identities: Sequence[Identity], *, now: Instant | None = None) -> list[Reply]:
        """failed -> pending, with fresh counts."""
        return await self.apply(Transition.REDRIVE, identities, now=now)

    async def end(self, identities: Sequence[Identity], *, now: Instant | None = None) -> list[Reply]:
        """pending, paused -> completed."""
        return await self.apply(Transition.END, identities, now=now)

    async def purge(self, identities: Sequence[Identity], *, now: Instant | None = None) -> list[Reply]:
        """completed, failed, cancelled -> absent."""
        return await self.apply(Transition.PURGE, identities, now=now)

    # --- duties ---

    @abstractmethod
    async def tick(self, beat: Beat, *, now: Instant | None = None) -> Tick:
        """Sign of life, sweep and next due time in one call.

        running -> wherever leaving leads, for every lease that has run out by the store's clock. If nobody ticked for
        more than half a lease (an outage, a suspended host), a lease is extended instead, once: whoever has not renewed
        it by then is dead. A clock that stepped back takes the leases with it. A lapsed lease that was never renewed,
        of an instance that is alive, is released: its run never began.
        """

    @abstractmethod
    def tick_blocking(self, beat: Beat, *, now: Instant | None = None, timeout: float | None = None) -> Tick:
        """The same from any thread: sweeping goes on beside an event loop that is blocked."""

    @abstractmethod
    async def prune(self, run_ttl_ms: Millis, limit: int = 1_000, *, now: Instant | None = None) -> Purged:
        """End what has expired, purge what is past its retention, forget pasts and run records that are too old.

        Hands completions on as `pump` does: where no instance serves what comes after, they would be kept for ever.
        """

    @abstractmethod
    async def pump(self, limit: int = 200, *, now: Instant | None = None) -> int:
        """Hand completions to the types that come after them; how many were handed on. Idempotent."""

    @abstractmethod
    async def wait(self, timeout_ms: Millis) -> bool:
        """Until something may be due earlier than was known, at most `timeout_ms`. True if poked."""

    @abstractmethod
    async def take(
        self, bucket: str, amount: int, *, rate: float, burst: int, owe: bool = False, now: Instant | None = None
    ) -> Taken:
        """Take from a token bucket, all or nothing; a negative amount gives back. More than `burst`: refused.

        With `owe` all of it is granted, also more than `burst`: the bucket goes below zero, and nobody is granted
        anything until time has paid that off. A type's own buckets are `type:<name>` (`rate_limit`) and
        `type:<name>:starts` (`start_limit`); a claim takes from them.
        """

    @abstractmethod
    async def leave(self, instance: str) -> None:
        """An instance says goodbye: it is no longer listed."""

    # --- queries ---

    @abstractmethod
    async def get(self, identities: Sequence[Identity]) -> list[Task | None]:
        """The tasks, None where there is none."""

    @abstractmethod
    async def find(self, query: TaskQuery) -> Page[Task]:
        """A page of tasks. What it costs does not depend on how many there are."""

    async def find_many(self, asked: Sequence[TaskQuery]) -> list[Page[Task]]:
        """A page of each query, at the price of one call where that can be had. Each is as of now; whether they are of
        the same moment is not said."""
        return await asyncio.gather(*map(self.find, asked))

    @abstractmethod
    async def runs(self, query: RunQuery) -> Page[RunRecord]:
        """A page of run records. What it costs does not depend on how many there are."""

    @abstractmethod
    async def counts(self) -> dict[str, Counts]:
        """The kept counters by type: never a scan."""

    @abstractmethod
    async def instances(self) -> list[Instance]:
        """Every instance that has ticked and not said goodbye."""

    @abstractmethod
    async def next_due_by_type(self) -> dict[str, Instant]:
        """When the first pending task of each type is due; a type without one is not there. Never a scan."""

    @abstractmethod
    async def queue_position(self, identity: Identity, *, now: Instant | None = None) -> QueuePosition:
        """What decides when this task runs. Unknown type: `UnknownTaskType`. Nothing is locked or changed."""

    # --- what ran, over time ---

    @abstractmethod
    async def record(self, slices: Sequence[Slice], *, now: Instant | None = None) -> None:
        """Add minutes to the kept history, and to the hours that they lie in; what is too old is dropped."""

    @abstractmethod
    async def history(
        self,
        resolution: Resolution,
        since_at: Instant,
        until_at: Instant | None = None,
        *,
        task_type: str | None = None,
    ) -> list[Slice]:
        """The kept slices that begin in [since, until), of all instances, in order of (start, type, mode)."""

    # --- one user's data ---

    @abstractmethod
    async def erase_user(self, user_id: str, *, limit: int = 500, now: Instant | None = None) -> Erasure:
        """Remove what is known of a user (tasks, pasts, run records), at most `limit` things in one call.

        The first call leaves a tombstone; call again until `done_at` is set (the pruner does so too, and after a
        crash). pending, paused, completed, failed, cancelled -> absent; a running task is told to stop. A call after
        the last one was done begins a new erasure.
        """

    @abstractmethod
    async def erasures(self, *, with_done: bool = False) -> list[Erasure]:
        """Those that are not done yet, by user; `with_done` also those that were done within the last week."""

    @abstractmethod
    async def export_user(
        self, user_id: str, cursor: str | None = None, limit: int = DEFAULT_PAGE
    ) -> Page[Snapshot | RunRecord]:
        """A page of all that is known of a user: first what is known of identities, then the run records."""

    @abstractmethod
    async def reset_breaker(self, identities: Sequence[Identity]) -> None:
        """An operator has looked: the failures in a row are forgotten."""

    # --- moving to another store ---

    @abstractmethod
    async def export(self, cursor: str | None = None, limit: int = DEFAULT_PAGE) -> Page[Snapshot]:
        """A page of everything that is known of identities, in (type, key) order; nothing changes.

        An identity without a task is there too, as long as its past or a completion that it waits for is.
        """

    @abstractmethod
    async def restore(self, snapshots: Sequence[Snapshot], *, now: Instant | None = None) -> list[Restored]:
        """absent, completed, failed, cancelled -> as in the snapshot; running there: released, so pending here.

        Guards: a live task is kept, and so is whatever this store knows that is newer; so restoring again changes
        nothing. Counters and indexes are right afterwards, limits are not asked, and the next token of a task is
        higher than any that its snapshot carries.
        """
