"""`rota task`: list, look, touch, run, hold, cancel."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from rota.answers import TaskDetails, Touch
from rota.cli.invocation import Cli
from rota.cli.output import Column, relative
from rota.cli.target import (
    AgentOption,
    DeviceOption,
    KeyArgument,
    Target,
    TypeArgument,
    UserOption,
    ask,
    find_task,
    known_type,
    name_of,
)
from rota.clock import SystemClock
from rota.core.outcome import Touched, TouchOutcome
from rota.core.task import Activity, Event, Task, TaskStatus, Want
from rota.core.task_type import TriggerMode
from rota.errors import InvalidInput
from rota.keys import UserKeyBuilder, shown_key
from rota.stores.base import DEFAULT_PAGE, TaskQuery

__all__ = [
    "CursorOption",
    "LimitOption",
    "TypeOption",
    "cancel",
    "carry_out",
    "ls",
    "pause",
    "resume",
    "run_now",
    "show",
    "touch",
]

TypeOption = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only this task type.")]
LimitOption = Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, 1 to 1000.")]
CursorOption = Annotated[
    str | None, typer.Option("--cursor", metavar="C", help="Where the last page ended, as it was printed.")
]

_COLUMNS: Final = (
    Column("TYPE", "task_type"),
    Column("KEY", "shown_key"),
    Column("STATUS", "status"),
    Column("DUE", "scheduled_at"),
    Column("ATTEMPT", "attempt"),
    Column("COALESCED", "coalesced"),
    Column("REASON", "reason"),
)


async def ls(
    cli: Cli,
    task_type: TypeOption = None,
    status: Annotated[TaskStatus | None, typer.Option("--status", help="Only tasks in this state.")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Only tasks of this user.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="ID", help="Only schedules of this owner.")] = None,
    limit: LimitOption = DEFAULT_PAGE,
    cursor: CursorOption = None,
) -> None:
    """List tasks, by type and key."""
    async with cli.store() as store:
        if task_type is not None:
            await known_type(cli, store, task_type)
        page = await store.find(
            TaskQuery(task_type=task_type, status=status, user_id=user, owner=owner, cursor=cursor, limit=limit)
        )
    items = [TaskDetails.of(task).to_dict() for task in page.items]
    if not cli.output.as_json:
        items = [{**item, "shown_key": shown_key(str(item["key"]))} for item in items]
    empty = "No tasks. `rota task touch TYPE --user ID` makes one, and `rota schedule add` a recurring one."
    cli.output.page(items, _COLUMNS, cursor=page.cursor, empty=empty)


async def show(
    cli: Cli,
    task_type: TypeArgument,
    key: KeyArgument = None,
    user: UserOption = None,
    device: DeviceOption = None,
    agent: AgentOption = None,
) -> None:
    """Show everything about one task."""
    async with cli.store() as store:
        task = await find_task(cli, store, Target(task_type, key, user, device, agent))
    cli.output.one(TaskDetails.of(task).to_dict())


async def touch(
    cli: Cli,
    task_type: Annotated[str, typer.Argument(metavar="TYPE", help="The task type.")],
    user: Annotated[str, typer.Option("--user", metavar="ID", help="The user who was active.")],
    device: DeviceOption = None,
    agent: AgentOption = None,
) -> None:
    """Tell Rota that a user was active."""
    builder = UserKeyBuilder(cli.config.user_key)
    key = builder.build_key(user, device, agent)
    async with cli.store() as store:
        record = await known_type(cli, store, task_type, register=True)
        mode = record.task_type.trigger_mode
        if mode is not TriggerMode.USER_ACTIVITY:
            raise InvalidInput(
                f"The type {task_type!r} is {mode}: activity does not make it due."
                f" `rota task run-now {task_type}` runs it at once."
            )
        touched = Touched(TouchOutcome.DISABLED, None, 0)
        if cli.config.enabled:
            (touched,) = await store.touch([_activity(builder, task_type, key, user, device, agent)])
    cli.output.one(Touch.of(touched).to_dict(), f"{task_type}/{key}: {_touch_words(touched)}")


def _activity(
    builder: UserKeyBuilder, task_type: str, key: str, user: str, device: str | None, agent: str | None
) -> Activity:
    return Activity(
        task_type=task_type,
        key=key,
        user_id=user,
        device_id=device or builder.default_device_id,
        agent_id=agent or builder.default_agent_id,
    )


def _touch_words(touched: Touched) -> str:
    due = "" if touched.scheduled_at is None else relative(touched.scheduled_at, SystemClock().now())
    return {
        TouchOutcome.DISABLED: "disabled: the type is off, nothing was made. `rota type enable` switches it on.",
        TouchOutcome.COALESCED: f"coalesced: joined the task that is due {due} ({touched.coalesced} so far).",
        TouchOutcome.BLOCKED: "blocked: too many of its tasks failed in a row. See `rota dlq ls`.",
        TouchOutcome.FULL: "full: the type has as many pending tasks as max_pending allows.",
        TouchOutcome.COOLDOWN: "cooldown: it ran less than one interval ago, nothing was made.",
        TouchOutcome.DEFERRED: f"deferred: due {due}, one interval after its last run.",
        TouchOutcome.CREATED: f"created: due {due}.",
        TouchOutcome.SPOOLED: "spooled: the store is away; it will be offered when it returns.",
    }[touched.outcome]


async def run_now(
    cli: Cli,
    task_type: TypeArgument,
    key: KeyArgument = None,
    user: UserOption = None,
    device: DeviceOption = None,
    agent: AgentOption = None,
) -> None:
    """Make a task due at once; its series is not shifted."""
    await carry_out(cli, Event.RUN_NOW, Target(task_type, key, user, device, agent))


async def pause(
    cli: Cli,
    task_type: TypeArgument,
    key: KeyArgument = None,
    user: UserOption = None,
    device: DeviceOption = None,
    agent: AgentOption = None,
) -> None:
    """Hold a task back until it is resumed."""
    await carry_out(cli, Event.PAUSE, Target(task_type, key, user, device, agent))


async def resume(
    cli: Cli,
    task_type: TypeArgument,
    key: KeyArgument = None,
    user: UserOption = None,
    device: DeviceOption = None,
    agent: AgentOption = None,
) -> None:
    """Let a paused task go on."""
    await carry_out(cli, Event.RESUME, Target(task_type, key, user, device, agent))


async def cancel(
    cli: Cli,
    task_type: TypeArgument,
    key: KeyArgument = None,
    user: UserOption = None,
    device: DeviceOption = None,
    agent: AgentOption = None,
) -> None:
    """Cancel a task; a running one is told to stop."""
    await carry_out(cli, Event.CANCEL, Target(task_type, key, user, device, agent))


async def carry_out(cli: Cli, event: Event, target: Target) -> None:
    """Ask for one event on one task, and say what it led to."""
    async with cli.store() as store:
        task = await ask(store, event, await find_task(cli, store, target))
    cli.output.one(TaskDetails.of(task).to_dict(), f"{name_of(task.identity)}: {_state_words(task)}")


def _state_words(task: Task) -> str:
    if task.want is Want.CANCEL:
        return "running; its run is being cancelled."
    if task.want is Want.PAUSE:
        return "running; it will be paused when its run ends."
    if task.status is TaskStatus.PENDING:
        return f"pending, due {relative(task.scheduled_at, SystemClock().now())}."
    return f"{task.status}."
