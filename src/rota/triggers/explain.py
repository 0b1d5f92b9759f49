"""A trigger for people: words, the next fires, and what a change of the clocks or jitter does to them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from rota.clock import Instant, Millis, format_duration, to_datetime
from rota.errors import InvalidTrigger
from rota.triggers.base import AnyTrigger
from rota.triggers.cron import Cron
from rota.triggers.interval import Interval
from rota.triggers.series import Policy, jittered
from rota.triggers.words import describe_calendar
from rota.triggers.zone import zone

__all__ = ["Explanation", "explain"]

MOST_FIRES = 1_000

_UNITS: tuple[tuple[str, Millis], ...] = (
    ("day", 86_400_000),
    ("hour", 3_600_000),
    ("minute", 60_000),
    ("second", 1_000),
    ("millisecond", 1),
)


class Explanation(msgspec.Struct, frozen=True):
    """What a trigger means: in words, as the next fires (ISO 8601 with offset), and notes on what is not obvious."""

    words: str
    fires: tuple[str, ...]
    notes: tuple[str, ...]


def explain(
    trigger: AnyTrigger,
    timezone: str,
    n: int,
    after: Instant,
    *,
    policy: Policy | None = None,
    key: str | None = None,
) -> Explanation:
    """The trigger in words and its next `n` fires after `after`, printed in `timezone`."""
    if not 0 <= n <= MOST_FIRES:
        raise InvalidTrigger(f"Cannot list {n} fires. Ask for 0 to {MOST_FIRES}.")
    fires = _next_fires(trigger, n, after)
    notes = [note for fire_at in fires for note in _clock_notes(trigger, fire_at)]
    notes.extend(_jitter_notes(trigger, fires, policy, key))
    return Explanation(_words(trigger, timezone), tuple(_iso(fire_at, timezone) for fire_at in fires), tuple(notes))


def _next_fires(trigger: AnyTrigger, n: int, after: Instant) -> list[Instant]:
    fires: list[Instant] = []
    # Whoever wants to see none, as lists do, does not wait for one to be found.
    while len(fires) < n and (fire_at := trigger.next_after(fires[-1] if fires else after)) is not None:
        fires.append(fire_at)
    return fires


def _words(trigger: AnyTrigger, timezone: str) -> str:
    if isinstance(trigger, Cron):
        return describe_calendar(trigger.calendar)
    if isinstance(trigger, Interval):
        return f"every {_duration_words(trigger.every_ms)}"
    return f"once, at {_iso(trigger.at, timezone)}"


def _duration_words(span: Millis) -> str:
    parts: list[str] = []
    for unit, size in _UNITS:
        count, span = divmod(span, size)
        if count:
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
    text = " ".join(parts)
    return text.removeprefix("1 ") if len(parts) == 1 else text


def _iso(at: Instant, timezone: str) -> str:
    return to_datetime(at).astimezone(zone(timezone)).isoformat(timespec="milliseconds" if at % 1_000 else "seconds")


def _clock_notes(trigger: AnyTrigger, fire_at: Instant) -> list[str]:
    if not isinstance(trigger, Cron):
        return []
    local = to_datetime(fire_at).astimezone(zone(trigger.timezone)).replace(tzinfo=None)
    if missing := trigger.moved_to(fire_at):
        where = _time(local) if local.date() == missing[0].date() else f"{local.date()} {_time(local)}"
        times = " to ".join(_time(wall) for wall in missing)
        verb = "does" if len(missing) == 1 else "do"
        return [f"{missing[0].date()}: {times} {verb} not exist in {trigger.timezone}, runs at {where}"]
    if trigger.happens_twice(fire_at):
        return [f"{local.date()}: {_time(local)} happens twice in {trigger.timezone}, runs the first time only"]
    return []


def _time(wall: datetime) -> str:
    return f"{wall:%H:%M:%S}" if wall.second else f"{wall:%H:%M}"


def _jitter_notes(trigger: AnyTrigger, fires: list[Instant], policy: Policy | None, key: str | None) -> list[str]:
    if policy is None or not policy.jitter_ms or not fires:
        return []
    most = format_duration(policy.jitter_ms)
    if key is None:
        return [f"jitter: each run starts up to {most} after its fire"]
    due_at = jittered(fires[0], policy, key, trigger.next_after(fires[0]))
    return [f"jitter: each run of {key!r} starts {format_duration(due_at - fires[0])} after its fire (at most {most})"]
