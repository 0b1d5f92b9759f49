"""`rota dlq`: tasks that failed for good. Run them again, or let them go."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Final

import typer

from rota.answers import TaskDetails
from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.target import Target, find_task, known_type, name_of
from rota.cli.tasks import CursorOption, LimitOption, TypeOption
from rota.core.outcome import Answer
from rota.core.task import Event, Identity, TaskStatus
from rota.errors import IllegalTransition, InvalidInput
from rota.keys import shown_key
from rota.stores.base import DEFAULT_PAGE, MAX_GROUP, MAX_PAGE, Store, TaskQuery

__all__ = ["is_person", "ls", "purge", "redrive"]

TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TYPE/KEY]...", help="The tasks, as `dlq ls` prints them; with --type, their keys alone."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Every dead letter, or every one of --type.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say how many there are.")]

_COLUMNS: Final = (
    Column("TASK", "name"),
    Column("FAILED", "finished_at"),
    Column("REASON", "reason"),
    Column("ATTEMPT", "attempt"),
    Column("ERROR", "error"),
)


async def ls(
    cli: Cli, task_type: TypeOption = None, limit: LimitOption = DEFAULT_PAGE, cursor: CursorOption = None
) -> None:
    """List the dead letters, with what went wrong."""
    async with cli.store() as store:
        if task_type is not None:
            await known_type(cli, store, task_type)
        page = await store.find(TaskQuery(task_type=task_type, status=TaskStatus.FAILED, cursor=cursor, limit=limit))
    items = [TaskDetails.of(task).to_dict() for task in page.items]
    if not cli.output.as_json:
        items = [{**item, "name": f"{item['task_type']}/{shown_key(str(item['key']))}"} for item in items]
    cli.output.page(items, _COLUMNS, cursor=page.cursor, empty="No dead letters.")


async def redrive(
    cli: Cli,
    targets: TargetsArgument = None,
    task_type: TypeOption = None,
    every: AllOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Run dead letters again, with fresh counts."""
    await _bulk(cli, Event.REDRIVE, targets or [], task_type, every=every, yes=yes, dry_run=dry_run)


async def purge(
    cli: Cli,
    targets: TargetsArgument = None,
    task_type: TypeOption = None,
    every: AllOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Remove dead letters for good."""
    await _bulk(cli, Event.PURGE, targets or [], task_type, every=every, yes=yes, dry_run=dry_run)


_VERBS: Final = {Event.REDRIVE: ("redriven", "Run {} again?"), Event.PURGE: ("purged", "Remove {} for good?")}


async def _bulk(
    cli: Cli, event: Event, targets: Sequence[str], task_type: str | None, *, every: bool, yes: bool, dry_run: bool
) -> None:
    _check_choice(targets, every=every)
    done, question = _VERBS[event]
    async with cli.store() as store:
        if task_type is not None:
            await known_type(cli, store, task_type)
        chosen = None if every else await _chosen(cli, store, targets, task_type)
        count = len(chosen) if chosen is not None else await _count(store, task_type)
        if dry_run:
            cli.output.one({"matching": count, done: 0}, f"{_letters(count)} would be {done}.")
            return
        if count and not (yes or _confirmed(question.format(_letters(count)))):
            cli.output.one({"matching": count, done: 0}, "Nothing was changed.")
            return
        groups = _groups(store, task_type) if chosen is None else _given(chosen)
        changed = await _ask_all(store, event, groups)
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


def _confirmed(question: str) -> bool:
    return not is_person() or typer.confirm(question, err=True)


def is_person() -> bool:
    """Whether somebody is there to be asked; a script has decided already."""
    return sys.stdin.isatty()


def _letters(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count} dead letters"


async def _count(store: Store, task_type: str | None) -> int:
    counts = await store.counts()
    return sum(of_type.failed for name, of_type in counts.items() if task_type in (None, name))


async def _groups(store: Store, task_type: str | None) -> AsyncIterator[list[Identity]]:
    """Every dead letter, a page at a time. A page goes by key, so what fails again meanwhile is not met twice."""
    cursor: str | None = None
    while True:
        query = TaskQuery(task_type=task_type, status=TaskStatus.FAILED, cursor=cursor, limit=MAX_PAGE)
        page = await store.find(query)
        yield [task.identity for task in page.items]
        if page.cursor is None:
            return
        cursor = page.cursor


async def _given(identities: list[Identity]) -> AsyncIterator[list[Identity]]:
    yield identities


async def _ask_all(store: Store, event: Event, groups: AsyncIterator[list[Identity]]) -> int:
    """Somebody else may have redriven one in between: that is refused for it alone, and not counted."""
    changed = 0
    async for identities in groups:
        for start in range(0, len(identities), MAX_GROUP):
            replies = await store.ask(event, identities[start : start + MAX_GROUP])
            changed += sum(reply.answer is Answer.OK for reply in replies)
    return changed
