"""Which task an address means."""

from __future__ import annotations

from collections.abc import Iterable

from rota.core.task import Identity
from rota.keys import GLOBAL_KEY, shown_key
from rota.stores.base import Store

__all__ = ["identities_of", "identity_of"]


async def identity_of(store: Store, task_type: str, key: str) -> Identity:
    """The identity that people mean by a key. The global key is shown as "global", but a task may have that very key:
    then it is that one."""
    named = Identity(task_type, key)
    if key != shown_key(GLOBAL_KEY):
        return named
    theirs, whole = await store.get([named, Identity(task_type, GLOBAL_KEY)])
    return named if theirs is not None or whole is None else whole.identity


async def identities_of(store: Store, named: Iterable[tuple[str, str]]) -> list[Identity]:
    """The same for many, each a type and a key; each task once, however often it is named."""
    found = [await identity_of(store, task_type, key) for task_type, key in named]
    return list(dict.fromkeys(found))
