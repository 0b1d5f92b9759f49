"""`rota schedule`: add, list, look, hold, cancel, run, explain."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rota.app.results import ScheduleInfo
from rota.cli.invocation import Cli
from rota.cli.output import Column, relative
from rota.cli.pages import (
    CursorOption,
    LimitOption,
    TaskSortOption,
    TypeOption,
    WatchOption,
    show_from_store,
    show_sorted,
    whole_page,
)
from rota.cli.payload import PayloadOption, read_payload
from rota.cli.target import Target, apply, find_task, known_type, name_of
from rota.clock import Instant, SystemClock, from_datetime, parse_duration, to_datetime
from rota.core.task import Task, TaskStatus, Transition
from rota.errors import InvalidTrigger, UnknownTask
from rota.stores.base import DEFAULT_PAGE, Page, Store, TaskSort
from rota.triggers import AnyTrigger, Cron, Once, parse_trigger
from rota.triggers import explain as explain_trigger

if TYPE_CHECKING:
    from rota.app.schedules import Schedules

__all__ = ["add", "cancel", "explain", "ls", "pause", "resume", "run_now", "show"]

TypeName = Annotated[str, typer.Argument(metavar="TYPE", help="The task type.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The schedule's id within its type.")]
ZoneOption = Annotated[
    str | None,
    typer.Option("--timezone", "--tz", metavar="ZONE", help="IANA zone, e.g. Asia/Shanghai. Default: as configured."),
]

_COLUMNS: Final = (
    Column("TYPE", "task_type", is_id=True),
    Column("ID", "id", is_id=True),
    Column("STATUS", "status"),
    Column("WHEN", "words", gives_way=True),
    Column("NEXT", "next_fire"),
    Column("RUNS", "runs", leaves=1),
    Column("OWNER", "owner", is_id=True, leaves=2),
)


class MisfirePolicy(StrEnum):
    """What becomes of fires that were missed."""

    LATEST = "latest"
    ALL = "all"
    SKIP = "skip"


class OverlapPolicy(StrEnum):
    """What becomes of fires during a run."""

    SKIP = "skip"
    QUEUE = "queue"


class ExpressionKind(StrEnum):
    """What an expression is."""

    AUTO = "auto"
    CRON = "cron"
    INTERVAL = "interval"
    ONCE = "once"


async def add(
    cli: Cli,
    task_type: TypeName,
    schedule_id: IdArgument,
    cron: Annotated[str | None, typer.Option("--cron", metavar="EXPR", help="e.g. '0 9 * * 1-5'.")] = None,
    every: Annotated[str | None, typer.Option("--every", metavar="D", help="A duration, e.g. 30m or 1h30m.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="Once, e.g. 2026-03-08T09:00:00.")] = None,
    timezone: ZoneOption = None,
    payload: PayloadOption = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="ID", help="Whose schedule it is.")] = None,
    max_runs: Annotated[int | None, typer.Option("--max-runs", metavar="N", help="End after so many runs.")] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME|D", help="End at this time, or after a duration (90d).")
    ] = None,
    misfire: Annotated[
        MisfirePolicy, typer.Option("--misfire", help="Missed fires: run the latest, all, or none.")
    ] = MisfirePolicy.LATEST,
    overlap: Annotated[
        OverlapPolicy, typer.Option("--overlap", help="Fires during a run: skip them, or queue one.")
    ] = OverlapPolicy.SKIP,
    jitter: Annotated[str, typer.Option("--jitter", metavar="D", help="Spread the starts over this long.")] = "0s",
    grace: Annotated[str | None, typer.Option("--grace", metavar="D", help="Skip a fire later than this.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", metavar="N", help="0 (last) to 10 (first).")] = None,
) -> None:
    """Add a schedule, or change the one of this type and id. The same call again changes nothing."""
    _check_one_trigger(cron, every, at)
    content = read_payload(payload)
    async with cli.session() as session:
        await known_type(cli, session.store, task_type, register=True)
        info = await session.operator.upsert_schedule(
            schedule_id,
            task_type,
            cron=cron,
            every=every,
            at=at,
            timezone=timezone,
            payload=content,
            owner=owner,
            misfire=misfire.value,
            overlap=overlap.value,
            jitter=jitter,
            grace=grace,
            max_runs=max_runs,
            expires=None if expires is None else _expiry(expires, await session.store.now()),
            priority=priority,
        )
    _tell(cli, info)


def _check_one_trigger(cron: str | None, every: str | None, at: str | None) -> None:
    given = [flag for flag, value in (("--cron", cron), ("--every", every), ("--at", at)) if value is not None]
    if len(given) != 1:
        said = f"{' and '.join(given)} were given" if given else "none was given"
        raise InvalidTrigger(f"A schedule has one trigger; {said}. Use one of --cron EXPR, --every D or --at TIME.")


_DURATION: Final = re.compile(r"(?:[0-9.]+(?:ms|s|m|h|d|w))+", re.IGNORECASE)


def _expiry(text: str, now: Instant) -> str:
    if not _DURATION.fullmatch(text.strip()):
        return text
    return to_datetime(now + parse_duration(text, what="--expires")).isoformat()


async def ls(
    cli: Cli,
    task_type: TypeOption = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="ID", help="Only schedules of this owner.")] = None,
    status: Annotated[TaskStatus | None, typer.Option("--status", help="Only schedules in this state.")] = None,
    sort: TaskSortOption = TaskSort.KEY,
    limit: LimitOption = DEFAULT_PAGE,
    cursor: CursorOption = None,
    watch: WatchOption = False,
) -> None:
    """List schedules, by type and id unless they are sorted otherwise."""

    async def show_page(store: Store) -> None:
        schedules = _schedules(cli, store)

        async def fetch(after: str | None, at_most: int) -> Page[ScheduleInfo]:
            return await schedules.list(
                type=task_type, owner=owner, status=status, sort=sort, limit=at_most, cursor=after
            )

        page = await whole_page(fetch, limit, cursor)
        empty = "No schedules. `rota schedule add TYPE ID --cron '0 9 * * 1-5'` adds one."
        show_sorted(cli, page, [info.to_dict() for info in page.items], _COLUMNS, empty=empty)

    await show_from_store(cli, show_page, watch=watch, task_type=task_type)


async def show(cli: Cli, task_type: TypeName, schedule_id: IdArgument) -> None:
    """Show one schedule."""
    async with cli.store() as store:
        task = await _find(cli, store, task_type, schedule_id)
    cli.output.one(ScheduleInfo.of(task, cli.config.timezone).to_dict())


async def pause(cli: Cli, task_type: TypeName, schedule_id: IdArgument) -> None:
    """Hold a schedule; the fires that pass meanwhile are skipped."""
    await _carry_out(cli, Transition.PAUSE, task_type, schedule_id)


async def resume(cli: Cli, task_type: TypeName, schedule_id: IdArgument) -> None:
    """Go on with the first fire that lies ahead."""
    await _carry_out(cli, Transition.RESUME, task_type, schedule_id)


async def cancel(cli: Cli, task_type: TypeName, schedule_id: IdArgument) -> None:
    """End a schedule; `schedule add` under its id starts it anew."""
    await _carry_out(cli, Transition.CANCEL, task_type, schedule_id)


async def run_now(cli: Cli, task_type: TypeName, schedule_id: IdArgument) -> None:
    """Run a schedule once, now; its series is not shifted."""
    await _carry_out(cli, Transition.RUN_NOW, task_type, schedule_id)


async def _carry_out(cli: Cli, transition: Transition, task_type: str, schedule_id: str) -> None:
    async with cli.session() as session:
        task = await _find(cli, session.store, task_type, schedule_id)
        await apply(session, transition, task)
        info = await session.app.schedules.get(task.key, task.task_type)
    if info is None:
        raise UnknownTask(f"The schedule {name_of(task.identity)!r} has just been removed. List the schedules again.")
    _tell(cli, info)


async def _find(cli: Cli, store: Store, task_type: str, schedule_id: str) -> Task:
    task = await find_task(cli, store, Target(task_type, schedule_id))
    if task.trigger is None:
        name = name_of(task.identity)
        raise UnknownTask(f"{name!r} is a task without a schedule. See `rota task show {name}`.")
    return task


def _schedules(cli: Cli, store: Store) -> Schedules:
    # Here, because it brings the runtime along, and `rota --help` needs none of it.
    from rota.app.schedules import Schedules

    async def ready() -> Store:
        return store

    return Schedules(ready, cli.config.timezone, SystemClock().now)


def _tell(cli: Cli, info: ScheduleInfo) -> None:
    now = SystemClock().now()
    following = "" if info.next_fire is None else f", next {relative(from_datetime(info.next_fire), now)}"
    cli.output.one(info.to_dict(), f"{info.task_type}/{info.id}: {info.status}, {info.words}{following}.")


# --- explain ------------------------------------------------------------------------------------------------------


def explain(
    cli: Cli,
    expression: Annotated[
        str, typer.Argument(metavar="EXPRESSION", help="Cron, an interval (30m, or milliseconds) or a time.")
    ],
    timezone: ZoneOption = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Fires from then on. Default: now.")
    ] = None,
    n: Annotated[int, typer.Option("-n", "--count", metavar="N", help="How many fires to list, 0 to 1000.")] = 5,
    kind: Annotated[ExpressionKind, typer.Option("--kind", help="What the expression is.")] = ExpressionKind.AUTO,
) -> None:
    """Say in words when something fires, list the next fires, and note where a change of the clocks moves one."""
    timezone = timezone or cli.config.timezone
    start_at = SystemClock().now() if start is None else _instant(start, timezone)
    chosen = _guess(expression) if kind is ExpressionKind.AUTO else kind
    trigger = parse_trigger(chosen.value, expression, timezone=timezone, now=start_at, allow_past=True)
    # A cron job or a time that falls on the start itself is meant too; an interval is counted from the start.
    after = start_at - 1 if isinstance(trigger, Cron | Once) else start_at
    explanation = explain_trigger(trigger, timezone, n, after)
    notes = [*explanation.notes, *_late_note(trigger, after)]
    if cli.output.as_json:
        cli.output.one({"words": explanation.words, "fires": list(explanation.fires), "notes": notes})
        return
    cli.output.say(f"{explanation.words} ({timezone})")
    for line in (*explanation.fires, *(f"note: {note}" for note in notes)):
        cli.output.say(f"  {line}")


def _instant(text: str, timezone: str) -> Instant:
    try:
        trigger = parse_trigger("once", text, timezone=timezone, now=0, allow_past=True)
    except InvalidTrigger as error:
        raise InvalidTrigger(f"--from: {error}") from None
    assert isinstance(trigger, Once)
    return trigger.at


_DATE: Final = re.compile(r"\d{4}-\d\d")
_NUMBER: Final = re.compile(r"\d+")


def _guess(expression: str) -> ExpressionKind:
    text = expression.strip()
    if _NUMBER.fullmatch(text) or _DURATION.fullmatch(text):
        return ExpressionKind.INTERVAL
    return ExpressionKind.ONCE if _DATE.match(text) else ExpressionKind.CRON


def _late_note(trigger: AnyTrigger, after: Instant) -> list[str]:
    if isinstance(trigger, Once) and trigger.at <= after:
        return ["This time lies before the start of the list: it does not fire again."]
    return []
