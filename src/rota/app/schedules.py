"""`app.schedules`: schedules that people, programs and agents make at run time, each with its own trigger.

A schedule is a task whose key is the schedule's id within its type, so an id is used once per type and an upsert under
the same id changes the schedule instead of adding one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, TypedDict

import msgspec
from msgspec.structs import replace

from rota.app.making import schedule_one
from rota.app.results import ScheduleInfo, accepted, answered, encode_json
from rota.app.tasks import Ready
from rota.app.views import task_query
from rota.clock import Instant, from_datetime, parse_duration
from rota.core.task import Identity, NewTask, Task, TaskStatus, Transition
from rota.errors import InvalidInput, InvalidTrigger, UnknownTask
from rota.keys import GLOBAL_KEY, check_id, check_task_type
from rota.runtime.observer import Producer
from rota.runtime.signals import Duration
from rota.stores.base import DEFAULT_PAGE, Page, TaskSort
from rota.triggers import (
    AnyTrigger,
    Explanation,
    Interval,
    Misfire,
    Once,
    Overlap,
    Policy,
    decode_trigger,
    encode_trigger,
    explain,
    parse_trigger,
)

__all__ = ["OWNER_LIMIT", "ScheduleSettings", "Schedules", "instant_of", "trigger_of"]

OWNER_LIMIT: Final = 1_000
"""How many live schedules of one type an owner may have, unless the caller says otherwise."""


class ScheduleSettings(TypedDict, total=False):
    """What a schedule is to be: exactly one of `cron`, `every` and `at` says when. As `Schedules.upsert` takes them."""

    cron: str | None
    every: Duration | None
    at: str | datetime | None
    timezone: str | None
    payload: object
    owner: str | None
    misfire: Misfire
    overlap: Overlap
    jitter: Duration
    grace: Duration | None
    max_runs: int | None
    expires: str | datetime | None
    priority: int | None
    serial: str | None
    limit: int | None


class Schedules:
    """Schedules by id and type."""

    def __init__(self, ready: Ready, timezone: str, now: Callable[[], Instant]) -> None:
        self.producer: Callable[[], Producer | None] = lambda: None
        """Who wants to stand around every call that makes a schedule."""
        self._ready = ready
        self._timezone = timezone
        self._now = now
        self._checks: dict[str, Callable[[str], Awaitable[None]]] = {}

    def check_first(self, task_type: str, check: Callable[[str], Awaitable[None]]) -> None:
        """Ask `check` before a schedule of this type is made or changed here, with its id: whoever keeps more about
        some of them than a trigger and a payload refuses those, with the way to go."""
        self._checks[task_type] = check

    async def upsert(
        self,
        schedule_id: str,
        *,
        type: str,  # noqa: A002 - the word that people use for it
        cron: str | None = None,
        every: Duration | None = None,
        at: str | datetime | None = None,
        timezone: str | None = None,
        payload: object = None,
        owner: str | None = None,
        misfire: Misfire = "latest",
        overlap: Overlap = "skip",
        jitter: Duration = 0,
        grace: Duration | None = None,
        max_runs: int | None = None,
        expires: str | datetime | None = None,
        priority: int | None = None,
        serial: str | None = None,
        limit: int | None = None,
    ) -> ScheduleInfo:
        """Make the schedule, or change the live one of this id and type. The same call again changes nothing.

        Exactly one of `cron` (an expression in `timezone`), `every` (a duration, at least 1 s) and `at` (ISO 8601, in
        `timezone` if it has no offset, or an aware datetime) says when. `limit` bounds how many live ones `owner` may
        have.
        """
        identity = _identity(schedule_id, type)
        if (check := self._checks.get(type)) is not None:
            await check(schedule_id)
        zone = timezone or self._timezone
        store = await self._ready()
        now = await store.now()
        new = NewTask(
            task_type=type,
            key=schedule_id,
            trigger=encode_trigger(trigger_of(cron, every, at, zone, now)),
            policy=_policy(misfire, overlap, jitter, grace),
            payload=encode_json(payload, f"payload of {schedule_id!r}"),
            priority=priority,
            serial=serial,
            owner=owner,
            owner_limit=None if owner is None else (OWNER_LIMIT if limit is None else limit),
            max_runs=max_runs,
            expires_at=None if expires is None else instant_of(expires, zone, now, what="expires"),
            replace=True,
        )
        (current,) = await store.get([identity])
        if current is not None and current.status.is_live:
            new = _continued(current, new)
        scheduled = await schedule_one(store, new, self.producer())
        return self._info(accepted(scheduled, identity))

    async def get(self, schedule_id: str, type: str) -> ScheduleInfo | None:  # noqa: A002 - as in upsert
        """The schedule, or None if there is none."""
        identity = _identity(schedule_id, type)
        store = await self._ready()
        (task,) = await store.get([identity])
        return None if task is None or task.trigger is None else self._info(task)

    async def list(
        self,
        *,
        type: str | None = None,  # noqa: A002 - as in upsert
        owner: str | None = None,
        status: TaskStatus | str | None = None,
        sort: TaskSort | str = TaskSort.KEY,
        limit: int = DEFAULT_PAGE,
        cursor: str | None = None,
    ) -> Page[ScheduleInfo]:
        """A page of schedules by type and id, or sorted as tasks are. The series of configured types are not among
        them: see `app.tasks`."""
        query = task_query(type=type, owner=owner, status=status, schedules=True, sort=sort, limit=limit, cursor=cursor)
        store = await self._ready()
        page = await store.find(query)
        return Page([self._info(task) for task in page.items], page.cursor, page.looked_at)

    async def pause(self, schedule_id: str, type: str) -> ScheduleInfo:  # noqa: A002 - as in upsert
        """Hold it back. The fires that pass meanwhile are skipped."""
        return await self._apply(Transition.PAUSE, schedule_id, type)

    async def resume(self, schedule_id: str, type: str) -> ScheduleInfo:  # noqa: A002 - as in upsert
        """Go on with the first fire that lies ahead."""
        return await self._apply(Transition.RESUME, schedule_id, type)

    async def cancel(self, schedule_id: str, type: str) -> ScheduleInfo:  # noqa: A002 - as in upsert
        """End it. An upsert under its id starts it anew."""
        return await self._apply(Transition.CANCEL, schedule_id, type)

    async def run_now(self, schedule_id: str, type: str) -> ScheduleInfo:  # noqa: A002 - as in upsert
        """Run it once, now; its series is not shifted."""
        return await self._apply(Transition.RUN_NOW, schedule_id, type)

    def explain(
        self,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        at: str | datetime | None = None,
        timezone: str | None = None,
        n: int = 5,
        start: datetime | None = None,
        jitter: Duration = 0,
    ) -> Explanation:
        """The trigger in words and its next fires after `start` (now), with a note where something is not obvious."""
        zone = timezone or self._timezone
        after = self._now() if start is None else from_datetime(start)
        trigger = trigger_of(cron, every, at, zone, after, allow_past=True)
        policy = Policy(jitter_ms=parse_duration(jitter, what="jitter"))
        return explain(trigger, zone, n, after, policy=policy)

    async def _apply(self, transition: Transition, schedule_id: str, task_type: str) -> ScheduleInfo:
        identity = _identity(schedule_id, task_type)
        store = await self._ready()
        (reply,) = await store.apply(transition, [identity])
        task = answered(transition, identity, reply)
        if task is None or task.trigger is None:
            raise UnknownTask(f"{task_type}/{schedule_id} is a task without a trigger. Use `app.tasks` for it.")
        return self._info(task)

    def _info(self, task: Task) -> ScheduleInfo:
        return ScheduleInfo.of(task, self._timezone)


def _identity(schedule_id: str, task_type: str) -> Identity:
    check_task_type(task_type)
    if not check_id(schedule_id, "schedule id"):
        raise InvalidInput(
            f"The schedule id of a {task_type!r} schedule is empty. Give it one, like 'morning'.", field="id"
        )
    if schedule_id == GLOBAL_KEY:
        raise InvalidInput(f"The schedule id {schedule_id!r} belongs to the type itself. Use another one.", field="id")
    return Identity(task_type, schedule_id)


def trigger_of(
    cron: str | None,
    every: Duration | None,
    at: str | datetime | None,
    timezone: str,
    now: Instant,
    *,
    allow_past: bool = False,
) -> AnyTrigger:
    """The one trigger that was asked for."""
    given = [name for name, value in (("cron", cron), ("every", every), ("at", at)) if value is not None]
    if len(given) != 1:
        said = f"{' and '.join(given)} were given" if given else "nothing was given"
        raise InvalidTrigger(
            f"A schedule has one trigger, but {said}. Use cron='0 9 * * 1-5', every='30m' or at='...'."
        )
    if cron is not None:
        return parse_trigger("cron", cron, timezone=timezone, now=now)
    if every is not None:
        return Interval(parse_duration(every, what="interval"), anchor_at=now)
    assert at is not None
    return Once(instant_of(at, timezone, now, what="at", allow_past=allow_past))


def instant_of(moment: str | datetime, timezone: str, now: Instant, *, what: str, allow_past: bool = False) -> Instant:
    """The instant of ISO 8601 (in `timezone` if it has no offset) or of an aware datetime; a past one is refused."""
    if isinstance(moment, datetime):
        from_datetime(moment)  # refuses one without a zone
        moment = moment.isoformat()
    try:
        trigger = parse_trigger("once", moment, timezone=timezone, now=now, allow_past=allow_past)
    except InvalidTrigger as error:
        raise InvalidTrigger(f"{what}: {error}") from None
    assert isinstance(trigger, Once)
    return trigger.at


def _policy(misfire: Misfire, overlap: Overlap, jitter: Duration, grace: Duration | None) -> str | None:
    """The stored form; the defaults are stored as nothing, so that equal schedules look equal."""
    policy = Policy(
        misfire=misfire,
        overlap=overlap,
        jitter_ms=parse_duration(jitter, what="jitter"),
        grace_ms=None if grace is None else parse_duration(grace, what="grace"),
    )
    return None if policy == Policy() else msgspec.json.encode(policy).decode()


def _continued(current: Task, new: NewTask) -> NewTask:
    """The upsert of a live schedule: what cannot be changed is refused, and an equal interval keeps its grid."""
    for name in ("owner", "serial"):
        old, wanted = getattr(current, name), getattr(new, name)
        if old != wanted:
            raise InvalidInput(
                f"The {name} of the live schedule {current.identity} is {old!r} and cannot become {wanted!r}."
                " Cancel it first, or use another id."
            )
    if current.trigger is None or new.trigger is None:
        return new
    old_trigger, new_trigger = decode_trigger(current.trigger), decode_trigger(new.trigger)
    if isinstance(old_trigger, Interval) and isinstance(new_trigger, Interval):
        same = old_trigger.every_ms == new_trigger.every_ms
        return replace(new, trigger=current.trigger) if same else new
    return new
