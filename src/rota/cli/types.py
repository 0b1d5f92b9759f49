"""`rota type`: list, look, switch on and off, freeze and drain, limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
import typer

from rota.app.views import SWITCHES, off_by, settings_of, state_words, trigger_words
from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.pages import WatchOption, show_from_store
from rota.cli.target import known_type
from rota.errors import IllegalTransition, InvalidInput
from rota.stores.base import LIMITS, Counts, Store, TypeRecord

__all__ = ["disable", "drain", "enable", "freeze", "limit", "ls", "show", "thaw"]

NameArgument = Annotated[str, typer.Argument(metavar="TYPE", help="The task type.")]

_COLUMNS: Final = (
    Column("TYPE", "name", is_id=True),
    Column("STATE", "state"),
    Column("TRIGGER", "trigger", gives_way=True),
    Column("PENDING", "pending"),
    Column("RUNNING", "running"),
    Column("PAUSED", "paused", leaves=2),
    Column("FAILED", "failed"),
    Column("SOURCE", "source", leaves=1),
)


async def ls(cli: Cli, watch: WatchOption = False) -> None:
    """List the task types of the store and of the configuration."""
    await show_from_store(cli, lambda store: _list(cli, store), watch=watch)


async def _list(cli: Cli, store: Store) -> None:
    records = {record.task_type.name: record for record in await store.list_types()}
    counts = await store.counts()
    both = {**{name: TypeRecord(task_type) for name, task_type in cli.config.tasks.items()}, **records}
    shapes = [_shape(both[name], counts, stored=name in records) for name in sorted(both)]
    if not cli.output.as_json:
        shapes = [{**shape, **_mapping(shape["counts"])} for shape in shapes]
    cli.output.page(
        shapes, _COLUMNS, empty="No task types. They come from a worker, or from scheduler.tasks in the config."
    )


async def show(cli: Cli, name: NameArgument) -> None:
    """Show the settings and counters of one type."""
    async with cli.store() as store:
        shape = await _look(cli, store, name)
    if cli.output.as_json:
        cli.output.one(shape)
        return
    counts = {f"counts.{key}": value for key, value in _mapping(shape["counts"]).items()}
    head = {"name": name, "state": shape["state"], "trigger": shape["trigger"], "known from": shape["source"]}
    cli.output.one({**head, **_mapping(shape["settings"]), **counts})


async def enable(cli: Cli, name: NameArgument) -> None:
    """Take back `disable`: the configuration decides again."""
    async with cli.session() as session:
        record = await known_type(cli, session.store, name, register=True)
        if off_by(record) == "config":
            raise IllegalTransition(
                f"The configuration has scheduler.tasks.{name}.enabled: false, which no operator can overrule."
                " Set it to true and restart the workers."
            )
        await session.operator.override(name, SWITCHES["enable"])
        shape = await _look(cli, session.store, name)
    cli.output.one(shape, f"{name} is {shape['state']}.")


async def disable(cli: Cli, name: NameArgument) -> None:
    """Switch a type off on every instance, also over restarts, until it is enabled again."""
    await _override(cli, name, SWITCHES["disable"], "{} is off: nothing of it is claimed, new activity is not taken.")


async def freeze(cli: Cli, name: NameArgument) -> None:
    """Start nothing of a type; what comes is taken on and waits until `thaw`."""
    await _override(cli, name, SWITCHES["freeze"], "{} is frozen: what comes waits. `rota type thaw {}` lets it run.")


async def drain(cli: Cli, name: NameArgument) -> None:
    """Take nothing new on; what is there is worked off, until `thaw`."""
    await _override(
        cli, name, SWITCHES["drain"], "{} is draining: nothing new is taken on. `rota type thaw {}` ends it."
    )


async def thaw(cli: Cli, name: NameArgument) -> None:
    """Take back `freeze` and `drain`."""
    await _override(cli, name, SWITCHES["thaw"], "{} takes work on and does it.")


async def limit(
    cli: Cli,
    name: NameArgument,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", metavar="N", help="So many at once in each instance.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="R", help="So many starts a second, over all; by their cost.")
    ] = None,
    burst: Annotated[int | None, typer.Option("--burst", metavar="N", help="With --rate: so many at once.")] = None,
    start_rate: Annotated[
        float | None, typer.Option("--start-rate", metavar="R", help="So many starts a second, whatever they cost.")
    ] = None,
    start_burst: Annotated[
        int | None, typer.Option("--start-burst", metavar="N", help="With --start-rate: so many at once.")
    ] = None,
    max_pending: Annotated[int | None, typer.Option("--max-pending", metavar="N", help="So many may wait.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take all limits set here back.")] = False,
) -> None:
    """Set limits of a type over its configuration, on every instance and over restarts, or take them back."""
    changes: dict[str, object] = {
        "concurrency": concurrency,
        "max_pending": max_pending,
        "rate_limit": _rate_limit("--rate", rate, "--burst", burst),
        "start_limit": _rate_limit("--start-rate", start_rate, "--start-burst", start_burst),
    }
    changes = {setting: value for setting, value in changes.items() if value is not None}
    if clear == bool(changes):
        given = "both limits and --clear were given" if clear else "none was given"
        raise InvalidInput(
            f"Which limits? {given.capitalize()}. Use --concurrency, --rate, --start-rate, --max-pending, or --clear."
        )
    if clear:
        changes = {str(setting): None for setting in LIMITS}
    await _override(cli, name, changes, "{} has the limits of its configuration." if clear else "{} has new limits.")


def _rate_limit(rate_option: str, rate: float | None, burst_option: str, burst: int | None) -> dict[str, float] | None:
    if rate is not None:
        return {"rate": rate, "burst": burst if burst is not None else 1}
    if burst is not None:
        raise InvalidInput(
            f"{burst_option} {burst} needs {rate_option}: how many starts a second? Add {rate_option} R."
        )
    return None


async def _override(cli: Cli, name: str, changes: Mapping[str, object], words: str) -> None:
    async with cli.session() as session:
        await known_type(cli, session.store, name, register=True)
        await session.operator.override(name, changes)
        shape = await _look(cli, session.store, name)
    cli.output.one(shape, words.format(name, name))


async def _look(cli: Cli, store: Store, name: str) -> dict[str, object]:
    record = await known_type(cli, store, name)
    stored = any(known.task_type.name == name for known in await store.list_types())
    return _shape(record, await store.counts(), stored=stored)


def _shape(record: TypeRecord, counts: Mapping[str, Counts], *, stored: bool) -> dict[str, object]:
    """A type: what it is, whether it runs, how many tasks it has, and who knows it."""
    return {
        "name": record.task_type.name,
        "enabled": record.enabled,
        "override": record.overrides.enabled,
        "overrides": msgspec.to_builtins(record.overrides),
        "state": state_words(record),
        "source": "store" if stored else "config",
        "trigger": trigger_words(record.task_type),
        "settings": settings_of(record.effective),
        "counts": msgspec.to_builtins(counts.get(record.task_type.name, Counts())),
    }


def _mapping(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return {str(key): item for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - made by _shape
