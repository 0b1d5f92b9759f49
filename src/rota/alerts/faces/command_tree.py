"""`rota alert`, as they are listed: what they do is imported when they are called."""

from __future__ import annotations

import typer

from rota.cli.invocation import command
from rota.cli.later import group_later

__all__ = ["add_commands"]


def add_commands(root: typer.Typer) -> None:
    @group_later(
        "alert",
        "Alerts: what fires now and how every rule stands, silence for a time, what has fired, the sinks.",
        root,
    )
    def _alert(where: typer.Typer) -> None:
        from rota.alerts.faces import commands

        command(where, "ls")(commands.ls)
        command(where, "rules", lists=True)(commands.rules)
        command(where, "silence")(commands.silence)
        command(where, "unsilence")(commands.unsilence)
        command(where, "history", lists=True)(commands.history)
        command(where, "kinds", lists=True)(commands.kinds)
        command(where, "test")(commands.try_out)
