"""`rota agent` and `rota mcp`, as they are listed: what they do is imported when they are called."""

from __future__ import annotations

import typer

from rota.cli.invocation import command, group
from rota.cli.later import command_later, group_later

__all__ = ["add_commands"]


def add_commands(root: typer.Typer) -> None:
    @group_later("agent", "Scheduled agents: make, list, look, run, stop, approve; groups and kill switches.", root)
    def _agent(where: typer.Typer) -> None:
        from rota.agents.faces import commands

        command(where, "ls")(commands.ls)
        command(where, "show")(commands.show)
        command(where, "add")(commands.add)
        command(where, "update")(commands.update)
        command(where, "run")(commands.run)
        command(where, "pause")(commands.pause)
        command(where, "resume")(commands.resume)
        command(where, "cancel")(commands.cancel)
        command(where, "running", lists=True)(commands.running)
        command(where, "stop")(commands.stop)
        command(where, "waiting", lists=True)(commands.waiting)
        command(where, "approve")(commands.approve)
        command(where, "reject")(commands.reject)
        command(where, "kill")(commands.kill)
        command(where, "revive")(commands.revive)
        command(where, "log", lists=True)(commands.log)
        command(where, "token")(commands.token)
        groups = group("group", "Groups of agents: each has a folder, a zone and an owner.", where)
        command(groups, "ls")(commands.ls_groups)
        command(groups, "add")(commands.add_group)
        command(groups, "rm")(commands.remove_group)

    @command_later(
        "mcp",
        "Serve MCP on stdin and stdout. Who the agent is, is said here alone. With --app the app's rules hold.",
        root,
    )
    def _mcp(where: typer.Typer) -> None:
        from rota.agents.faces.mcp_command import mcp

        command(where, "mcp")(mcp)
