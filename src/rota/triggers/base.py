"""What a trigger is, and its two spellings: the stored one (JSON) and the one that people and agents write."""

from __future__ import annotations

import difflib
from functools import lru_cache
from typing import ClassVar, Protocol, TypeAlias

import msgspec

from rota.clock import Instant
from rota.codec import warmed
from rota.errors import InvalidTrigger
from rota.triggers.cron import Cron
from rota.triggers.interval import Interval, parse_interval
from rota.triggers.once import Once, parse_once
from rota.triggers.zone import shown

__all__ = ["AnyTrigger", "Trigger", "decode_trigger", "encode_trigger", "parse_trigger"]

_LONGEST_STORED = 4_096
_REDO = "Give the schedule its trigger again."
_KINDS = ("cron", "interval", "once")


class Trigger(Protocol):
    """A pure series of fires: the same question has the same answer for ever, on every instance."""

    kind: ClassVar[str]
    """The name in stored form and in `schedule_type`: cron, interval or once."""

    def next_after(self, at: Instant) -> Instant | None:
        """The first fire strictly later than `at`; None if there is none."""
        ...

    def latest_until(self, at: Instant) -> Instant | None:
        """The last fire that is not later than `at`; None if there is none."""
        ...

    def count(self, after: Instant, until: Instant) -> int | None:
        """How many fires lie in after < fire <= until; None if that is too dear to know."""
        ...


AnyTrigger: TypeAlias = Cron | Interval | Once

_encoder = msgspec.json.Encoder()
_decoder = warmed(
    msgspec.json.Decoder(AnyTrigger),
    '{"kind":"cron","expression":"0 9 * * *","timezone":"UTC"}',
    '{"kind":"interval","every_ms":1000,"anchor_at":0}',
    '{"kind":"once","at":0}',
)


def encode_trigger(trigger: AnyTrigger) -> str:
    """The stored form: JSON with the tag `kind`."""
    return _encoder.encode(trigger).decode()


@lru_cache(maxsize=8_192)
def decode_trigger(text: str) -> AnyTrigger:
    """The trigger of a stored form. Cached: a store reads the same text at every claim."""
    if len(text) > _LONGEST_STORED:
        raise InvalidTrigger(f"The stored trigger {shown(text)} is longer than {_LONGEST_STORED} characters. {_REDO}")
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidTrigger(f"The stored trigger {shown(text)} cannot be read: {error}. {_REDO}") from None


def parse_trigger(
    kind: str, value: str | int, *, timezone: str = "UTC", now: Instant, allow_past: bool = False
) -> AnyTrigger:
    """The trigger of NanoClaw's pair (`schedule_type`, `schedule_value`), checked in full.

    cron: an expression in `timezone`. interval: milliseconds or a duration, on a grid from `now`. once: ISO 8601, in
    `timezone` if it has no offset. What is wrong raises InvalidTrigger now, never when the task is due.
    """
    if kind == "interval":
        return parse_interval(value, anchor_at=now)
    if kind not in _KINDS:
        near = difflib.get_close_matches(kind.lower(), _KINDS, n=1) if len(kind) <= 32 else []
        hint = f"Did you mean {near[0]!r}?" if near else "Use 'cron', 'interval' or 'once'."
        raise InvalidTrigger(f"The schedule type {shown(kind)} is unknown. {hint}")
    if not isinstance(value, str):
        example = "'0 9 * * MON-FRI'" if kind == "cron" else "'2026-03-08T09:00:00'"
        raise InvalidTrigger(f"The value {value!r} of a {kind} schedule is no text. Use e.g. {example}.")
    if kind == "cron":
        return Cron(value, timezone)
    return parse_once(value, timezone=timezone, now=now, allow_past=allow_past)
