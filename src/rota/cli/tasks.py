"""`rota task`: list, look, explain, make, touch, run, hold, cancel; one task, or all that match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from rota.app.results import TaskDetails, Touch, Waiting
from rota.app.views import task_query
from rota.cli.bulk import AllOption, Command, DryRunOption, YesOption, act_on_all, act_on_these
from rota.cli.invocation import Cli
from rota.cli.output import Column, relative
from rota.cli.pages import (
    CursorOption,
    LimitOption,
    SearchOption,
    SinceOption,
    TaskSortOption,
    TypeOption,
    UntilOption,
    WatchOption,
    find_tasks,
    show_from_store,
    show_sorted,
    since_and_until,
)
from rota.cli.payload import PayloadOption, read_payload
from rota.cli.target import (
    AgentOption,
    DeviceOption,
    KeyArgument,
    Target,
    TypeArgument,
    UserOption,
    apply,
    find_task,
    known_type,
    meant_by,
    name_of,
)
from rota.clock import SECOND, Millis, SystemClock, format_duration, from_datetime
from rota.core.outcome import Touched, TouchOutcome
from rota.core.task import Activity, Identity, TaskStatus, Transition, Want
from rota.core.task_type import TriggerMode
from rota.errors import InvalidInput, UnknownTask
from rota.keys import UserKeyBuilder, shown_key
from rota.stores.base import DEFAULT_PAGE, Store, TaskQuery, TaskSort

__all__ = [
    "COLUMNS",
    "again",
    "cancel",
    "explain",
    "ls",
    "pause",
    "purge",
    "redrive",
    "reset",
    "resume",
    "run_now",
    "schedule",
    "show",
    "touch",
]

StatusOption = Annotated[TaskStatus | None, typer.Option("--status", help="Only tasks in this state.")]
WithoutOption = Annotated[TaskStatus | None, typer.Option("--without", help="Only tasks that are not in this state.")]
OwnerOption = Annotated[str | None, typer.Option("--owner", metavar="ID", help="Only schedules of this owner.")]
SchedulesOption = Annotated[bool, typer.Option("--schedules", help="Only schedules.")]
NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TYPE [KEY] | TYPE/KEY...]", help="One task, or several as TYPE/KEY; or use --all."),
]

COLUMNS: Final = (
    Column("TYPE", "task_type", is_id=True),
    Column("KEY", "shown_key", is_id=True),
    Column("STATUS", "status"),
    Column("DUE", "scheduled_at"),
    Column("ATTEMPT", "attempt", leaves=2),
    Column("COALESCED", "coalesced", leaves=1),
    Column("REASON", "reason", gives_way=True),
    Column("CHANGED", "updated_at", is_extra=True, leaves=3),
    Column("PRIORITY", "priority", is_extra=True, leaves=4),
    Column("USER", "user_id", is_id=True, is_extra=True),
    Column("OWNER", "owner", is_id=True, is_extra=True),
    Column("ERROR", "error", gives_way=True, is_extra=True),
)


async def ls(
    cli: Cli,
    task_type: TypeOption = None,
    status: StatusOption = None,
    without: WithoutOption = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Only tasks of this user.")] = None,
    owner: OwnerOption = None,
    search: SearchOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    sort: TaskSortOption = TaskSort.NEWEST,
    limit: LimitOption = DEFAULT_PAGE,
    cursor: CursorOption = None,
    watch: WatchOption = False,
) -> None:
    """List tasks, those first that changed last. By --sort key all pages have an end, however many tasks there are."""
    query = task_query(
        type=task_type,
        status=status,
        without=without,
        user=user,
        owner=owner,
        search=search,
        within=since_and_until(cli, since, until),
        sort=sort,
        cursor=cursor,
        limit=limit,
    )
    await show_from_store(cli, lambda store: _list(cli, store, query), watch=watch, task_type=task_type)


async def _list(cli: Cli, store: Store, query: TaskQuery) -> None:
    page = await find_tasks(store, query)
    items = [TaskDetails.of(task).to_dict() for task in page.items]
    if not cli.output.as_json:
        items = [{**item, "shown_key": shown_key(str(item["key"]))} for item in items]
    empty = "No tasks. `rota task touch TYPE --user ID` makes one, and `rota schedule add` a recurring one."
    show_sorted(cli, page, items, COLUMNS, empty=empty)


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


async def explain(
    cli: Cli,
    task_type: TypeArgument,
    key: KeyArgument = None,
    user: UserOption = None,
    device: DeviceOption = None,
    agent: AgentOption = None,
) -> None:
    """Say why a task waits, what comes before it, and when it may run; or why there is none."""
    target = Target(task_type, key, user, device, agent)
    async with cli.session() as session:
        identity = await _identity(cli, session.store, target)
        waiting = await session.app.tasks.explain(identity.task_type, identity.key)
    if cli.output.as_json:
        cli.output.one(waiting.to_dict())
        return
    cli.output.say(f"{name_of(identity)}: {_standing(waiting)}.")
    for reason in waiting.reasons:
        cli.output.say(f"  - {reason.text}")


async def _identity(cli: Cli, store: Store, target: Target) -> Identity:
    """The task that is meant; one that is not there is meant too if its type comes after others, or has a breaker."""
    try:
        return (await find_task(cli, store, target)).identity
    except UnknownTask:
        identity = target.identity(cli)
        if not await _is_awaited(store, identity):
            raise
        return identity


async def _is_awaited(store: Store, identity: Identity) -> bool:
    position = await store.queue_position(identity)
    return bool(position.record.task_type.after) or position.past.fail_count > 0


def _standing(waiting: Waiting) -> str:
    words = [waiting.state]
    if waiting.position is not None:
        words.append(f"place {waiting.position:,}{' or later' if waiting.position_is_more else ''} in line")
    if waiting.estimate_ms is not None:
        words.append(f"perhaps {format_duration(_whole_seconds(waiting.estimate_ms))} to go")
    return ", ".join(words)


def _whole_seconds(span: Millis) -> Millis:
    return -(-span // SECOND) * SECOND


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


# --- making and changing ---------------------------------------------------------------------------------------------


async def schedule(
    cli: Cli,
    task_type: TypeArgument,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Its key; a live task of it is kept. Left out: a new one.")
    ] = None,
    payload: PayloadOption = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="Due then, e.g. 2026-03-08T09:00:00.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="D", help="Due after so long, e.g. 10m.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", metavar="N", help="0 (last) to 10 (first).")] = None,
    serial: Annotated[
        str | None, typer.Option("--serial", metavar="NAME", help="Of all with this name one runs at a time.")
    ] = None,
    user: UserOption = None,
    device: DeviceOption = None,
    agent: AgentOption = None,
    replace: Annotated[bool, typer.Option("--replace", help="Change a live task of this key.")] = False,
) -> None:
    """Make a task, due now, at a time or after a while."""
    target = Target(task_type, key, user, device, agent)
    identity = target.identity(cli)
    content = read_payload(payload)
    async with cli.session() as session:
        await known_type(cli, session.store, identity.task_type, register=True)
        receipt = await session.operator.schedule(
            identity.task_type,
            content,
            key=target.given_key,
            at=at,
            delay=delay,
            priority=priority,
            serial=serial,
            user_id=user,
            device_id=device,
            agent_id=agent,
            replace=replace,
        )
    due = relative(from_datetime(receipt.scheduled_at), SystemClock().now())
    name = f"{receipt.task_type}/{shown_key(receipt.key)}"
    cli.output.one(receipt.to_dict(), f"{name}: {receipt.outcome}, due {due}.")


async def reset(
    cli: Cli,
    task_type: TypeArgument,
    key: KeyArgument = None,
    user: UserOption = None,
    device: DeviceOption = None,
    agent: AgentOption = None,
) -> None:
    """Forget the failures in a row, so that activity is taken on again."""
    identity = Target(task_type, key, user, device, agent).identity(cli)
    async with cli.session() as session:
        await known_type(cli, session.store, identity.task_type)
        await session.operator.reset(identity)
    done = {"task_type": identity.task_type, "key": identity.key, "reset": True}
    cli.output.one(done, f"{name_of(identity)}: its failures in a row are forgotten.")


_USUAL: Final = {Transition.REDRIVE: TaskStatus.FAILED, Transition.RESUME: TaskStatus.PAUSED}
"""The state that is meant by `--all` alone, where only one state makes sense."""


def _acting(transition: Transition, words: str) -> Command:
    """The command for a transition: on one task that is named, or with `--all` on every one that matches."""

    async def act(
        cli: Cli,
        names: NamesArgument = None,
        user: UserOption = None,
        device: DeviceOption = None,
        agent: AgentOption = None,
        every: AllOption = False,
        task_type: TypeOption = None,
        status: StatusOption = None,
        without: WithoutOption = None,
        owner: OwnerOption = None,
        search: SearchOption = None,
        since: SinceOption = None,
        until: UntilOption = None,
        schedules: SchedulesOption = False,
        yes: YesOption = False,
        dry_run: DryRunOption = False,
    ) -> None:
        if every and status is None and without is None:
            status = _USUAL.get(transition)
        query = task_query(
            type=task_type,
            status=status,
            without=without,
            user=user,
            owner=owner,
            search=search,
            within=since_and_until(cli, since, until),
            schedules=schedules,
        )
        if every:
            _refuse_names(names, device, agent)
            await _many(cli, transition, query, yes=yes, dry_run=dry_run)
            return
        if not names:
            raise InvalidInput("Which task? Name it as TYPE KEY or TYPE/KEY, or use --all with --type, --status, ...")
        is_several = _are_several(names)
        if query != task_query(user=user) or (dry_run and not is_several):
            raise InvalidInput(
                "--type, --status, --without, --owner, --search, --since, --until, --schedules and --dry-run go with"
                " --all. Add it."
            )
        if is_several:
            _refuse_ids(user, device, agent)
            await _several(cli, transition, names, yes=yes, dry_run=dry_run)
        else:
            await _one(cli, transition, Target(names[0], names[1] if len(names) > 1 else None, user, device, agent))

    act.__doc__ = words
    return act


def _are_several(names: Sequence[str]) -> bool:
    """Whether more than one task is named. TYPE KEY are two words for one; no type's name has a slash."""
    if len(names) > 2:
        odd = next((name for name in names if "/" not in name), None)
        if odd is not None:
            raise InvalidInput(f"{odd!r} names no task. Write each of several as TYPE/KEY; nothing was changed.")
    return len(names) > 1 and all("/" in name for name in names)


def _refuse_ids(user: str | None, device: str | None, agent: str | None) -> None:
    if not user is device is agent is None:
        raise InvalidInput("--user, --device and --agent name one task. Leave them out where several are named.")


async def _several(cli: Cli, transition: Transition, names: Sequence[str], *, yes: bool, dry_run: bool) -> None:
    named = [Target(name).identity(cli) for name in names]
    async with cli.session() as session:
        for task_type in dict.fromkeys(identity.task_type for identity in named):
            await known_type(cli, session.store, task_type)
        identities = [await meant_by(session.store, identity) for identity in named]
        await act_on_these(cli, session, transition, identities, yes=yes, dry_run=dry_run)


def _refuse_names(names: Sequence[str] | None, device: str | None, agent: str | None) -> None:
    if names:
        raise InvalidInput(f"Both {names[0]!r} and --all were given. Name one task, or say which ones by --type TYPE.")
    if device is not None or agent is not None:
        raise InvalidInput("--device and --agent name one task. Leave them out with --all.")


async def _many(cli: Cli, transition: Transition, query: TaskQuery, *, yes: bool, dry_run: bool) -> None:
    async with cli.session() as session:
        if query.task_type is not None:
            await known_type(cli, session.store, query.task_type)
        await act_on_all(cli, session, transition, query, yes=yes, dry_run=dry_run)


async def _one(cli: Cli, transition: Transition, target: Target) -> None:
    async with cli.session() as session:
        task = await find_task(cli, session.store, target)
        details = await apply(session, transition, task)
    name = name_of(task.identity)
    if details is None:
        cli.output.one({"task_type": task.task_type, "key": task.key, "purged": True}, f"{name}: purged.")
    else:
        cli.output.one(details.to_dict(), f"{name}: {_state_words(details)}")


def _state_words(task: TaskDetails) -> str:
    if task.want is Want.CANCEL:
        return "running; its run is being cancelled."
    if task.want is Want.PAUSE:
        return "running; it will be paused when its run ends."
    if task.status is TaskStatus.PENDING:
        return f"pending, due {relative(from_datetime(task.scheduled_at), SystemClock().now())}."
    return f"{task.status}."


run_now = _acting(Transition.RUN_NOW, "Make a task due at once, or many; a series is not shifted by it.")
pause = _acting(Transition.PAUSE, "Hold a task back until it is resumed, or many.")
resume = _acting(Transition.RESUME, "Let a paused task go on, or many.")
cancel = _acting(Transition.CANCEL, "Cancel a task, or many; a running one is told to stop.")
redrive = _acting(Transition.REDRIVE, "Run a failed task again with fresh counts, or many.")


async def again(cli: Cli, task_type: TypeArgument, key: KeyArgument = None, payload: PayloadOption = None) -> None:
    """Make an ended task once more, due now, with the payload that it carried or with another one."""
    from rota.app.again import SAME

    async with cli.session() as session:
        task = await find_task(cli, session.store, Target(task_type, key))
        receipt = await session.operator.run_again(task.identity, SAME if payload is None else read_payload(payload))
    cli.output.one(receipt.to_dict(), f"{receipt.task_type}/{shown_key(receipt.key)} is due now.")


purge = _acting(Transition.PURGE, "Remove a finished task for good, or many.")
