"""Typed calls of the scripts: values in, values out, and nobody else packs an argument."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rota.clock import Clock, Instant, Millis
from rota.core.outcome import Answer, Reply, Scheduled, ScheduleOutcome, Settled, Touched, TouchOutcome
from rota.core.rank import Head
from rota.core.task import Activity, Entry, Identity, NewTask, Renewal, Settlement, Task, TaskStatus
from rota.core.task_type import decode_task_type
from rota.keys import begins_with_user
from rota.stores.base import (
    MAX_AHEAD,
    Beat,
    Claimed,
    ClaimRequest,
    Instance,
    Overrides,
    RunLeft,
    Taken,
    TypeRecord,
    decode_instance,
    decode_overrides,
)
from rota.stores.redis.client import Call, Server
from rota.stores.redis.codec import decode_entry, decode_task, digest_of, is_aside
from rota.stores.redis.index import Command
from rota.stores.redis.keys import Keys
from rota.stores.redis.source import RARE

__all__ = ["Filtered", "Loaded", "Scripts", "Swept", "Ticked", "decode_types", "type_commands"]

MOST_SWEPT = 64
"""How many types one call sweeps."""
_pack = msgspec.msgpack.Encoder().encode


class Loaded(NamedTuple):
    """What is known of an identity, and the record that says so."""

    record: bytes
    entry: Entry

    @property
    def digest(self) -> str:
        """By which a change of it is seen."""
        return digest_of(self.record)


class Swept(NamedTuple):
    """What a tick did and found in one type: leases extended, tasks taken back with their deadlines, leases that ran
    out and serials that nobody holds, which are not for the script."""

    task_type: str
    extended: int
    reaped: list[tuple[Instant, Task]]
    expired: list[tuple[str, Instant]]
    idle: list[str]
    next_due_at: Instant | None


class Filtered(NamedTuple):
    """How many tasks were looked at, the last one of them, and those that match with the value that was asked for."""

    looked_at: int
    last: str | None
    keys: list[str]
    values: list[int]


class Ticked(NamedTuple):
    now: Instant
    next_due_at: Instant | None
    swept: list[Swept]


class Scripts:
    """The scripts of one server under one prefix."""

    def __init__(self, server: Server, keys: Keys, clock: Clock | None, on_due_soon: Callable[[], None]) -> None:
        self.server = server
        self.keys = keys
        self.on_due_soon = on_due_soon
        """Called when a hot verb has made something due soon; the other instances hear of it from the script."""
        self.origin = uuid.uuid4().hex[:12]
        """Who publishes a wake-up: whoever hears its own need not heed it."""
        self._clock = clock
        self._swept: frozenset[str] = frozenset()
        self._known: frozenset[str] = frozenset()

    # --- time ---

    def now_blocking(self) -> Instant:
        return self._clock.now() if self._clock is not None else _millis(self.server.command_blocking("TIME"))

    async def now(self) -> Instant:
        return self._clock.now() if self._clock is not None else _millis(await self.server.command("TIME"))

    # --- calling ---

    async def run(self, name: str, task_type: str, given: object, now: Instant | None = None) -> Any:
        return await self.server.run(name, self.keys.type(task_type), self._args(task_type, given, now))

    def run_blocking(self, name: str, task_type: str, given: object, now: Instant | None = None) -> Any:
        return self.server.run_blocking(name, self.keys.type(task_type), self._args(task_type, given, now))

    def _args(self, task_type: str, given: object, now: Instant | None) -> tuple[str | bytes, ...]:
        # The time is a test's own, or nothing, and then the server's clock rules.
        at = self._clock.now() if now is None and self._clock is not None else now
        return self.keys.prefix, task_type, "" if at is None else str(at), _pack(given), self.origin

    # --- units of work ---

    def load_blocking(self, task_type: str, identities: Sequence[Identity]) -> list[Loaded]:
        found = self.run_blocking("load", task_type, [identity.key for identity in identities])
        return _loaded(identities, found)

    async def load(self, task_type: str, identities: Sequence[Identity]) -> list[Loaded]:
        found = await self.run("load", task_type, [identity.key for identity in identities])
        return _loaded(identities, found)

    def commit(self, task_type: str, step: Mapping[str, object]) -> bool:
        """False if something that the step has read changed meanwhile: then nothing was written."""
        return self.run_blocking("commit", task_type, step) == 1

    def tokens_blocking(self, task_type: str, count: int, claim_id: str, now: Instant, above: int) -> int:
        """The last of so many new tokens."""
        given = {"count": count, "claim_id": claim_id, "above": above}
        return int(self.run_blocking("tokens", task_type, given, now))

    def types_blocking(self) -> dict[str, list[bytes | None]]:
        """Settings and overrides of all types as they are now, in one round trip unless there are new ones."""
        # Read once: another thread may replace it meanwhile, and what is new is what was not asked for here.
        names = sorted(self._known)
        listed, *found = self.server.many_blocking([["SMEMBERS", self.keys.types], *type_commands(self.keys, names)])
        there = {name.decode() for name in listed}
        new = sorted(there.difference(names))
        self._known = frozenset(there)
        found += self.server.many_blocking(type_commands(self.keys, new))
        return {name: raw for name, raw in zip([*names, *new], found, strict=True) if name in there}

    def held_blocking(self, task_type: str, instance: str, claim_id: str) -> list[bytes]:
        return self.run_blocking("held", task_type, [instance, claim_id])

    async def held(self, task_type: str, instance: str, claim_id: str) -> list[bytes]:
        return await self.run("held", task_type, [instance, claim_id])

    # --- hot verbs: each answers None where the item is not for the script, and nothing was written for it ---

    async def schedule(self, now: Instant | None, task_type: str, news: Sequence[NewTask]) -> list[Scheduled | None]:
        found = await self._hot("schedule", task_type, [_new(new) for new in news], len(news), now)
        return [_scheduled(new.identity, *each) for new, each in zip(news, found, strict=True)]

    async def touch(self, now: Instant | None, task_type: str, activities: Sequence[Activity]) -> list[Touched | None]:
        found = await self._hot("touch", task_type, [_activity(each) for each in activities], len(activities), now)
        return [_touched(*each) for each in found]

    async def settle(
        self, now: Instant | None, task_type: str, settlements: Sequence[Settlement]
    ) -> list[Reply | None]:
        items = [_settlement(each) for each in settlements]
        found = await self._hot("settle", task_type, {"items": items}, len(items), now)
        return [_reply(Identity(task_type, item.key), *each) for item, each in zip(settlements, found, strict=True)]

    async def settle_runs(
        self, now: Instant | None, task_type: str, settlements: Sequence[Settlement]
    ) -> list[Settled | None]:
        items = [_settlement(each) for each in settlements]
        found = await self._hot("settle", task_type, {"items": items, "brief": True}, len(items), now)
        return [
            None if answer == _RARE else Settled(_ANSWERS[answer], *map(_STATUSES.get, status))
            for answer, *status in found
        ]

    async def keep_details(self, now: Instant | None, task_type: str, left: Sequence[RunLeft]) -> list[Answer | None]:
        items = [(each.run.key, each.run.token, each.details) for each in left]
        return [_ANSWERS[answer] for (answer,) in await self._hot("keep_details", task_type, items, len(items), now)]

    async def _hot(self, name: str, task_type: str, given: object, number: int, now: Instant | None) -> Any:
        woke, *found = await self.server.run(name, self.keys.type(task_type), self._args(task_type, given, now))
        if woke:
            self.on_due_soon()
        # Without its type nothing can be decided: the slow way says so.
        return found[0] if found else [[_RARE]] * number

    async def claim(
        self, wants: Sequence[tuple[str, int]], request: ClaimRequest, now: Instant | None, *, is_share: bool = False
    ) -> list[Claimed | None]:
        """As many of each type, in one round trip; None where something is due that is not for the script.

        `is_share`: what cannot start leaves its place to other types, and only a rate says when to ask again.
        """
        found = await self._claim_step("share" if is_share else None, wants, request, now)
        return [_claimed(name, *each) for (name, _), each in zip(wants, found, strict=True)]

    async def look(
        self, wants: Sequence[tuple[str, int]], request: ClaimRequest, now: Instant | None
    ) -> list[tuple[list[Head], Instant | None, Instant]]:
        """The first due tasks of each type, when the next one is due if there are fewer, and the time."""
        found = await self._claim_step("look", wants, request, now)
        return [
            ([Head(*head) for head in zip(*(iter(flat),) * 3, strict=True)], due if isinstance(due, int) else None, at)
            for at, due, flat in found
        ]

    async def _claim_step(
        self, step: str | None, wants: Sequence[tuple[str, int]], request: ClaimRequest, now: Instant | None
    ) -> list[Any]:
        return await self.server.run_many(
            [
                Call("claim", self.keys.type(name), self._args(name, _request(name, limit, request, step), now))
                for name, limit in wants
            ]
        )

    def renew(self, task_type: str, renewals: Sequence[Renewal], lease_ms: Millis, now: Instant | None) -> list[Reply]:
        given = {"lease_ms": lease_ms, "items": [_renewal(renewal) for renewal in renewals]}
        found = self.run_blocking("renew", task_type, given, now)
        replies = [_reply(renewal.identity, *each) for renewal, each in zip(renewals, found, strict=True)]
        return [reply for reply in replies if reply is not None]

    async def drop_details(
        self, task_type: str, items: Sequence[tuple[str, Sequence[str] | None]], before: Instant | None = None
    ) -> None:
        """What these runs of some keys have left, or all of theirs; with `before` of keys that left nothing since."""
        given = {"items": [[key] if tokens is None else [key, tokens] for key, tokens in items]}
        await self.run("drop_details", task_type, given if before is None else {**given, "before": before})

    # --- queries ---

    async def filter(self, task_type: str, given: Mapping[str, object]) -> Filtered:
        looked_at, last, keys, values = await self.run("filter", task_type, given)
        found = [key.decode() for key in keys]
        return Filtered(int(looked_at), None if last is None else last.decode(), found, [int(each) for each in values])

    async def rows(self, task_type: str, given: Mapping[str, object]) -> tuple[int, bytes | None, list[Any]]:
        """How many rows were looked at, the id of the last one, and those that match: id, fields, id, fields."""
        looked_at, last, found = await self.run("rows", task_type, given)
        return int(looked_at), last, found

    async def queue_position(self, identity: Identity, now: Instant | None) -> Any:
        given = {"key": identity.key, "most": MAX_AHEAD}
        return await self.run("queue_position", identity.task_type, given, now)

    async def swap(self, key: str, field: str, old: str, new: str) -> bool:
        """Replace a field of a hash that belongs to no type; False if somebody else was first."""
        given = {"field": field, "old": old, "new": new}
        return await self.server.run("swap", key, self._args("any", given, None)) == 1

    # --- duties ---

    async def forget(self, task_type: str, keys: Sequence[str], now: Instant) -> int:
        return int(await self.run("forget", task_type, keys, now))

    def tick(self, beat: Beat, now: Instant | None) -> Ticked:
        """Sign of life, and a sweep of all types, in one round trip. Blocking: it goes on beside the event loop."""
        names = sorted(self._swept)
        at, known, swept = self._sweep(names, beat, now)
        new = sorted({name.decode() for name in known} - set(names))
        if new:
            # A type that another instance has made since: from now on it is swept with the others. Replaced, not
            # changed: another thread may be ticking.
            self._swept = frozenset([*names, *new])
            swept += self._sweep(new, beat, now)[2]
        found = [_swept(name, *each) for name, each in zip([*names, *new], swept, strict=True) if each is not None]
        due = [each.next_due_at for each in found if each.next_due_at is not None]
        return Ticked(int(at), min(due, default=None), found)

    def _sweep(self, names: Sequence[str], beat: Beat, now: Instant | None) -> tuple[int, Sequence[bytes], list[Any]]:
        """The time, the names of all types, and what was found in these: one call for many of them, unless each may
        be on a node of its own."""
        given = {"lease_ms": beat.lease_ms, "due": dict.fromkeys(beat.types, True)}
        if self.server.address.kind == "cluster":
            at, known, *swept = self.server.run_many_blocking(
                [
                    Call("beat", self.keys.instances, self._args("any", _beat(beat), now)),
                    ("SMEMBERS", self.keys.types),
                    *(Call("tick", self.keys.type(name), self._args(name, given, now)) for name in names),
                ]
            )
            return at, known, swept
        told = {"beat": _beat(beat), "sweep": given}
        # A server does nothing else while a script runs, so a call has its bound.
        parts = [names[first : first + MOST_SWEPT] for first in range(0, len(names) or 1, MOST_SWEPT)]
        answers = self.server.run_many_blocking(
            [Call("tick_all", self.keys.instances, self._args("any", {**told, "names": part}, now)) for part in parts]
        )
        return answers[-1][0], answers[-1][1], [each for _, _, swept in answers for each in swept]

    async def repair(self, task_type: str, repairs: Sequence[tuple[Identity, str, Command]]) -> int:
        """Write each command if the identity's hash still has the digest; how many changed anything."""
        return int(await self.run("repair", task_type, [(each.key, digest, do) for each, digest, do in repairs]))

    async def recount(self, task_type: str) -> int:
        return int(await self.run("recount", task_type, 0))

    async def instances(self) -> dict[str, Instance]:
        found = await self.server.command("HGETALL", self.keys.instances)
        return {name.decode(): decode_instance(value) for name, value in found.items()}

    def instances_blocking(self) -> list[Instance]:
        found = self.server.command_blocking("HGETALL", self.keys.instances)
        return [decode_instance(value) for value in found.values()]

    async def take(
        self, bucket: str, amount: int, rate: float, burst: int, now: Instant | None, *, owe: bool = False
    ) -> Taken:
        """A shared bucket; its own name leads to its node."""
        key = self.keys.bucket(bucket)
        given = {"amount": amount, "rate": rate, "burst": burst, "owe": owe}
        granted, wait_ms = await self.server.run("take", key, self._args("any", given, now))
        return Taken(int(granted), int(wait_ms))


def type_commands(keys: Keys, names: Sequence[str]) -> list[Command]:
    """What must be read to know some types."""
    return [["HMGET", keys.type(name), "config", "overrides"] for name in names]


def decode_types(names: Sequence[str], found: Sequence[Sequence[bytes | None]]) -> dict[str, TypeRecord]:
    """The records of those types that are there."""
    records: dict[str, TypeRecord] = {}
    for name, (config, overrides) in zip(names, found, strict=True):
        if config is not None:
            asked = Overrides() if overrides is None else decode_overrides(overrides)
            records[name] = TypeRecord(decode_task_type(config.decode()), asked)
    return records


def _millis(time: tuple[int, int]) -> Instant:
    return int(time[0]) * 1_000 + int(time[1]) // 1_000


def _loaded(identities: Sequence[Identity], found: Sequence[Any]) -> list[Loaded]:
    return [
        Loaded(record, decode_entry(identity, record, payload))
        for identity, (record, payload) in zip(identities, found, strict=True)
    ]


def _beat(beat: Beat) -> dict[str, str]:
    return {"instance": beat.instance, "beat": msgspec.json.encode(beat).decode()}


def _swept(
    name: str, extended: int, reaped: Sequence[Any], rare: Sequence[bytes], idle: Sequence[bytes], due: Any
) -> Swept:
    back = [
        (int(float(at)), task)
        for key, at, record, payload in zip(*(iter(reaped),) * 4, strict=True)
        if (task := decode_task(Identity(name, key.decode()), record, payload)) is not None
    ]
    leases = [(key.decode(), int(float(at))) for key, at in zip(rare[::2], rare[1::2], strict=True)]
    next_due_at = due if isinstance(due, int) else None
    return Swept(name, extended, back, leases, [serial.decode() for serial in idle], next_due_at)


# --- what the scripts are told, and what they say -------------------------------------------------------------------


def _new(new: NewTask) -> dict[str, object]:
    # A trigger, an update and a quota are the slow way's business.
    if new.trigger is not None or new.replace or new.owner_limit is not None:
        return {"key": new.key, "rare": True}
    item: dict[str, object] = {"key": new.key}
    for name, default in _NEW_DEFAULTS:
        value = getattr(new, name)
        if value != default:
            item[name] = value
    if new.scheduled_at is not None:
        item["at"] = new.scheduled_at
    if new.payload is not None:
        if is_aside(new.payload):
            item |= {"payload": "", "aside": new.payload}
        else:
            item["payload"] = new.payload
    if new.user_id is not None and not begins_with_user(new.key, new.user_id):
        item["stray"] = True
    return item


_NEW_DEFAULTS: tuple[tuple[str, object], ...] = (
    ("delay_ms", 0),
    ("priority", None),
    ("serial", None),
    ("permits", 1),
    ("cost", 1),
    ("owner", None),
    ("policy", None),
    ("max_runs", None),
    ("expires_at", None),
    ("user_id", None),
    ("device_id", None),
    ("agent_id", None),
    ("trace", None),
)


def _scheduled(
    identity: Identity, outcome: bytes, record: bytes = b"", payload: bytes | None = None
) -> Scheduled | None:
    if outcome == _RARE:
        return None
    return Scheduled(_SCHEDULED[outcome], decode_task(identity, record, payload))


def _activity(activity: Activity) -> dict[str, object]:
    item: dict[str, object] = {"key": activity.key, "user_id": activity.user_id}
    for name in ("device_id", "agent_id", "at", "trace"):
        value = getattr(activity, name)
        if value is not None:
            item[name] = value
    if not begins_with_user(activity.key, activity.user_id):
        item["stray"] = True
    return item


def _touched(outcome: bytes, due: Any = b"", coalesced: int = 0) -> Touched | None:
    if outcome == _RARE:
        return None
    return Touched(_TOUCHED[outcome], due if isinstance(due, int) else None, coalesced)


def _settlement(settlement: Settlement) -> tuple[object, ...]:
    said = (
        settlement.key,
        settlement.token,
        settlement.transition,
        settlement.duration_ms,
        settlement.chance,
        settlement.reason,
        settlement.error,
        settlement.result,
        settlement.after_ms,
    )
    # Most runs have neither, and pay for neither.
    has_more = settlement.failure is not None or settlement.details is not None
    return (*said, settlement.failure, settlement.details) if has_more else said


def _renewal(renewal: Renewal) -> dict[str, object]:
    item: dict[str, object] = {"key": renewal.key, "token": renewal.token}
    if renewal.progress is not None:
        item["progress"] = renewal.progress
    return item


def _reply(identity: Identity, answer: bytes, record: bytes = b"", payload: bytes | None = None) -> Reply | None:
    if answer == _RARE:
        return None
    return Reply(_ANSWERS[answer], decode_task(identity, record, payload))


def _request(name: str, limit: int, request: ClaimRequest, step: str | None) -> dict[str, object]:
    exclude = {identity.key: True for identity in request.exclude if identity.task_type == name}
    item: dict[str, object] = {
        "limit": limit,
        "instance": request.instance,
        "claim_id": request.claim_id,
        "exclude": exclude,
        "excluded": len(exclude),
    }
    if request.lease_ms is not None:
        item["lease_ms"] = request.lease_ms
    if step is not None:
        item["step"] = step
    return item


def _claimed(name: str, now: int, due: Any, taken: Sequence[Any] | None = None) -> Claimed | None:
    if taken is None:
        return None
    tasks = [
        task
        for key, record, payload in zip(*(iter(taken),) * 3, strict=True)
        if (task := decode_task(Identity(name, key.decode()), record, payload)) is not None
    ]
    return Claimed(tasks, due if isinstance(due, int) else None, now)


_RARE = RARE.encode()
_SCHEDULED = {outcome.value.encode(): outcome for outcome in ScheduleOutcome}
_TOUCHED = {outcome.value.encode(): outcome for outcome in TouchOutcome}
_ANSWERS = {answer.value.encode(): answer for answer in Answer}
_STATUSES = {status.value.encode(): status for status in TaskStatus}
