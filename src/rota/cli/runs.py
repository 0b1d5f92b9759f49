"""`rota run`: the run log."""

from __future__ import annotations

import os
from typing import Annotated, Final

import typer
from msgspec.structs import replace

from rota.app.results import RunInfo, details_to_dict
from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.pages import (
    CursorOption,
    LimitOption,
    SinceOption,
    TypeOption,
    UntilOption,
    WatchOption,
    show_from_store,
    show_sorted,
    since_and_until,
    whole_page,
)
from rota.cli.parts import APP_VARIABLE
from rota.clock import Millis
from rota.core.run_details import RunDetails, decode_details
from rota.core.task import Identity, RunRecord, RunStatus, Task
from rota.errors import InvalidInput, UnknownRun
from rota.keys import GLOBAL_KEY, shown_key
from rota.stores.base import DEFAULT_PAGE, RunQuery, RunRef, RunSort, Store

__all__ = ["COLUMNS", "ls", "show"]

SortOption = Annotated[RunSort, typer.Option("--sort", help="The order; with a minus the other way round.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The id, as `run ls` prints it.")]

COLUMNS: Final = (
    Column("RUN", "run_id", is_id=True),
    Column("TYPE", "task_type", is_id=True),
    Column("KEY", "user_key", is_id=True),
    Column("STATUS", "status"),
    Column("STARTED", "started_at"),
    Column("MS", "duration_ms"),
    Column("ATTEMPT", "attempt", leaves=1),
    Column("REASON", "reason", gives_way=True),
    Column("USER", "user_id", is_id=True, is_extra=True),
    Column("INSTANCE", "instance", is_id=True, is_extra=True),
    Column("DUE", "due_at", is_extra=True, leaves=2),
    Column("ERROR", "error", gives_way=True, is_extra=True),
)


async def ls(
    cli: Cli,
    task_type: TypeOption = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only runs of this key of --type.")] = None,
    status: Annotated[RunStatus | None, typer.Option("--status", help="Only runs that ended like this.")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Only runs for this user.")] = None,
    failure: Annotated[
        str | None, typer.Option("--failure", metavar="ID", help="Only failures of this group (`rota failures ls`).")
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    sort: SortOption = RunSort.NEWEST,
    limit: LimitOption = DEFAULT_PAGE,
    cursor: CursorOption = None,
    watch: WatchOption = False,
) -> None:
    """List runs, newest first unless they are sorted otherwise; --since and --until bound when they ended."""
    if key is not None and task_type is None:
        raise InvalidInput(f"--key {key!r} needs --type: the same key may exist in several types. Add --type TYPE.")
    within = since_and_until(cli, since, until)
    query = RunQuery(
        task_type=task_type,
        key=GLOBAL_KEY if key == shown_key(GLOBAL_KEY) else key,
        status=status,
        user_id=user,
        failure=failure,
        since_at=within.since_at,
        until_at=within.until_at,
        sort=sort,
        cursor=cursor,
        limit=limit,
    )
    await show_from_store(cli, lambda store: _list(cli, store, query), watch=watch, task_type=task_type)


async def _list(cli: Cli, store: Store, query: RunQuery) -> None:
    page = await whole_page(
        lambda cursor, limit: store.runs(replace(query, cursor=cursor, limit=limit)), query.limit, query.cursor
    )
    items = [RunInfo.of(run).to_dict() for run in page.items]
    show_sorted(cli, page, items, COLUMNS, empty="No runs. `rota worker --app module:app` runs tasks.")


async def show(
    cli: Cli,
    run_id: RunArgument,
    as_test: Annotated[
        bool, typer.Option("--as-test", help="Print it as a function for pytest that does the same once more.")
    ] = False,
) -> None:
    """Show one run, with its traceback, its lines and its steps."""
    async with cli.store() as store:
        page = await store.runs(RunQuery(run_id=run_id, limit=1))
        if not page.items:
            raise UnknownRun(f"There is no run {run_id[:100]!r} in the log. `rota run ls` lists those that are kept.")
        run = page.items[0]
        (text,) = await store.details([RunRef(run.task_type, run.key, run.token)])
        (task,) = await store.get([Identity(run.task_type, run.key)])
    details = None if text is None else decode_details(text)
    if as_test:
        text = _test_of(run, task, details)
        cli.output.one({"run_id": run.run_id, "test": text}, text.rstrip("\n"))
        return
    shown = RunInfo.of(run).to_dict()
    if cli.output.as_json:
        cli.output.one({**shown, "details": None if details is None else details_to_dict(details)})
        return
    cli.output.one(shown)
    if details is not None:
        _say_details(cli, details)


def _test_of(run: RunRecord, task: Task | None, details: RunDetails | None) -> str:
    from rota.app.as_test import AppImport, as_test

    module, _, name = os.environ.get(APP_VARIABLE, "").partition(":")
    payload = details.payload if details is not None and details.payload is not None else task and task.payload
    return as_test(run, task, payload, AppImport(module, name or "app") if module else None)


def _say_details(cli: Cli, details: RunDetails) -> None:
    """What the run has left, below its facts."""
    say = cli.output.say
    for step in details.steps:
        end = "not ended" if step.to_ms is None else _span(step.to_ms - step.from_ms)
        say(f"\nstep {step.name}: {end}{'' if step.error is None else f', {step.error}'}")
    if details.lines:
        say(f"\nlines{f' ({details.lines_left_out:,} left out)' if details.lines_left_out else ''}:")
    for line in details.lines:
        say(f"  {'+' + _span(line.at_ms):>9} {line.level:8} {line.text}")
    if details.traceback is not None:
        say(f"\n{details.traceback}")
    if details.payload is not None:
        say(f"\npayload: {details.payload}")


def _span(span: Millis) -> str:
    return f"{span} ms" if span < 1_000 else f"{span / 1_000:.1f} s"
