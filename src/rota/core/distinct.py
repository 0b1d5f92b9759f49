"""How many different ones there were, without keeping who they were.

Of every name a number is made, evenly spread; the smallest ones are kept. Few names: all numbers are there, and the
count is exact. Many: how close together the smallest lie says how many there must be (to within a tenth). Two sets of
smallest ones together give that of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

__all__ = ["KEPT", "distinct_count", "number_of", "smallest"]

KEPT: Final = 128
"""So many names are counted exactly."""
_BYTES: Final = 6
_RANGE: Final = 256**_BYTES


def number_of(name: str) -> int:
    """The number of a name; it does not lead back to it."""
    return int.from_bytes(blake2b(name.encode("utf-8", "replace"), digest_size=_BYTES).digest())


def smallest(numbers: Iterable[int]) -> tuple[int, ...]:
    """Those that are kept of some numbers."""
    return tuple(sorted(set(numbers))[:KEPT])


def distinct_count(kept: tuple[int, ...]) -> int:
    """How many different names the kept numbers stand for."""
    if len(kept) < KEPT:
        return len(kept)
    return round((KEPT - 1) * _RANGE / max(1, kept[-1]))
