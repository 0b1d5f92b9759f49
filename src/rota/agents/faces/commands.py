"""`rota agent`: scheduled agents, their groups, what waits for approval, what runs, and the switches that stop it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.pages import CursorOption, WatchOption, with_watch
from rota.cli.target import bring_built_in
from rota.clock import parse_duration
from rota.errors import InvalidInput

if TYPE_CHECKING:
    from rota.agents.operator import AgentOperator
    from rota.agents.schedules.proposal_view import ProposalView
    from rota.agents.schedules.schedule import AgentSchedule

__all__ = [
    "add",
    "add_group",
    "approve",
    "cancel",
    "kill",
    "log",
    "ls",
    "ls_groups",
    "operator_of",
    "pause",
    "reject",
    "remove_group",
    "resume",
    "revive",
    "run",
    "running",
    "show",
    "stop",
    "token",
    "update",
    "waiting",
]

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The schedule's id, as `agent ls` prints it.")]
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The group's folder, e.g. main.")]
ScopeArgument = Annotated[str, typer.Argument(metavar="[GROUP]", help="The group's folder. Left out: all groups.")]
GroupOption = Annotated[str | None, typer.Option("--group", metavar="GROUP", help="Only this group.")]

_COLUMNS: Final = (
    Column("ID", "id", is_id=True),
    Column("GROUP", "group_folder", is_id=True),
    Column("STATUS", "status"),
    Column("WHEN", "words", gives_way=True),
    Column("NEXT", "next_run"),
    Column("LAST RESULT", "last_result", gives_way=True),
    Column("CREATED BY", "made_by", leaves=1),
)
_GROUPS: Final = (
    Column("FOLDER", "folder", is_id=True),
    Column("NAME", "name", is_id=True),
    Column("MAIN", "is_main"),
    Column("ZONE", "timezone", leaves=1),
    Column("NETWORK", "has_network"),
    Column("STOPPED", "stopped"),
)
_RUNNING: Final = (
    Column("ID", "id", is_id=True),
    Column("GROUP", "folder", is_id=True),
    Column("STARTED", "started_at"),
    Column("LAST SEEN", "seen_at", leaves=1),
    Column("OUTPUT", "output", gives_way=True),
)
_RUNS: Final = (
    Column("STATUS", "status"),
    Column("REASON", "reason"),
    Column("DUE", "fire_at", leaves=1),
    Column("STARTED", "started_at"),
    Column("TOOK", "duration_ms"),
    Column("RESULT", "result", gives_way=True),
    Column("ERROR", "error", gives_way=True),
)


class ContextMode(StrEnum):
    """Which session a run has."""

    ISOLATED = "isolated"
    GROUP = "group"


@asynccontextmanager
async def operator_of(cli: Cli, *, makes_schedules: bool = False) -> AsyncGenerator[AgentOperator]:
    """Acts in the name of whoever sits here. Whoever makes schedules makes the type `agent` known, if nobody has."""
    from rota.agents import AGENT, agents_of
    from rota.agents.operator import AgentOperator

    async with cli.session() as session:
        if makes_schedules:
            await bring_built_in(cli, session.store, AGENT)
        yield AgentOperator(agents_of(session.app), session.operator.principal, session.app.database)


# --- queries ---------------------------------------------------------------------------------------------------------


async def ls(
    cli: Cli,
    group: GroupOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Finished ones too.")] = False,
    watch: WatchOption = False,
) -> None:
    """List the scheduled agents, and what waits for approval."""
    async with operator_of(cli) as operator:

        async def list_them() -> None:
            found = await operator.list_tasks(group=group, finished=everything)
            empty = (
                "No agent is scheduled. `rota agent add main 'Tell me what changed.' --cron '0 9 * * 1-5'` adds one."
            )
            cli.output.page([one.to_dict() for one in found], _COLUMNS, empty=empty)

        await with_watch(cli, list_them, watch=watch)


async def show(cli: Cli, schedule_id: IdArgument) -> None:
    """Show one scheduled agent."""
    async with operator_of(cli) as operator:
        found = await operator.get_task(schedule_id)
    if cli.output.as_json or found.wanted is None:
        cli.output.one(found.to_dict())
        return
    cli.output.one({name: value for name, value in found.to_dict().items() if name != "wanted"})
    cli.output.say("")
    _show_wanted(cli, found, found.wanted, most_lines=None)


async def running(cli: Cli, watch: WatchOption = False) -> None:
    """List what runs now, with the last line of its output."""
    async with operator_of(cli) as operator:

        async def list_them() -> None:
            rows = [one.to_dict() for one in await operator.running()]
            if not cli.output.as_json:
                rows = [{**row, "output": str(row["output"]).rpartition("\n")[2]} for row in rows]
            cli.output.page(rows, _RUNNING, empty="No agent runs now.")

        await with_watch(cli, list_them, watch=watch)


async def waiting(cli: Cli) -> None:
    """List what agents have asked for and a person has to approve."""
    async with operator_of(cli) as operator:
        found = await operator.waiting()
    if cli.output.as_json or not found:
        cli.output.page([one.to_dict() for one in found], (), empty="Nothing waits for approval.")
        return
    for number, one in enumerate(found):
        assert one.wanted is not None, f"{one.id} waits for nothing"
        cli.output.say("" if number else f"{len(found)} {'waits' if len(found) == 1 else 'wait'} for approval.\n")
        _show_wanted(cli, one, one.wanted, most_lines=_MOST_LINES)


_MOST_LINES: Final = 40
"""Of one text in a list; `agent show` has all of it."""


def _show_wanted(cli: Cli, schedule: AgentSchedule, wanted: ProposalView, *, most_lines: int | None) -> None:
    """Who asks for what: all that would be in force, and beside each thing that changes what it is now."""
    asks = {"create": "for a new schedule", "update": "for a change"}.get(wanted.kind, f"to {wanted.kind} it")
    where = "" if wanted.in_run is None else f" in the run {wanted.in_run}"
    made = "" if wanted.kind == "create" else f" It was made by {schedule.made_by}."
    cli.output.say(f"{schedule.id}: {wanted.by} asks{where} {asks}.{made}")
    for one in wanted.shown:
        if wanted.kind == "create" or not one.is_change:
            _show_text(cli, f"  {one.name}", one.new, schedule.id, most_lines)
        else:
            _show_text(cli, f"  {one.name}, now", one.old, schedule.id, most_lines)
            _show_text(cli, f"  {one.name}, NEW", one.new, schedule.id, most_lines)
    cli.output.say(f"  `rota agent approve {schedule.id} --digest {wanted.digest}` agrees to just this;")
    cli.output.say(f"  `rota agent reject {schedule.id}` refuses it.")


def _show_text(cli: Cli, name: str, text: str | None, schedule_id: str, most_lines: int | None) -> None:
    """A short text beside its name, one of several lines below it: a script must not look like a word of ours."""
    if text is None or "\n" not in text:
        cli.output.say(f"{name}: {'none' if text is None else text}")
        return
    every = text.split("\n")
    cli.output.say(f"{name} ({len(every)} lines):")
    for line in every[:most_lines]:
        cli.output.say(f"    | {line}")
    if most_lines is not None and len(every) > most_lines:
        cli.output.say(f"    and {len(every) - most_lines} lines more: `rota agent show {schedule_id}` has all of it.")


async def log(
    cli: Cli,
    schedule_id: IdArgument,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, 1 to 200.")] = 20,
    cursor: CursorOption = None,
) -> None:
    """List the runs of a scheduled agent, and the fires that were not run, newest first."""
    async with operator_of(cli) as operator:
        page = await operator.task_history(schedule_id, limit=limit, cursor=cursor)
    cli.output.page(page.items, _RUNS, cursor=page.cursor, empty=f"{schedule_id} has not run yet.")


# --- acting ----------------------------------------------------------------------------------------------------------


async def add(
    cli: Cli,
    group: GroupArgument,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What the agent should do.")],
    cron: Annotated[str | None, typer.Option("--cron", metavar="EXPR", help="e.g. '0 9 * * 1-5'.")] = None,
    every: Annotated[str | None, typer.Option("--every", metavar="D", help="A duration, e.g. 30m.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="Once, e.g. 2026-03-08T09:00:00.")] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", "--tz", metavar="ZONE", help="Default: the group's zone.")
    ] = None,
    context: Annotated[ContextMode, typer.Option("--context", help="A session of its own, or the group's.")] = (
        ContextMode.ISOLATED
    ),
    script: Annotated[
        Path | None, typer.Option("--script", metavar="FILE", help="A gate script that decides whether to run.")
    ] = None,
    expires: Annotated[str | None, typer.Option("--expires", metavar="TIME", help="When it ends by itself.")] = None,
) -> None:
    """Schedule an agent."""
    kind, value = _trigger(cron, every, at)
    async with operator_of(cli, makes_schedules=True) as operator:
        made = await operator.schedule_task(
            group=group,
            prompt=prompt,
            schedule_type=kind,
            schedule_value=value,
            context_mode=context.value,
            script=_text_of(script),
            timezone=timezone,
            expires=expires,
        )
    cli.output.one(made.to_dict(), f"{made.id}: {made.words}; next {made.next_run_words}.")


async def update(
    cli: Cli,
    schedule_id: IdArgument,
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="TEXT", help="What the agent should do.")] = None,
    cron: Annotated[str | None, typer.Option("--cron", metavar="EXPR", help="e.g. '0 9 * * 1-5'.")] = None,
    every: Annotated[str | None, typer.Option("--every", metavar="D", help="A duration, e.g. 30m.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="Once, e.g. 2026-03-08T09:00:00.")] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", "--tz", metavar="ZONE", help="The zone of its times.")
    ] = None,
    context: Annotated[
        ContextMode | None, typer.Option("--context", help="A session of its own, or the group's.")
    ] = None,
    script: Annotated[
        str | None, typer.Option("--script", metavar="FILE", help="A new gate script; '' takes it away.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="When it ends by itself; '' for never.")
    ] = None,
) -> None:
    """Change a scheduled agent: what is given is changed, the rest stays."""
    kind, value = (None, None) if cron is every is at is None else _trigger(cron, every, at)
    async with operator_of(cli) as operator:
        changed = await operator.update_task(
            schedule_id,
            prompt=prompt,
            schedule_type=kind,
            schedule_value=value,
            context_mode=None if context is None else context.value,
            script=_text_of(Path(script)) if script else script,
            timezone=timezone,
            expires=expires,
        )
    _say(cli, changed, "is changed")


def _trigger(cron: str | None, every: str | None, at: str | None) -> tuple[str, str]:
    given = [(kind, value) for kind, value in (("cron", cron), ("interval", every), ("once", at)) if value is not None]
    if len(given) != 1:
        raise InvalidInput("Say when, in one way: --cron '0 9 * * 1-5', --every 1h, or --at 2026-03-08T09:00:00.")
    return given[0]


def _text_of(script: Path | None) -> str | None:
    if script is None:
        return None
    try:
        return script.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"The script {script} cannot be read: {error}. Name a text file.") from None


async def run(cli: Cli, schedule_id: IdArgument) -> None:
    """Run it once, now; its own times stay."""
    async with operator_of(cli) as operator:
        due = await operator.run_task(schedule_id)
    _say(cli, due, "runs once, now, and stays paused" if due.status == "paused" else "is due now")


async def pause(cli: Cli, schedule_id: IdArgument) -> None:
    """Hold it back until it is resumed."""
    async with operator_of(cli) as operator:
        _say(cli, await operator.pause_task(schedule_id), "is paused")


async def resume(cli: Cli, schedule_id: IdArgument) -> None:
    """Let it go on, also one that Rota has paused."""
    async with operator_of(cli) as operator:
        _say(cli, await operator.resume_task(schedule_id), "goes on")


async def cancel(cli: Cli, schedule_id: IdArgument) -> None:
    """End it; its history stays."""
    async with operator_of(cli) as operator:
        _say(cli, await operator.cancel_task(schedule_id), "is cancelled")


async def stop(cli: Cli, schedule_id: IdArgument) -> None:
    """End the run that is under way; the schedule goes on."""
    async with operator_of(cli) as operator:
        await operator.stop_run(schedule_id)
    cli.output.one({"id": schedule_id, "stopping": True}, f"{schedule_id} is told to end; it is gone within seconds.")


async def approve(
    cli: Cli,
    schedule_id: IdArgument,
    digest: Annotated[
        str | None, typer.Option("--digest", help="Only if it still is what `agent waiting` has shown.")
    ] = None,
) -> None:
    """Agree to what an agent has asked for."""
    async with operator_of(cli) as operator:
        _say(cli, await operator.approve(schedule_id, digest=digest), "is approved")


async def reject(cli: Cli, schedule_id: IdArgument) -> None:
    """Refuse what an agent has asked for."""
    async with operator_of(cli) as operator:
        _say(cli, await operator.reject(schedule_id), "is rejected")


async def kill(
    cli: Cli,
    scope: ScopeArgument = "*",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Shown wherever something is skipped.")] = "",
) -> None:
    """Throw the kill switch of a group, or of all: what runs is ended, what is due is skipped."""
    async with operator_of(cli) as operator:
        switch = await operator.switch_off(scope, reason)
    cli.output.one(switch.to_dict(), f"{switch.words} `{switch.way_back}` lets it go on.")


async def revive(cli: Cli, scope: ScopeArgument = "*") -> None:
    """Let a group, or all, go on. What was skipped stays skipped."""
    async with operator_of(cli) as operator:
        revived = await operator.switch_on(scope)
    cli.output.one(revived.to_dict(), revived.words)


def _say(cli: Cli, schedule: AgentSchedule, what: str) -> None:
    following = f"; next {schedule.next_run_words}" if schedule.next_run_words else ""
    cli.output.one(schedule.to_dict(), f"{schedule.id} {what} ({schedule.status}{following}).")


# --- groups ----------------------------------------------------------------------------------------------------------


async def add_group(
    cli: Cli,
    folder: GroupArgument,
    name: Annotated[str, typer.Option("--name", help="What people call it.")] = "",
    chat: Annotated[str, typer.Option("--chat", metavar="ID", help="The chat that it belongs to.")] = "",
    main: Annotated[bool, typer.Option("--main", help="The main group, which sees all others. There is one.")] = False,
    timezone: Annotated[
        str | None, typer.Option("--timezone", "--tz", metavar="ZONE", help="Default: the installation's zone.")
    ] = None,
    network: Annotated[bool, typer.Option("--network", help="Its agents may use the network.")] = False,
    notices: Annotated[bool, typer.Option("--notices", help="Keep what its owner is told in a file, too.")] = False,
    webhook: Annotated[str | None, typer.Option("--webhook", metavar="URL", help="Tell its owner there.")] = None,
    secret: Annotated[str | None, typer.Option("--secret", help="Signs what the webhook is sent.")] = None,
) -> None:
    """Add a group of agents, with a folder of its own."""
    from rota.agents import ChannelSettings

    channels = [ChannelSettings(kind="file")] if notices else []
    if webhook is not None:
        channels.append(ChannelSettings(kind="webhook", url=webhook, secret=secret))
    async with operator_of(cli) as operator:
        group = await operator.add_group(
            folder, name=name, chat_jid=chat, is_main=main, timezone=timezone, channels=channels, has_network=network
        )
    cli.output.one(group.to_dict(), f"The group {group.folder!r} is there{' as the main one' if main else ''}.")


async def ls_groups(cli: Cli) -> None:
    """List the groups, with the switches that stop them."""
    async with operator_of(cli) as operator:
        groups, switches = await operator.groups(), await operator.switches()
    thrown = {switch.scope: switch for switch in switches}
    rows: list[Mapping[str, Any]] = []
    for one in groups:
        switch = thrown.get("*") or thrown.get(one.folder)
        rows.append({**one.to_dict(), "stopped": None if switch is None else switch.words})
    cli.output.page(rows, _GROUPS, empty="No groups. `rota agent group add main --main` adds the first.")


async def remove_group(cli: Cli, folder: GroupArgument) -> None:
    """Forget a group. Its folder stays; its schedules are paused when they are due next."""
    async with operator_of(cli) as operator:
        await operator.remove_group(folder)
    cli.output.one({"folder": folder, "removed": True}, f"The group {folder!r} is removed; its folder stays.")


async def token(
    cli: Cli,
    group: GroupArgument,
    name: Annotated[str | None, typer.Option("--name", help="What it is for. Default: the group's.")] = None,
    tool: Annotated[
        list[str] | None, typer.Option("--tool", metavar="NAME", help="Only this tool; repeatable.")
    ] = None,
    look_only: Annotated[bool, typer.Option("--look-only", help="It can list, and change nothing.")] = False,
    in_runs: Annotated[
        bool, typer.Option("--in-runs", help="For scheduled runs: it can look and hold back, but make nothing.")
    ] = False,
    expires: Annotated[str | None, typer.Option("--expires", metavar="D", help="It ends after this long.")] = None,
) -> None:
    """Make a token for a group's agents, to be used at /mcp. It opens nothing but that group's schedules."""
    from rota.access import Role

    lifetime_ms = None if expires is None else parse_duration(expires, what="--expires")
    async with operator_of(cli) as operator:
        now = await operator.agents.now()
        made = await operator.add_token(
            group,
            name or f"agents of {group}",
            role=Role.VIEWER if look_only else Role.OPERATOR,
            tools=tool or (),
            in_runs=in_runs,
            expires_at=None if lifetime_ms is None else now + lifetime_ms,
        )
    if cli.output.as_json:
        cli.output.one({**made.token.to_dict(), "secret": made.secret})
        return
    cli.output.say(made.secret)
    cli.output.note(f"This token (id {made.token.id}) is shown this once. `rota token revoke {made.token.id}` ends it.")
