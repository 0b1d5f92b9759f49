"""One atomic step on Redis: read freely, remember what was read, write everything in one script if it still holds.

Nothing is locked. What a step has read is guarded: the identities by a digest of their records, sets by their size,
counters by their value. `commit` applies the whole step, or nothing if a guard does not hold; the store then runs the
step again. Within the step its own writes are seen, although none has been sent.

Everything in one step belongs to one type, and so to one slot of a Cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha1
from typing import Any

import msgspec

from rota.clock import DAY, Instant, Millis
from rota.core.bucket import Bucket, start_bucket
from rota.core.failure import FailureGroup, FailureKey, decode_failure_group
from rota.core.history import Resolution, Slice, SliceKey, decode_slice
from rota.core.lifecycle import Step
from rota.core.rank import rank
from rota.core.task import NO_PAST, Entry, Identity, RunRecord, Settlement, Task, TaskStatus
from rota.core.task_type import encode_task_type
from rota.stores.base import Instance, RunLeft, TypeRecord
from rota.stores.redis.codec import encode_entry, encode_run, is_aside
from rota.stores.redis.index import Command, index_members, moves
from rota.stores.redis.keys import NEED_TTL_MS, NORMAL_LANE, SEEN
from rota.stores.redis.scripts import Scripts, decode_types
from rota.stores.transaction import Completion, Written

__all__ = ["RedisTransaction", "stream_order"]

_NOTHING = Entry(None, NO_PAST)
_OLDEST = "0-0"
_NEAR_FULL = 1_000
"""A type this close to its limit counts exactly; further away nothing waits for the counter."""

Guard = list[str | int]


class RedisTransaction:
    """A `Transaction` on one type: see `stores/transaction.py` for the contract."""

    def __init__(self, scripts: Scripts, task_type: str) -> None:
        self._scripts = scripts
        self._server = scripts.server
        self._keys = scripts.keys
        self._type = task_type
        self._types: Mapping[str, TypeRecord] | None = None
        self._raw_types: dict[str, tuple[str, str]] = {}
        self._records: dict[Identity, bytes] = {}
        self._base: dict[Identity, Entry] = {}
        self._entries: dict[Identity, Entry] = {}
        self._guards: dict[tuple[str | int, ...], Guard] = {}
        self._commands: list[Command] = []
        self._deltas: defaultdict[str, int] = defaultdict(int)
        self._runs: list[RunRecord] = []
        self._completions: list[list[str]] = []
        self._details: list[tuple[str, int, str]] = []
        self._failures: dict[str, str] = {}
        self._needs: dict[Identity, dict[str, str]] = {}
        self._slices: dict[tuple[Resolution, SliceKey], str] = {}
        self._wakes = False

    def now(self) -> Instant:
        return self._scripts.now_blocking()

    def poke(self) -> None:
        self._wakes = True

    # --- one type, one slot ---

    def _belongs_to(self, task_type: str) -> None:
        assert self._type == task_type, f"one step on {self._type} and {task_type}: they may lie in two slots"

    def _guard(self, *guard: str | int) -> None:
        # The first look counts: what it saw must still be so at the end.
        self._guards.setdefault(guard[:3] if guard[0] in ("field", "scored") else guard[:2], list(guard))

    # --- committing ---

    def commit(self) -> bool:
        """Write everything; False if something that was read has changed meanwhile, and nothing was written."""
        commands = [*self._entry_commands(), *self._commands, *self._count_commands(), *self._need_commands()]
        records = list(self._changed_records())
        if not (records or commands or self._runs or self._completions or self._details or self._wakes):
            return True
        step = {
            "guards": list(self._guards.values()),
            "records": records,
            "commands": commands,
            "runs": [[self._recurs(run), *encode_run(run)] for run in self._runs],
            "details": self._details,
            "completions": self._completions,
            "serials": sorted({task.serial for task in self._left_parked() if task.serial is not None}),
            "wake": self._wakes,
        }
        return self._scripts.commit(self._type, step)

    def _changed_records(self) -> Iterable[tuple[str, dict[str, object], dict[str, object]]]:
        for identity, after in self._entries.items():
            if self._base[identity] is not after:
                fixed, changing = encode_entry(after, self._records[identity])
                if changing:
                    yield identity.key, fixed, changing

    def _entry_commands(self) -> Iterable[Command]:
        for identity, after in self._entries.items():
            before = self._base[identity]
            if before is not after:
                yield from self._record_commands(identity, before, after)
                aging_ms = self.types()[identity.task_type].task_type.aging_ms
                old, new = (index_members(self._keys, identity, entry, aging_ms) for entry in (before, after))
                yield from (move for move in moves(old, new) if not self._must_stay(identity, move))

    def _must_stay(self, identity: Identity, move: Command) -> bool:
        """An identity that nothing but an arrived completion speaks of is still known."""
        if move[:2] != ["ZREM", self._keys.of("keys", identity.task_type)]:
            return False
        return bool(self.types()[identity.task_type].task_type.after) and bool(self.completed_for(identity))

    def _record_commands(self, identity: Identity, before: Entry, after: Entry) -> Iterable[Command]:
        if not encode_entry(after)[1]:
            yield ["DEL", self._keys.task(identity)]
        yield from self._payload_commands(identity, before.task, after.task)
        if before.task is not None and after.task is None:
            yield ["DEL", self._keys.of("history", *identity)]

    def _payload_commands(self, identity: Identity, before: Task | None, after: Task | None) -> Iterable[Command]:
        key = self._keys.of("payload", *identity)
        old = None if before is None else before.payload
        new = None if after is None else after.payload
        if new is not None and is_aside(new):
            if new != old:
                yield ["SET", key, new]
        elif is_aside(old):
            yield ["DEL", key]

    def _count_commands(self) -> Iterable[Command]:
        counts = self._keys.of("counts", self._type)
        for name, delta in sorted(self._deltas.items()):
            if delta:
                yield ["HINCRBY", counts, name, delta]

    def _left_parked(self) -> Iterable[Task]:
        return (entry.task for entry in self._base.values() if entry.task is not None and entry.task.parked)

    def _recurs(self, run: RunRecord) -> bool:
        identity = Identity(run.task_type, run.key)
        states = (self._base.get(identity, _NOTHING).task, self._entries.get(identity, _NOTHING).task)
        # The task of a purged one keeps no history: its list would stay for ever.
        return states[1] is not None and any(task is not None and task.is_recurring for task in states)

    # --- identities ---

    def load(self, identities: Collection[Identity]) -> Mapping[Identity, Entry]:
        missing = [identity for identity in identities if identity not in self._entries]
        if missing:
            self._fetch(missing)
        return {identity: self._entries[identity] for identity in identities}

    def _fetch(self, identities: Sequence[Identity]) -> None:
        for identity in identities:
            self._belongs_to(identity.task_type)
        for identity, found in zip(identities, self._scripts.load_blocking(self._type, identities), strict=True):
            self._guard("record", self._keys.task(identity), found.digest)
            self._records[identity] = found.record
            self._base[identity] = self._entries[identity] = found.entry

    def write(self, changes: Sequence[Written]) -> None:
        for identity, _, after in changes:
            self._entries[identity] = after

    def claim_plain(self, task_type: str, tokens: Mapping[str, int], claimed: Step) -> bool:
        """The script has: what comes here is none of those."""
        return False

    def end_plain(self, task_type: str, succeeded: Mapping[str, Settlement], success: Step) -> Collection[str]:
        return ()

    def _select(
        self,
        task_type: str,
        keys: Iterable[bytes],
        belongs: Callable[[Task], bool],
        order: Callable[[Task], tuple[Any, ...]],
        limit: int,
    ) -> list[Entry]:
        """Those of an index that belong to it as this step sees them, and those that it has put there itself."""
        found = self.load([Identity(task_type, key.decode()) for key in keys])
        seen = {**found, **{k: v for k, v in self._entries.items() if k.task_type == task_type}}
        tasks = [entry.task for entry in seen.values() if entry.task is not None and belongs(entry.task)]
        tasks.sort(key=order)
        return [self._entries[task.identity] for task in tasks[:limit]]

    def _reach(self, limit: int) -> int:
        """How many to read, so that `limit` are left even if this step has taken all that it knows."""
        return limit + len(self._entries)

    def due(self, task_type: str, now: Instant, limit: int) -> Sequence[Sequence[Entry]]:
        return [self._due(task_type, priority, now, limit) for priority in self._lanes(task_type)]

    def _due(self, task_type: str, priority: int, now: Instant, limit: int) -> Sequence[Entry]:
        lane = self._keys.lane(task_type, priority)
        keys = self._server.command_blocking("ZRANGEBYSCORE", lane, "-inf", now, "LIMIT", 0, self._reach(limit))

        def is_due(task: Task) -> bool:
            return _waits(task) and task.priority == priority and task.scheduled_at <= now

        return self._select(task_type, keys, is_due, lambda task: (task.scheduled_at, task.key), limit)

    def next_due(self, task_type: str, after: Instant) -> Instant | None:
        lanes = self._lanes(task_type)
        reach = self._reach(1)
        heads = self._server.many_blocking(
            [
                (
                    "ZRANGEBYSCORE",
                    self._keys.lane(task_type, lane),
                    f"({after}",
                    "+inf",
                    "WITHSCORES",
                    "LIMIT",
                    0,
                    reach,
                )
                for lane in lanes
            ]
        )
        known = {key for name, key in self._entries if name == task_type}
        others = [int(score) for head in heads for key, score in _scored(head) if key not in known]
        own = [
            entry.task.scheduled_at
            for identity, entry in self._entries.items()
            if identity.task_type == task_type and entry.task is not None and _waits(entry.task)
        ]
        return min((due_at for due_at in (*others, *own) if due_at > after), default=None)

    def _lanes(self, task_type: str) -> Sequence[int]:
        used = self._server.command_blocking("SMEMBERS", self._keys.of("lanes", task_type))
        own = {entry.task.priority for entry in self._entries.values() if entry.task is not None}
        return sorted({NORMAL_LANE, *(int(priority) for priority in used), *own})

    def claimed(self, instance: str, claim_id: str) -> Sequence[Entry]:
        keys = self._scripts.held_blocking(self._type, instance, claim_id)

        def is_mine(task: Task) -> bool:
            return task.status is TaskStatus.RUNNING and (task.instance, task.claim_id) == (instance, claim_id)

        return self._select(self._type, keys, is_mine, lambda task: task.identity, len(keys))

    def owned(self, task_type: str, owner: str) -> int:
        return self._size(self._keys.of("owner", task_type, owner), lambda task: _is_owned(task, owner))

    def _size(self, key: str, belongs: Callable[[Task], bool]) -> int:
        """How many are in a set, with those that this step has put in and taken out."""
        size = int(self._server.command_blocking("SCARD", key))
        self._guard("members", key, size)
        for identity, after in self._entries.items():
            before = self._base[identity]
            size += _counts(after, belongs) - _counts(before, belongs)
        return size

    # --- serials ---

    def lock_serials(self, serials: Sequence[tuple[str, str]], *, wait: bool) -> Collection[tuple[str, str]]:
        """Nothing is locked: who runs and who is parked under a serial is guarded by number."""
        for task_type, serial in serials:
            self._belongs_to(task_type)
            key = self._keys.of("parked", task_type, serial)
            self._guard("ranked", key, int(self._server.command_blocking("ZCARD", key)))
        return serials

    def running_under(self, task_type: str, serials: Collection[str]) -> Mapping[str, int]:
        return {serial: self._running_under_one(task_type, serial) for serial in serials}

    def _running_under_one(self, task_type: str, serial: str) -> int:
        key = self._keys.of("holders", task_type, serial)
        return self._size(key, lambda task: task.status is TaskStatus.RUNNING and task.serial == serial)

    def with_parked(self, task_type: str, serials: Collection[str]) -> Collection[str]:
        # Each is looked at anyway: who is parked is guarded when a serial is locked.
        return serials

    def parked(self, task_type: str, serial: str, aging_ms: Millis, limit: int) -> Sequence[Entry]:
        key = self._keys.of("parked", task_type, serial)
        # A few more than asked for: those of one rank stand by key, and the earlier due one goes first.
        keys = self._server.command_blocking("ZRANGE", key, 0, self._reach(limit) + 8)

        def is_parked(task: Task) -> bool:
            return task.status is TaskStatus.PENDING and task.parked and task.serial == serial

        return self._select(task_type, keys, is_parked, lambda task: rank(task, aging_ms), limit)

    # --- types, counters, tokens ---

    def types(self) -> Mapping[str, TypeRecord]:
        if self._types is None:
            found = self._scripts.types_blocking()
            self._raw_types = {name: (_or_empty(raw[0]), _or_empty(raw[1])) for name, raw in found.items()}
            self._types = decode_types(list(found), list(found.values()))
        return self._types

    def put_type(self, record: TypeRecord) -> None:
        name = record.task_type.name
        self._belongs_to(name)
        key = self._keys.type(name)
        config, overrides = self._raw_types.get(name, ("", ""))
        self._guard("field", key, "config", config)
        self._guard("field", key, "overrides", overrides)
        known = self.types().get(name)
        # Only what differs is written: the text may hold settings of a newer version, which decoding has dropped.
        if known is None or known.task_type != record.task_type:
            self._commands.append(["HSET", key, "config", encode_task_type(record.task_type)])
        if known is None or known.overrides != record.overrides:
            self._commands.append(["HSET", key, "overrides", msgspec.json.encode(record.overrides).decode()])

    def tokens(self, count: int, claim_id: str, now: Instant, above: int) -> Iterator[int]:
        # Taken at once, whatever becomes of this step: a token may be wasted, never used twice.
        last = self._scripts.tokens_blocking(self._type, count, claim_id, now, above)
        return iter(range(last - count + 1, last + 1))

    def pending(self, task_type: str) -> int:
        counts = self._keys.of("counts", task_type)
        found = int(self._server.command_blocking("HGET", counts, "pending") or 0)
        record = self.types().get(task_type)
        if record is not None and found + _NEAR_FULL >= record.effective.max_pending:
            self._guard("atmost", counts, "pending", found)
        return found + self._deltas["pending"]

    def count(self, deltas: Mapping[str, Mapping[str, int]]) -> None:
        for task_type, counts in deltas.items():
            self._belongs_to(task_type)
            for name, delta in counts.items():
                self._deltas[name] += delta

    def bucket(self, name: str) -> Bucket | None:
        key = self._keys.bucket(name)
        tokens, at = self._server.command_blocking("HMGET", key, "tokens", "at")
        self._guard("field", key, "tokens", _or_empty(tokens))
        self._guard("field", key, "at", _or_empty(at))
        return None if tokens is None or at is None else Bucket(float(tokens), int(at))

    def put_bucket(self, name: str, bucket: Bucket) -> None:
        key = self._keys.bucket(name)
        self._commands.append(["HSET", key, "tokens", repr(bucket.tokens), "at", str(bucket.at)])
        settings = self.types()[self._type].effective
        limit = settings.start_limit if name == start_bucket(self._type) else settings.rate_limit
        assert limit is not None
        # What is owed must be paid off before it is forgotten: a bucket that is not there counts as full.
        refill_ms = int((limit.burst - min(0.0, bucket.tokens)) / limit.rate * 1_000)
        self._commands.append(["PEXPIRE", key, max(DAY, 2 * refill_ms)])

    def instances(self) -> Sequence[Instance]:
        return self._scripts.instances_blocking()

    # --- the run log, and what comes after ---

    def log(self, runs: Sequence[RunRecord]) -> None:
        self._runs += runs

    # --- what a run leaves, and failures by groups ---

    def put_details(self, left: Sequence[RunLeft], user_ids: Sequence[str | None], now: Instant) -> None:
        for run, details in left:
            self._belongs_to(run.task_type)
            self._details.append((run.key, run.token, details))

    def drop_details(self, identities: Collection[Identity]) -> None:
        for identity in identities:
            self._belongs_to(identity.task_type)
            self._commands.append(["DEL", self._keys.of("details", *identity)])
            self._commands.append(["ZREM", self._keys.of("detailed", identity.task_type), identity.key])

    def failure_groups(self, task_type: str) -> Sequence[FailureGroup]:
        self._belongs_to(task_type)
        found = self._server.command_blocking("HGETALL", self._keys.of("failures", task_type))
        self._failures = {failure_id.decode(): text.decode() for failure_id, text in found.items()}
        return [decode_failure_group(text) for text in self._failures.values()]

    def put_failure_groups(self, groups: Sequence[FailureGroup], dropped: Sequence[FailureKey]) -> None:
        key = self._keys.of("failures", self._type)
        for each in groups:
            # Those that are not written may change: only how many there are hangs on them.
            self._guard("field", key, each.id, self._failures.get(each.id, ""))
            self._commands.append(["HSET", key, each.id, msgspec.json.encode(each).decode()])
        for _, failure_id in dropped:
            self._guard("field", key, failure_id, self._failures.get(failure_id, ""))
            self._commands.append(["HDEL", key, failure_id])

    def append_completions(self, completions: Sequence[Completion]) -> None:
        for completion in completions:
            self._belongs_to(completion.task_type)
            given = completion._asdict()
            self._completions.append(
                [text for name, value in given.items() if value is not None for text in (name, value)]
            )

    def completed_for(self, identity: Identity) -> set[str]:
        return {name for name in self._need(identity) if not name.startswith(SEEN)}

    def _need(self, identity: Identity) -> dict[str, str]:
        if identity not in self._needs:
            key = self._keys.of("need", *identity)
            found: dict[bytes, bytes] = self._server.command_blocking("HGETALL", key)
            flat = b"\0".join(text for pair in found.items() for text in pair)
            self._guard("hash", key, sha1(flat, usedforsecurity=False).hexdigest())
            self._needs[identity] = {name.decode(): value.decode() for name, value in found.items()}
        return self._needs[identity]

    def mark_completed(self, identity: Identity, task_type: str, log_id: str | None = None) -> bool:
        self._belongs_to(identity.task_type)
        need = self._need(identity)
        # What completed in another store is older than anything that a pump can bring here.
        new = log_id or _OLDEST
        known = [need[field] for field in (task_type, f"{SEEN}{task_type}") if field in need]
        if log_id is not None and any(stream_order(log_id) <= stream_order(old) for old in known):
            return False
        need[task_type] = new
        self._commands.append(["ZADD", self._keys.of("keys", identity.task_type), 0, identity.key])
        return True

    def clear_completed(self, identities: Collection[Identity]) -> None:
        """What arrived is dealt with, but remembered: a pump that was cut off may bring it again."""
        for identity in identities:
            self._belongs_to(identity.task_type)
            need = self._need(identity)
            for name in self.completed_for(identity):
                need[f"{SEEN}{name}"] = need.pop(name)

    def forget_completed(self, identities: Collection[Identity]) -> None:
        for identity in identities:
            self._belongs_to(identity.task_type)
            self._need(identity).clear()

    def _need_commands(self) -> Iterable[Command]:
        for identity, need in self._needs.items():
            key = self._keys.of("need", *identity)
            yield ["DEL", key]
            if not need and self._entries.get(identity) == _NOTHING:
                # Nothing else spoke of it: it is known no longer.
                yield ["ZREM", self._keys.of("keys", identity.task_type), identity.key]
            if need:
                yield ["HSET", key, *(text for pair in sorted(need.items()) for text in pair)]
                if all(name.startswith(SEEN) for name in need):
                    yield ["PEXPIRE", key, NEED_TTL_MS]

    # --- what ran, over time ---

    def slices(self, resolution: Resolution, keys: Collection[SliceKey]) -> Sequence[Slice]:
        found: dict[SliceKey, Slice] = {}
        index = self._keys.of("slices", self._type, resolution.value)
        for start_at in sorted({start_at for start_at, _, _ in keys}):
            texts: list[bytes] = self._server.command_blocking("ZRANGEBYSCORE", index, start_at, start_at)
            self._guard("scored", index, start_at, sha1(b"\0".join(texts), usedforsecurity=False).hexdigest())
            for text in texts:
                each = decode_slice(text)
                found[each.key] = each
                self._slices[resolution, each.key] = text.decode()
        return [found[key] for key in keys if key in found]

    def put_slices(self, resolution: Resolution, slices: Sequence[Slice]) -> None:
        index = self._keys.of("slices", self._type, resolution.value)
        for each in slices:
            self._belongs_to(each.task_type)
            known = self._slices.get((resolution, each.key))
            if known is not None:
                self._commands.append(["ZREM", index, known])
            self._commands.append(["ZADD", index, each.start_at, msgspec.json.encode(each).decode()])


def stream_order(stream_id: str) -> tuple[int, int]:
    """By which the ids of a stream are ordered."""
    millis, _, number = stream_id.partition("-")
    return int(millis), int(number)


def _or_empty(value: bytes | None) -> str:
    return "" if value is None else value.decode()


def _scored(flat: Sequence[bytes]) -> Iterable[tuple[str, float]]:
    return ((key.decode(), float(score)) for key, score in zip(flat[::2], flat[1::2], strict=True))


def _waits(task: Task) -> bool:
    return task.status is TaskStatus.PENDING and not task.parked


def _is_owned(task: Task, owner: str) -> bool:
    return task.owner == owner and task.status.is_live


def _counts(entry: Entry, belongs: Callable[[Task], bool]) -> int:
    return int(entry.task is not None and belongs(entry.task))
