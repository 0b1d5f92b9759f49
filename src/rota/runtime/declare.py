"""Makes the store agree with the configuration: its types, and one recurring record for each type on a schedule.

A type that is periodic, on an interval or on cron lives in one record on the global key. It is made when the type is
first seen, changed when its schedule has changed, and otherwise left alone: a restart never fires it again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rota.clock import Instant
from rota.core.task import Change, Identity, NewTask, Task, policy_of
from rota.core.task_type import TaskType, TriggerMode
from rota.keys import GLOBAL_KEY
from rota.logs import get_logger
from rota.stores.base import Store, TypeRecord
from rota.triggers import AnyTrigger, Cron, Interval, Policy, decode_trigger, encode_trigger

__all__ = ["declare", "differences", "tell_of_another"]

_ON_A_GRID = (TriggerMode.PERIODIC, TriggerMode.INTERVAL)

log = get_logger("rota.declare")


async def declare(store: Store, types: Iterable[TaskType], *, now: Instant | None = None) -> list[TypeRecord]:
    """Register the types, and bring the recurring ones' records up to date. Disabled types stay as they are.

    How the store has them now.
    """
    wanted = list(types)
    known = {record.task_type.name: record.task_type for record in await store.list_types()} if wanted else {}
    records = await store.put_types(wanted)
    for ours, record in zip(wanted, records, strict=True):
        _tell_of_a_change(known.get(ours.name), ours, record.task_type)
    at = await store.now() if now is None else now
    # A newer configuration in the store wins: what counts is what it holds now.
    enabled = [record.task_type for record in records if record.enabled]
    existing = await store.get([Identity(task_type.name, GLOBAL_KEY) for task_type in enabled])
    pairs = list(zip(enabled, existing, strict=True))
    new = [_first(task_type, at) for task_type, task in pairs if _recurs(task_type) and task is None]
    changed = [change for task_type, task in pairs if (change := _difference(task_type, task, at)) is not None]
    over = [task.identity for task_type, task in pairs if _is_over(task_type, task) and task is not None]
    await store.schedule(new, now=now)
    await store.update(changed, now=now)
    await store.end(over, now=now)
    for made in new:
        log.info("schedule", task_type=made.task_type, key=made.key)
    return records


def differences(one: TaskType, other: TaskType) -> dict[str, tuple[object, object]]:
    """The settings in which two declarations of one type differ, with both values; times in milliseconds."""
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in TaskType.__struct_fields__}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def tell_of_another(ours: TaskType, kept: TaskType) -> None:
    """Two apps declare one type, each in its own way; the last one to come is what the store keeps."""
    log.warning(
        "type declared differently elsewhere",
        task_type=ours.name,
        here_and_in_the_store=differences(ours, kept),
        advice="Make both apps agree, name one of the types differently, or give the right one a higher `version`.",
    )


def _tell_of_a_change(before: TaskType | None, ours: TaskType, kept: TaskType) -> None:
    if kept != ours:
        tell_of_another(ours, kept)
    elif before is not None and before != kept:
        log.warning(
            "type changed",
            task_type=ours.name,
            before_and_now=differences(before, kept),
            advice="A new version of your app may do so. If it was another app: name one of the types differently.",
        )


def _recurs(task_type: TaskType) -> bool:
    return task_type.trigger_mode in _ON_A_GRID or task_type.trigger_mode is TriggerMode.CRON


def _is_over(task_type: TaskType, task: Task | None) -> bool:
    """A type that was on a schedule and no longer is: its record must not go on firing."""
    return not _recurs(task_type) and task is not None and task.status.is_live and task.is_recurring


def _first(task_type: TaskType, at: Instant) -> NewTask:
    starts_now = task_type.run_on_start and task_type.trigger_mode in _ON_A_GRID
    return NewTask(
        task_type=task_type.name,
        key=GLOBAL_KEY,
        trigger=encode_trigger(_trigger(task_type, at)),
        policy=_encode(_policy(task_type)),
        scheduled_at=at if starts_now else None,
    )


def _difference(task_type: TaskType, task: Task | None, at: Instant) -> Change | None:
    """What has changed in the schedule of a live record; None if nothing has."""
    if task is None or not task.status.is_live or not _recurs(task_type):
        return None
    trigger, policy = _trigger(task_type, at), _policy(task_type)
    is_same = task.trigger is not None and _is_same(decode_trigger(task.trigger), trigger)
    if is_same and policy_of(task.policy) == policy:
        return None
    return Change(
        task_type=task.task_type,
        key=task.key,
        trigger=msgspec.UNSET if is_same else encode_trigger(trigger),
        policy=_encode(policy),
    )


def _is_same(known: AnyTrigger, wanted: AnyTrigger) -> bool:
    """The same schedule; where a grid was anchored is no part of the configuration."""
    if isinstance(known, Interval) and isinstance(wanted, Interval):
        return known.every_ms == wanted.every_ms
    return known == wanted


def _trigger(task_type: TaskType, at: Instant) -> AnyTrigger:
    if task_type.trigger_mode is TriggerMode.CRON:
        assert task_type.cron is not None, "a type on cron has an expression: its settings were validated"
        return Cron(task_type.cron, task_type.timezone)
    return Interval(every_ms=task_type.interval_ms, anchor_at=at)


def _policy(task_type: TaskType) -> Policy:
    return Policy(
        misfire=task_type.misfire,
        grace_ms=task_type.grace_ms,
        overlap=task_type.overlap,
        jitter_ms=task_type.jitter_ms,
    )


def _encode(policy: Policy) -> str:
    return msgspec.json.encode(policy).decode()
