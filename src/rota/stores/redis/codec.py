"""Between hashes and values: a task is one hash, field by field, under the names of `Task` and `Past`.

Only what differs from its default is written: a task that waits has seven fields. Fields that a newer version has
written are not decoded, and never removed: a write names the fields that it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import FieldInfo, fields

from rota.core.task import NO_PAST, Entry, Identity, Past, RunRecord, RunStatus, Task, TaskStatus, Transition, Want

__all__ = ["INLINE_BYTES", "Fields", "decode_entry", "decode_run", "decode_task", "encode_entry", "encode_run", "pairs"]

Fields = dict[str, str]

INLINE_BYTES = 64
"""A hash with a longer value loses its compact form."""

_ENUMS: Mapping[str, type[StrEnum]] = {"status": TaskStatus, "want": Want, "last_outcome": Transition}
_FLAGS = frozenset({"parked", "manual", "dirty", "renewed", "extended"})
_TEXTS = frozenset(
    {
        "user_id",
        "device_id",
        "agent_id",
        "owner",
        "payload",
        "serial",
        "trigger",
        "trigger_mode",
        "policy",
        "instance",
        "claim_id",
        "reason",
        "error",
        "result",
        "progress",
    }
)
_IDENTITY = ("task_type", "key")

_Decoder = Callable[[bytes], Any]


def _decoder_of(field: FieldInfo, enums: Mapping[str, type[StrEnum]]) -> _Decoder:
    if field.name in enums:
        known = {member.value.encode(): member for member in enums[field.name]}
        return known.__getitem__
    if field.name in _FLAGS:
        return b"1".__eq__
    return bytes.decode if field.name in _TEXTS else int


def _packed_decoder_of(field: FieldInfo, enums: Mapping[str, type[StrEnum]]) -> Callable[[Any], Any]:
    """A script's table holds texts as the hash has them, and numbers where it has just put one."""
    if field.name in enums:
        return {member.value: member for member in enums[field.name]}.__getitem__
    if field.name in _FLAGS:
        return "1".__eq__
    return str if field.name in _TEXTS else int


_unpack = msgspec.msgpack.Decoder(dict[str, Any]).decode

_TASK_FIELDS = tuple(field for field in fields(Task) if field.name not in _IDENTITY)
_TASK_DECODERS = {field.name.encode(): (field.name, _decoder_of(field, _ENUMS)) for field in _TASK_FIELDS}
_PACKED = {field.name: _packed_decoder_of(field, _ENUMS) for field in _TASK_FIELDS}
_TASK_DEFAULTS = tuple((field.name, field.default) for field in _TASK_FIELDS)
_PAST_DECODERS: dict[bytes, tuple[str, _Decoder]] = {f.name.encode(): (f.name, int) for f in fields(Past)}
_PAST_DEFAULTS = tuple((field.name, field.default) for field in fields(Past))


def pairs(flat: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
    """The fields of a hash as a script or HGETALL gives them: name, value, name, value."""
    return zip(flat[::2], flat[1::2], strict=True)


def decode_entry(identity: Identity, flat: Sequence[bytes], payload: bytes | None = None) -> Entry:
    """All that the hash says; `payload` is the one that is kept beside it."""
    task: dict[str, Any] = {}
    past: dict[str, Any] = {}
    for name, value in pairs(flat):
        known = _TASK_DECODERS.get(name)
        if known is not None:
            task[known[0]] = known[1](value)
        elif name in _PAST_DECODERS:
            past[_PAST_DECODERS[name][0]] = int(value)
    return Entry(_task(identity, task, payload), Past(**past) if past else NO_PAST)


def decode_task(identity: Identity, flat: Sequence[bytes] | bytes, payload: bytes | None = None) -> Task | None:
    """The task alone, from a hash's fields or, where every microsecond counts, from one packed table of them."""
    if isinstance(flat, bytes):
        packed = _unpack(flat).items() if flat else ()
        return _task(identity, {name: _PACKED[name](value) for name, value in packed if name in _PACKED}, payload)
    values: dict[str, Any] = {}
    for name, value in pairs(flat):
        known = _TASK_DECODERS.get(name)
        if known is not None:
            values[known[0]] = known[1](value)
    return _task(identity, values, payload)


def _task(identity: Identity, values: dict[str, Any], payload: bytes | None) -> Task | None:
    if "status" not in values:
        return None
    if payload is not None:
        values["payload"] = payload.decode()
    # What was never changed was last changed when it was made.
    values.setdefault("updated_at", values["created_at"])
    return Task(*identity, **values)


def encode_entry(entry: Entry) -> Fields:
    """The fields of the hash: what differs from its default. A long payload is not among them."""
    found: Fields = {}
    task = entry.task
    if task is not None:
        for name, default in _TASK_DEFAULTS:
            value: object = getattr(task, name)
            if value != default:
                found[name] = _text(value)
        if task.updated_at == task.created_at:
            del found["updated_at"]
        if is_aside(task.payload):
            found["payload"] = ""
    if entry.past is not NO_PAST:
        for name, default in _PAST_DEFAULTS:
            value = getattr(entry.past, name)
            if value != default:
                found[name] = _text(value)
    return found


def is_aside(payload: str | None) -> bool:
    """Whether a payload is kept beside the hash; an empty one marks the place of one that is."""
    return payload is not None and (payload == "" or len(payload.encode()) > INLINE_BYTES)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return value.value if isinstance(value, StrEnum) else str(value)


_RUN_FIELDS = tuple(field for field in fields(RunRecord) if field.name != "run_id")
_RUN_DECODERS = {
    field.name.encode(): (
        field.name,
        bytes.decode if field.name in _IDENTITY else _decoder_of(field, {"status": RunStatus}),
    )
    for field in _RUN_FIELDS
}
_RUN_DEFAULTS = tuple((field.name, field.default) for field in _RUN_FIELDS)


def encode_run(run: RunRecord) -> list[str]:
    """The fields of an entry of the run log; the type is the log's."""
    flat: list[str] = []
    for name, default in _RUN_DEFAULTS:
        value: object = getattr(run, name)
        if name != "task_type" and value != default:
            flat += (name, _text(value))
    return flat


def decode_run(task_type: str, run_id: str, flat: Sequence[bytes]) -> RunRecord:
    values: dict[str, Any] = {"task_type": task_type, "run_id": run_id}
    for name, value in pairs(flat):
        known = _RUN_DECODERS.get(name)
        if known is not None:
            values[known[0]] = known[1](value)
    return RunRecord(**values)
