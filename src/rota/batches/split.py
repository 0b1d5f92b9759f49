"""Cutting a batch into subtasks: sizes only, no names and no clock.

The first subtask is small, so that people see something soon. The others are as large as one question to a model
bears, and alike: a last one that is nearly empty would cost a whole question. None has a single item, for a model that
is asked for one of a kind makes the same one again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["BASE_SIZES", "DEFAULT_SIZE", "FIRST", "MAX_SIZE", "base_size", "split", "top_up"]

BASE_SIZES: Final[Mapping[str, int]] = {
    "character_name": 20,
    "location_name": 20,
    "item": 16,
    "skill": 10,
    "organization": 10,
}
DEFAULT_SIZE: Final = 20
MAX_SIZE: Final = 50
"""Items of one subtask: with more, models begin to repeat themselves, and a lost answer costs too much."""
FIRST: Final = 8
"""Items of the first subtask."""
_LARGE_BATCH: Final = 8
"""A batch of more than so many subtasks has larger ones."""


def base_size(type: str, count: int, base: int | None = None) -> int:  # noqa: A002 - the word that callers use
    """How many items a subtask of this type has; twice as many in a large batch. `base` is somebody's own size."""
    size = BASE_SIZES.get(type, DEFAULT_SIZE) if base is None else base
    return min(2 * size, MAX_SIZE) if count > size * _LARGE_BATCH else min(size, MAX_SIZE)


def split(count: int, size: int, *, first: int = FIRST) -> list[int]:
    """The sizes of all subtasks, the first one first."""
    first = min(max(first, 2), MAX_SIZE)
    if count <= first:
        return [count] if count > 0 else []
    if count == first + 1:
        # One item left over joins the first, or takes one from it if that is full.
        return [count] if count <= MAX_SIZE else [count - 2, 2]
    return [first, *_balanced(count - first, size)]


def top_up(missing: int, size: int) -> list[int]:
    """The sizes of the subtasks that make what is missing; here one item may be all that is."""
    return _balanced(missing, size) if missing > 0 else []


def _balanced(count: int, size: int) -> list[int]:
    """As few parts as the size allows, which differ by one at most; none of one item, unless there is only one."""
    parts = -(-count // min(max(size, 1), MAX_SIZE))
    parts = max(min(parts, count // 2), 1)
    small, larger = divmod(count, parts)
    return [small + 1] * larger + [small] * (parts - larger)
