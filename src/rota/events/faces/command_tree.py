"""`rota event`, `rota outbox` and `rota handle`, as they are listed: what they do is imported when they are called."""

from __future__ import annotations

import typer

from rota.cli.invocation import command
from rota.cli.later import group_later

__all__ = ["add_commands"]


def add_commands(root: typer.Typer) -> None:
    @group_later("event", "Events: what was published, what consumers made of it, and dead letters.", root)
    def _event(where: typer.Typer) -> None:
        from rota.events.faces import commands

        command(where, "ls")(commands.ls)
        command(where, "show")(commands.show)
        command(where, "consumers", lists=True)(commands.consumers)
        command(where, "dlq", lists=True)(commands.dlq)
        command(where, "redrive")(commands.redrive)
        command(where, "purge")(commands.purge)
        command(where, "replay")(commands.replay)

    @group_later("outbox", "The outbox: what waits to be published, and what the bus has refused.", root)
    def _outbox(where: typer.Typer) -> None:
        from rota.events.faces import commands

        command(where, "ls")(commands.outbox_ls)
        command(where, "retry")(commands.outbox_retry)

    @group_later("handle", "Handles: flows that wait for events.", root)
    def _handle(where: typer.Typer) -> None:
        from rota.events.faces import commands

        command(where, "ls")(commands.handle_ls)
        command(where, "show")(commands.handle_show)
        command(where, "resume")(commands.handle_resume)
