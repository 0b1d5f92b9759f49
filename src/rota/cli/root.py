"""The tree of commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rota.cli import (
    database,
    dead_letters,
    demo,
    doctor,
    instances,
    migrate,
    queues,
    runs,
    schedules,
    schema,
    settings,
    tasks,
    tokens,
    top,
    types,
    up,
    upgrade,
    users,
    workers,
)
from rota.cli.exits import EPILOGUE
from rota.cli.invocation import Options, command, group
from rota.cli.parts import known_parts

__all__ = ["root"]

root = typer.Typer(
    name="rota",
    help="Rota: the background scheduler for AI applications.",
    epilog=EPILOGUE,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
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


command(root, "up", works_long=True)(up.up)
command(root, "worker", works_long=True)(workers.worker)

task = group("task", "Tasks: list, look, explain, make, run, hold, cancel; one, or all that match.", root)
command(task, "ls")(tasks.ls)
command(task, "show")(tasks.show)
command(task, "explain")(tasks.explain)
command(task, "schedule")(tasks.schedule)
command(task, "touch")(tasks.touch)
command(task, "run-now")(tasks.run_now)
command(task, "pause")(tasks.pause)
command(task, "resume")(tasks.resume)
command(task, "cancel")(tasks.cancel)
command(task, "redrive")(tasks.redrive)
command(task, "purge")(tasks.purge)
command(task, "reset")(tasks.reset)

type_ = group("type", "Task types: list, look, switch on and off, freeze, drain, limit.", root)
command(type_, "ls")(types.ls)
command(type_, "show")(types.show)
command(type_, "enable")(types.enable)
command(type_, "disable")(types.disable)
command(type_, "freeze")(types.freeze)
command(type_, "drain")(types.drain)
command(type_, "thaw")(types.thaw)
command(type_, "limit")(types.limit)

schedule = group("schedule", "Schedules: add, list, look, hold, cancel, run, explain.", root)
command(schedule, "add")(schedules.add)
command(schedule, "ls")(schedules.ls)
command(schedule, "show")(schedules.show)
command(schedule, "pause")(schedules.pause)
command(schedule, "resume")(schedules.resume)
command(schedule, "cancel")(schedules.cancel)
command(schedule, "run-now")(schedules.run_now)
command(schedule, "explain")(schedules.explain)

run = group("run", "The run log: what ran, when, how it ended.", root)
command(run, "ls")(runs.ls)
command(run, "show")(runs.show)

dlq = group("dlq", "Dead letters: tasks that failed for good.", root)
command(dlq, "ls")(dead_letters.ls)
command(dlq, "redrive")(dead_letters.redrive)
command(dlq, "purge")(dead_letters.purge)

queue = group("queue", "Queues: what waits, type by type.", root)
command(queue, "ls")(queues.ls)

instance = group("instance", "Instances: the processes at work.", root)
command(instance, "ls")(instances.ls)

user = group("user", "One person's data: look, hand out, remove.", root)
command(user, "show")(users.show)
command(user, "export")(users.export)
command(user, "erase")(users.erase)

database_ = group("database", "The database beside the store: whose it is, and that it is this one now.", root)
command(database_, "show")(database.show)
command(database_, "adopt")(database.adopt)

db = group("db", "How the store is written: bring along what an older version wrote.", root)
command(db, "upgrade")(upgrade.upgrade)

token = group("token", "Access tokens for the service.", root)
command(token, "add")(tokens.add)
command(token, "ls")(tokens.ls)
command(token, "revoke")(tokens.revoke)

audit = group("audit", "The audit log: who did what.", root)
command(audit, "ls")(tokens.audit_ls)

config = group("config", "The configuration.", root)
command(config, "show")(settings.show)

command(root, "top")(top.top)
command(root, "doctor")(doctor.doctor)
command(root, "openapi")(schema.openapi)
command(root, "migrate")(migrate.migrate)
command(root, "demo")(demo.demo)

for part in known_parts():
    part.commands(root)
