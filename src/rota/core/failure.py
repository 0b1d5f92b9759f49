"""Failures that are the same one: grouped by their type, what was raised, where in the program, and the message.

A message that differs only in numbers, ids, quoted texts and the like is the same message. Groups are counted as runs
fail, in slices that add up over all instances, and never by looking through the runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec.structs import replace

from rota.clock import DAY, HOUR, Instant, Millis
from rota.codec import warmed
from rota.core.distinct import distinct_count, smallest

__all__ = [
    "HOURS_KEPT",
    "KEPT_MS",
    "LOST",
    "MAX_GROUPS",
    "Failure",
    "FailureGroup",
    "FailureKey",
    "FailureReport",
    "add_reports",
    "decode_failure_group",
    "failure_of_reason",
    "grown",
    "normalised",
    "over_limit",
]

MAX_GROUPS: Final = 200
"""Groups of one type that are kept; the one that was seen longest ago makes room."""
HOURS_KEPT: Final = 48
KEPT_MS: Final[Millis] = 30 * DAY
"""How long a group is kept of which nothing more is seen."""
MAX_MESSAGE: Final = 200

FailureKey = tuple[str, str]
"""A type, and the id of one of its groups."""


class Failure(msgspec.Struct, frozen=True):
    """What a run failed of, as far as it is the same for others."""

    kind: str
    """The class that was raised, or the reason where nothing was."""
    place: str
    """Where in the program, in words without line numbers; "" where nobody knows."""
    message: str
    """The normalised message."""

    @property
    def id(self) -> str:
        """The same for the same failure, in every process and for ever."""
        said = "\0".join((self.kind, self.place, self.message))
        return blake2b(said.encode("utf-8", "replace"), digest_size=6).hexdigest()


LOST: Final = "lost"
"""The id of what was lost with its instance: a store notes it without asking who it was."""


def failure_of_reason(reason: str, message: str) -> Failure:
    """Of a run that failed without raising anything."""
    return Failure(reason, "", normalised(message))


_SAME: Final = (
    (re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "<email>"),
    (re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>]+", re.IGNORECASE), "<url>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"0x[0-9a-f]+", re.IGNORECASE), "<id>"),
    (re.compile(r"""(?<!\w)(?P<quote>["'`])(?:\\.|(?!(?P=quote))[^\\]){0,500}(?P=quote)"""), "<text>"),
    (re.compile(r"(?:/[\w.@-]+){2,}/?"), "<path>"),
    (re.compile(r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z_])[\w-]{2,}"), "<id>"),
    (re.compile(r"[-+]?\d[\d.,_]*"), "<n>"),
)


def normalised(message: str) -> str:
    """The message without what differs from one time to the next."""
    text = " ".join(message[:2_000].split())
    for pattern, word in _SAME:
        text = pattern.sub(word, text)
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


# --- counting --------------------------------------------------------------------------------------------------------


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """Failures of one group, as one process has seen them since its last report."""

    task_type: str
    id: str
    kind: str
    place: str = ""
    message: str = ""
    count: int = 1
    users: tuple[int, ...] = ()
    """The numbers of those whose tasks they were (`core/distinct.py`)."""
    at: Instant
    """By the store's clock, to within its own tick."""

    @property
    def key(self) -> FailureKey:
        return self.task_type, self.id


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All failures of one kind, of all instances."""

    task_type: str
    id: str
    kind: str
    place: str = ""
    message: str = ""
    count: int = 0
    users: tuple[int, ...] = ()
    first_at: Instant
    last_at: Instant
    hours: Mapping[str, int] = {}
    """How many in each of the last hours, by the hour's start (JSON has no other keys than texts)."""
    muted_until: Instant | None = None
    muted_by: str | None = None

    @property
    def key(self) -> FailureKey:
        return self.task_type, self.id

    @property
    def user_count(self) -> int:
        """How many users it has hit; many are estimated."""
        return distinct_count(self.users)

    def is_muted(self, now: Instant) -> bool:
        return self.muted_until is not None and now < self.muted_until

    def count_since(self, at: Instant) -> int:
        """How many since an instant, to within an hour."""
        return sum(count for start, count in self.hours.items() if int(start) + HOUR > at)

    def chart(self, now: Instant, hours: int = HOURS_KEPT) -> tuple[tuple[Instant, int], ...]:
        """How many in each hour up to now, those without any too."""
        last = now - now % HOUR
        starts = (last - back * HOUR for back in reversed(range(hours)))
        return tuple((start, self.hours.get(str(start), 0)) for start in starts)


decode_failure_group = warmed(
    msgspec.json.Decoder(FailureGroup),
    '{"task_type":"t","id":"i","kind":"k","first_at":0,"last_at":0,"hours":{"0":1},"users":[1]}',
).decode


def add_reports(reports: Iterable[FailureReport]) -> list[FailureReport]:
    """Reports of the same group in one, as of the last one's time."""
    found: dict[tuple[FailureKey, Instant], FailureReport] = {}
    for report in reports:
        # Reports of two hours stay two: each counts in its own.
        at = report.key, report.at - report.at % HOUR
        known = found.get(at)
        found[at] = report if known is None else _added(known, report)
    return list(found.values())


def _added(one: FailureReport, more: FailureReport) -> FailureReport:
    return replace(
        more, count=one.count + more.count, users=smallest((*one.users, *more.users)), at=max(one.at, more.at)
    )


def grown(group: FailureGroup | None, report: FailureReport) -> FailureGroup:
    """The group with what was reported of it."""
    hour = str(report.at - report.at % HOUR)
    if group is None:
        return FailureGroup(
            task_type=report.task_type,
            id=report.id,
            kind=report.kind,
            place=report.place,
            message=report.message,
            count=report.count,
            users=smallest(report.users),
            first_at=report.at,
            last_at=report.at,
            hours={hour: report.count},
        )
    last_at = max(group.last_at, report.at)
    hours = {**group.hours, hour: group.hours.get(hour, 0) + report.count}
    return replace(
        group,
        count=group.count + report.count,
        users=smallest((*group.users, *report.users)),
        first_at=min(group.first_at, report.at),
        last_at=last_at,
        hours=_recent(hours, last_at - HOURS_KEPT * HOUR),
    )


def over_limit(groups: Iterable[FailureGroup]) -> list[FailureKey]:
    """Which groups of one type make room: those that were seen longest ago."""
    newest_first = sorted(groups, key=lambda group: (group.last_at, group.id), reverse=True)
    return [group.key for group in newest_first[MAX_GROUPS:]]


def _recent(hours: Mapping[str, int], after: Instant) -> dict[str, int]:
    return {start: count for start, count in hours.items() if int(start) > after}
