"""The same random verbs on a MemoryStore and on another store: after every step, answers and whole records are equal.

`ROTA_SEQUENCES` says how many sequences of up to 50 steps are run in all (300 unless told; more before a release). One
database serves them all: between two sequences it is emptied, which takes a fraction of the time of a new one.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Sequence
from itertools import count
from typing import TypeVar, cast

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace
from sqlalchemy import Engine, create_engine, delete, event, func, select

from rota.clock import MINUTE, SECOND, Instant, Millis
from rota.core.task import (
    Activity,
    Change,
    Identity,
    NewTask,
    Renewal,
    RunRecord,
    Settlement,
    Task,
    TaskStatus,
    Transition,
)
from rota.core.task_type import RateLimit, RetryPolicy, TaskType, TriggerMode
from rota.database.tables import metadata
from rota.database.tables import tasks as tables
from rota.stores.base import Beat, ClaimRequest, Counts, Erasure, Overrides, QueuePosition, RunQuery, Store, TaskQuery
from rota.stores.memory import MemoryStore
from rota.stores.redis import RedisStore
from rota.stores.sql import SqlStore
from rota.stores.sql.codec import ENTRY_COLUMNS, decode_entry
from rota.testing.clock import START, FakeClock
from rota.testing.conformance.table import is_possible
from rota.testing.conformance.world import SETTLING, policy
from rota.testing.redis_servers import RedisServer
from rota.triggers import Interval, Once, encode_trigger

SEQUENCES = int(os.environ.get("ROTA_SEQUENCES", "300"))
STEPS = 50
CHUNKS = 8
LEASE: Millis = 10 * SECOND

_PATIENCE = RetryPolicy(base_ms=2 * SECOND, factor=2.0, max_ms=8 * SECOND)
TYPES = [
    TaskType(name="work", interval_ms=MINUTE, max_retries=1, retry=_PATIENCE, task_ttl_ms=5 * MINUTE),
    TaskType(
        name="user",
        interval_ms=30 * SECOND,
        mode="debounce",
        cooldown="defer",
        max_pending=2,
        max_retries=1,
        dead_ttl_ms=5 * MINUTE,
    ),
    TaskType(
        name="slow",
        rate_limit=RateLimit(rate=0.2, burst=2),
        start_limit=RateLimit(rate=0.15, burst=2),
        on_busy="ignore",
        interval_ms=0,
        max_retries=0,
    ),
    TaskType(name="follow", trigger_mode=TriggerMode.AFTER, after=("work", "user"), interval_ms=5 * SECOND),
]
NAMES = [task_type.name for task_type in TYPES]

types = st.sampled_from(NAMES)
keys = st.sampled_from(["a", "b", "c:%", "ü"])
places = st.integers(min_value=0, max_value=5)
spans = st.sampled_from([0, SECOND, 7 * SECOND, 40 * SECOND, 3 * MINUTE])
instances = st.sampled_from(["i1", "i2"])
policies = st.sampled_from(
    [
        None,
        policy(misfire="all"),
        policy(misfire="skip", grace_ms=10 * SECOND),
        policy(overlap="queue"),
        policy(misfire="all", overlap="queue", jitter_ms=20 * SECOND),
        policy(grace_ms=5 * SECOND),
    ]
)
overrides = st.sampled_from(
    [
        *[dict[str, object].fromkeys(Overrides.__struct_fields__)] * 3,
        {"enabled": False},
        {"frozen": True},
        {"draining": True},
        {"max_pending": 2},
        {"rate_limit": {"rate": 0.1, "burst": 2}},
        {"start_limit": {"rate": 0.1, "burst": 1}},
    ]
)
triggers = st.sampled_from(["none", "none", "minute", "half", "once"])
CHANGES = ["payload", "trigger", "due", "priority", "limits", "policy", "no policy"]
ASKED = [
    Transition.PAUSE,
    Transition.RESUME,
    Transition.CANCEL,
    Transition.RUN_NOW,
    Transition.REDRIVE,
    Transition.END,
    Transition.PURGE,
    Transition.ERASE,
]


_ALL_TASKS = select(*ENTRY_COLUMNS).order_by(tables.tasks.c.task_type, tables.tasks.c.key)
_ALL_COUNTS = select(
    tables.task_counts.c.task_type, *(func.sum(tables.task_counts.c[name]) for name in tables.COUNTERS)
).group_by(tables.task_counts.c.task_type)

T = TypeVar("T")


def trigger_of(word: str, now: Instant) -> str | None:
    match word:
        case "minute":
            return encode_trigger(Interval(MINUTE, now))
        case "half":
            return encode_trigger(Interval(30 * SECOND, START))
        case "once":
            return encode_trigger(Once(now + 20 * SECOND))
        case _:
            return None


class Side:
    """One of the two stores, and the tokens that it has handed out, in order: each store has its own."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.tokens: list[tuple[str, int]] = []
        """With their types: a token is unique in its type, and need not be in the store."""

    def name(self, task_type: str, token: int) -> int:
        """Which token it is, counted from 1: the same on both sides."""
        return self.tokens.index((task_type, token)) + 1 if token else 0

    def token(self, number: int) -> int:
        return self.tokens[number - 1][1]

    def take(self, tasks: Sequence[Task]) -> None:
        """The tokens of a claim: each is higher than all that its type has handed out."""
        for task in tasks:
            assert task.token > max((token for name, token in self.tokens if name == task.task_type), default=0)
            self.tokens.append((task.task_type, task.token))

    def plain(self, answer: object) -> object:
        """An answer without what each store makes up for itself."""
        if isinstance(answer, Task):
            of = answer.task_type
            return replace(answer, token=self.name(of, answer.token), last_token=self.name(of, answer.last_token))
        if isinstance(answer, RunRecord):
            return replace(answer, token=self.name(answer.task_type, answer.token), run_id="")
        if isinstance(answer, QueuePosition):
            return replace(
                answer,
                task=cast("Task | None", self.plain(answer.task)),
                tokens=round(answer.tokens or 0, 6),
                start_tokens=round(answer.start_tokens or 0, 6),
            )
        if isinstance(answer, list | tuple):
            return [self.plain(item) for item in cast("Sequence[object]", answer)]
        return answer


class Pair(ABC):
    """Memory and another store side by side."""

    def __init__(self, runner: asyncio.Runner, subject: Store) -> None:
        self.runner = runner
        self.subject = subject
        self.chunk = 0

    @abstractmethod
    def tasks(self) -> list[Task]: ...

    @abstractmethod
    def counts(self) -> dict[str, Counts]: ...

    @abstractmethod
    def reset(self) -> None:
        """Empty, but for the types."""

    def check(self) -> None:  # noqa: B027  # most stores have nothing more to show
        """What must hold in this store alone, at the end of a sequence."""

    @abstractmethod
    def close(self) -> None: ...


class RedisPair(Pair):
    """Redis is asked itself: reading there costs nothing. At the end its indexes must equal its records."""

    def __init__(self, runner: asyncio.Runner, subject: RedisStore, server: RedisServer) -> None:
        super().__init__(runner, subject)
        self._store = subject
        self._client = server.client()

    def tasks(self) -> list[Task]:
        return self.runner.run(self._store.find(TaskQuery(limit=1_000))).items

    def counts(self) -> dict[str, Counts]:
        return self.runner.run(self._store.counts())

    def reset(self) -> None:
        self._client.execute_command("FLUSHALL")
        self.runner.run(self._store.put_types(TYPES))

    def check(self) -> None:
        repaired = self.runner.run(self._store.reconcile())
        assert repaired.total == 0, repaired

    def close(self) -> None:
        self._client.close()


class SqlPair(Pair):
    """The records are read beside the store, on a connection of our own."""

    def __init__(self, runner: asyncio.Runner, subject: SqlStore, engine: Engine) -> None:
        super().__init__(runner, subject)
        self._engine = engine
        self._connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def close(self) -> None:
        self._connection.close()
        self._engine.dispose()

    def tasks(self) -> list[Task]:
        entries = [decode_entry(tuple(row)) for row in self._connection.execute(_ALL_TASKS)]
        return [entry.task for entry in entries if entry.task is not None]

    def counts(self) -> dict[str, Counts]:
        found: dict[str, Counts] = {}
        for name, *sums in self._connection.execute(_ALL_COUNTS):
            found[name] = Counts(*(int(value) for value in sums))
        return found

    def reset(self) -> None:
        """Empty, but for the types and the lanes: a store remembers that it has written those."""
        for name in NAMES:
            self.runner.run(self.subject.override_type(name, dict.fromkeys(Overrides.__struct_fields__)))
        kept = {tables.task_types, tables.lanes, tables.sequences}
        for table in metadata.sorted_tables:
            if table not in kept:
                self._connection.execute(delete(table))


class StoreMachine(RuleBasedStateMachine):
    def __init__(self, pair: Pair) -> None:
        super().__init__()
        pair.reset()
        self.pair = pair
        self.clock = FakeClock()
        self.sides = (Side(MemoryStore(self.clock)), Side(pair.subject))
        self.claims = count(1)
        self.claim_ids: list[tuple[str, str]] = []
        self.held: list[tuple[Identity, int]] = []
        self.rows = 0
        self.tasks: list[Task] = []
        at_once(self.sides[0].store.put_types(TYPES))

    @property
    def now(self) -> Instant:
        return self.clock.now()

    def both(self, call: Callable[[Side], Coroutine[None, None, object]]) -> None:
        """Ask both sides; their answers must be equal."""
        memory, sql = self.sides
        expected = memory.plain(at_once(call(memory)))
        assert sql.plain(self.pair.runner.run(call(sql))) == expected

    # --- verbs ---

    @rule(
        name=types,
        key=keys,
        word=triggers,
        later=spans,
        text=policies,
        priority=st.sampled_from([None, 0, 9]),
        serial=st.sampled_from([None, None, "s"]),
        permits=st.sampled_from([1, 1, 2]),
        max_runs=st.sampled_from([None, None, 1, 2]),
        expires=st.sampled_from([None, None, 2 * MINUTE]),
        owner=st.sampled_from([None, "o"]),
        upsert=st.booleans(),
    )
    def schedule(
        self,
        name: str,
        key: str,
        word: str,
        later: Millis,
        text: str | None,
        priority: int | None,
        serial: str | None,
        permits: int,
        max_runs: int | None,
        expires: Millis | None,
        owner: str | None,
        upsert: bool,
    ) -> None:
        new = NewTask(
            task_type=name,
            key=key,
            trigger=trigger_of(word, self.now),
            scheduled_at=self.now + later if word == "none" else None,
            policy=text if word in ("minute", "half") else None,
            priority=priority,
            serial=serial,
            # One serial has one number of permits: "s" of this type.
            permits=2 if name == "work" else 1,
            cost=min(permits, 2),
            max_runs=max_runs,
            expires_at=None if expires is None else self.now + expires,
            owner=owner,
            owner_limit=None if owner is None else 2,
            replace=upsert,
        )
        self.both(lambda side: side.store.schedule([new], now=self.now))

    @rule(name=types, key=keys, spooled=st.sampled_from([None, None, MINUTE]))
    def touch(self, name: str, key: str, spooled: Millis | None) -> None:
        at = None if spooled is None else self.now - spooled
        activity = Activity(task_type=name, key=key, user_id="u", at=at)
        self.both(lambda side: side.store.touch([activity, replace(activity, at=None)], now=self.now))

    @rule(name=types, key=keys, what=st.sampled_from(CHANGES))
    def update(self, name: str, key: str, what: str) -> None:
        self.change(Identity(name, key), what)

    @precondition(lambda self: self.held)
    @rule(place=places, what=st.sampled_from(CHANGES))
    def update_what_was_claimed(self, place: int, what: str) -> None:
        """Left to chance, few changes would meet a run."""
        self.change(self.held[-1 - place % len(self.held)][0], what)

    def change(self, identity: Identity, what: str) -> None:
        change = Change(task_type=identity.task_type, key=identity.key)
        match what:
            case "trigger":
                change = replace(change, trigger=trigger_of("minute", self.now))
            case "due":
                change = replace(change, scheduled_at=self.now + 5 * SECOND)
            case "priority":
                change = replace(change, priority=10)
            case "limits":
                change = replace(change, max_runs=3, expires_at=self.now + 3 * MINUTE)
            case "policy":
                change = replace(change, policy=policy(misfire="all"))
            case "no policy":
                change = replace(change, policy=None)
            case _:
                change = replace(change, payload='{"edited": true}')
        self.both(lambda side: side.store.update([change], now=self.now))

    @rule(name=types, key=keys)
    def set_a_single_time(self, name: str, key: str) -> None:
        change = Change(task_type=name, key=key, trigger=encode_trigger(Once(self.now + 20 * SECOND)))
        self.both(lambda side: side.store.update([change], now=self.now))

    @rule(limit=st.integers(1, 4), instance=instances, names=st.permutations(NAMES), passed=keys)
    def claim(self, limit: int, instance: str, names: list[str], passed: str) -> None:
        self.claimed(instance, [(name, limit) for name in names], frozenset({Identity("slow", passed)}))

    @rule(
        limit=st.integers(0, 4),
        want=st.integers(1, 4),
        names=st.permutations(NAMES),
        running=st.dictionaries(types, st.integers(0, 3)),
        own=st.frozensets(types),
    )
    def claim_within(
        self, limit: int, want: int, names: list[str], running: dict[str, int], own: frozenset[str]
    ) -> None:
        """Several types share one limit: the same ones start, in every store."""
        wants = [(name, want) for name in names]
        began = self.claimed("i1", wants, frozenset(), limit=limit, running=running, own=own)
        assert began <= limit + len(own)

    def claimed(
        self,
        instance: str,
        wants: list[tuple[str, int]],
        exclude: frozenset[Identity],
        *,
        limit: int | None = None,
        running: dict[str, int] | None = None,
        own: frozenset[str] = frozenset(),
    ) -> int:
        """Claim on both sides; how many tasks they gave."""
        claim_id = f"c{next(self.claims)}"
        request = ClaimRequest(
            wants=wants,
            instance=instance,
            claim_id=claim_id,
            lease_ms=LEASE,
            exclude=exclude,
            limit=limit,
            running=running or {},
            own=own,
        )
        memory, sql = self.sides
        expected = at_once(memory.store.claim(request, now=self.now))
        claimed = self.pair.runner.run(sql.store.claim(request, now=self.now))
        for side, answer in ((memory, expected), (sql, claimed)):
            side.take(answer.tasks)
        assert sql.plain(claimed) == memory.plain(expected)
        self.held += [(task.identity, memory.name(task.task_type, task.token)) for task in expected.tasks]
        self.claim_ids.append((instance, claim_id))
        return len(expected.tasks)

    @rule(names=st.permutations(NAMES), renewed=st.integers(0, 4), until=st.sampled_from([2, 7]))
    def crash_with_all_that_it_runs(self, names: list[str], renewed: int, until: int) -> None:
        """An instance claims what is due, renews some of it, and is gone; another one sweeps, long enough or not."""
        together = self.claimed("doomed", [(name, 4) for name in names], frozenset())
        self.clock.advance(3)
        for place in range(min(renewed, together)):
            self.renewal(place, "half done")
        self.sweep("i2", until)

    @precondition(lambda self: self.held)
    @rule(place=places, transition=st.sampled_from(SETTLING), after_ms=st.sampled_from([None, 0, 5 * SECOND]))
    def settle(self, place: int, transition: Transition, after_ms: Millis | None) -> None:
        identity, number = self.held[-1 - place % len(self.held)]
        self.both(
            lambda side: side.store.settle(
                [
                    Settlement(
                        task_type=identity.task_type,
                        key=identity.key,
                        token=side.token(number),
                        transition=transition,
                        after_ms=after_ms,
                        reason="why" if after_ms else None,
                        result="done",
                    )
                ],
                now=self.now,
            )
        )

    @precondition(lambda self: self.held)
    @rule(
        ends=st.lists(
            st.tuples(
                places,
                st.sampled_from([Transition.COMPLETE, Transition.COMPLETE, Transition.COMPLETE, *SETTLING]),
                st.sampled_from([None, None, None, "done"]),
            ),
            min_size=1,
            max_size=6,
        ),
        took=st.integers(0, 3),
    )
    def settle_as_a_worker(self, ends: list[tuple[int, Transition, str | None]], took: Millis) -> None:
        """Many at once, some of them twice: most have succeeded and say no more, which stores may write in a shorter
        way."""
        runs = [(*self.held[-1 - place % len(self.held)], transition, result) for place, transition, result in ends]
        self.both(
            lambda side: side.store.settle_runs(
                [
                    Settlement(
                        task_type=identity.task_type,
                        key=identity.key,
                        token=side.token(number),
                        transition=transition,
                        duration_ms=took,
                        result=result,
                    )
                    for identity, number, transition, result in runs
                ],
                now=self.now,
            )
        )

    @precondition(lambda self: self.held)
    @rule(place=places, progress=st.sampled_from([None, "1"]))
    def renew(self, place: int, progress: str | None) -> None:
        self.renewal(place, progress)

    def renewal(self, place: int, progress: str | None) -> None:
        identity, number = self.held[-1 - place % len(self.held)]
        answers = [
            side.plain(
                side.store.renew([Renewal(*identity, side.token(number), progress)], LEASE, now=self.now),
            )
            for side in self.sides
        ]
        assert answers[1] == answers[0]

    @rule(name=types, key=keys, asked=st.sampled_from(ASKED))
    def apply(self, name: str, key: str, asked: Transition) -> None:
        self.both(lambda side: side.store.apply(asked, [Identity(name, key)], now=self.now))

    @precondition(lambda self: self.held)
    @rule(
        place=places,
        asked=st.sampled_from(
            [Transition.CANCEL, Transition.CANCEL, Transition.PAUSE, Transition.RESUME, Transition.RUN_NOW]
        ),
    )
    def ask_what_was_claimed(self, place: int, asked: Transition) -> None:
        identity, _ = self.held[-1 - place % len(self.held)]
        self.both(lambda side: side.store.apply(asked, [identity], now=self.now))

    @rule(key=keys, asked=st.lists(st.sampled_from(ASKED), min_size=2, max_size=4))
    def ask_in_a_row(self, key: str, asked: list[Transition]) -> None:
        for each in asked:
            self.both(lambda side, each=each: side.store.apply(each, [Identity("work", key)], now=self.now))

    @precondition(lambda self: self.claim_ids)
    @rule(place=places)
    def abandon(self, place: int) -> None:
        instance, claim_id = self.claim_ids[-1 - place % len(self.claim_ids)]
        self.both(lambda side: side.store.abandon(instance, claim_id, now=self.now))

    @rule(instance=instances, rounds=st.integers(1, 6))
    def tick(self, instance: str, rounds: int) -> None:
        self.sweep(instance, rounds)

    def sweep(self, instance: str, rounds: int) -> None:
        beat = Beat(instance=instance, types=tuple(NAMES), lease_ms=LEASE)
        for _ in range(rounds):
            self.both(lambda side: side.store.tick(beat, now=self.now))
            self.clock.advance(2)

    @rule(seconds=st.sampled_from([1, 5, 11, 30, 61, 200]))
    def advance(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def go_to_the_next_due_task(self) -> None:
        due = [task.scheduled_at for task in self.tasks if task.status is TaskStatus.PENDING]
        if due and min(due) > self.now:
            self.clock.set(min(due))

    @rule(limit=st.sampled_from([1, 100]))
    def prune(self, limit: int) -> None:
        self.both(lambda side: side.store.prune(5 * MINUTE, limit, now=self.now))

    @rule()
    def pump(self) -> None:
        self.both(lambda side: side.store.pump(3, now=self.now))

    @rule(
        bucket=st.sampled_from(["b", "b", "type:slow", "type:slow:starts"]),
        amount=st.integers(-2, 3),
        owed=st.sampled_from([None, None, 0, 7]),
    )
    def take(self, bucket: str, amount: int, owed: int | None) -> None:
        owe, amount = owed is not None, amount + (owed or 0)
        self.both(lambda side: side.store.take(bucket, amount, rate=0.3, burst=3, owe=owe, now=self.now))

    @rule(name=types, changes=overrides)
    def override(self, name: str, changes: dict[str, object]) -> None:
        self.both(lambda side: side.store.override_type(name, changes))

    @rule(user_id=st.sampled_from(["u", "a", "c:%"]), limit=st.sampled_from([2, 500]))
    def erase_user(self, user_id: str, limit: int) -> None:
        """Done in one go on both sides, or step by step: each store goes its own way, and all come to the same end."""
        ends = [self.erased(side, user_id, limit) for side in self.sides]
        assert ends[1] == ends[0]

    def erased(self, side: Side, user_id: str, limit: int) -> Erasure:
        before = None
        while True:
            call = side.store.erase_user(user_id, limit=limit, now=self.now)
            erasure = at_once(call) if isinstance(side.store, MemoryStore) else self.pair.runner.run(call)
            if not erasure.has_more(before):
                return erasure
            before = erasure

    @rule(name=types, key=keys)
    def stand(self, name: str, key: str) -> None:
        self.both(lambda side: side.store.queue_position(Identity(name, key), now=self.now))
        self.both(lambda side: side.store.next_due_by_type())

    @rule(name=types, key=keys)
    def reset_breaker(self, name: str, key: str) -> None:
        self.both(lambda side: side.store.reset_breaker([Identity(name, key)]))

    # --- what holds after every step ---

    @invariant()
    def all_is_well(self) -> None:
        memory, sql = self.sides
        self.tasks = at_once(memory.store.find(TaskQuery(limit=1_000))).items
        assert sql.plain(self.pair.tasks()) == memory.plain(self.tasks)
        self.counts_equal_a_scan()
        self.tokens_are_unique()
        self.situations_are_possible()
        self.whoever_is_parked_waits_for_somebody()
        self.no_serial_has_too_many_holders()

    def counts_equal_a_scan(self) -> None:
        kept = self.pair.counts()
        model = at_once(self.sides[0].store.counts())
        for name in NAMES:
            counts = kept.get(name, Counts())
            assert counts == model.get(name, Counts())
            there = Counter(task.status for task in self.tasks if task.task_type == name)
            assert [getattr(counts, status) for status in TaskStatus] == [there[status] for status in TaskStatus]

    def tokens_are_unique(self) -> None:
        for side in self.sides:
            assert len(set(side.tokens)) == len(side.tokens)

    def situations_are_possible(self) -> None:
        for task in self.tasks:
            assert is_possible(task.status, task.want, task.dirty), task

    def whoever_is_parked_waits_for_somebody(self) -> None:
        for task in self.tasks:
            if not task.parked:
                continue
            assert task.status is TaskStatus.PENDING
            rivals = [
                rival
                for rival in self.tasks
                if (rival.task_type, rival.serial) == (task.task_type, task.serial)
                and (rival.status is TaskStatus.RUNNING or _is_about_to_run(rival, self.now))
            ]
            assert rivals, f"{task.identity} is parked behind nobody"

    def no_serial_has_too_many_holders(self) -> None:
        for name, permits in (("work", 2), ("user", 1), ("slow", 1), ("follow", 1)):
            running = [t for t in self.tasks if t.task_type == name and t.serial and t.status is TaskStatus.RUNNING]
            assert len(running) <= permits

    def teardown(self) -> None:
        self.both(lambda side: side.store.find(TaskQuery(limit=1_000)))
        # The rows of one step have no order among themselves.
        memory, sql = self.sides
        expected = at_once(memory.store.runs(RunQuery(limit=1_000))).items
        rows = self.pair.runner.run(sql.store.runs(RunQuery(limit=1_000))).items
        assert sorted(map(repr, map(sql.plain, rows))) == sorted(map(repr, map(memory.plain, expected)))
        self.both(lambda side: _seen_at(side.store))
        self.pair.check()


def at_once(call: Coroutine[None, None, T]) -> T:
    """The answer of a call that waits for nobody, as every call of a MemoryStore with a `now` does."""
    try:
        call.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    raise AssertionError("a call of the MemoryStore waits for somebody")


def _is_about_to_run(task: Task, now: Instant) -> bool:
    return task.status is TaskStatus.PENDING and not task.parked and task.scheduled_at <= now


async def _seen_at(store: Store) -> list[tuple[str, Instant]]:
    return [(instance.beat.instance, instance.seen_at) for instance in await store.instances()]


def _quick_engine(url: str) -> Engine:
    if url.startswith("postgresql"):
        return create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    engine = create_engine(url.partition("?")[0])

    @event.listens_for(engine, "connect")
    def _connected(connection: object, _record: object) -> None:  # pyright: ignore[reportUnusedFunction]  # SQLAlchemy calls it
        connection.execute("PRAGMA synchronous = OFF")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # a sqlite3 connection

    return engine


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Generator[Pair]:
    name, chunk = request.param
    url: str = request.getfixturevalue(f"{name}_url")
    with asyncio.Runner() as runner:
        pair = _pair(name, url, runner, request)
        pair.chunk = chunk
        runner.run(pair.subject.open())
        runner.run(pair.subject.put_types(TYPES))
        try:
            yield pair
            pair.close()
        finally:
            runner.run(pair.subject.close())


def _pair(name: str, url: str, runner: asyncio.Runner, request: pytest.FixtureRequest) -> Pair:
    if name == "redis":
        return RedisPair(runner, RedisStore(url, clock=FakeClock()), request.getfixturevalue("redis"))
    return SqlPair(runner, SqlStore(url, clock=FakeClock()), _quick_engine(url))


# PostgreSQL differs from SQLite in its locks more than in its records, and takes longer for each step.
_SHARES = {"sqlite": 0.5, "postgres": 0.2, "redis": 0.3}


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    "pair",
    [(name, chunk) for name in _SHARES for chunk in range(CHUNKS)],
    indirect=True,
    ids=lambda p: f"{p[0]}-{p[1]}",
)
def test_every_store_does_what_memory_does(pair: Pair) -> None:
    name = pair.subject.url.partition(":")[0].replace("postgresql", "postgres")

    def machine() -> StoreMachine:
        return StoreMachine(pair)

    if settings().derandomize:
        # Left to itself every chunk would go through the same sequences.
        machine = seed(f"{name} {pair.chunk}")(machine)
    run_state_machine_as_test(
        cast("type[RuleBasedStateMachine]", machine),  # any maker of machines will do
        settings=settings(
            max_examples=max(1, round(SEQUENCES * _SHARES[name] / CHUNKS)),
            stateful_step_count=STEPS,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        ),
    )
