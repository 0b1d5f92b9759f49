"""What the rules of the engine's own kinds look at, measured: a few reads of kept figures, never a scan.

Only what the rules need is read. The store's clock counts, since it is the store's times that are compared.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from rota.clock import SECOND, Instant, format_duration
from rota.core.alert import AlertRule, EngineKind
from rota.core.history import Resolution, Slice, failed_in, set_aside_in
from rota.core.lifecycle import breaker_is_open
from rota.core.liveness import silent_ms
from rota.core.task import RunRecord, RunStatus, TaskStatus
from rota.core.task_type import TriggerMode
from rota.stores.base import Counts, Instance, RunQuery, Store, TaskQuery, TypeRecord

__all__ = ["READ", "Reading", "measure"]

MOST_MISSED: Final = 200
"""Records of missed fires that are looked at."""
MOST_BLOCKED: Final = 50
"""Failed tasks of one type that are looked at for open breakers."""

_MISSED: Final = "misfire"
"""The reason of such a record. An overlap is none of them: to leave it out, or to queue one, is what was asked for."""


class Reading(NamedTuple):
    """One rule and one subject: what was measured, whether that is too much, and both in words."""

    rule: str
    subject: str
    holds: bool
    value: str
    summary: str
    share: float = 0.0
    """How much of its limit is reached: 1 is all of it. The subject with the most is the one to tell of."""


class _Picture(NamedTuple):
    """Everything that was read."""

    now: Instant
    records: Mapping[str, TypeRecord]
    counts: Mapping[str, Counts]
    heads: Mapping[str, Instant]
    slices: Sequence[Slice]
    missed: Sequence[RunRecord]
    blocked: Mapping[str, int]
    instances: Sequence[Instance]


async def measure(store: Store, rules: Sequence[AlertRule]) -> list[Reading]:
    """Every rule, for each of its subjects."""
    picture = await _look(store, rules)
    return [reading for rule in rules for reading in READ[rule.kind](rule, picture)]


async def _look(store: Store, rules: Sequence[AlertRule]) -> _Picture:
    kinds = {rule.kind for rule in rules}
    windows = [rule.window_ms for rule in rules if rule.kind == EngineKind.FAILURE_RATE]
    now, records, counts = await asyncio.gather(store.now(), store.list_types(), store.counts())
    by_name = {record.task_type.name: record for record in records}
    return _Picture(
        now=now,
        records=by_name,
        counts=counts,
        heads=await store.next_due_by_type() if EngineKind.OLDEST_PENDING in kinds else {},
        slices=await store.history(Resolution.MINUTE, Resolution.MINUTE.start_of(now - max(windows)))
        if windows
        else [],
        missed=await _missed(store) if EngineKind.MISSED_FIRES in kinds else [],
        blocked=await _blocked(store, by_name, counts, now) if EngineKind.BREAKER_OPEN in kinds else {},
        instances=await store.instances() if EngineKind.INSTANCE_LOST in kinds else [],
    )


async def _missed(store: Store) -> list[RunRecord]:
    found: list[RunRecord] = []
    for status in (RunStatus.SKIPPED, RunStatus.COALESCED):
        found += (await store.runs(RunQuery(status=status, limit=MOST_MISSED))).items
    return [run for run in found if run.reason == _MISSED]


async def _blocked(
    store: Store, records: Mapping[str, TypeRecord], counts: Mapping[str, Counts], now: Instant
) -> dict[str, int]:
    """How many users of each type are refused. Somebody who is refused has left a failed task behind."""
    blocked: dict[str, int] = {}
    for name, record in records.items():
        if record.task_type.trigger_mode is not TriggerMode.USER_ACTIVITY or not counts.get(name, Counts()).failed:
            continue
        page = await store.find(TaskQuery(task_type=name, status=TaskStatus.FAILED, limit=MOST_BLOCKED))
        standings = await asyncio.gather(*(store.queue_position(task.identity) for task in page.items))
        blocked[name] = sum(breaker_is_open(one.past, one.record.task_type, now) for one in standings)
    return blocked


# --- from the picture to the readings --------------------------------------------------------------------------------


def _types(rule: AlertRule, picture: _Picture) -> list[str]:
    return [name for name in picture.records if rule.type in (None, name)]


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _failure_rate(rule: AlertRule, picture: _Picture) -> Iterator[Reading]:
    runs: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for piece in picture.slices:
        if piece.start_at + Resolution.MINUTE.ms > picture.now - rule.window_ms:
            runs[piece.task_type] += piece.runs - set_aside_in(piece)
            failed[piece.task_type] += failed_in(piece)
    for name in _types(rule, picture):
        share = failed[name] / runs[name] if runs[name] else 0.0
        is_enough = runs[name] >= rule.at_least
        yield Reading(
            rule.name,
            name,
            is_enough and share >= rule.limit,
            f"{share:.0%}" if is_enough else f"{_many(runs[name], 'run')}, too few" if runs[name] else "no runs",
            f"{failed[name]:,} of {_many(runs[name], 'run')} of {name} failed within {format_duration(rule.window_ms)}"
            f" ({share:.0%}; the limit is {rule.limit:.0%}).",
            share / rule.limit if is_enough else 0.0,
        )


def _queue_depth(rule: AlertRule, picture: _Picture) -> Iterator[Reading]:
    for name in _types(rule, picture):
        pending = picture.counts.get(name, Counts()).pending
        limit = rule.limit * picture.records[name].effective.max_pending if rule.limit <= 1 else rule.limit
        yield Reading(
            rule.name,
            name,
            pending >= max(limit, 1),
            f"{pending:,}",
            f"{_many(pending, 'task')} of {name} wait; the limit is {limit:,.0f}.",
            pending / max(limit, 1),
        )


def _oldest_pending(rule: AlertRule, picture: _Picture) -> Iterator[Reading]:
    for name in _types(rule, picture):
        overdue = max(0, picture.now - picture.heads.get(name, picture.now)) // SECOND * SECOND
        yield Reading(
            rule.name,
            name,
            overdue >= rule.limit * SECOND,
            format_duration(overdue),
            f"The first pending task of {name} is overdue by {format_duration(overdue)};"
            f" the limit is {format_duration(round(rule.limit * SECOND))}.",
            overdue / (rule.limit * SECOND),
        )


def _dead_letters(rule: AlertRule, picture: _Picture) -> Iterator[Reading]:
    for name in _types(rule, picture):
        failed = picture.counts.get(name, Counts()).failed
        yield Reading(
            rule.name,
            name,
            failed >= rule.limit,
            f"{failed:,}",
            f"{_many(failed, 'task')} of {name} {'has' if failed == 1 else 'have'} failed for good,"
            " to be redriven or purged.",
            failed / rule.limit,
        )


def _missed_fires(rule: AlertRule, picture: _Picture) -> Iterator[Reading]:
    fires: Counter[str] = Counter()
    for run in picture.missed:
        if run.started_at >= picture.now - rule.window_ms:
            fires[run.task_type] += run.fires
    for name in _types(rule, picture):
        yield Reading(
            rule.name,
            name,
            fires[name] >= rule.limit,
            f"{fires[name]:,}",
            f"{_many(fires[name], 'fire')} of {name} not run within {format_duration(rule.window_ms)}.",
            fires[name] / rule.limit,
        )


def _breaker_open(rule: AlertRule, picture: _Picture) -> Iterator[Reading]:
    for name in _types(rule, picture):
        blocked = picture.blocked.get(name, 0)
        more = " or more" if blocked == MOST_BLOCKED else ""
        yield Reading(
            rule.name,
            name,
            blocked >= rule.limit,
            f"{blocked:,}{more}",
            f"The activity of {_many(blocked, 'user')}{more} of {name} is refused: their tasks failed too often.",
            blocked / rule.limit,
        )


def _instance_lost(rule: AlertRule, picture: _Picture) -> Iterator[Reading]:
    for instance in picture.instances:
        beat = instance.beat
        if rule.type is not None and rule.type not in beat.types:
            continue
        silent = silent_ms(instance.seen_at, picture.now) // SECOND * SECOND
        yield Reading(
            rule.name,
            beat.instance,
            silent >= rule.limit * SECOND,
            format_duration(silent),
            f"The instance {beat.instance} (host {beat.host}, process {beat.pid}) has been silent for"
            f" {format_duration(silent)} without a goodbye.",
            silent / (rule.limit * SECOND),
        )


READ: Final[Mapping[str, Callable[[AlertRule, _Picture], Iterator[Reading]]]] = {
    EngineKind.FAILURE_RATE: _failure_rate,
    EngineKind.QUEUE_DEPTH: _queue_depth,
    EngineKind.OLDEST_PENDING: _oldest_pending,
    EngineKind.DEAD_LETTERS: _dead_letters,
    EngineKind.MISSED_FIRES: _missed_fires,
    EngineKind.BREAKER_OPEN: _breaker_open,
    EngineKind.INSTANCE_LOST: _instance_lost,
}
