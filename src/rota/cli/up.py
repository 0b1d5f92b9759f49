"""`rota up`: the service. A worker, the HTTP API, the dashboard and the alerts in one process."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from rota.cli.garbage import start_garbage_collection, without_garbage_collection
from rota.cli.invocation import Cli, program_name, sqlite_file
from rota.cli.loading import AppOption, ConcurrencyOption, load_app
from rota.cli.workers import check_may_work, tell_of_database
from rota.config import Config
from rota.config.urls import masked

if TYPE_CHECKING:
    from rota.api.service import Service
    from rota.app.rota import Rota
    from rota.cli.bound_socket import BoundSocket

__all__ = ["token_file", "up"]

HostOption = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Where to listen. Default: 127.0.0.1, this host alone.")
]
PortOption = Annotated[
    int | None, typer.Option("--port", metavar="N", min=0, max=65_535, help="Default: 8787; 0 takes any that is free.")
]


async def up(
    cli: Cli,
    app: AppOption = None,
    host: HostOption = None,
    port: PortOption = None,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Pages and API only: run no task and no consumer here.")
    ] = False,
    concurrency: ConcurrencyOption = None,
) -> None:
    """Serve until Ctrl-C: a worker, the dashboard, the HTTP API and the alerts. Without --app: the built-in types."""
    with without_garbage_collection():
        await _up(cli, app, host, port, concurrency, with_worker=not no_worker)


async def _up(
    cli: Cli, app: str | None, host: str | None, port: int | None, concurrency: int | None, *, with_worker: bool
) -> None:
    from rota.cli.bound_socket import BoundSocket
    from rota.cli.logs import log_to_stderr

    rota = _app(cli, app, concurrency, serves=with_worker)
    config = rota.config
    if with_worker:
        check_may_work(config)
    log_to_stderr(as_json=cli.output.as_json)
    cli.warn(config)
    bound = BoundSocket(host or config.server.host, config.server.port if port is None else port)
    try:
        await _serve(cli, rota, bound, is_built_in=app is None and with_worker, with_worker=with_worker)
    finally:
        bound.close()
    cli.output.note("Stopped. Nothing was left running.")


def _app(cli: Cli, name: str | None, concurrency: int | None, *, serves: bool) -> Rota:
    if name is not None:
        return load_app(cli.options, name, concurrency)
    from rota.app.builtin import build

    return build(cli.load_config(max_concurrent=concurrency), serves=serves)


async def _serve(cli: Cli, app: Rota, bound: BoundSocket, *, is_built_in: bool, with_worker: bool) -> None:
    from rota.access.first_token import check_bind, ensure_first_token, has_tokens, is_loopback
    from rota.api.service import Service
    from rota.cli.server import serve
    from rota.telemetry.metrics import Metrics
    from rota.telemetry.tracing import trace_if_configured

    trace_if_configured(app)
    config, is_public = app.config, not is_loopback(bound.host)
    service = Service(
        app,
        metrics=Metrics(app),
        base_path=config.server.base_path,
        is_public=is_public,
        allowed_hosts=(*config.server.allowed_hosts, bound.host),
    )
    async with service:
        await app.store()  # without it nothing can be served, and nothing is to be left behind
        if is_public:
            check_bind(bound.host, await has_tokens(app))
        await tell_of_database(cli, app)
        secret = None if is_public else await ensure_first_token(app, token_file(config))
        await serve(
            service,
            bound,
            with_worker=with_worker,
            on_up=lambda: _is_up(cli, service, bound, secret, is_built_in=is_built_in),
            on_stop=lambda: cli.output.note("Stopping: what runs may finish. Ctrl-C again ends it at once."),
        )


def token_file(config: Config) -> Path:
    """Where the first token is kept: as configured, else beside the database."""
    if config.server.token_file is not None:
        return Path(config.server.token_file)
    database = sqlite_file(config.database_url)
    return Path("rota.token") if database is None else database.with_suffix(".token")


# --- what it says ----------------------------------------------------------------------------------------------------


def _is_up(cli: Cli, service: Service, bound: BoundSocket, secret: str | None, *, is_built_in: bool) -> None:
    _greet(cli, service, bound, secret, is_built_in=is_built_in)
    start_garbage_collection()


def _greet(cli: Cli, service: Service, bound: BoundSocket, secret: str | None, *, is_built_in: bool) -> None:
    url = bound.url(service.path("/"))
    login = None if secret is None else bound.url(f"{service.path('/login')}?token={quote(secret)}")
    if cli.output.as_json:
        ready = {"url": url, "login": login, "pid": os.getpid(), "store": masked(service.app.config.store_url)}
        sys.stdout.write(json.dumps(ready) + "\n")
    else:
        # With air around it: the log lies above and below.
        cli.output.say("\n".join(("", *_lines(cli, service, login or url, is_built_in=is_built_in), "")))
    # Whoever waits for this line reads it from a pipe.
    sys.stdout.flush()


def _lines(cli: Cli, service: Service, link: str, *, is_built_in: bool) -> Iterator[str]:
    yield f"Rota is up: {link}"
    yield f"  store {masked(service.app.config.store_url)}; Ctrl-C stops it"
    yield ""
    yield "Try in another terminal:"
    program = f"{program_name()}{_global_options(cli)}"
    if is_built_in:
        yield f'  {program} schedule add echo hello --every 10s --payload \'{{"text": "hi"}}\''
        yield f"  {program} task schedule echo --payload '{{\"fail\": true}}'"
    else:
        yield f"  {program} type ls"
        yield f"  {program} task ls --watch"
    yield f"  {program} top"


def _global_options(cli: Cli) -> str:
    given = {"--store": cli.options.store, "--config": cli.options.config}
    return "".join(f" {flag} {shlex.quote(str(value))}" for flag, value in given.items() if value is not None)
