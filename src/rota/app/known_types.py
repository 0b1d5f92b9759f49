"""Which task types there are: those of this process, told to the store, and those that others have told it of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from rota.app.declarations import tell
from rota.app.registry import Registry
from rota.core.task_type import TaskType, did_you_mean
from rota.errors import InvalidConfig
from rota.logs import get_logger
from rota.runtime import declare
from rota.stores.base import Store, TypeRecord

__all__ = ["KnownTypes"]

log = get_logger("rota.scheduler")


class KnownTypes:
    """The types of one process and of its store. `ready` gives the store, connected first if need be."""

    def __init__(self, registry: Registry, ready: Callable[[], Awaitable[Store]]) -> None:
        self._registry = registry
        self._ready = ready
        self.declares = True
        """Whether the store is told of this process's types. Who serves none of them leaves that to those who do."""
        self._elsewhere: dict[str, TaskType] = {}
        self.off: set[str] = set()
        """The types that take nothing on, as the store last said."""

    @property
    def has_news(self) -> bool:
        """Whether there are types that the store is to be told of."""
        return self.declares and bool(self._registry.undeclared)

    async def find(self, name: str) -> TaskType | None:
        """A type of this process, else one that another process has registered with the store."""
        known = self._registry.types.get(name) or self._elsewhere.get(name)
        if known is None:
            records = await (await self._ready()).list_types()
            self._learn(records)
            self._elsewhere = {record.task_type.name: record.task_type for record in records}
            known = self._elsewhere.get(name)
        return known

    def takes(self, name: str) -> bool:
        """Whether a type takes activity on, as far as that is known without the store."""
        known = self._registry.types.get(name) or self._elsewhere.get(name)
        return (known is None or known.enabled) and name not in self.off

    def heard(self, name: str, *, is_off: bool) -> None:
        """The store has just said whether a type takes activity on."""
        if is_off:
            self.off.add(name)
        else:
            self.off.discard(name)

    async def declare_all(self, store: Store) -> None:
        """Tell a store that was just opened of every type of this process."""
        if self.declares:
            self._registry.undeclared.update(self._registry.types)
            await self.declare(store)

    async def declare(self, store: Store) -> None:
        """Tell the store of the types that it has not been told of yet."""
        self._registry.check()
        await self._check_followed(store)
        names, self._registry.undeclared = self._registry.undeclared, set()
        try:
            self._learn(await declare(store, [self._registry.types[name] for name in sorted(names)]))
            await tell(store, {name: self._registry.declaration(name) for name in sorted(names)})
        except BaseException:
            self._registry.undeclared |= names
            raise

    async def declare_again(self, names: Collection[str]) -> bool:
        """Tell the store once more of this process's types: one that was emptied does not know them any longer.

        False if none of the names is of this process, or if the store knows them all.
        """
        types = self._registry.types
        if not any(name in types for name in names):
            return False
        store = await self._ready()
        known = {record.task_type.name for record in await store.list_types()}
        wanted = types if self.declares else {name: types[name] for name in names if name in types}
        forgotten = [task_type for name, task_type in sorted(wanted.items()) if name not in known]
        if forgotten:
            await declare(store, forgotten)
            await tell(store, {each.name: self._registry.declaration(each.name) for each in forgotten})
            log.warning(
                "types declared",
                reason="the store did not know them",
                types=[task_type.name for task_type in forgotten],
            )
        return bool(forgotten)

    async def _check_followed(self, store: Store) -> None:
        """Refuse a type that comes after one that nobody knows, neither here nor in the store: it would never run."""
        missing = self._registry.followed_elsewhere()
        if not missing:
            return
        known = {record.task_type.name for record in await store.list_types()} | self._registry.types.keys()
        for name, follower in sorted(missing.items()):
            if name not in known:
                raise InvalidConfig(
                    f"The type {follower!r} comes after {name!r}, which nobody has declared, neither this process nor"
                    f" another one with this store. {did_you_mean(name, known - {follower})} If another app declares"
                    " it, start that one first."
                )

    def _learn(self, records: Collection[TypeRecord]) -> None:
        """What the store says of types, for when it is away."""
        self.off -= {record.task_type.name for record in records}
        self.off |= {record.task_type.name for record in records if not record.accepts}
