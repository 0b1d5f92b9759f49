"""The same transition on many tasks: said how many, asked once, done page by page."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli.invocation import Cli, Session
from rota.cli.target import DONE
from rota.core.task import Identity, Transition
from rota.stores.base import MAX_PAGE, TaskQuery

if TYPE_CHECKING:
    from rota.app.operator import Counted, Done

__all__ = [
    "AllOption",
    "Command",
    "DryRunOption",
    "YesOption",
    "act_on_all",
    "act_on_these",
    "apply_these",
    "bound_by",
    "is_agreed",
    "is_person",
]

Command = Callable[..., Coroutine[Any, Any, None]]
"""One that was made for a transition: each has its options and its words."""

AllOption = Annotated[bool, typer.Option("--all", help="Every task that matches the other options.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say how many there are.")]

_QUESTIONS: Final[Mapping[Transition, str]] = {
    Transition.PAUSE: "Pause {}?",
    Transition.RESUME: "Resume {}?",
    Transition.CANCEL: "Cancel {}?",
    Transition.RUN_NOW: "Run {} now?",
    Transition.REDRIVE: "Run {} again?",
    Transition.PURGE: "Remove {} for good?",
}


async def act_on_all(
    cli: Cli, session: Session, transition: Transition, query: TaskQuery, *, yes: bool, dry_run: bool
) -> None:
    """One of the operator's events on every task that matches; those that are in no state for it are left alone."""
    counted = await session.operator.count(query)
    agreed = bound_by(counted, yes=yes)
    await _act(
        cli,
        transition,
        counted,
        lambda: session.operator.apply_all(transition, query, agreed=agreed),
        yes=yes,
        dry_run=dry_run,
    )


async def act_on_these(
    cli: Cli, session: Session, transition: Transition, identities: Sequence[Identity], *, yes: bool, dry_run: bool
) -> None:
    """The same on the named tasks and no others; those that are gone, or in no state for it, are left alone."""
    from rota.app.operator import Counted

    named = list(dict.fromkeys(identities))
    counted = Counted(len(named), True)
    await _act(cli, transition, counted, lambda: apply_these(session, transition, named), yes=yes, dry_run=dry_run)


async def apply_these(session: Session, transition: Transition, identities: Sequence[Identity]) -> Done:
    """However many are named, a page at a time."""
    from rota.app.operator import Done

    done = Done(0, 0)
    for start in range(0, len(identities), MAX_PAGE):
        more = await session.operator.apply_these(transition, list(identities[start : start + MAX_PAGE]))
        done = Done(done.changed + more.changed, done.refused + more.refused)
    return done


async def _act(
    cli: Cli,
    transition: Transition,
    counted: Counted,
    carry_out: Callable[[], Awaitable[Done]],
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    many = _tasks(counted)
    fate = DONE[transition]
    asked: dict[str, object] = {"matching": counted.count, "is_all": counted.is_all, "changed": 0, "refused": 0}
    if dry_run:
        cli.output.one(asked, f"{many} would be {fate}, if their state allows it.")
        return
    if counted.count and not is_agreed(_QUESTIONS[transition].format(many), yes=yes):
        cli.output.one(asked, "Nothing was changed.")
        return
    done = await carry_out()
    left = f" {done.refused} left alone: their state does not allow it." if done.refused else ""
    changed = "1 task" if done.changed == 1 else f"{done.changed:,} tasks"
    cli.output.one({**asked, **done._asdict()}, f"{changed} {fate}.{left}")


def is_agreed(question: str, *, yes: bool) -> bool:
    """Whether to go on: a person is asked unless they have said yes already."""
    return yes or not is_person() or typer.confirm(question, err=True)


def bound_by(counted: Counted | None, *, yes: bool) -> Counted | None:
    """The number that a person was asked about, which binds; whoever was not asked wants all that match."""
    return None if yes or not is_person() else counted


def is_person() -> bool:
    """Whether somebody is there to be asked; a script has decided already."""
    return sys.stdin.isatty()


def _tasks(counted: Counted) -> str:
    if counted.count == 1:
        return "1 task"
    return f"{counted.count:,} tasks" if counted.is_all else f"More than {counted.count:,} tasks"
