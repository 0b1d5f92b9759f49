"""Pages in an order that no index has: of a bounded number of tasks or runs, by a value, then by what tells them apart.

The cursor is the place that a page ended with. Who has that place by now, or nobody any more, makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from rota.core.task import Identity, RunRecord, Task
from rota.errors import InvalidInput
from rota.stores.base import Page, RunSort, TaskQuery, TaskSort
from rota.stores.limits import check_cursor

__all__ = ["Place", "RunPlace", "place_of_cursor", "place_of_run", "run_place_of_cursor", "shares", "sorted_page"]

T = TypeVar("T")
P = TypeVar("P", "Place", "RunPlace")


class Place(NamedTuple):
    """Where a task stands in a sorted list. What comes first has the smaller one: descending values are negated."""

    value: int
    identity: Identity

    @classmethod
    def of(cls, task: Task, sort: TaskSort) -> Place:
        value: int = getattr(task, sort.field)
        return cls(-value if sort.is_descending else value, task.identity)

    def __str__(self) -> str:
        return f"{self.value}/{self.identity}"


class RunPlace(NamedTuple):
    """Where a run stands in a sorted list; of equal ones the newer goes first."""

    value: int
    age: tuple[int, int]
    run_id: str

    def __str__(self) -> str:
        return f"{self.value}/{self.run_id}"


def place_of_cursor(query: TaskQuery) -> Place | None:
    """What the last page ended with."""
    if query.cursor is None:
        return None
    value, rest = _split(query.cursor)
    return Place(value, check_cursor(rest))


def place_of_run(run: RunRecord, sort: RunSort) -> RunPlace:
    value: int = getattr(run, sort.field)
    return RunPlace(-value if sort.is_descending else value, _age(run.run_id), run.run_id)


def run_place_of_cursor(cursor: str | None) -> RunPlace | None:
    """What the last page of runs ended with."""
    if cursor is None:
        return None
    value, run_id = _split(cursor)
    return RunPlace(value, _age(run_id), run_id)


def sorted_page(found: Iterable[tuple[P, T]], after: P | None, limit: int) -> Page[T]:
    """The page behind a place."""
    behind = sorted((each for each in found if after is None or each[0] > after), key=lambda each: each[0])
    items = [item for _, item in behind[:limit]]
    return Page(items, str(behind[limit - 1][0]) if len(behind) > limit else None)


def shares(sizes: Sequence[int], most: int) -> list[int]:
    """How many of each are looked at, if that may be `most` in all: what is small is looked at whole."""
    given = [0] * len(sizes)
    left = most
    for done, place in enumerate(sorted(range(len(sizes)), key=lambda place: sizes[place])):
        given[place] = min(sizes[place], left // (len(sizes) - done))
        left -= given[place]
    return given


def _age(run_id: str) -> tuple[int, int]:
    """Run ids are numbers, or begin with two of them (on Redis); the newer one has the smaller age."""
    first, _, rest = run_id.partition("-")
    second = rest.partition("-")[0] or "0"
    if not (_is_number(first) and _is_number(second)):
        raise _not_ours(run_id)
    return -int(first), -int(second)


def _split(cursor: str) -> tuple[int, str]:
    value, slash, rest = cursor.partition("/")
    if not slash or not _is_number(value.removeprefix("-")):
        raise _not_ours(cursor)
    return int(value), rest


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _not_ours(cursor: str) -> InvalidInput:
    return InvalidInput(f"The cursor {cursor[:100]!r} is none of this order. Take it from the last page, unchanged.")
