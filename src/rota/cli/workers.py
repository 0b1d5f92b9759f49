"""`rota worker`: run the tasks of an app until told to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.invocation import Cli
from rota.cli.loading import AppOption, ConcurrencyOption, load_app
from rota.config import Config
from rota.config.urls import masked
from rota.errors import InvalidConfig, InvalidInput

if TYPE_CHECKING:
    from rota.app.rota import Rota

__all__ = ["check_may_work", "tell_of_database", "worker"]


async def worker(
    cli: Cli,
    app: AppOption = None,
    concurrency: ConcurrencyOption = None,
    alerts: Annotated[bool, typer.Option("--alerts", hidden=True, help="Every worker looks at them by now.")] = False,
) -> None:
    """Run the tasks of an app until Ctrl-C; what is not finished then is released and runs elsewhere."""
    _ = alerts
    from rota.cli.logs import log_to_stderr
    from rota.telemetry.tracing import trace_if_configured

    if app is None:
        raise InvalidInput(
            "A worker needs to know what to run. Add --app MODULE:ATTRIBUTE, where the attribute is a Rota with"
            " handlers, e.g. --app myproject.tasks:app. Without one `rota up` serves the built-in types."
        )
    rota = load_app(cli.options, app, concurrency)
    check_may_work(rota.config)
    trace_if_configured(rota)
    log_to_stderr(as_json=cli.output.as_json)
    cli.warn(rota.config)
    cli.output.note(f"Serving {masked(rota.config.store_url)}, {_at_once(rota)}. Ctrl-C stops it.")
    async with rota:
        await tell_of_database(cli, rota)
        await rota.run()
    cli.output.note("Stopped. Nothing was left running.")


def _at_once(app: Rota) -> str:
    """How many tasks run at once, and of which types how many beside them."""
    most, registry = app.config.max_concurrent, app.host.registry
    types = [registry.types[name] for name in sorted(registry.servable())]
    own = [f", {one.concurrency or most} of {one.name} in slots of their own" for one in types if one.slots == "own"]
    return f"{most} tasks at once{''.join(own)}"


async def tell_of_database(cli: Cli, app: Rota) -> None:
    """Say before anything else what a process will not do, because its database is not the one that is meant."""
    for sentence in await app.host.own_database.troubles():
        cli.output.alarm(f"error: {sentence}")


def check_may_work(config: Config) -> None:
    """A process that may run nothing is no worker."""
    if not config.enabled:
        source = config.sources.get("scheduler.enabled", "in code")
        raise InvalidConfig(f"scheduler.enabled is false ({source}): this process may run no worker. Set it to true.")
