"""`rota memory`, as they are listed: what they do is imported when they are called."""

from __future__ import annotations

import typer

from rota.cli.invocation import command
from rota.cli.later import group_later

__all__ = ["add_commands"]


def add_commands(root: typer.Typer) -> None:
    @group_later("memory", "What users said, saw or read: capture, list, search, compress, count.", root)
    def _memory(where: typer.Typer) -> None:
        from rota.memory.faces import commands

        command(where, "push")(commands.push)
        command(where, "ls")(commands.ls)
        command(where, "search", lists=True)(commands.search)
        command(where, "compress")(commands.compress)
        command(where, "stats")(commands.stats)
