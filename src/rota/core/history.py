"""What ran, in slices of time: counts, reasons, how late and how long. Slices of one key add up.

Times are kept as counts in fixed bounds, so that slices of many instances and minutes can be added without losing the
percentiles: a percentile is known to within its bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import accumulate
from typing import Final

import msgspec
from msgspec.structs import replace

from rota.clock import DAY, HOUR, MINUTE, SECOND, Instant, Millis
from rota.codec import warmed

__all__ = [
    "BOUNDS_MS",
    "KEPT_MS",
    "REASONS",
    "SET_ASIDE",
    "Resolution",
    "Slice",
    "SliceKey",
    "add",
    "bounded_reason",
    "decode_slice",
    "failed_in",
    "of_run",
    "percentile",
    "set_aside_in",
]

BOUNDS_MS: Final[tuple[Millis, ...]] = (
    1, 2, 5, 10, 20, 50, 100, 200, 500,
    1 * SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 20 * SECOND, 30 * SECOND,
    1 * MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, 1 * HOUR, 6 * HOUR, 1 * DAY,
)  # fmt: skip
"""The upper bounds of the counts; what is longer than the last one has a count of its own behind them."""

_ZEROS: Final = (0,) * (len(BOUNDS_MS) + 1)

REASONS: Final = frozenset(
    {"error", "timeout", "lost", "poison", "cancelled", "discarded", "expired", "skipped", "coalesced", "other"}
)
"""The classes that reasons are counted under: a handler's own words would grow without bound."""

SET_ASIDE: Final = frozenset({"cancelled", "discarded", "expired", "skipped", "coalesced"})
"""Reasons of runs that were no success, and no failure either: somebody wanted it so."""


class Resolution(StrEnum):
    """How long a slice is."""

    MINUTE = "minute"
    HOUR = "hour"

    @property
    def ms(self) -> Millis:
        return MINUTE if self is Resolution.MINUTE else HOUR

    def start_of(self, at: Instant) -> Instant:
        """When the slice begins that an instant lies in."""
        return at - at % self.ms


KEPT_MS: Final[Mapping[Resolution, Millis]] = {Resolution.MINUTE: 26 * HOUR, Resolution.HOUR: 31 * DAY}
"""How long slices are kept."""

SliceKey = tuple[Instant, str, str]
"""Where a slice of history belongs: its start, type and trigger mode."""


class Slice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ran of one type, in one trigger mode, within one minute or hour."""

    task_type: str
    trigger_mode: str
    start_at: Instant
    success: int = 0
    error: int = 0
    """Runs that failed, timed out or were lost: whatever was no success."""
    reasons: Mapping[str, int] = {}
    """Of those that were no success: how many for each class of reason."""
    late: tuple[int, ...] = _ZEROS
    """How long after its due time a run was claimed, counted by `BOUNDS_MS`."""
    took: tuple[int, ...] = _ZEROS
    """How long a run took, counted by `BOUNDS_MS`."""
    took_sum_ms: Millis = 0
    took_min_ms: Millis | None = None
    took_max_ms: Millis = 0

    @property
    def key(self) -> SliceKey:
        """What makes two slices parts of the same one."""
        return self.start_at, self.task_type, self.trigger_mode

    @property
    def runs(self) -> int:
        return self.success + self.error


decode_slice = warmed(
    msgspec.json.Decoder(Slice), '{"task_type":"t","trigger_mode":"once","start_at":0,"reasons":{"error":1}}'
).decode


def set_aside_in(piece: Slice) -> int:
    """How many runs of a slice were no success and yet no failure: cancelled, discarded, expired, skipped."""
    return sum(count for reason, count in piece.reasons.items() if reason in SET_ASIDE)


def failed_in(piece: Slice) -> int:
    """How many runs of a slice failed: those that were no success, without what somebody set aside."""
    return piece.error - set_aside_in(piece)


def bounded_reason(reason: str | None) -> str:
    """The class that a reason is counted under."""
    if reason is None:
        return "error"
    return reason if reason in REASONS else "other"


def of_run(
    task_type: str, trigger_mode: str, at: Instant, *, reason: str | None, late_ms: Millis | None, took_ms: Millis
) -> Slice:
    """The slice of one run that ended at an instant; `reason` None means that it succeeded."""
    return Slice(
        task_type=task_type,
        trigger_mode=trigger_mode,
        start_at=Resolution.MINUTE.start_of(at),
        success=int(reason is None),
        error=int(reason is not None),
        reasons={} if reason is None else {bounded_reason(reason): 1},
        late=_ZEROS if late_ms is None else _counted(late_ms),
        took=_counted(took_ms),
        took_sum_ms=took_ms,
        took_min_ms=took_ms,
        took_max_ms=took_ms,
    )


def add(slices: Iterable[Slice], resolution: Resolution = Resolution.MINUTE) -> list[Slice]:
    """The slices, those of one key added up, in order; `resolution` may be coarser than theirs."""
    found: dict[SliceKey, Slice] = {}
    for one in slices:
        moved = replace(one, start_at=resolution.start_of(one.start_at))
        known = found.get(moved.key)
        found[moved.key] = moved if known is None else _sum(known, moved)
    return [found[key] for key in sorted(found)]


def percentile(counts: Iterable[tuple[int, ...]], share: float) -> Millis | None:
    """The bound below which `share` (0 to 1) of everything counted lies; None if nothing was counted."""
    total = [sum(column) for column in zip(*counts, strict=True)]
    whole = sum(total)
    if not whole:
        return None
    reached = next(place for place, below in enumerate(accumulate(total)) if below >= share * whole)
    return BOUNDS_MS[min(reached, len(BOUNDS_MS) - 1)]


def _counted(span: Millis) -> tuple[int, ...]:
    place = next((place for place, bound in enumerate(BOUNDS_MS) if span <= bound), len(BOUNDS_MS))
    return tuple(int(at == place) for at in range(len(BOUNDS_MS) + 1))


def _sum(one: Slice, other: Slice) -> Slice:
    least = [each.took_min_ms for each in (one, other) if each.took_min_ms is not None]
    names = [*one.reasons, *(name for name in other.reasons if name not in one.reasons)]
    return replace(
        one,
        success=one.success + other.success,
        error=one.error + other.error,
        reasons={name: one.reasons.get(name, 0) + other.reasons.get(name, 0) for name in names},
        late=tuple(map(sum, zip(one.late, other.late, strict=True))),
        took=tuple(map(sum, zip(one.took, other.took, strict=True))),
        took_sum_ms=one.took_sum_ms + other.took_sum_ms,
        took_min_ms=min(least, default=None),
        took_max_ms=max(one.took_max_ms, other.took_max_ms),
    )
