"""The Redis store: hot verbs as scripts, everything else as optimistic steps on threads.

A verb that thousands of callers use at once is one script call for a whole group of them. What a script does not know
(series, serials that wait, rare transitions) it leaves alone and says so; those items then run through the same verbs
as in every other store, over a `RedisTransaction` that writes only if nothing changed meanwhile. So the lifecycle has
one home, and the scripts are a faster way to the same place.

Every step is about one type. A call that names several is split, and its answers come back in the order asked.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from rota.clock import Clock, Instant, Millis
from rota.core.failure import FailureGroup, FailureReport
from rota.core.history import Resolution, Slice
from rota.core.outcome import Reply
from rota.core.task import Identity, Renewal, RunRecord, Task
from rota.core.task_type import TaskType
from rota.errors import SchemaMismatch, StoreUnavailable
from rota.group_commit import write_together
from rota.stores import limits, verbs
from rota.stores.base import (
    DEFAULT_PAGE,
    Beat,
    Claimed,
    ClaimRequest,
    Counts,
    Erasure,
    Failures,
    Instance,
    Page,
    Purged,
    QueuePosition,
    Restored,
    RunQuery,
    RunRef,
    RunSort,
    Snapshot,
    Taken,
    TaskQuery,
    TaskSort,
    Tick,
    TypeRecord,
)
from rota.stores.claiming import Claiming, Queue
from rota.stores.grouped import GroupedStore, Verb
from rota.stores.redis import duties, erasing
from rota.stores.redis.address import parse_address
from rota.stores.redis.client import Server
from rota.stores.redis.index import INDEXES
from rota.stores.redis.keys import Keys
from rota.stores.redis.poke_listener import PokeListener
from rota.stores.redis.queries import Queries
from rota.stores.redis.reconcile import Reconciled, Rest, reconcile, without_rest
from rota.stores.redis.scripts import Scripts
from rota.stores.redis.sorted_pages import SortedPages
from rota.stores.redis.transaction import RedisTransaction
from rota.stores.redis.upgrade import SCHEMA, layout_of, upgrade
from rota.stores.work import Work, unit_of_work

__all__ = ["SCHEMA", "RedisStore"]

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")

_TYPE_OF = attrgetter("task_type")
_NOTE = "note:"
"""What the fields of notes begin with."""
CONFLICT_TRIES = 60
"""How often a step that lost a race with another instance is run again before the caller is told."""
THREADS = 6


class RedisStore(GroupedStore):
    """Tasks in Redis, shared by any number of instances."""

    def __init__(self, url: str, *, clock: Clock | None = None, call_timeout: float | None = None) -> None:
        self.url = url
        address = parse_address(url)
        self._server = Server(address, call_timeout)
        self._keys = Keys(address.prefix)
        self._scripts = Scripts(self._server, self._keys, clock, self._wake)
        self._queries = Queries(self._scripts)
        self._sorted = SortedPages(self._scripts, self._queries)
        self._listener = PokeListener(self._scripts, self._wake)
        self._threads: ThreadPoolExecutor | None = None
        self._heart: ThreadPoolExecutor | None = None
        """A thread for renewals alone: leases are kept while every other thread waits for something."""
        self._sweeping: ThreadPoolExecutor | None = None
        """A thread for the sweep alone: the dead are found while every other thread waits for something."""
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._pause = threading.Event()
        self._hot: Mapping[Verb[Any, Any], Callable[[Instant | None, str, Any], Awaitable[list[Any]]]] = {
            verbs.schedule: self._scripts.schedule,
            verbs.touch: self._scripts.touch,
            verbs.settle: self._scripts.settle,
            verbs.keep_details: self._scripts.keep_details,
            verbs.settle_runs: self._scripts.settle_runs,
        }
        super().__init__(in_flight=3, call_timeout=call_timeout)

    # --- coming and going ---

    async def open(self) -> None:
        if self._threads is not None:
            return
        # A new one: an event belongs to the loop that first waited for it.
        self._poked = asyncio.Event()
        self._server.open()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="rota-store")
        self._heart = ThreadPoolExecutor(1, thread_name_prefix="rota-store-heart")
        self._sweeping = ThreadPoolExecutor(1, thread_name_prefix="rota-store-sweep")
        try:
            await self._check_schema()
            await self._listener.start()
        except BaseException:
            await self.close()
            raise

    async def _check_schema(self) -> None:
        layout = await layout_of(self._scripts)
        if layout is None:
            await self._server.command("HSETNX", self._keys.meta, "schema", SCHEMA)
            if not await self._server.command("EXISTS", self._keys.types):
                await self._server.command("HSET", self._keys.meta, "indexes", INDEXES)
        elif layout.schema > SCHEMA:
            raise SchemaMismatch(
                f"The store {self._server.name} was written by a newer Rota (layout {layout.schema}, this one knows"
                f" {SCHEMA}). Upgrade this instance, or use another prefix: ?prefix=..."
            )
        elif layout.schema < SCHEMA or layout.is_unfinished:
            was = "An upgrade was begun and not finished" if layout.is_unfinished else "It was written by an older Rota"
            raise SchemaMismatch(
                f"The store {self._server.name} must be upgraded first. {was}. Stop all instances that use it and run:"
                f" rota db upgrade --store {self._server.name}"
            )

    async def upgrade(self, *, force: bool = False) -> int:
        self._server.open()
        try:
            return await upgrade(self._scripts, force=force)
        finally:
            await self._server.close()

    async def close(self) -> None:
        if self._threads is None:
            return
        await self._finish(self._drain())
        await self._listener.stop()
        pools = [pool for pool in (self._threads, self._heart, self._sweeping) if pool is not None]
        self._threads = self._heart = self._sweeping = None
        loop = asyncio.get_running_loop()
        await self._finish(*(loop.run_in_executor(None, pool.shutdown) for pool in pools))
        await self._server.close()

    async def _finish(self, *under_way: Awaitable[None]) -> None:
        """Wait for what is under way, unless the server does not answer: its connections are cut then.

        Whoever still waits for a reply is told so. The settings' limit is for calls; whoever closes is in a hurry.
        """
        _, late = await asyncio.wait([asyncio.ensure_future(each) for each in under_way], timeout=self._server.patience)
        if late:
            await self._server.cut()
            await asyncio.wait(late, timeout=self._server.patience)

    def _wake(self) -> None:
        self._poked.set()

    # --- steps on threads ---

    def _wait_for_thread(self, pool: ThreadPoolExecutor | None, function: Callable[[], T], timeout: float) -> T:
        future = self._open_pool(pool).submit(function)
        try:
            return future.result(timeout)
        except TimeoutError:
            raise StoreUnavailable(f"The store {self._server.name} did not answer within {timeout:g} s.") from None

    def _open_pool(self, pool: ThreadPoolExecutor | None) -> ThreadPoolExecutor:
        if pool is None:
            raise StoreUnavailable(
                f"The store {self._server.name} is not open. Use it inside `async with`, or open it first."
            )
        return pool

    async def _on_thread(self, function: Callable[[], T]) -> T:
        """Wait for a thread, but never cancel what it does."""
        work: Future[T] = self._open_pool(self._threads).submit(function)
        waiting = asyncio.wrap_future(work)
        done, _ = await asyncio.wait([waiting], timeout=2 * self.call_timeout)
        if not done:
            waiting.add_done_callback(_look_away)
            raise StoreUnavailable(
                f"The store {self._server.name} did not answer within {2 * self.call_timeout:g} s."
                " Whether the call took effect is unknown."
            )
        return waiting.result()

    def _run(self, name: str, verb: Callable[[Work], T], now: Instant | None) -> tuple[T, bool]:
        """Run a step until nothing was in its way. Steps of one instance take turns and lose no race to each other."""
        with self._turns[name]:
            for attempt in range(1, CONFLICT_TRIES + 1):
                transaction = RedisTransaction(self._scripts, name)
                answer = unit_of_work(now, verb, (), transaction)
                if transaction.commit():
                    return answer
                # Two instances that met once would meet again if both came back at the same time.
                self._pause.wait(random.random() * 0.001 * min(attempt, 20))  # noqa: S311  # it spreads, it hides nothing
        raise StoreUnavailable(
            f"The store {self._server.name} is too busy: {CONFLICT_TRIES} times in a row another instance was in the"
            " way. Nothing was written. Try again."
        )

    async def work_on(self, name: str, verb: Callable[[Work], T], now: Instant | None = None) -> T:
        """One unit of work on one type; whoever waits is woken if it made something due soon."""
        answer, is_soon = await self._on_thread(lambda: self._run(name, verb, now))
        if is_soon:
            self._wake()
        return answer

    def work_on_blocking(self, name: str, verb: Callable[[Work], T], now: Instant | None = None) -> T:
        """The same on a thread that may wait. Its own dispatcher learns what is due from the tick's answer."""
        return self._run(name, verb, now)[0]

    # --- grouping: one step per type ---

    async def _write(
        self, verb: Verb[Item, Result], items: list[Item], now: Instant | None = None
    ) -> list[Result | Exception]:
        names = set(map(_TYPE_OF, items))
        if len(names) == 1:
            return await self._write_one_type(verb, now, names.pop(), items)
        return await self._by_type(items, partial(self._write_one_type, verb, now))

    async def _write_one_type(
        self, verb: Verb[Item, Result], now: Instant | None, name: str, items: list[Item]
    ) -> list[Result | Exception]:
        """By the verb's script if it has one; what is not for the script in a unit of work.

        What the script has answered stands, whatever becomes of the others: it is written.
        """
        hot = self._hot.get(verb)
        if hot is None:
            return await self._write_slowly(verb, name, items, now)
        answers: list[Result | Exception | None] = await write_together(partial(hot, now, name), items)
        rare = [at for at, answer in enumerate(answers) if answer is None]
        if rare:
            slow = await self._write_slowly(verb, name, [items[at] for at in rare], now)
            for at, answer in zip(rare, slow, strict=True):
                answers[at] = answer
        return cast("list[Result | Exception]", answers)

    async def _write_slowly(
        self, verb: Verb[Item, Result], name: str, items: list[Item], now: Instant | None
    ) -> list[Result | Exception]:
        return await write_together(lambda part: self.work_on(name, lambda work: verb(work, part), now), items)

    async def _by_type(
        self,
        items: Sequence[Item],
        run: Callable[[str, list[Item]], Awaitable[Sequence[T]]],
        type_of: Callable[[Item], str] = _TYPE_OF,
    ) -> list[T]:
        """Hand each type its own items; the answers in the order of the items."""
        parts: defaultdict[str, list[int]] = defaultdict(list)
        for at, item in enumerate(items):
            parts[type_of(item)].append(at)
        found = await asyncio.gather(*(run(name, [items[at] for at in places]) for name, places in parts.items()))
        answers: dict[int, T] = {}
        for places, part in zip(parts.values(), found, strict=True):
            answers.update(zip(places, part, strict=True))
        return [answers[at] for at in range(len(items))]

    # --- types ---

    async def put_types(self, types: Sequence[TaskType]) -> list[TypeRecord]:
        for task_type in types:
            task_type.validate()
        records: list[TypeRecord] = []
        for task_type in types:
            # Listed before it is written, so that a crash in between leaves no type that nobody finds.
            await self._server.command("SADD", self._keys.types, task_type.name)
            records += await self.work_on(task_type.name, lambda work, one=task_type: verbs.put_types(work, [one]))
            for name in task_type.after:
                # Written beside the type that is followed: its scripts must see it in their own slot.
                await self._server.command("HSET", self._keys.type(name), "followed", 1)
        self._known_types.update(record.task_type.name for record in records)
        return records

    async def list_types(self) -> list[TypeRecord]:
        names = await self._queries.names()
        records = await self._queries.types(names)
        self._known_types.update(records)
        return [records[name] for name in names if name in records]

    async def override_type(self, name: str, changes: Mapping[str, object]) -> TypeRecord:
        checked = limits.check_overrides(changes)
        await self._check_types([name])
        return await self.work_on(name, lambda work: verbs.override_type(work, name, checked))

    # --- what all instances must agree on ---

    async def note(self, name: str, value: str, *, replace: bool = False) -> str:
        limits.check_note(name, value)
        await self._server.command("HSET" if replace else "HSETNX", self._keys.meta, f"{_NOTE}{name}", value)
        return await self.noted(name) or value

    async def noted(self, name: str) -> str | None:
        found: bytes | None = await self._server.command("HGET", self._keys.meta, f"{_NOTE}{name}")
        return None if found is None else found.decode()

    # --- running it ---

    async def claim(self, request: ClaimRequest, *, now: Instant | None = None) -> Claimed:
        if not request.wants:
            return Claimed([], None, await self.now() if now is None else now)
        wanted = sum(want - (name in request.own) for name, want in request.wants)
        if request.limit is not None and request.limit < wanted:  # one type's tasks may be in the way of another's
            return await self._claim_within(request, now)
        found = await self._scripts.claim(request.wants, request, now)
        claims = [
            await self._claim(replace(request, wants=[want]), now) if claimed is None else claimed
            for want, claimed in zip(request.wants, found, strict=True)
        ]
        tasks = [task for claimed in claims for task in claimed.tasks]
        due = [claimed.next_due_at for claimed in claims if claimed.next_due_at is not None]
        idle = [
            name
            for (name, _), each in zip(request.wants, claims, strict=True)
            if not each.tasks and each.next_due_at != each.now
        ]
        return Claimed(tasks, min(due, default=None), claims[-1].now, frozenset(idle))

    async def _claim(self, request: ClaimRequest, now: Instant | None) -> Claimed:
        """Something that recurs or expires is due: a unit of work decides."""
        return await self.work_on(request.wants[0][0], lambda work: verbs.claim(work, request), now)

    async def _claim_within(self, request: ClaimRequest, now: Instant | None) -> Claimed:
        """Several types share one limit, and each may be on a node of its own: look at all, share out, take from each.

        If another instance is in between, a type's share is filled from what is due there by then.
        """
        claiming, at = Claiming(request), now
        for _ in range(verbs.CLAIM_ROUNDS):
            queues = claiming.open_queues()
            if not queues:
                break
            looks = await self._scripts.look([(queue.name, queue.reach) for queue in queues], request, now)
            at = looks[-1][2]
            claiming.share_out(queues, [heads for heads, _, _ in looks])
            started = await self._start([queue for queue in queues if queue.share], request, now)
            for queue, (_, next_due_at, _) in zip(queues, looks, strict=True):
                tasks, spent_until = started.get(queue.name, ([], None))
                queue.take(tasks, next_due_at=spent_until or next_due_at, is_spent=spent_until is not None)
        return claiming.claimed(await self.now() if at is None else at)

    async def _start(
        self, queues: Sequence[Queue], request: ClaimRequest, now: Instant | None
    ) -> dict[str, tuple[list[Task], Instant | None]]:
        """What each queue could start of its share, and if its rate allows no more, until when."""
        if not queues:
            return {}
        wants = [(queue.name, queue.share) for queue in queues]
        found = await self._scripts.claim(wants, request, now, is_share=True)
        started: dict[str, tuple[list[Task], Instant | None]] = {}
        for (name, share), claimed in zip(wants, found, strict=True):
            if claimed is None:
                verb = partial(verbs.claim_share, task_type=name, share=share, request=request)
                started[name] = await self.work_on(name, verb, now)
            else:
                started[name] = claimed.tasks, claimed.next_due_at
        return started

    async def abandon(self, instance: str, claim_id: str, *, now: Instant | None = None) -> list[Task]:
        released: list[Task] = []
        for name in await self._queries.names():
            if await self._scripts.held(name, instance, claim_id):
                released += await self.work_on(name, lambda work: verbs.abandon(work, instance, claim_id), now)
        return released

    def renew(
        self,
        renewals: Sequence[Renewal],
        lease_ms: Millis,
        *,
        now: Instant | None = None,
        timeout: float | None = None,
    ) -> list[Reply]:
        seconds = self.call_timeout if timeout is None else timeout
        for renewal in renewals:
            limits.check_renewal(renewal)
        replies: dict[int, Reply] = {}
        for name in sorted({renewal.task_type for renewal in renewals}):
            places = [at for at, renewal in enumerate(renewals) if renewal.task_type == name]
            part = [renewals[at] for at in places]
            found = self._wait_for_thread(
                self._heart, lambda name=name, part=part: self._scripts.renew(name, part, lease_ms, now), seconds
            )
            replies.update(zip(places, found, strict=True))
        return [replies[at] for at in range(len(renewals))]

    async def reset_breaker(self, identities: Sequence[Identity]) -> None:
        async def run(name: str, part: list[Identity]) -> list[None]:
            await self.work_on(name, lambda work: verbs.reset_breaker(work, part))
            return [None] * len(part)

        await self._by_type(identities, run)

    # --- duties ---

    async def now(self) -> Instant:
        return await self._scripts.now()

    async def tick(self, beat: Beat, *, now: Instant | None = None) -> Tick:
        return await self._on_thread(lambda: duties.tick(self, self._scripts, beat, now))

    def tick_blocking(self, beat: Beat, *, now: Instant | None = None, timeout: float | None = None) -> Tick:
        seconds = self.call_timeout if timeout is None else timeout
        return self._wait_for_thread(self._sweeping, lambda: duties.tick(self, self._scripts, beat, now), seconds)

    async def prune(self, run_ttl_ms: Millis, limit: int = 1_000, *, now: Instant | None = None) -> Purged:
        at = await self.now() if now is None else now
        purged = await duties.prune(self, self._scripts, await self._queries.names(), run_ttl_ms, limit, at)
        return purged._replace(handed_on=await self.pump(limit, now=now))

    async def pump(self, limit: int = 200, *, now: Instant | None = None) -> int:
        return await duties.pump(self, self._scripts, self._queries, limit, now)

    async def take_turn(self, duty: str, for_ms: Millis) -> bool:
        """Whether this instance is the first to ask within so many milliseconds: what one of many does for all."""
        # What an older version's turn was good for is not enough where there are new indexes.
        key = f"{self._keys.prefix}turn:{duty}:{INDEXES}"
        return await self._server.command("SET", key, self._scripts.origin, "NX", "PX", for_ms) is not None

    async def reconcile(self, rest: Rest = without_rest) -> Reconciled:
        """Compare every index with the records and repair it, with a rest after each page."""
        return await reconcile(self._scripts, self._queries, rest)

    def when_harmed(self, call: Callable[[], None]) -> None:
        """Have `call` called, on any thread, when a script has stopped half-way and indexes may be wrong."""
        self._server.on_half_done = call

    async def take(
        self, bucket: str, amount: int, *, rate: float, burst: int, owe: bool = False, now: Instant | None = None
    ) -> Taken:
        limits.check_take(bucket, amount, rate, burst, owe=owe)
        return await self._scripts.take(bucket, amount, rate, burst, now, owe=owe)

    async def leave(self, instance: str) -> None:
        await self._server.command("HDEL", self._keys.instances, instance)

    # --- what ran, over time; one user's data ---

    async def record(self, slices: Sequence[Slice], *, now: Instant | None = None) -> None:
        async def run(name: str, part: list[Slice]) -> list[None]:
            await self.work_on(name, lambda work: verbs.record(work, part), now)
            return [None] * len(part)

        await self._by_type(slices, run)

    async def count_failures(self, reports: Sequence[FailureReport], *, now: Instant | None = None) -> None:
        for report in reports:
            limits.check_failure(report)

        async def run(name: str, part: list[FailureReport]) -> list[None]:
            await self.work_on(name, lambda work: verbs.count_failures(work, part), now)
            return [None] * len(part)

        await self._by_type(reports, run)

    async def mute_failure(
        self, task_type: str, failure_id: str, until: Instant | None, by: str, *, now: Instant | None = None
    ) -> FailureGroup | None:
        return await self.work_on(
            task_type, lambda work: verbs.mute_failure(work, task_type, failure_id, until, by), now
        )

    async def erase_user(self, user_id: str, *, limit: int = 500, now: Instant | None = None) -> Erasure:
        limits.check_user(user_id)
        limits.check_page(limit)
        at = await self.now() if now is None else now
        return await erasing.erase_user(self, self._scripts, self._queries, user_id, limit, at)

    async def erasures(self, *, with_done: bool = False) -> list[Erasure]:
        return await erasing.erasures(self._scripts, with_done=with_done)

    async def _known_of(self, user_id: str, after: Identity | None, limit: int) -> Page[Snapshot]:
        return await self._queries.known_of(user_id, after, limit)

    # --- moving to another store ---

    async def export(self, cursor: str | None = None, limit: int = DEFAULT_PAGE) -> Page[Snapshot]:
        limits.check_page(limit)
        return await self._queries.export(None if cursor is None else limits.check_cursor(cursor), limit)

    async def restore(self, snapshots: Sequence[Snapshot], *, now: Instant | None = None) -> list[Restored]:
        for snapshot in snapshots:
            limits.check_identity(snapshot.identity)

        async def run(name: str, part: list[Snapshot]) -> list[Restored]:
            return await self.work_on(name, lambda work: verbs.restore(work, part), now)

        return await self._by_type(snapshots, run, attrgetter("identity.task_type"))

    # --- queries ---

    async def get(self, identities: Sequence[Identity]) -> list[Task | None]:
        return await self._queries.get(identities)

    async def find(self, query: TaskQuery) -> Page[Task]:
        limits.check_find(query)
        return await (self._queries if query.sort is TaskSort.KEY else self._sorted).find(query)

    async def runs(self, query: RunQuery) -> Page[RunRecord]:
        limits.check_page(query.limit)
        return await (self._queries if query.sort is RunSort.NEWEST else self._sorted).runs(query)

    async def details(self, runs: Sequence[RunRef]) -> list[str | None]:
        for run in runs:
            limits.check_run(run)
        return await self._queries.details(runs)

    async def failures(self, task_type: str | None = None, failure_id: str | None = None) -> list[Failures]:
        return await self._queries.failures(task_type, failure_id)

    async def counts(self) -> dict[str, Counts]:
        return await self._queries.counts()

    async def next_due_by_type(self) -> dict[str, Instant]:
        return await self._queries.next_due_by_type()

    async def queue_position(self, identity: Identity, *, now: Instant | None = None) -> QueuePosition:
        limits.check_identity(identity)
        return await self._queries.queue_position(identity, now)

    async def history(
        self,
        resolution: Resolution,
        since_at: Instant,
        until_at: Instant | None = None,
        *,
        task_type: str | None = None,
    ) -> list[Slice]:
        return await self._queries.history(resolution, since_at, until_at, task_type)

    async def instances(self) -> list[Instance]:
        found = await self._scripts.instances()
        return [found[name] for name in sorted(found)]


def _look_away(future: asyncio.Future[Any]) -> None:
    """The caller has been told already; an error that comes later is nobody's surprise."""
    if not future.cancelled():
        future.exception()
