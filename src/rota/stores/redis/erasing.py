"""Erasing a user on Redis: one step per type, with a tombstone that says how far it has got.

The tombstone is kept beside the types. Whatever a step removes is gone before the tombstone says so, and a step that is
taken twice removes nothing twice: after a crash the next call goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol, TypeVar

import msgspec

from rota.clock import Instant
from rota.codec import warmed
from rota.core.task import NO_PAST, Entry, Identity, Task
from rota.stores import users
from rota.stores.base import Erasure
from rota.stores.queries import LOOKED_AT
from rota.stores.redis.queries import Queries, decode_rows
from rota.stores.redis.scripts import Scripts
from rota.stores.work import Work

__all__ = ["drop_erasures", "erase_user", "erasures"]

T = TypeVar("T")

CHUNK = 1_000
"""How many keys or rows are read in one go."""


class Steps(Protocol):
    """What erasing needs of the store: one unit of work on one type."""

    async def work_on(self, name: str, verb: Callable[[Work], T], now: Instant | None = None) -> T: ...


class _Tombstone(msgspec.Struct, frozen=True):
    """An erasure, and the last row that was looked at in each run log."""

    erasure: Erasure
    rows: Mapping[str, str] = {}


_decode_tombstone = warmed(msgspec.json.Decoder(_Tombstone), '{"erasure":{"user_id":"u","asked_at":0}}').decode


class _Rows(msgspec.Struct):
    """What one walk along the run logs did: how many rows it dropped, where it got to, and whether that was the end."""

    dropped: int
    reached: dict[str, str]
    is_over: bool


async def erasures(scripts: Scripts, *, with_done: bool) -> list[Erasure]:
    """Those that are not done yet, or all that are known."""
    found: dict[bytes, bytes] = await scripts.server.command("HGETALL", scripts.keys.erasures)
    known = [_decode_tombstone(found[name]).erasure for name in sorted(found)]
    return [erasure for erasure in known if with_done or erasure.done_at is None]


async def drop_erasures(scripts: Scripts, before: Instant) -> None:
    """Forget the tombstones of those that were done before an instant."""
    found: dict[bytes, bytes] = await scripts.server.command("HGETALL", scripts.keys.erasures)
    for name, text in found.items():
        done_at = _decode_tombstone(text).erasure.done_at
        if done_at is not None and done_at < before:
            await scripts.swap(scripts.keys.erasures, name.decode(), text.decode(), "")


async def erase_user(
    steps: Steps, scripts: Scripts, queries: Queries, user_id: str, limit: int, now: Instant
) -> Erasure:
    """One step of the erasure of a user."""
    tombstone = await _begin(scripts, user_id, now)
    until = tombstone.erasure.asked_at
    names = await queries.names()
    types = await queries.types(names)
    left, tasks, running = limit, 0, 0
    for name in names:
        old, still_running = await _old(scripts, queries, name, user_id, until)
        chosen = old[:left]
        running += len(still_running.difference(chosen))
        left -= len(chosen)
        if chosen:
            await _erase_completed_for(steps, users.followers_of(types, chosen), until, now)
            gone, stopping = await steps.work_on(name, lambda work, chosen=chosen: _erase(work, chosen, until), now)
            tasks, running = tasks + gone, running + stopping
    await _drop_completions(scripts, names, user_id, until)
    rows = _Rows(0, dict(tombstone.rows), is_over=False)
    if left:
        rows = await _drop_rows(scripts, names, tombstone, left)
    return await _move_on(scripts, user_id, rows, tasks=tasks, running=running, now=now)


async def _begin(scripts: Scripts, user_id: str, now: Instant) -> _Tombstone:
    while True:
        text, known = await _read(scripts, user_id)
        erasure = users.begun(None if known is None else known.erasure, user_id, now)
        if known is not None and erasure is known.erasure:
            return known
        begun = _Tombstone(erasure)
        if await _write(scripts, user_id, text, begun):
            return begun


async def _move_on(scripts: Scripts, user_id: str, rows: _Rows, *, tasks: int, running: int, now: Instant) -> Erasure:
    """Write down what was done. Two instances may be at it at once: each adds its own to what the other has written."""
    while True:
        text, known = await _read(scripts, user_id)
        base = users.begun(None, user_id, now) if known is None else known.erasure
        moved = users.moved_on(base, tasks=tasks, runs=rows.dropped, running=running, is_over=rows.is_over, now=now)
        if await _write(scripts, user_id, text, _Tombstone(moved, rows.reached if moved.done_at is None else {})):
            return moved


async def _read(scripts: Scripts, user_id: str) -> tuple[str, _Tombstone | None]:
    found: bytes | None = await scripts.server.command("HGET", scripts.keys.erasures, user_id)
    return ("", None) if found is None else (found.decode(), _decode_tombstone(found))


async def _write(scripts: Scripts, user_id: str, old: str, tombstone: _Tombstone) -> bool:
    return await scripts.swap(scripts.keys.erasures, user_id, old, msgspec.json.encode(tombstone).decode())


# --- tasks ----------------------------------------------------------------------------------------------------------


async def _old(
    scripts: Scripts, queries: Queries, name: str, user_id: str, until: Instant
) -> tuple[list[Identity], set[Identity]]:
    """What of a type can be erased now, and which tasks still run, told to stop or not yet."""
    identities = [Identity(name, key) for key in sorted(await queries.of_user(name, user_id))]
    old: list[Identity] = []
    running: set[Identity] = set()
    for start in range(0, len(identities), CHUNK):
        part = identities[start : start + CHUNK]
        for identity, loaded in zip(part, await scripts.load(name, part), strict=True):
            entry = loaded.entry
            if not users.belongs_to(user_id, identity, entry):
                continue
            if entry.task is not None and users.is_still_running(entry.task, user_id, until):
                running.add(identity)
            if users.is_erasable(entry, until) and await _is_something(scripts, identity, entry):
                old.append(identity)
    return old, running


async def _is_something(scripts: Scripts, identity: Identity, entry: Entry) -> bool:
    """Whether there is anything to erase: of a key that was only asked for nothing may be known."""
    if entry.task is not None or entry.past != NO_PAST:
        return True
    return bool(await scripts.server.command("EXISTS", scripts.keys.of("need", *identity)))


def _erase(work: Work, identities: Sequence[Identity], until: Instant) -> tuple[int, int]:
    """How many tasks are gone, and how many were told to stop."""
    gone = users.erase(work, identities, until)
    left = [work.entry(identity).task for identity in identities]
    return gone, sum(task is not None and not users.is_newer(task, until) for task in left)


async def _erase_completed_for(steps: Steps, followers: Sequence[Identity], until: Instant, now: Instant) -> None:
    """One step for each type that comes after; first of all, since what brought them would be gone after a crash."""
    for name, group in groupby(followers, key=lambda identity: identity.task_type):
        part = list(group)
        await steps.work_on(name, lambda work, part=part: users.erase_completed_for(work, part, until), now)


async def _drop_completions(scripts: Scripts, names: Sequence[str], user_id: str, until: Instant) -> None:
    """The completions of what is erased are not handed on any more."""
    streams = [scripts.keys.of("after", name) for name in names]
    logs = await scripts.server.many([("XRANGE", stream, "-", "+", "COUNT", LOOKED_AT) for stream in streams])
    for name, stream, rows in zip(names, streams, logs, strict=True):
        mine = [
            (row_id, Identity(name, fields[b"key"].decode()))
            for row_id, fields in rows
            if fields.get(b"user_id") == user_id.encode()
        ]
        tasks = await _tasks(scripts, name, [identity for _, identity in mine])
        old = [row_id for row_id, identity in mine if not users.is_newer(tasks[identity], until)]
        if old:
            await scripts.server.command("XDEL", stream, *old)


async def _tasks(scripts: Scripts, name: str, identities: Sequence[Identity]) -> dict[Identity, Task | None]:
    if not identities:
        return {}
    loaded = await scripts.load(name, identities)
    return {identity: each.entry.task for identity, each in zip(identities, loaded, strict=True)}


# --- the run log ----------------------------------------------------------------------------------------------------


async def _drop_rows(scripts: Scripts, names: Sequence[str], tombstone: _Tombstone, limit: int) -> _Rows:
    """Walk on along each log, from the oldest row that was not looked at yet, until so many were dropped."""
    done = _Rows(0, dict(tombstone.rows), is_over=False)
    looked_at = 0
    for name in names:
        while True:
            if looked_at >= LOOKED_AT or done.dropped >= limit:
                return done
            read = await _drop_part(scripts, name, tombstone.erasure, done)
            looked_at += read
            if read < CHUNK:
                break
    done.is_over = True
    return done


async def _drop_part(scripts: Scripts, name: str, erasure: Erasure, done: _Rows) -> int:
    """Drop what is the user's of the next rows of one log; how many rows were read."""
    stream = scripts.keys.of("runs", name)
    start = f"({done.reached[name]}" if name in done.reached else "-"
    rows: list[Any] = await scripts.server.command("XRANGE", stream, start, "+", "COUNT", CHUNK)
    mine = [(key, run) for key, run in decode_rows(name, rows) if run.user_id == erasure.user_id]
    tasks = await _tasks(scripts, name, [Identity(name, run.key) for _, run in mine])
    gone = [
        (f"{millis}-{number}", run)
        for (millis, number, _), run in mine
        if users.is_old_run(run, erasure.asked_at, tasks[Identity(name, run.key)])
    ]
    old = [row_id for row_id, _ in gone]
    if old:
        # First of all: the rows are what leads to them.
        await scripts.drop_details(name, [(run.key, [str(run.token)]) for _, run in gone])
        done.dropped += int(await scripts.server.command("XDEL", stream, *old))
    if rows:
        done.reached[name] = rows[-1][0].decode()
    return len(rows)
