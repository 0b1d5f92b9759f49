"""What else there is to a task: what has to come before it, what follows it, and what it belongs to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rota.app.course import course_of_task
from rota.app.waterfall import Row, Waterfall
from rota.clock import Instant
from rota.core.task import Identity, Task
from rota.part import Part, Related
from rota.stores.base import Store

__all__ = ["Kin", "kin_of"]


@dataclass(frozen=True, slots=True)
class Kin:
    """Tasks and things that a task is connected with."""

    before: Sequence[Task]
    """What it comes after, for its key."""
    after: Sequence[Task]
    """What comes after it."""
    belongs_to: Sequence[Related]
    rows: tuple[Row, ...]
    """What came of those before and after while it was at work or since, each as one row."""

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.belongs_to)


async def kin_of(store: Store, parts: Iterable[Part], task: Task, fall: Waterfall, now: Instant) -> Kin:
    """What a task is connected with; `fall` is its own time."""
    records, related = await asyncio.gather(
        store.list_types(), asyncio.gather(*(part.related(*task.identity) for part in parts))
    )
    types = {record.task_type.name: record.task_type for record in records}
    earlier = types[task.task_type].after if task.task_type in types else ()
    later = [name for name, known in types.items() if task.task_type in known.after]
    found = await store.get([Identity(name, task.key) for name in (*earlier, *later)]) if earlier or later else []
    before = [each for each in found[: len(earlier)] if each is not None]
    after = [each for each in found[len(earlier) :] if each is not None]
    courses = await asyncio.gather(*(course_of_task(store, each, now) for each in (*before, *after)))
    kinds = [*("before" for _ in before), *("after" for _ in after)]
    rows = [
        fall.beside(kind, each, course.waterfall)
        for kind, each, course in zip(kinds, (*before, *after), courses, strict=True)
    ]
    belongs_to = [each for found in related for each in found]
    return Kin(before, after, belongs_to, tuple(row for row in rows if row is not None))
