"""The reference of handlers is complete: options with their defaults, what a `Run` has, options of a task."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from rota import Config, Rota, Run, ScheduleOptions, TaskType, TypeSettings

PAGE = (Path(__file__).parents[2] / "docs" / "handlers.md").read_text()
DECORATORS = (Rota.on_activity, Rota.every, Rota.cron, Rota.task, Rota.after)
OWN = {"after", "tz"}
"""What one decorator alone has a word for; the table of the decorators says that."""


def rows_of(heading: str) -> dict[str, str]:
    """The table below a heading: the words in code marks of each row's first cell, and its second cell."""
    table = PAGE.partition(f"{heading}\n")[2].partition("\n\n|")[2].partition("\n\n")[0]
    rows: dict[str, str] = {}
    for line in table.splitlines()[1:]:
        first, second = [cell.strip() for cell in line.strip("|").split("|")][:2]
        rows |= dict.fromkeys(re.findall(r"`(\w+)", first), second)
    return rows


def test_every_option_of_a_decorator_is_named() -> None:
    keywords = {
        name
        for decorator in DECORATORS
        for name, parameter in inspect.signature(decorator).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert set(rows_of("### Options")) == set(TypeSettings.__annotations__) | (keywords - OWN)
    assert all(f"`{word}`" in PAGE for word in OWN)


def test_the_defaults_are_those_of_a_type() -> None:
    rows = Config(tasks={"one": TaskType(name="one")}).rows()
    defaults = {row.path.removeprefix("scheduler.tasks.one."): row.value or "-" for row in rows}
    for option, shown in rows_of("### Options").items():
        if option in defaults:
            assert shown == defaults[option], option
    retry = {name: defaults[f"retry.{name}"] for name in ("base", "factor", "max")}
    assert rows_of("### Options")["retry"] == ", ".join(f"`{name}` {value}" for name, value in retry.items())


def test_everything_of_a_run_is_named() -> None:
    table = PAGE.partition("| of the `Run` | |")[2].partition("\n\n")[0]
    named = {word for line in table.splitlines() for word in re.findall(r"`(\w+)", line.split("|")[1] if line else "")}
    assert named == {name for name in dir(Run) if not name.startswith("_")}


def test_every_option_of_a_task_is_named() -> None:
    assert set(rows_of("## Making a task")) == set(ScheduleOptions.__annotations__)
