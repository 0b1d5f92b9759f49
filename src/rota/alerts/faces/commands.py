"""`rota alert`: what fires now, how every rule stands and who wants silence of it, what has fired, the sinks."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.pages import CursorOption, LimitOption, WatchOption, with_watch
from rota.clock import SystemClock, isoformat, parse_duration
from rota.stores.base import DEFAULT_PAGE

__all__ = ["history", "kinds", "ls", "rules", "silence", "try_out", "unsilence"]

RuleArgument = Annotated[str, typer.Argument(metavar="RULE", help="The rule, as `alert rules` names it.")]
SubjectArgument = Annotated[
    str, typer.Argument(metavar="[TYPE]", help="One type (or instance) of it. Left out: all that it looks at.")
]

_FIRING: Final = (
    Column("RULE", "rule", is_id=True),
    Column("SUBJECT", "subject", is_id=True),
    Column("SINCE", "since_at"),
    Column("VALUE", "value", leaves=1),
    Column("SILENCED UNTIL", "silenced_until", leaves=2),
    Column("SUMMARY", "summary", gives_way=True),
)
_RULES: Final = (
    Column("RULE", "rule", is_id=True),
    Column("STATE", "state"),
    Column("SINCE", "since_at", leaves=3),
    Column("VALUE", "value"),
    Column("THRESHOLD", "threshold"),
    Column("OF", "subject", gives_way=True),
    Column("KIND", "kind", leaves=1),
    Column("SILENCED UNTIL", "silenced_until", leaves=2),
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


async def rules(cli: Cli) -> None:
    """List every rule: how it stands, with the value that is nearest to its threshold, and its silences."""
    from rota.alerts import rules_as_they_stand

    async with cli.session() as session:
        found = [rule.to_dict() for rule in await rules_as_they_stand(session.app)]
    if cli.output.as_json:
        cli.output.page(found, _RULES, empty="")
        return
    rows = [{**rule, "state": rule["state"] or "not looked at"} for rule in found]
    cli.output.page(rows, _RULES, empty="No rules: alerts.defaults is off, and none is configured.")


async def silence(
    cli: Cli,
    rule: RuleArgument,
    subject: SubjectArgument = "",
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="For how long, like 4h or 7d.")] = "1h",
    reason: Annotated[str, typer.Option("--why", metavar="TEXT", help="For whoever wonders.")] = "",
) -> None:
    """Tell nobody of a rule for a time. What fires is listed all the same, and told if it still fires at the end."""
    from rota.alerts import AlertOperator

    async with cli.session() as session:
        operator = AlertOperator(session.app, session.operator.principal)
        made = await operator.silence(rule, subject, parse_duration(duration, what="--for"), reason)
    whom = f"{rule} of {subject}" if subject else rule
    cli.output.one(made.to_dict(), f"{whom} is silenced until {isoformat(made.until_at)}.")


async def unsilence(cli: Cli, rule: RuleArgument, subject: SubjectArgument = "") -> None:
    """Hear of a rule again: what fires still is told now."""
    from rota.alerts import AlertOperator

    async with cli.session() as session:
        await AlertOperator(session.app, session.operator.principal).unsilence(rule, subject)
    whom = f"{rule} of {subject}" if subject else rule
    cli.output.one({"rule": rule, "subject": subject, "silenced_until": None}, f"{whom} is heard again.")


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
