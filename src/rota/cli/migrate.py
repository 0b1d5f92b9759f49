"""`rota migrate`: from one store to another."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from rota.cli.exits import ExitCode
from rota.cli.invocation import Cli, sqlite_file
from rota.clock import SECOND
from rota.config.urls import masked, scheme_of
from rota.errors import IllegalTransition, InvalidInput, StoreUnavailable
from rota.stores import open_store
from rota.stores.base import Store
from rota.stores.migrate import Migration, alive
from rota.stores.migrate import migrate as move

__all__ = ["migrate"]

FromOption = Annotated[str, typer.Option("--from", metavar="URL", help="The store to leave. It is not changed.")]
ToOption = Annotated[str, typer.Option("--to", metavar="URL", help="The store to move to. What lives there is kept.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be moved.")]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Also while instances work on the old store: what they run may run twice.")
]


async def migrate(
    cli: Cli, source: FromOption, target: ToOption, dry_run: DryRunOption = False, force: ForceOption = False
) -> None:
    """Move types, tasks, schedules and what is remembered of users to another store.

    The old store stays as it is, and its run log stays there. Running again moves only what is missing.
    """
    _check(source, target)
    report = Migration()
    seconds = cli.config.call_timeout_ms / SECOND
    async with _opened(source, seconds) as old:
        await _refuse_while_at_work(old, force=force)
        if dry_run and _is_absent(target):
            await move(old, None, report, dry_run=True)
        else:
            async with _opened(target, seconds) as new:
                await _move(old, new, report, dry_run=dry_run)
    _tell(cli, source, target, report, dry_run=dry_run)


# --- before ---------------------------------------------------------------------------------------------------------


def _check(source: str, target: str) -> None:
    for option, url in (("--from", source), ("--to", target)):
        if scheme_of(url) == "memory":
            raise InvalidInput(f"{option} is {url!r}, which no other process can see. Name a store that lasts.")
    if _place(source) == _place(target):
        raise InvalidInput(f"--from and --to are the same store, {masked(source)}. Name another one.")
    if _is_absent(source):
        raise InvalidInput(f"--from names {masked(source)}, but there is no such file. Check the path.")


def _place(url: str) -> str:
    file = sqlite_file(url)
    return url if file is None else str(file.resolve())


def _is_absent(url: str) -> bool:
    file = sqlite_file(url)
    return file is not None and not file.exists()


async def _refuse_while_at_work(old: Store, *, force: bool) -> None:
    working = await alive(old)
    if not working or force:
        return
    names = ", ".join(f"{each.beat.host or each.beat.instance}:{each.beat.pid}" for each in working[:5])
    raise IllegalTransition(
        f"{len(working)} instances work on {masked(old.url)} ({names}). Stop them first: what they run now would run"
        " again on the new store. --force moves all the same. Nothing was changed."
    )


@asynccontextmanager
async def _opened(url: str, call_timeout: float) -> AsyncGenerator[Store]:
    store = open_store(url, call_timeout=call_timeout)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


# --- the move -------------------------------------------------------------------------------------------------------


async def _move(old: Store, new: Store, report: Migration, *, dry_run: bool) -> None:
    try:
        await move(old, new, report, dry_run=dry_run)
    except StoreUnavailable as error:
        done = report.tasks.total() + report.pasts.total()
        raise StoreUnavailable(
            f"{error} The move ended after {done} identities. Run the same command again: it passes over what is there."
        ) from error


# --- after ----------------------------------------------------------------------------------------------------------


def _tell(cli: Cli, source: str, target: str, report: Migration, *, dry_run: bool) -> None:
    numbers = report.to_dict()
    cli.output.one(
        {"from": masked(source), "to": masked(target), "dry_run": dry_run, **numbers},
        _sentence(source, target, report, numbers, dry_run=dry_run),
    )
    if report.refused:
        raise typer.Exit(ExitCode.REFUSED)


def _sentence(source: str, target: str, report: Migration, numbers: dict[str, object], *, dry_run: bool) -> str:
    lines = [f"{'Would move' if dry_run else 'Moved'} from {masked(source)} to {masked(target)}:"]
    for name in ("types", "tasks", "pasts"):
        counts = numbers[name]
        assert isinstance(counts, dict)
        shown = ", ".join(f"{number} {what}" for what, number in counts.items())  # pyright: ignore[reportUnknownVariableType] - made by Migration.to_dict
        lines.append(f"  {name.ljust(6)} {shown}")
    lines += [f"  refused: {identity}, whose type is unknown there" for identity in report.refused]
    if not dry_run:
        lines.append("The old store is as it was, with its run log. Start no worker on it again.")
    return "\n".join(lines)
