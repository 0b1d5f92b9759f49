"""Between records and values: all that is known of an identity is one string, in three parts.

    the head    the fields that most tasks have, each at its place. One that was never claimed has a short one
                (WAITING_HEAD); the first byte says which it is
    the fixed   what never changes while a task lives: a length of two bytes, and a map in MessagePack; scripts pass it
    part        through. Where there is no task any more, only its past, there is none, and the length is 0
    the rest    a map of all other fields that are not at their default, or nothing

Names are those of `Task` and `Past`. A row of the run log is made in the same way: ROW_HEAD, the fixed part of its
task, and what else there is to say.

Fields that a newer version has written into the rest are not decoded, and never removed. `lua/record.lua` is the same
for scripts, which write; here records are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import sha1
from typing import Any, Final

import msgspec
from msgspec.structs import fields

from rota.clock import Instant
from rota.core.task import NO_PAST, Entry, Identity, Past, RunRecord, RunStatus, Task, TaskStatus, Transition, Want

__all__ = [
    "CLAIMED",
    "CLAIMED_FIELDS",
    "CLAIMED_HEAD",
    "CLAIMED_SIZE",
    "FIXED",
    "INLINE_BYTES",
    "NONE",
    "OUTCOME_CODE",
    "ROW",
    "ROW_HEAD",
    "RUN_STATUS_CODE",
    "STATUS_CODE",
    "WAITING",
    "WAITING_HEAD",
    "WAITING_SIZE",
    "decode_entry",
    "decode_run",
    "decode_task",
    "digest_of",
    "encode_entry",
    "encode_run",
    "is_aside",
]

INLINE_BYTES: Final = 64
"""A longer payload lies beside its record: every step writes the record anew."""
FIXED: Final = ("created_at", "user_id", "device_id", "agent_id", "trigger_mode", "trace")
"""What never changes while a task lives."""
ROW: Final = "row"
"""The field of the run log that holds a row."""

NONE: Final = -(2**53)
"""Stands for no instant: the first whole number that Lua cannot count on from."""
WAITING: Final = 1
CLAIMED: Final = 2
WAITING_FIELDS: Final = (
    "status",
    "scheduled_at",
    "updated_at",
    "first_activity_at",
    "last_activity_at",
    "coalesced",
)
CLAIMED_FIELDS: Final = (
    *WAITING_FIELDS,
    "last_outcome",
    "attempt",
    "version",
    "claimed_version",
    "token",
    "last_token",
    "lease_until",
    "claimed_at",
    "last_claimed_at",
    "fire_at",
    "finished_at",
    "purge_at",
    "last_exec_at",
    "forget_at",
    "instance",
    "claim_id",
)
ROW_FIELDS: Final = ("status", "started_at", "fire_at", "token", "attempt", "duration_ms", "instance", "key")
WAITING_HEAD: Final = ">BBi8i8i8i8I4"
CLAIMED_HEAD: Final = ">BBi8i8i8i8I4BI4I4I4i8i8i8i8i8i8i8i8i8i8Hc0Hc0"
ROW_HEAD: Final = ">Bi8i8i8I4I8Hc0Hc0"
"""As Lua's struct spells it: i8 has eight bytes, and Hc0 is a text behind its length."""


def _codes(names: Iterable[str]) -> dict[str, int]:
    return {str(name): code for code, name in enumerate(names, start=1)}


STATUS_CODE: Final = _codes(["pending", "running", "paused", "completed", "failed", "cancelled"])
RUN_STATUS_CODE: Final = _codes(["success", "error", "lost", "skipped", "coalesced"])
OUTCOME_CODE: Final = _codes(["complete", "discard", "retry", "fail", "snooze", "release", "reap"])
"""These are written: what is new comes at the end."""

_NUMBER: Final = struct.Struct(">H")
_WAITING: Final = struct.Struct(">BBqqqqI")
_CLAIMED: Final = struct.Struct(">BBqqqqIBIIIqqqqqqqqqq")
WAITING_SIZE: Final = _WAITING.size
CLAIMED_SIZE: Final = _CLAIMED.size
"""The bytes of a head; of a claimed one those before its texts."""
_ROW: Final = struct.Struct(">BqqqIQ")
_STATUSES: Final = {code: TaskStatus(name) for name, code in STATUS_CODE.items()}
_RUN_STATUSES: Final = {code: RunStatus(name) for name, code in RUN_STATUS_CODE.items()}
_OUTCOMES: Final = {code: Transition(name) for name, code in OUTCOME_CODE.items()}
_IDENTITY: Final = ("task_type", "key")

_RUNNING: Final = STATUS_CODE["running"]


class _Fixed(msgspec.Struct):
    """What never changes."""

    created_at: Instant
    user_id: str | None = None
    device_id: str | None = None
    agent_id: str | None = None
    trigger_mode: str = "user_activity"
    trace: str | None = None


_decode_fixed = msgspec.msgpack.Decoder(_Fixed).decode
_unpack = msgspec.msgpack.Decoder(dict[str, Any]).decode

_TASK_DEFAULTS = tuple((field.name, field.default) for field in fields(Task) if field.name not in _IDENTITY)
_PAST_DEFAULTS = tuple((field.name, field.default) for field in fields(Past))
_RUN_DEFAULTS = tuple((field.name, field.default) for field in fields(RunRecord) if field.name not in ROW_FIELDS)
_PAST = frozenset(Past.__struct_fields__)
_KNOWN = frozenset(name for name, _ in (*_TASK_DEFAULTS, *_PAST_DEFAULTS))
_RUN = frozenset(RunRecord.__struct_fields__)


def digest_of(record: bytes) -> str:
    """By which a later step sees whether a record has changed; as the scripts compute it."""
    return sha1(record, usedforsecurity=False).hexdigest()


def is_aside(payload: str | None) -> bool:
    """Whether a payload is kept beside the record; an empty one marks the place of one that is."""
    return payload is not None and (payload == "" or len(payload.encode()) > INLINE_BYTES)


# --- decoding -------------------------------------------------------------------------------------------------------


def decode_task(identity: Identity, record: bytes, payload: bytes | None = None) -> Task | None:
    """The task that a record holds; `payload` is the one that is kept beside it."""
    task = _plain_task(identity, record) if record and record[0] == CLAIMED else None
    return decode_entry(identity, record, payload).task if task is None else task


def _plain_task(identity: Identity, record: bytes) -> Task | None:
    """What most claims bring, without a detour: a running task of which the head and the fixed part say all."""
    (
        _,
        status,
        scheduled_at,
        updated_at,
        first_activity_at,
        last_activity_at,
        coalesced,
        outcome,
        attempt,
        version,
        claimed_version,
        token,
        last_token,
        lease_until,
        claimed_at,
        _,
        fire_at,
        *_,
    ) = _CLAIMED.unpack_from(record)
    instance, at = _text(record, _CLAIMED.size)
    claim_id, at = _text(record, at)
    start = at + _NUMBER.size
    stop = start + _NUMBER.unpack_from(record, at)[0]
    if status != _RUNNING or stop < len(record):
        return None
    fixed = _decode_fixed(record[start:stop])
    return Task(
        *identity,
        TaskStatus.RUNNING,
        scheduled_at,
        fixed.created_at,
        updated_at,
        fixed.user_id,
        fixed.device_id,
        fixed.agent_id,
        trigger_mode=fixed.trigger_mode,
        version=version,
        fire_at=fire_at,
        first_activity_at=None if first_activity_at == NONE else first_activity_at,
        last_activity_at=None if last_activity_at == NONE else last_activity_at,
        coalesced=coalesced,
        token=token,
        lease_until=lease_until,
        instance=instance,
        claim_id=claim_id,
        claimed_at=claimed_at,
        claimed_version=claimed_version,
        last_token=last_token,
        last_outcome=_OUTCOMES.get(outcome),
        attempt=attempt,
        trace=fixed.trace,
    )


def decode_entry(identity: Identity, record: bytes, payload: bytes | None = None) -> Entry:
    """All that a record says."""
    if not record:
        return Entry(None, NO_PAST)
    said = _said_by(record)
    past = Past(**{name: said.pop(name) for name in _PAST if name in said})
    if past == NO_PAST:
        past = NO_PAST
    if "status" not in said:
        return Entry(None, past)
    if payload is not None:
        said["payload"] = payload.decode()
    # What was never changed was last changed when it was made.
    said.setdefault("updated_at", said["created_at"])
    return Entry(Task(*identity, **said), past)


def decode_run(task_type: str, run_id: str, row: bytes) -> RunRecord:
    """A row of the run log."""
    code, started_at, fire_at, token, attempt, duration_ms = _ROW.unpack_from(row)
    instance, at = _text(row, _ROW.size)
    key, at = _text(row, at)
    fixed, rest = _fixed_and_rest(row, at)
    said = {name: value for name, value in (fixed | rest).items() if name in _RUN}
    return RunRecord(
        task_type=task_type,
        key=key,
        run_id=run_id,
        status=_RUN_STATUSES[code],
        started_at=started_at,
        fire_at=None if fire_at == NONE else fire_at,
        token=token,
        attempt=attempt,
        duration_ms=duration_ms,
        instance=instance or None,
        **said,
    )


def _said_by(record: bytes) -> dict[str, Any]:
    """The fields of a record that are known here."""
    if record[0] == WAITING:
        said: dict[str, Any] = dict(zip(WAITING_FIELDS, _WAITING.unpack_from(record)[1:], strict=True))
        at = _WAITING.size
    else:
        said = dict(zip(CLAIMED_FIELDS, _CLAIMED.unpack_from(record)[1:], strict=False))
        instance, at = _text(record, _CLAIMED.size)
        claim_id, at = _text(record, at)
        said |= {"last_outcome": _OUTCOMES.get(said["last_outcome"]), "instance": instance or None}
        said["claim_id"] = claim_id or None
    said["status"] = _STATUSES.get(said["status"])
    fixed, rest = _fixed_and_rest(record, at)
    known = {name: value for name, value in said.items() if value != NONE and value is not None}
    known |= fixed
    if rest:
        known |= {name: value for name, value in rest.items() if name in _KNOWN}
        if "want" in rest:
            known["want"] = Want(rest["want"])
    return known


def _text(record: bytes, at: int) -> tuple[str, int]:
    (size,) = _NUMBER.unpack_from(record, at)
    start = at + _NUMBER.size
    return record[start : start + size].decode(), start + size


def _fixed_and_rest(record: bytes, at: int) -> tuple[dict[str, Any], dict[str, Any]]:
    (size,) = _NUMBER.unpack_from(record, at)
    start = at + _NUMBER.size
    stop = start + size
    return _unpack(record[start:stop]) if size else {}, _unpack(record[stop:]) if stop < len(record) else {}


# --- encoding: the scripts pack -------------------------------------------------------------------------------------


def encode_entry(entry: Entry, before: bytes = b"") -> tuple[dict[str, object], dict[str, object]]:
    """What never changes, and what does: nothing at all if nothing is known any more. What a newer version has put into
    the record before is taken over."""
    fixed: dict[str, object] = {}
    changing: dict[str, object] = {}
    task = entry.task
    if task is not None:
        changing = _differing(task, _TASK_DEFAULTS)
        fixed = {name: changing.pop(name) for name in FIXED if name in changing}
        if is_aside(task.payload):
            changing["payload"] = ""
    if entry.past is not NO_PAST:
        changing |= _differing(entry.past, _PAST_DEFAULTS)
    return (fixed, changing | _unknown_in(before)) if changing else ({}, {})


def encode_run(run: RunRecord) -> list[object]:
    """A row of the run log: the fields of its head, and the others; the type is the log's."""
    others = _differing(run, _RUN_DEFAULTS)
    fire_at = NONE if run.fire_at is None else run.fire_at
    head = (run.status, run.started_at, fire_at, run.token, run.attempt, run.duration_ms, run.instance or "", run.key)
    return [*head, {name: value for name, value in others.items() if name not in ("task_type", "run_id")}]


def _differing(value: object, defaults: Iterable[tuple[str, object]]) -> dict[str, object]:
    """The fields that are not at their default."""
    return {name: found for name, default in defaults if (found := getattr(value, name)) != default}


def _unknown_in(record: bytes) -> dict[str, object]:
    """The fields that a newer version has written."""
    if not record:
        return {}
    at = _WAITING.size
    if record[0] == CLAIMED:
        _, at = _text(record, _CLAIMED.size)
        _, at = _text(record, at)
    _, rest = _fixed_and_rest(record, at)
    return {name: value for name, value in rest.items() if name not in _KNOWN}
