"""What one process has published and handled, added up; the metrics read it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from typing import Final

__all__ = ["EventStats", "Spread"]

BOUNDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds."""


class Spread:
    """How durations are spread."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class EventStats:
    """It lives as long as the process."""

    def __init__(self) -> None:
        self.published: Counter[tuple[str, str]] = Counter()
        """By topic and outcome: sent, refused, waiting."""
        self.publish_seconds = Spread()
        """From the claim of a group until it is noted."""
        self.handled: Counter[tuple[str, str]] = Counter()
        """By consumer and outcome: done, known, ignored, retrying, later, dead."""
        self.handling_seconds: defaultdict[str, Spread] = defaultdict(Spread)
        """By consumer."""
        self.errors: Counter[tuple[str, str]] = Counter()
        """By consumer and class of error."""
