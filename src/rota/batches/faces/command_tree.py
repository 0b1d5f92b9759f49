"""`rota batch`, as they are listed: what they do is imported when they are called."""

from __future__ import annotations

import typer

from rota.cli.invocation import command
from rota.cli.later import group_later

__all__ = ["add_commands"]


def add_commands(root: typer.Typer) -> None:
    @group_later("batch", "Batches of items: ask, follow, look, hold, end; freeze, drain and degrade.", root)
    def _batch(where: typer.Typer) -> None:
        from rota.batches.faces import commands

        command(where, "run")(commands.run)
        command(where, "follow")(commands.follow)
        command(where, "ls")(commands.ls)
        command(where, "show")(commands.show)
        command(where, "items", lists=True)(commands.items)
        command(where, "pause")(commands.pause)
        command(where, "resume")(commands.resume)
        command(where, "cancel")(commands.cancel)
        command(where, "switches")(commands.switches)
        command(where, "freeze")(commands.freeze)
        command(where, "drain")(commands.drain)
        command(where, "degrade")(commands.degrade)
        command(where, "restore")(commands.restore)
