"""`rota database`: to which database the tasks of the store belong, and that it is this one from now on."""

from __future__ import annotations

from typing import Final

from rota.cli.bulk import YesOption, is_agreed
from rota.cli.invocation import Cli
from rota.cli.output import Column

__all__ = ["adopt", "show"]

_COLUMNS: Final = (Column("PART", "part"), Column("HERE", "here"), Column("DATABASE", "database"))


async def show(cli: Cli) -> None:
    """Show where the data of each part lies: in the database that is configured here, or in another one."""
    from rota.cli.parts import data_parts
    from rota.runtime.database_owner import owner_of

    async with cli.session() as session:
        identity = await (await session.app.database()).identity()
        owners = [(part, await owner_of(session.store, part)) for part in data_parts()]
    rows = [
        {"part": part, "here": owner.identity == identity, "database": owner.location}
        for part, owner in owners
        if owner is not None
    ]
    cli.output.page(rows, _COLUMNS, empty="No part has a database of its own yet: the first that serves it brings one.")


async def adopt(cli: Cli, yes: YesOption = False) -> None:
    """Say that the data of memory and agents lies in the database that is configured here, and in no other one.

    For when the other one is gone for good, or was the wrong one. Nothing in it is changed or moved; instances that
    have it leave the tasks alone within a check interval.
    """
    if not is_agreed("Let the tasks of memory and agents belong to the database of this folder from now on?", yes=yes):
        cli.output.one({"adopted": False}, "Nothing was changed.")
        return
    async with cli.session() as session:
        before = await session.operator.adopt_database()
    left = {part: owner.location for part, owner in before.items()}
    words = "; ".join(f"{part}: before in {location}" for part, location in left.items()) or "it was not in another one"
    cli.output.one({"adopted": True, "before": left}, f"The data is in this database now ({words}).")
