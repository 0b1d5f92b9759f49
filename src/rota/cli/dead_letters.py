"""`rota dlq`: tasks that failed for good. Run them again, or let them go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rota.app.results import TaskDetails
from rota.app.views import task_query
from rota.cli.bulk import Command, DryRunOption, YesOption, apply_these, bound_by, is_agreed
from rota.cli.invocation import Cli, Session
from rota.cli.output import Column
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
from rota.cli.target import Target, find_task, known_type, name_of
from rota.core.task import Identity, TaskStatus, Transition
from rota.errors import IllegalTransition, InvalidInput
from rota.keys import shown_key
from rota.stores.base import DEFAULT_PAGE, Store, TaskQuery, TaskSort

if TYPE_CHECKING:
    from rota.app.operator import Counted

__all__ = ["COLUMNS", "ls", "purge", "redrive"]

TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TYPE/KEY]...", help="The tasks, as `dlq ls` prints them; with --type, their keys alone."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Every dead letter, or every one of --type.")]

COLUMNS: Final = (
    Column("TASK", "name", is_id=True),
    Column("FAILED", "finished_at"),
    Column("REASON", "reason", leaves=2),
    Column("ATTEMPT", "attempt", leaves=1),
    Column("ERROR", "error", gives_way=True),
)


async def ls(
    cli: Cli,
    task_type: TypeOption = None,
    search: SearchOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    sort: TaskSortOption = TaskSort.NEWEST,
    limit: LimitOption = DEFAULT_PAGE,
    cursor: CursorOption = None,
    watch: WatchOption = False,
) -> None:
    """List the dead letters, with what went wrong; those first that failed last."""
    query = task_query(
        type=task_type,
        status=TaskStatus.FAILED,
        search=search,
        within=since_and_until(cli, since, until),
        sort=sort,
        cursor=cursor,
        limit=limit,
    )
    await show_from_store(cli, lambda store: _show(cli, store, query), watch=watch, task_type=task_type)


async def _show(cli: Cli, store: Store, query: TaskQuery) -> None:
    page = await find_tasks(store, query)
    items = [TaskDetails.of(task).to_dict() for task in page.items]
    if not cli.output.as_json:
        items = [{**item, "name": f"{item['task_type']}/{shown_key(str(item['key']))}"} for item in items]
    show_sorted(cli, page, items, COLUMNS, empty="No dead letters.")


def _acting(transition: Transition, words: str) -> Command:
    """The command for a transition: on the dead letters that are named, or with `--all` on every one."""

    async def act(
        cli: Cli,
        targets: TargetsArgument = None,
        task_type: TypeOption = None,
        every: AllOption = False,
        yes: YesOption = False,
        dry_run: DryRunOption = False,
    ) -> None:
        await _bulk(cli, transition, targets or [], task_type, every=every, yes=yes, dry_run=dry_run)

    act.__doc__ = words
    return act


redrive = _acting(Transition.REDRIVE, "Run dead letters again, with fresh counts.")
purge = _acting(Transition.PURGE, "Remove dead letters for good.")

_VERBS: Final = {Transition.REDRIVE: ("redriven", "Run {} again?"), Transition.PURGE: ("purged", "Remove {} for good?")}


async def _bulk(
    cli: Cli,
    transition: Transition,
    targets: Sequence[str],
    task_type: str | None,
    *,
    every: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    _check_choice(targets, every=every)
    done, question = _VERBS[transition]
    query = task_query(type=task_type, status=TaskStatus.FAILED)
    async with cli.session() as session:
        if task_type is not None:
            await known_type(cli, session.store, task_type)
        chosen = None if every else await _chosen(cli, session.store, targets, task_type)
        counted = await session.operator.count(query) if chosen is None else None
        count = len(chosen or ()) if counted is None else counted.count
        if dry_run:
            cli.output.one({"matching": count, done: 0}, f"{_letters(count)} would be {done}.")
            return
        if count and not is_agreed(question.format(_letters(count)), yes=yes):
            cli.output.one({"matching": count, done: 0}, "Nothing was changed.")
            return
        changed = await _carry_out(session, transition, query if chosen is None else chosen, bound_by(counted, yes=yes))
    cli.output.one({"matching": count, done: changed}, f"{_letters(changed)} {done}.")


def _check_choice(targets: Sequence[str], *, every: bool) -> None:
    if bool(targets) == every:
        given = "both tasks and --all were given" if every else "no task was given"
        raise InvalidInput(f"Which dead letters? {given.capitalize()}. Name them as TYPE/KEY, or use --all [--type T].")


async def _chosen(cli: Cli, store: Store, targets: Sequence[str], task_type: str | None) -> list[Identity]:
    """The named tasks, every one of them a dead letter: all are checked before the first is touched."""
    found: dict[Identity, None] = {}
    for text in targets:
        target = Target(text) if task_type is None or text.startswith(f"{task_type}/") else Target(task_type, text)
        if task_type is None and "/" not in text:
            raise InvalidInput(f"{text!r} names no task. Write TYPE/KEY as `rota dlq ls` does, or add --type TYPE.")
        task = await find_task(cli, store, target)
        if task.status is not TaskStatus.FAILED:
            raise IllegalTransition(
                f"The task {name_of(task.identity)!r} is {task.status}, so it is no dead letter. Nothing was changed."
            )
        found[task.identity] = None
    return list(found)


def _letters(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count} dead letters"


async def _carry_out(
    session: Session, transition: Transition, chosen: TaskQuery | list[Identity], agreed: Counted | None
) -> int:
    """Somebody else may have redriven one in between: that is refused for it alone, and not counted."""
    if isinstance(chosen, TaskQuery):
        return (await session.operator.apply_all(transition, chosen, agreed=agreed)).changed
    return (await apply_these(session, transition, chosen)).changed
