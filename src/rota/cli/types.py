"""`rota type`: list, look, switch on and off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import typer

from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.shapes import type_shape
from rota.cli.target import known_type
from rota.errors import IllegalTransition
from rota.stores.base import Counts, Store, TypeRecord

__all__ = ["disable", "enable", "ls", "show"]

NameArgument = Annotated[str, typer.Argument(metavar="TYPE", help="The task type.")]

_COLUMNS: Final = (
    Column("TYPE", "name"),
    Column("STATE", "state"),
    Column("TRIGGER", "trigger"),
    Column("PENDING", "pending"),
    Column("RUNNING", "running"),
    Column("PAUSED", "paused"),
    Column("FAILED", "failed"),
    Column("KNOWN FROM", "source"),
)


async def ls(cli: Cli) -> None:
    """List the task types of the store and of the configuration."""
    async with cli.store() as store:
        records = {record.task_type.name: record for record in await store.list_types()}
        counts = await store.counts()
    both = {**{name: TypeRecord(task_type) for name, task_type in cli.config.tasks.items()}, **records}
    shapes = [_shape(both[name], counts, stored=name in records) for name in sorted(both)]
    if not cli.output.as_json:
        shapes = [{**shape, **_mapping(shape["counts"]), "state": _state(shape)} for shape in shapes]
    cli.output.page(shapes, _COLUMNS, empty="No task types. A worker brings them, or scheduler.tasks in the config.")


async def show(cli: Cli, name: NameArgument) -> None:
    """Show the settings and counters of one type."""
    async with cli.store() as store:
        shape = await _look(cli, store, name)
    if cli.output.as_json:
        cli.output.one(shape)
        return
    counts = {f"counts.{key}": value for key, value in _mapping(shape["counts"]).items()}
    head = {"name": name, "state": _state(shape), "trigger": shape["trigger"], "known from": shape["source"]}
    cli.output.one({**head, **_mapping(shape["settings"]), **counts})


async def enable(cli: Cli, name: NameArgument) -> None:
    """Take back `disable`: the configuration decides again."""
    from rota.runtime import declare

    async with cli.store() as store:
        record = await known_type(cli, store, name, register=True)
        if not record.task_type.enabled:
            raise IllegalTransition(
                f"The configuration has scheduler.tasks.{name}.enabled: false, which no operator can overrule."
                " Set it to true and restart the workers."
            )
        await store.override_type(name, {"enabled": None})
        # The series of a type that was off from its first day is made now.
        await declare(store, [record.task_type])
        shape = await _look(cli, store, name)
    cli.output.one(shape, f"{name} is on.")


async def disable(cli: Cli, name: NameArgument) -> None:
    """Switch a type off on every instance, also over restarts, until it is enabled again."""
    async with cli.store() as store:
        await known_type(cli, store, name, register=True)
        await store.override_type(name, {"enabled": False})
        shape = await _look(cli, store, name)
    cli.output.one(shape, f"{name} is off: nothing of it is claimed, new activity is not taken.")


async def _look(cli: Cli, store: Store, name: str) -> dict[str, object]:
    record = await known_type(cli, store, name)
    stored = any(known.task_type.name == name for known in await store.list_types())
    return _shape(record, await store.counts(), stored=stored)


def _shape(record: TypeRecord, counts: Mapping[str, Counts], *, stored: bool) -> dict[str, object]:
    source = "store" if stored else "config"
    return type_shape(record, counts.get(record.task_type.name, Counts()), source=source)


def _state(shape: Mapping[str, object]) -> str:
    if shape["enabled"]:
        return "on"
    return "off (operator)" if shape["override"] is False else "off (config)"


def _mapping(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return {str(key): item for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - made by type_shape
