"""`rota worker`: run the tasks of an app until told to stop."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.invocation import Cli
from rota.cli.loading import AppOption, ConcurrencyOption, load_app
from rota.config import Config
from rota.config.urls import masked
from rota.errors import InvalidConfig, InvalidInput

if TYPE_CHECKING:
    from rota.app.rota import Rota
    from rota.cli.bound_socket import BoundSocket

__all__ = ["check_may_work", "tell_of_database", "worker"]


async def worker(
    cli: Cli,
    app: AppOption = None,
    concurrency: ConcurrencyOption = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            metavar="N",
            min=0,
            max=65_535,
            help="Show /metrics, /healthz and /readyz on this port; 0 takes any that is free. Default: none.",
        ),
    ] = None,
    metrics_host: Annotated[
        str | None,
        typer.Option(
            "--metrics-host",
            metavar="ADDRESS",
            help="Where that listens. Default: 127.0.0.1; another one needs access tokens.",
        ),
    ] = None,
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
    bound = _bound(rota.config, metrics_host, metrics_port)
    trace_if_configured(rota)
    log_to_stderr(as_json=cli.output.as_json)
    cli.warn(rota.config)
    cli.output.note(f"Serving {masked(rota.config.store_url)}, {_at_once(rota)}. Ctrl-C stops it.")
    async with rota:
        await tell_of_database(cli, rota)
        async with _metrics(cli, rota, bound):
            await rota.run()
    cli.output.note("Stopped. Nothing was left running.")


def _bound(config: Config, host: str | None, port: int | None) -> BoundSocket | None:
    """The port for metrics and health, if there shall be one: a port that is taken is said before any work begins."""
    port = config.metrics.port if port is None else port
    if port is None:
        if host is not None:
            raise InvalidInput("--metrics-host needs a port, too. Add --metrics-port N, or set metrics.port.")
        return None
    from rota.cli.metrics_server import bound_for_metrics

    return bound_for_metrics(host or config.metrics.host, port)


@asynccontextmanager
async def _metrics(cli: Cli, app: Rota, bound: BoundSocket | None) -> AsyncGenerator[None]:
    if bound is None:
        yield
        return
    from rota.cli.metrics_server import metrics_shown

    try:
        async with metrics_shown(app, bound):
            _tell_of_metrics(cli, bound.url("/metrics"))
            yield
    finally:
        bound.close()


def _tell_of_metrics(cli: Cli, url: str) -> None:
    """In one line, and at once: whoever has asked for any free port reads it from a pipe."""
    sys.stdout.write(f"{json.dumps({'metrics': url})}\n" if cli.output.as_json else f"Metrics: {url}\n")
    sys.stdout.flush()


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
