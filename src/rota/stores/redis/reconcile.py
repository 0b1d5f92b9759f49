"""Compares the indexes with the records, slowly, and repairs what differs: the record is the truth.

An index may be destroyed by hand, by an eviction, by a fail-over that lost the last writes. Whatever the cause, nothing
that a record still says is lost for longer than one pass. A pass walks once over all keys, page by page: a record says
where its task must be found, an index is asked whether each of its members belongs there. Each repair is written only
if the record is still as it was read: whoever changed it meanwhile has written its members, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from rota.clock import Millis
from rota.core.task import Entry, Identity
from rota.stores.redis.index import INDEXES, Command, IndexMember, index_members
from rota.stores.redis.queries import Queries
from rota.stores.redis.scripts import Scripts

__all__ = ["Reconciled", "Rest", "reconcile", "without_rest"]

Rest = Callable[[], Awaitable[None]]

PAGE = 200
_RANKED = frozenset(
    {"queue", "running", "paused", "dead", "failed", "done", "expires", "past", "keys", "parked", "owned", "schedules"}
)
_PLAIN = frozenset({"holders", "owner", "user"})
_BESIDE = frozenset({"payload", "history"})


class Reconciled(NamedTuple):
    """What one pass has read and put right."""

    read: int = 0
    entered: int = 0
    """Members that a record says and no index knew."""
    left: int = 0
    """Members, payloads and histories of which no record knows."""
    counts: int = 0
    """Counters that did not equal what is there."""

    @property
    def total(self) -> int:
        return self.entered + self.left + self.counts


class _Found(NamedTuple):
    """A key of the layout, taken apart."""

    kind: str
    task_type: str
    suffix: str
    key: str


class _Repair(NamedTuple):
    identity: Identity
    digest: str
    command: Command


async def without_rest() -> None:
    """On with the next page."""


async def reconcile(scripts: Scripts, queries: Queries, rest: Rest) -> Reconciled:
    """One pass over everything, with a rest after each page so that nobody notices it."""
    aging = await _types(scripts, queries)
    pass_ = _Pass(scripts, aging, rest)
    async for keys in scripts.server.scan(f"{scripts.keys.pattern}*", PAGE):
        await pass_.page(_parse(scripts.keys.prefix, keys))
        await rest()
    await scripts.server.command("HSET", scripts.keys.meta, "indexes", INDEXES)
    return Reconciled(pass_.read, pass_.entered, pass_.left, sum([await scripts.recount(name) for name in aging]))


async def _types(scripts: Scripts, queries: Queries) -> Mapping[str, Millis]:
    """The types and how their priorities age; one that the list of types has lost is put back."""
    there = {
        found.task_type
        async for keys in scripts.server.scan(f"{scripts.keys.pattern}type:*", 10 * PAGE)
        for found in _parse(scripts.keys.prefix, keys)
    }
    listed = set(await queries.names())
    known = await queries.types(sorted(listed | there))
    lost = sorted(known.keys() - listed)
    if lost:
        await scripts.server.command("SADD", scripts.keys.types, *lost)
    return {name: record.task_type.aging_ms for name, record in known.items()}


class _Pass:
    """One walk, and what it has done so far."""

    def __init__(self, scripts: Scripts, aging: Mapping[str, Millis], rest: Rest) -> None:
        self.read = self.entered = self.left = 0
        self._rest = rest
        self._scripts = scripts
        self._server = scripts.server
        self._keys = scripts.keys
        self._aging = aging

    async def page(self, keys: Iterable[_Found]) -> None:
        known = sorted(found for found in keys if found.task_type in self._aging)
        for (kind, name), group in groupby(known, key=lambda found: found[:2]):
            if kind == "task":
                await self._enter(name, [Identity(name, found.suffix) for found in group])
            elif kind in _BESIDE:
                await self._remove_beside(name, list(group))
            elif kind in _RANKED or kind in _PLAIN:
                for found in group:
                    await self._leave(name, found.key, ranked=kind in _RANKED)

    def _members(self, identity: Identity, entry: Entry) -> Mapping[tuple[str, str], IndexMember]:
        return index_members(self._keys, identity, entry, self._aging[identity.task_type])

    async def _enter(self, name: str, identities: Sequence[Identity]) -> None:
        """What the records say must be in the indexes."""
        self.read += len(identities)
        said = [
            (_Repair(identity, each.digest, member.enter()), member)
            for identity, each in zip(identities, await self._scripts.load(name, identities), strict=True)
            for member in self._members(identity, each.entry).values()
        ]
        there = await self._there([member for _, member in said])
        missing = [repair for repair, member in said if not _is_there(member, there[member.key, member.member])]
        self.entered += await self._repair(name, missing)

    async def _there(self, members: Sequence[IndexMember]) -> Mapping[tuple[str, str], float | None]:
        """What each index says of its members, by one question for each index: a page has few of them."""
        wanted: defaultdict[tuple[str, bool], dict[str, None]] = defaultdict(dict)
        for member in members:
            wanted[member.key, member.score is None][member.member] = None
        answers = await self._server.many(
            [["SMISMEMBER" if is_plain else "ZMSCORE", index, *asked] for (index, is_plain), asked in wanted.items()]
        )
        return {
            (index, member): answer
            for ((index, _), asked), found in zip(wanted.items(), answers, strict=True)
            for member, answer in zip(asked, found, strict=True)
        }

    async def _leave(self, name: str, index: str, *, ranked: bool) -> None:
        """What an index says and no record does."""
        async for members in self._server.members(index, PAGE, ranked=ranked):
            identities = [Identity(name, member) for member in members]
            strays = [
                _Repair(identity, each.digest, ["ZREM" if ranked else "SREM", index, identity.key])
                for identity, each in zip(identities, await self._scripts.load(name, identities), strict=True)
                if (index, identity.key) not in self._members(identity, each.entry)
            ]
            if index == self._keys.of("keys", name):
                strays = await self._not_awaited(strays)
            self.left += await self._repair(name, strays)
            # One index may have a member for each record.
            await self._rest()

    async def _not_awaited(self, repairs: list[_Repair]) -> list[_Repair]:
        """A key of which only an arrived completion speaks is still known."""
        needs = await self._server.many([("EXISTS", self._keys.of("need", *each.identity)) for each in repairs])
        return [repair for repair, need in zip(repairs, needs, strict=True) if not need]

    async def _remove_beside(self, name: str, keys: Sequence[_Found]) -> None:
        """What lies beside a record that is not there any more."""
        identities = [Identity(name, found.suffix) for found in keys]
        orphans = [
            _Repair(identity, each.digest, ["DEL", found.key])
            for identity, found, each in zip(identities, keys, await self._scripts.load(name, identities), strict=True)
            if each.entry.task is None
        ]
        self.left += await self._repair(name, orphans)

    async def _repair(self, name: str, repairs: Sequence[_Repair]) -> int:
        """How many were really wrong: what a page said may have been put right since it was read."""
        return await self._scripts.repair(name, repairs) if repairs else 0


def _parse(prefix: str, keys: Iterable[str]) -> Iterable[_Found]:
    layout = re.compile(re.escape(prefix) + r"(\w+):\{(\w+)\}(?::(.*))?", re.DOTALL)
    for key in keys:
        match = layout.fullmatch(key)
        if match is not None:
            yield _Found(match[1], match[2], match[3] or "", key)


def _is_there(member: IndexMember, answer: float | None) -> bool:
    return bool(answer) if member.score is None else answer is not None and int(answer) == member.score
