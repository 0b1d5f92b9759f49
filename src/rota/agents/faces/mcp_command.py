"""`rota mcp`: the MCP server over standard input and output, for one group's agent."""

from __future__ import annotations

import importlib.util
import os
import signal
from typing import Annotated

import typer

from rota.cli.invocation import Cli
from rota.cli.loading import AppOption, load_app
from rota.errors import InvalidInput

__all__ = ["mcp"]


async def mcp(
    cli: Cli,
    group: Annotated[str, typer.Option("--group", metavar="GROUP", help="The group whose agent this is for.")],
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="The scheduled run that it is for; it may then make no schedules."),
    ] = None,
    app: AppOption = None,
) -> None:
    """Serve MCP on stdin and stdout. Who the agent is, is said here alone. With --app the app's rules hold."""
    if importlib.util.find_spec("mcp") is None:
        raise InvalidInput("The MCP server needs the extra 'mcp'. Install it: pip install 'rota[mcp]'.")
    from rota.agents import agents_of
    from rota.agents.faces.commands import operator_of
    from rota.agents.faces.mcp.stdio import serve_stdio
    from rota.agents.isolation.process import MARKER
    from rota.agents.operator import agent_principal
    from rota.cli.logs import log_to_stderr

    log_to_stderr(as_json=cli.output.as_json)
    # Reading the input cannot be interrupted: without this Ctrl-C would wait for the client to close it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    principal = agent_principal(group, run or os.environ.get(MARKER))
    if app is None:
        async with operator_of(cli, makes_schedules=True) as operator:
            await serve_stdio(operator.agents, principal, operator.database)
        return
    rota = load_app(cli.options, app, None)
    async with rota:
        await serve_stdio(agents_of(rota), principal, rota.database)
