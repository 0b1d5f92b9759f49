"""`rota alert`: what fires now, what has fired, what rules can look at, and whether a sink can be reached."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.pages import CursorOption, LimitOption, WatchOption, with_watch
from rota.clock import SystemClock
from rota.stores.base import DEFAULT_PAGE

__all__ = ["history", "kinds", "ls", "try_out"]

_FIRING: Final = (
    Column("RULE", "rule", is_id=True),
    Column("SUBJECT", "subject", is_id=True),
    Column("SINCE", "since_at"),
    Column("VALUE", "value", leaves=1),
    Column("SUMMARY", "summary", gives_way=True),
)
_HISTORY: Final = (
    Column("AT", "at"),
    Column("RULE", "rule", is_id=True),
    Column("SUBJECT", "subject", is_id=True),
    Column("STATE", "state"),
    Column("VALUE", "value", leaves=1),
    Column("SUMMARY", "summary", gives_way=True),
)
_KINDS: Final = (
    Column("KIND", "kind", is_id=True),
    Column("THRESHOLD", "threshold"),
    Column("LOOKS AT", "about", gives_way=True),
)


async def ls(cli: Cli, watch: WatchOption = False) -> None:
    """List the alerts that fire now."""
    from rota.alerts import Alerts

    async with cli.session() as session:
        alerts = Alerts(await session.app.database())

        async def show() -> None:
            items = [firing.to_dict() for firing in await alerts.firing()]
            cli.output.page(items, _FIRING, empty="Nothing fires.")

        await with_watch(cli, show, watch=watch)


async def history(cli: Cli, limit: LimitOption = DEFAULT_PAGE, cursor: CursorOption = None) -> None:
    """List what began to fire and what was resolved, newest first."""
    from rota.alerts import Alerts

    async with cli.session() as session:
        page = await Alerts(await session.app.database()).history(limit, cursor)
    items = [event.to_dict() for event in page.items]
    cli.output.page(items, _HISTORY, cursor=page.cursor, empty="Nothing has fired. `rota up` looks at the rules.")


def kinds(cli: Cli) -> None:
    """List what rules can look at, with the threshold of a rule that says none."""
    from rota.alerts import shown_kinds
    from rota.cli.parts import known_parts

    cli.output.page(shown_kinds(known_parts()), _KINDS, empty="")


async def try_out(
    cli: Cli, name: Annotated[str, typer.Argument(metavar="SINK", help="A sink of alerts.sinks, or log.")]
) -> None:
    """Send a test alert to a sink, now."""
    from rota.alerts import try_sink
    from rota.cli.logs import log_to_stderr

    log_to_stderr(as_json=cli.output.as_json)
    await try_sink(cli.config, name, SystemClock().now())
    cli.output.one({"sink": name, "delivered": True}, f"The sink {name!r} has taken a test alert.")
