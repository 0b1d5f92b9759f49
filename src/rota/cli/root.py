"""The tree of commands."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from rota.app.command_homes import COMMAND_HOMES
from rota.cli.exits import EPILOGUE
from rota.cli.invocation import Options, command
from rota.cli.later import MARKUP, Tree, command_later, group_later
from rota.cli.parts import own_parts

__all__ = ["root"]

root = typer.Typer(
    name="rota",
    cls=Tree,
    help="Rota: the background scheduler for AI applications.",
    epilog=EPILOGUE,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"rota {version('rota')}")
        raise typer.Exit


@root.callback()
def remember(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; accepted after the command too.")] = False,
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="The store, e.g. sqlite:///rota.db; the same.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The configuration (YAML); the same.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Keep the global options for the command that follows."""
    ctx.obj = Options(as_json, store, config)


@command_later(
    "up",
    "Serve until Ctrl-C: a worker, the dashboard, the HTTP API and the alerts. Without --app: the built-in types.",
    root,
)
def _up(where: typer.Typer) -> None:
    from rota.cli import up

    command(where, "up", works_long=True)(up.up)


@command_later(
    "worker", "Run the tasks of an app until Ctrl-C; what is not finished then is released and runs elsewhere.", root
)
def _worker(where: typer.Typer) -> None:
    from rota.cli import workers

    command(where, "worker", works_long=True)(workers.worker)


@group_later("task", "Tasks: list, look, explain, make, run, hold, cancel; one, or all that match.", root)
def _task(where: typer.Typer) -> None:
    from rota.cli import tasks

    command(where, "ls")(tasks.ls)
    command(where, "show")(tasks.show)
    command(where, "explain")(tasks.explain)
    command(where, "schedule")(tasks.schedule)
    command(where, "touch")(tasks.touch)
    command(where, "run-now")(tasks.run_now)
    command(where, "pause")(tasks.pause)
    command(where, "resume")(tasks.resume)
    command(where, "cancel")(tasks.cancel)
    command(where, "redrive")(tasks.redrive)
    command(where, "again")(tasks.again)
    command(where, "purge")(tasks.purge)
    command(where, "reset")(tasks.reset)


@group_later("type", "Task types: list, look, switch on and off, freeze, drain, limit.", root)
def _type(where: typer.Typer) -> None:
    from rota.cli import types

    command(where, "ls")(types.ls)
    command(where, "show")(types.show)
    command(where, "enable")(types.enable)
    command(where, "disable")(types.disable)
    command(where, "freeze")(types.freeze)
    command(where, "drain")(types.drain)
    command(where, "thaw")(types.thaw)
    command(where, "limit")(types.limit)


@group_later("schedule", "Schedules: add, list, look, hold, cancel, run, explain.", root)
def _schedule(where: typer.Typer) -> None:
    from rota.cli import schedules

    command(where, "add")(schedules.add)
    command(where, "ls")(schedules.ls)
    command(where, "show")(schedules.show)
    command(where, "pause")(schedules.pause)
    command(where, "resume")(schedules.resume)
    command(where, "cancel")(schedules.cancel)
    command(where, "run-now")(schedules.run_now)
    command(where, "explain")(schedules.explain)


@group_later("run", "The run log: what ran, when, how it ended.", root)
def _run(where: typer.Typer) -> None:
    from rota.cli import runs

    command(where, "ls")(runs.ls)
    command(where, "show")(runs.show)


@group_later("dlq", "Dead letters: tasks that failed for good.", root)
def _dlq(where: typer.Typer) -> None:
    from rota.cli import dead_letters

    command(where, "ls")(dead_letters.ls)
    command(where, "redrive")(dead_letters.redrive)
    command(where, "purge")(dead_letters.purge)


@group_later("failures", "Failures by groups: what fails, how often and for whom; run those of a group again.", root)
def _failures(where: typer.Typer) -> None:
    from rota.cli import failures

    command(where, "ls")(failures.ls)
    command(where, "show")(failures.show)
    command(where, "redrive")(failures.redrive)
    command(where, "mute")(failures.mute)
    command(where, "unmute")(failures.unmute)


@group_later("queue", "Queues: what waits, type by type.", root)
def _queue(where: typer.Typer) -> None:
    from rota.cli import queues

    command(where, "ls")(queues.ls)


@group_later("instance", "Instances: the processes at work.", root)
def _instance(where: typer.Typer) -> None:
    from rota.cli import instances

    command(where, "ls")(instances.ls)


@group_later("user", "One person's data: look, hand out, remove.", root)
def _user(where: typer.Typer) -> None:
    from rota.cli import users

    command(where, "show")(users.show)
    command(where, "export")(users.export)
    command(where, "erase")(users.erase)


@group_later("database", "The database beside the store: whose it is, and that it is this one now.", root)
def _database(where: typer.Typer) -> None:
    from rota.cli import database

    command(where, "show")(database.show)
    command(where, "adopt")(database.adopt)


@group_later("db", "How the store is written: bring along what an older version wrote.", root)
def _db(where: typer.Typer) -> None:
    from rota.cli import upgrade

    command(where, "upgrade")(upgrade.upgrade)


@group_later("token", "Access tokens for the service.", root)
def _token(where: typer.Typer) -> None:
    from rota.cli import tokens

    command(where, "add")(tokens.add)
    command(where, "ls")(tokens.ls)
    command(where, "revoke")(tokens.revoke)


@group_later("audit", "The audit log: who did what.", root)
def _audit(where: typer.Typer) -> None:
    from rota.cli import tokens

    command(where, "ls")(tokens.audit_ls)


@group_later("config", "The configuration.", root)
def _config(where: typer.Typer) -> None:
    from rota.cli import settings

    command(where, "show")(settings.show)


@command_later(
    "top", "Watch throughput, lateness, queues, failures and instances, live. Keys: q quits, p pauses, ? helps.", root
)
def _top(where: typer.Typer) -> None:
    from rota.cli import top

    command(where, "top")(top.top)


@command_later(
    "doctor",
    "Check the configuration, the store, the clock and the instances. Exit code 1 if something is wrong.",
    root,
)
def _doctor(where: typer.Typer) -> None:
    from rota.cli import doctor

    command(where, "doctor")(doctor.doctor)


@command_later("openapi", "Print the OpenAPI schema of the HTTP API, as JSON.", root)
def _openapi(where: typer.Typer) -> None:
    from rota.cli import schema

    command(where, "openapi")(schema.openapi)


@command_later("migrate", "Move types, tasks, schedules and what is remembered of users to another store.", root)
def _migrate(where: typer.Typer) -> None:
    from rota.cli import migrate

    command(where, "migrate")(migrate.migrate)


@command_later("demo", "Watch Rota work for twenty seconds: users, a killed worker, a cron job, a dead letter.", root)
def _demo(where: typer.Typer) -> None:
    from rota.cli import demo

    command(where, "demo")(demo.demo)


def _add_parts() -> None:
    """What the parts bring: those of your own app are imported with it, the built-in ones are only listed."""
    for home in COMMAND_HOMES:
        import_module(home).add_commands(root)
    for part in own_parts():
        part.commands(root)


_add_parts()
