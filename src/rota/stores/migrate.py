"""Moving from one store to another: types with their overrides, tasks in every state, and what is remembered.

The old store is left as it is, so a move can be tried, broken off and taken up again: what has arrived is passed over,
and what the new store has done meanwhile is kept. The run log stays behind; it is history, not work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import asdict

from rota.clock import Instant
from rota.core.task import Identity, TaskStatus
from rota.core.task_type import TaskType
from rota.group_commit import MAX_GROUP_BYTES
from rota.stores.base import Instance, Page, Restored, Snapshot, Store, TypeRecord

__all__ = ["PAGE", "Migration", "alive", "migrate"]

PAGE: Final = 100
REFUSED_SHOWN: Final = 10


@dataclass
class Migration:
    """The report of a move, which grows while it goes on. A past is what is left of an identity without a task."""

    types: Counter[Restored] = field(default_factory=Counter[Restored])
    tasks: Counter[Restored] = field(default_factory=Counter[Restored])
    pasts: Counter[Restored] = field(default_factory=Counter[Restored])
    released: int = 0
    """How many of the moved tasks were running, and are pending now."""
    refused: list[Identity] = field(default_factory=list[Identity])
    """The first few that the new store would not take."""

    def to_dict(self) -> dict[str, object]:
        """Plain numbers, for JSON."""
        return {
            "types": _numbers(self.types),
            "tasks": {**_numbers(self.tasks), "released": self.released},
            "pasts": _numbers(self.pasts),
            "refused": [str(identity) for identity in self.refused],
        }


def _numbers(counts: Counter[Restored]) -> dict[str, int]:
    return {
        "moved": counts[Restored.MOVED],
        "skipped": counts[Restored.ALREADY] + counts[Restored.KEPT],
        "refused": counts[Restored.UNKNOWN_TYPE],
    }


async def alive(store: Store) -> list[Instance]:
    """The instances that have ticked within their lease: somebody works on this store."""
    now: Instant = await store.now()
    return [each for each in await store.instances() if each.seen_at + each.beat.lease_ms >= now]


async def migrate(old: Store, new: Store | None, report: Migration, *, dry_run: bool = False) -> None:
    """Move everything from `old` to `new`, and say in `report` what became of it, also when it ends early.

    A dry run writes nothing; `new` may then be None: a store that does not exist yet.
    """
    await _move_types(old, new, report, dry_run=dry_run)
    if not dry_run:
        await _pump_dry(old)
    page = Page[Snapshot]([], None)
    while True:
        page = await old.export(page.cursor, PAGE)
        for group in _groups(page.items):
            _count(report, group, await _restore(new, group, dry_run=dry_run))
        if page.cursor is None:
            return


async def _pump_dry(old: Store) -> None:
    """Completions on their way to the types that come after them become tasks first: only those can be moved."""
    while await old.pump():
        pass


# --- types ----------------------------------------------------------------------------------------------------------


async def _move_types(old: Store, new: Store | None, report: Migration, *, dry_run: bool) -> None:
    known = {} if new is None else {record.task_type.name: record for record in await new.list_types()}
    for record in await old.list_types():
        here = known.get(record.task_type.name)
        is_new = here is None or here.task_type.version < record.task_type.version
        lacking = _lacking(record, here)
        report.types[Restored.MOVED if is_new or lacking else Restored.ALREADY] += 1
        if new is not None and not dry_run:
            await _put(new, record.task_type if is_new else None, record.task_type.name, lacking)


def _lacking(record: TypeRecord, here: TypeRecord | None) -> dict[str, object]:
    """The overrides that the new store has not got; its own operator's word counts more."""
    asked = asdict(record.overrides)
    decided = {} if here is None else asdict(here.overrides)
    return {name: value for name, value in asked.items() if value is not None and decided.get(name) is None}


async def _put(new: Store, task_type: TaskType | None, name: str, overrides: dict[str, object]) -> None:
    if task_type is not None:
        await new.put_types([task_type])
    if overrides:
        await new.override_type(name, overrides)


# --- tasks ----------------------------------------------------------------------------------------------------------


def _groups(snapshots: Sequence[Snapshot]) -> Iterator[list[Snapshot]]:
    """A page in parts that fit into one step of a store."""
    group: list[Snapshot] = []
    size = 0
    for snapshot in snapshots:
        payload = "" if snapshot.task is None else snapshot.task.payload or ""
        if group and size + len(payload) > MAX_GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(snapshot)
        size += len(payload)
    if group:
        yield group


async def _restore(new: Store | None, group: list[Snapshot], *, dry_run: bool) -> list[Restored]:
    if new is not None and not dry_run:
        return await new.restore(group)
    if new is None:
        return [Restored.MOVED] * len(group)
    there = await new.get([snapshot.identity for snapshot in group])
    # A look, not the rule itself: what is live there would be kept, and most of what is finished would make room.
    return [Restored.KEPT if task is not None and task.status.is_live else Restored.MOVED for task in there]


def _count(report: Migration, group: list[Snapshot], answers: Sequence[Restored]) -> None:
    for snapshot, answer in zip(group, answers, strict=True):
        task = snapshot.task
        (report.pasts if task is None else report.tasks)[answer] += 1
        if answer is Restored.MOVED and task is not None and task.status is TaskStatus.RUNNING:
            report.released += 1
        if answer is Restored.UNKNOWN_TYPE and len(report.refused) < REFUSED_SHOWN:
            report.refused.append(snapshot.identity)
