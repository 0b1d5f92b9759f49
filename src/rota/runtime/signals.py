"""What a handler may return or raise to say more than done or failed.

True or None is success; False or any other exception is a failure, retried with back-off. The four signals say the
rest, and read the same either way: `return Retry(after="5m")` and `raise Retry(after="5m")`.
"""

from __future__ import annotations

from datetime import timedelta

from rota.clock import Millis, parse_duration

__all__ = ["Discard", "Duration", "Fail", "Retry", "Signal", "Snooze"]

Duration = str | int | float | timedelta
"""A duration as people write it: "5m", a timedelta, or seconds."""


class Signal(Exception):
    """A handler's own decision about its run."""


class Retry(Signal):
    """Failed: try again `after` a while, or after the type's back-off. Counts against `max_retries`.

    A reason that is one of Rota's reason classes ("rate_limited") is kept as such; anything else is kept as text.
    """

    def __init__(self, after: Duration | None = None, reason: str = "") -> None:
        super().__init__(reason or "The handler asked for a retry.")
        self.after_ms: Millis | None = None if after is None else parse_duration(after, what="delay of Retry")
        self.reason = reason


class Fail(Signal):
    """Failed for good: no retry will do better. A dead letter at once, with the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Snooze(Signal):
    """Not now: run again in a while. Counts nowhere, but at most 100 times in a row."""

    def __init__(self, for_: Duration) -> None:
        super().__init__("The handler snoozed.")
        self.after_ms: Millis = parse_duration(for_, what="delay of Snooze")


class Discard(Signal):
    """Done with, though nothing was done: no retry and no dead letter; the reason is kept with the run."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
