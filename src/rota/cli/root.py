"""The tree of commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rota.cli import dead_letters, demo, doctor, migrate, runs, schedules, settings, tasks, types, workers
from rota.cli.exits import EPILOGUE
from rota.cli.invocation import Options, command, group

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


command(root, "up")(workers.up)
command(root, "worker")(workers.worker)

task = group("task", "Tasks: list, look, touch, run, hold, cancel.", root)
command(task, "ls")(tasks.ls)
command(task, "show")(tasks.show)
command(task, "touch")(tasks.touch)
command(task, "run-now")(tasks.run_now)
command(task, "pause")(tasks.pause)
command(task, "resume")(tasks.resume)
command(task, "cancel")(tasks.cancel)

type_ = group("type", "Task types: list, look, switch on and off.", root)
command(type_, "ls")(types.ls)
command(type_, "show")(types.show)
command(type_, "enable")(types.enable)
command(type_, "disable")(types.disable)

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

config = group("config", "The configuration.", root)
command(config, "show")(settings.show)

command(root, "doctor")(doctor.doctor)
command(root, "migrate")(migrate.migrate)
command(root, "demo")(demo.demo)
