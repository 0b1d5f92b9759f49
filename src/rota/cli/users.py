"""`rota user`: what is known of one person; all of it handed out, or removed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import aclosing
from typing import IO, Annotated, Final

import msgspec
import typer

from rota.app.results import RunInfo, TaskDetails
from rota.app.views import task_query
from rota.cli.bulk import YesOption, is_person
from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.pages import find_tasks
from rota.clock import isoformat
from rota.core.task import RunRecord
from rota.errors import InvalidInput
from rota.stores.base import DEFAULT_PAGE, Erasure, RunQuery, Snapshot

__all__ = ["erase", "export", "show"]

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The user's id.")]

_TASK_COLUMNS: Final = (
    Column("TYPE", "task_type", is_id=True),
    Column("KEY", "key", is_id=True),
    Column("STATUS", "status"),
    Column("DUE", "scheduled_at"),
    Column("COALESCED", "coalesced", leaves=1),
)
_RUN_COLUMNS: Final = (
    Column("RUN", "run_id", is_id=True),
    Column("TYPE", "task_type", is_id=True),
    Column("STATUS", "status"),
    Column("STARTED", "started_at"),
    Column("REASON", "reason", gives_way=True),
)


async def show(cli: Cli, user_id: UserArgument) -> None:
    """Show a user's tasks and latest runs."""
    async with cli.store() as store:
        tasks = await find_tasks(store, task_query(user=user_id, limit=DEFAULT_PAGE))
        runs = await store.runs(RunQuery(user_id=user_id, limit=10))
    task_items = [TaskDetails.of(task).to_dict() for task in tasks.items]
    run_items = [RunInfo.of(run).to_dict() for run in runs.items]
    if cli.output.as_json:
        cli.output.one({"user_id": user_id, "tasks": task_items, "runs": run_items})
        return
    cli.output.page(task_items, _TASK_COLUMNS, empty=f"There is no task of the user {user_id!r}.")
    cli.output.page(run_items, _RUN_COLUMNS, empty="No runs are kept.")
    if tasks.cursor is not None:
        cli.output.note(f"There are more: `rota task ls --user {user_id}` lists the tasks.")


async def export(
    cli: Cli,
    user_id: UserArgument,
    output: Annotated[
        typer.FileTextWrite | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")
    ] = None,
) -> None:
    """Print all that is known of a user, one JSON object a line."""
    stream: IO[str] = sys.stdout if output is None else output
    count = 0
    # The items are closed while their app is open: whoever reads only the first lines breaks them off.
    async with cli.session() as session, aclosing(session.operator.export_user(user_id)) as items:
        async for item in items:
            stream.write(msgspec.json.encode(_known(item)).decode() + "\n")
            count += 1
    cli.output.note(f"{count} records of {user_id!r}." if count else f"Nothing is known of {user_id!r}.")


async def erase(cli: Cli, user_id: UserArgument, yes: YesOption = False) -> None:
    """Remove all that is known of a user, for good. What still runs is told to stop, and removed when it has ended."""
    if not yes and not is_person():
        raise InvalidInput(f"Removing all of the user {user_id!r} cannot be undone. Say so: add --yes.")
    if not yes and not typer.confirm(f"Remove all that is known of {user_id!r}, for good?", err=True):
        cli.output.one({"user_id": user_id, "erased": False}, "Nothing was changed.")
        return
    async with cli.session() as session:
        erased = await session.operator.erase_user(user_id)
    shape = {**_shape(erased.erasure), **erased.kept}
    cli.output.one(shape, _words(*erased))


def _known(item: Snapshot | RunRecord | Mapping[str, object]) -> dict[str, object]:
    if isinstance(item, RunRecord):
        return {"kind": "run", **RunInfo.of(item).to_dict()}
    if not isinstance(item, Snapshot):
        return dict(item)
    task = None if item.task is None else TaskDetails.of(item.task).to_dict()
    identity = {"task_type": item.identity.task_type, "key": item.identity.key}
    return {"kind": "task", **identity, "task": task, "past": msgspec.to_builtins(item.past)}


def _shape(erasure: Erasure) -> dict[str, object]:
    times = {"asked_at": isoformat(erasure.asked_at), "done_at": isoformat(erasure.done_at)}
    return {"erased": erasure.done_at is not None, **msgspec.structs.asdict(erasure), **times}


def _words(erasure: Erasure, kept: Mapping[str, int]) -> str:
    gone = [f"{erasure.tasks} tasks", f"{erasure.runs} runs", *(f"{count} {name}" for name, count in kept.items())]
    removed = f"{', '.join(gone[:-1])} and {gone[-1]} of {erasure.user_id!r} were removed."
    if erasure.done_at is not None:
        return removed
    return f"{removed} {erasure.running} still run; they were told to stop, and a worker removes them when they have."
