"""What instances tell each other of types beside their settings: kept with the store, as a note for each type."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec.structs import replace

from rota.core.declaration import Declaration, decode_declaration, encode_declaration
from rota.stores.base import Store

__all__ = ["declaration_of", "tell"]


async def declaration_of(store: Store, task_type: str) -> Declaration:
    """What was told of a type; empty if nothing was."""
    return decode_declaration(await store.noted(_note(task_type)))


async def tell(store: Store, declarations: Mapping[str, Declaration]) -> None:
    """Tell of these types what the store does not know yet."""
    await asyncio.gather(*(_tell(store, name, told) for name, told in declarations.items()))


async def _tell(store: Store, task_type: str, told: Declaration) -> None:
    before = await store.noted(_note(task_type))
    known = decode_declaration(before)
    if told.takes is None and known.takes is not None:
        # A process without the handler, like a service, leaves what those say who have it.
        told = replace(known, sources=known.sources or told.sources)
    if replace(told, by=known.by) == known and before is not None:
        return  # another host that says the same is no news
    await store.note(_note(task_type), encode_declaration(told), replace=True)


def _note(task_type: str) -> str:
    return f"type:{task_type}"
