"""What the first layout wrote, for `rota db upgrade` and for its rows in the run log, which stay as they are.

A task was a hash, field by field, under the names of `Task` and `Past`; a row of the run log had a field for each of
its own. All values were texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import fields

from rota.core.task import Past, RunRecord, RunStatus, Task

__all__ = ["decode_hash", "decode_run"]

_FLAGS = frozenset({"parked", "manual", "dirty", "renewed", "extended"})
_TEXTS = frozenset(
    field.name
    for kind in (Task, RunRecord)
    for field in fields(kind)
    if "int" not in str(field.type) and field.name not in _FLAGS
)

_Value = Callable[[str], Any]


def _decoders_of(kind: type[msgspec.Struct]) -> Iterable[tuple[str, _Value]]:
    for field in fields(kind):
        is_flag, is_text = field.name in _FLAGS, field.name in _TEXTS
        yield field.name, "1".__eq__ if is_flag else str if is_text else int


_ENTRY: Mapping[str, _Value] = dict([*_decoders_of(Task), *_decoders_of(Past)])
_RUN: Mapping[str, _Value] = dict(_decoders_of(RunRecord))


def decode_hash(found: Mapping[bytes, bytes]) -> dict[str, Any]:
    """The fields of a hash as a record has them; those that nobody here knows stay as they are."""
    texts = {name.decode(): value.decode() for name, value in found.items()}
    return {name: _ENTRY.get(name, str)(text) for name, text in texts.items()}


def decode_run(task_type: str, run_id: str, found: Mapping[bytes, bytes]) -> RunRecord:
    """A row of the run log."""
    texts = {name.decode(): value.decode() for name, value in found.items()}
    known: dict[str, Any] = {name: _RUN[name](text) for name, text in texts.items() if name in _RUN}
    known |= {"task_type": task_type, "run_id": run_id, "status": RunStatus(texts["status"])}
    return RunRecord(**known)
