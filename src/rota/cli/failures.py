"""`rota failures`: what fails, by groups. Run the dead letters of one again, or leave it aside for a time."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from rota.app.failures import FailureInfo, find_failure, those_dead
from rota.app.results import RunInfo
from rota.cli.bulk import DryRunOption, YesOption, act_on_all
from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.pages import TypeOption, WatchOption, show_from_store
from rota.clock import parse_duration
from rota.core.task import Transition
from rota.stores.base import RunQuery, Store

__all__ = ["ls", "mute", "redrive", "show", "unmute"]

GroupArgument = Annotated[str, typer.Argument(metavar="[TYPE/]ID", help="The group, as `failures ls` prints it.")]
ForOption = Annotated[str, typer.Option("--for", metavar="DURATION", help="For how long, like 4h or 7d.")]

_LATEST: Final = 5
_COLUMNS: Final = (
    Column("FAILURE", "name", is_id=True),
    Column("COUNT", "count"),
    Column("USERS", "users"),
    Column("DEAD", "dead"),
    Column("LAST", "last_at"),
    Column("EXCEPTION", "exception", is_id=True),
    Column("PLACE", "place", gives_way=True, leaves=2),
    Column("MESSAGE", "message", gives_way=True),
    Column("MUTED", "muted_until", leaves=1),
)
_RUN_COLUMNS: Final = (
    Column("RUN", "run_id", is_id=True),
    Column("KEY", "user_key", is_id=True),
    Column("STARTED", "started_at"),
    Column("ATTEMPT", "attempt", leaves=1),
    Column("ERROR", "error", gives_way=True),
)


async def ls(cli: Cli, task_type: TypeOption = None, watch: WatchOption = False) -> None:
    """List the groups of failures, the one seen last first."""
    await show_from_store(cli, lambda store: _list(cli, store, task_type), watch=watch, task_type=task_type)


async def _list(cli: Cli, store: Store, task_type: str | None) -> None:
    now = await store.now()
    items = [FailureInfo.of(found, now).to_dict() for found in await store.failures(task_type)]
    if not cli.output.as_json:
        items = [{**item, "name": f"{item['task_type']}/{item['id']}"} for item in items]
    cli.output.page(items, _COLUMNS, empty="No failures.")


async def show(cli: Cli, name: GroupArgument) -> None:
    """Show one group, with its latest runs."""
    async with cli.store() as store:
        found = await find_failure(store, name)
        runs = await store.runs(RunQuery(task_type=found.group.task_type, failure=found.group.id, limit=_LATEST))
        shown = FailureInfo.of(found, await store.now()).to_dict()
    listed = [RunInfo.of(run).to_dict() for run in runs.items]
    if cli.output.as_json:
        cli.output.one({**shown, "runs": listed})
        return
    cli.output.one({name: value for name, value in shown.items() if name != "hours"})
    cli.output.say("")
    cli.output.page(listed, _RUN_COLUMNS, empty="None of its runs is in the log any more.")


async def redrive(cli: Cli, name: GroupArgument, yes: YesOption = False, dry_run: DryRunOption = False) -> None:
    """Run the dead letters of a group again, with fresh counts, and no others."""
    async with cli.session() as session:
        found = await find_failure(session.store, name)
        await act_on_all(cli, session, Transition.REDRIVE, those_dead(found.group), yes=yes, dry_run=dry_run)


async def mute(cli: Cli, name: GroupArgument, duration: ForOption = "1d") -> None:
    """Leave a group aside for a time: it is counted on, and shown as muted."""
    async with cli.session() as session:
        group = (await find_failure(session.store, name)).group
        until = await session.store.now() + parse_duration(duration, what="--for")
        found = await session.operator.mute_failure(group.task_type, group.id, until)
        shown = FailureInfo.of(found, await session.store.now()).to_dict()
    cli.output.one(shown, f"{group.task_type}/{group.id} is muted until {shown['muted_until']}.")


async def unmute(cli: Cli, name: GroupArgument) -> None:
    """Hear of a group again."""
    async with cli.session() as session:
        group = (await find_failure(session.store, name)).group
        found = await session.operator.mute_failure(group.task_type, group.id, None)
        shown = FailureInfo.of(found, await session.store.now()).to_dict()
    cli.output.one(shown, f"{group.task_type}/{group.id} is heard again.")
