"""Commands that are imported when they are called: to list one, its name and its help are enough.

    @group_later("queue", "Queues: what waits, type by type.", root)
    def queue(where: typer.Typer) -> None:
        from rota.cli import queues

        command(where, "ls")(queues.ls)

`root` is made with `cls=Tree`. The whole tree has some hundred commands with a thousand options, and what they need is
most of Rota; one call of `rota` uses one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

__all__ = ["MARKUP", "Tree", "command_later", "group_later", "loaded"]

MARKUP: Final[Literal["rich"]] = "rich"

_Fill = Callable[[typer.Typer], None]


class _Command(TyperCommand):
    """A command that is listed, and not imported yet: its callback makes the real one."""


class _Group(TyperGroup):
    """The same for a group."""


class Tree(TyperGroup):
    """A group whose members may come later. Who is called, and who is completed, is found by `resolve_command`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, found, rest = super().resolve_command(ctx, args)
        return name, loaded(found), rest


def loaded(found: Any) -> Any:
    """A member of the tree as it is when it is called."""
    if not isinstance(found, _Command | _Group):
        return found
    assert found.callback is not None
    return found.callback()


def command_later(name: str, help_text: str, parent: typer.Typer) -> Callable[[_Fill], _Fill]:
    """List a command that the decorated function registers when it is called. `help_text` is what the command itself
    says first; a test holds the two equal."""

    def register(fill: _Fill) -> _Fill:
        def make() -> object:
            made = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
            fill(made)
            return get_command(made)

        parent.command(name, cls=_Command, help=help_text)(make)
        return fill

    return register


def group_later(name: str, help_text: str, parent: typer.Typer) -> Callable[[_Fill], _Fill]:
    """List a group that the decorated function fills with commands when one of them is called."""

    def register(fill: _Fill) -> _Fill:
        def make() -> object:
            from rota.cli.invocation import new_group

            made = new_group(name, help_text)
            fill(made)
            return get_command(made)

        parent.add_typer(typer.Typer(cls=_Group, help=help_text, callback=make), name=name)
        return fill

    return register
