"""What keeps the store tidy: sweeping, pruning and pumping, over all types.

Each duty first looks where something is to be done, over all types at once, and then does it in one step per type. What
it found may have changed by then: every step looks again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from rota.clock import Instant, Millis
from rota.core import failure
from rota.core.failure import decode_failure_group
from rota.core.history import KEPT_MS
from rota.core.task import Identity, Task
from rota.stores import verbs
from rota.stores.base import Beat, Purged, Tick
from rota.stores.redis.erasing import drop_erasures
from rota.stores.redis.queries import Queries, decode_rows
from rota.stores.redis.scripts import Scripts, Swept
from rota.stores.redis.transaction import stream_order
from rota.stores.transaction import Completion
from rota.stores.work import Work

__all__ = ["prune", "pump", "tick"]

T = TypeVar("T")


class Steps(Protocol):
    """What a duty needs of the store: one unit of work on one type."""

    def work_on_blocking(self, name: str, verb: Callable[[Work], T], now: Instant | None = None) -> T: ...

    async def work_on(self, name: str, verb: Callable[[Work], T], now: Instant | None = None) -> T: ...


# --- tick -----------------------------------------------------------------------------------------------------------


def tick(steps: Steps, scripts: Scripts, beat: Beat, now: Instant | None) -> Tick:
    ticked = scripts.tick(beat, now)
    extended = sum(swept.extended for swept in ticked.swept)
    reaped = [pair for swept in ticked.swept for pair in swept.reaped]
    if any(swept.expired for swept in ticked.swept):
        reaped += [pair for swept in ticked.swept for pair in _reap_slowly(steps, swept, now)]
        # Who is idle, and what is due, has changed: look once more.
        ticked = scripts.tick(beat, now)
        reaped += [pair for swept in ticked.swept for pair in swept.reaped]
    if _let_in(steps, ticked.swept, now):
        ticked = scripts.tick(beat, now)
    reaped.sort(key=lambda pair: (pair[0], pair[1].identity))
    return Tick([task for _, task in reaped], extended, ticked.next_due_at, ticked.now)


def _reap_slowly(steps: Steps, swept: Swept, now: Instant | None) -> list[tuple[Instant, Task]]:
    """The leases of one type that ran out and are not for the script, in one step."""
    if not swept.expired:
        return []
    deadlines = {Identity(swept.task_type, key): at for key, at in swept.expired}
    tasks = steps.work_on_blocking(swept.task_type, lambda work: verbs.reap(work, list(deadlines)), now)
    return [(deadlines[task.identity], task) for task in tasks]


def _let_in(steps: Steps, all_swept: Sequence[Swept], now: Instant | None) -> bool:
    """Whoever is parked under a serial that nobody holds; whether there was anybody."""
    idle = [swept for swept in all_swept if swept.idle]
    for swept in idle:
        pairs = [(swept.task_type, serial) for serial in swept.idle]
        steps.work_on_blocking(swept.task_type, lambda work, pairs=pairs: work.unpark(pairs), now)
    return bool(idle)


# --- prune ----------------------------------------------------------------------------------------------------------


async def prune(
    steps: Steps, scripts: Scripts, names: Sequence[str], run_ttl_ms: Millis, limit: int, now: Instant
) -> Purged:
    expired = await _first(scripts, names, ["expires"], now, limit)
    over = await _first(scripts, names, ["dead", "done"], now, limit)
    ended = purged = forgotten = 0
    for name, found in expired.items():
        ended += await steps.work_on(name, lambda work, found=found: verbs.end_expired(work, found), now)
    for name, found in over.items():
        purged += await steps.work_on(name, lambda work, found=found: verbs.purge_old(work, found), now)
    for name, found in (await _first(scripts, names, ["past"], now, limit)).items():
        forgotten += await scripts.forget(name, [identity.key for identity in found], now)
    await _drop_instances(scripts, now - verbs.INSTANCE_TTL)
    await drop_erasures(scripts, now - verbs.TOMBSTONE_TTL)
    await scripts.server.many(
        [
            ("ZREMRANGEBYSCORE", scripts.keys.of("slices", name, resolution.value), "-inf", f"({now - kept_ms}")
            for name in names
            for resolution, kept_ms in KEPT_MS.items()
        ]
    )
    await _drop_details(scripts, names, now - run_ttl_ms, limit)
    await _drop_failure_groups(scripts, names, now - failure.KEPT_MS)
    return Purged(ended, purged, forgotten, await _drop_runs(scripts, names, now - run_ttl_ms, limit))


async def _drop_details(scripts: Scripts, names: Sequence[str], before: Instant, limit: int) -> None:
    for name, found in (await _first(scripts, names, ["detailed"], before - 1, limit)).items():
        await scripts.drop_details(name, [(identity.key, None) for identity in found], before)


async def _drop_failure_groups(scripts: Scripts, names: Sequence[str], before: Instant) -> None:
    """Unless something was seen of a group meanwhile."""
    indexes = [scripts.keys.of("failures", name) for name in names]
    for index, groups in zip(indexes, await scripts.server.many([("HGETALL", key) for key in indexes]), strict=True):
        for failure_id, text in groups.items():
            if decode_failure_group(text).last_at < before:
                await scripts.swap(index, failure_id.decode(), text.decode(), "")


async def _drop_instances(scripts: Scripts, before: Instant) -> None:
    silent = [name for name, instance in (await scripts.instances()).items() if instance.seen_at < before]
    if silent:
        await scripts.server.command("HDEL", scripts.keys.instances, *silent)


async def _first(
    scripts: Scripts, names: Sequence[str], kinds: Sequence[str], until: Instant, limit: int
) -> dict[str, list[Identity]]:
    """Those with the lowest scores of some indexes over all types, by type."""
    asked = [(name, kind) for name in names for kind in kinds]
    found = await scripts.server.many(
        [
            ("ZRANGEBYSCORE", scripts.keys.of(kind, name), "-inf", until, "WITHSCORES", "LIMIT", 0, limit)
            for name, kind in asked
        ]
    )
    ranked = sorted(
        (float(score), name, key.decode())
        for (name, _), flat in zip(asked, found, strict=True)
        for key, score in zip(flat[::2], flat[1::2], strict=True)
    )
    by_type: defaultdict[str, list[Identity]] = defaultdict(list)
    for _, name, key in ranked[:limit]:
        by_type[name].append(Identity(name, key))
    return by_type


async def _drop_runs(scripts: Scripts, names: Sequence[str], before: Instant, limit: int) -> int:
    """Remove those of the oldest rows over all types that started before an instant."""
    keys, server = scripts.keys, scripts.server
    logs = await server.many([("XRANGE", keys.of("runs", name), "-", "+", "COUNT", limit) for name in names])
    oldest = sorted(
        (row for name, rows in zip(names, logs, strict=True) for row in decode_rows(name, rows)),
        key=lambda row: row[0],
    )
    dropped = [(key, run) for key, run in oldest[:limit] if run.started_at < before]
    await server.many(
        [
            ("XDEL", stream, f"{millis}-{number}")
            for (millis, number, name), run in dropped
            for stream in (keys.of("runs", name), keys.of("history", name, run.key))
        ]
    )
    return len(dropped)


# --- pump -----------------------------------------------------------------------------------------------------------


async def pump(steps: Steps, scripts: Scripts, queries: Queries, limit: int, now: Instant | None) -> int:
    """Hand each completion to its followers, one step for each type, and only then take it out of the log.

    After a crash in between it is handed on once more; by its place in the log a follower knows what it has seen.
    """
    types = await queries.types(await queries.names())
    followers = {name: record.task_type.after for name, record in types.items() if record.task_type.after}
    followed = sorted({name for after in followers.values() for name in after})
    completions = await _oldest_completions(scripts, followed, limit)
    for follower, after in followers.items():
        mine = [completion for completion in completions if completion.task_type in after]
        if mine:
            hand_on = partial(verbs.hand_on, completions=mine, followers=[follower])
            await steps.work_on(follower, hand_on, now)
    await scripts.server.many(
        [("XDEL", scripts.keys.of("after", each.task_type), each.log_id or "") for each in completions]
    )
    return len(completions)


async def _oldest_completions(scripts: Scripts, names: Sequence[str], limit: int) -> list[Completion]:
    """The oldest completions over all types that are followed."""
    logs = await scripts.server.many(
        [("XRANGE", scripts.keys.of("after", name), "-", "+", "COUNT", limit) for name in names]
    )
    found = [_completion(*row) for rows in logs for row in rows]
    return sorted(found, key=lambda each: stream_order(each.log_id or ""))[:limit]


def _completion(stream_id: bytes, fields: dict[bytes, bytes]) -> Completion:
    given = {name.decode(): value.decode() for name, value in fields.items()}
    said = [given.get(name) for name in ("user_id", "device_id", "agent_id", "trace")]
    return Completion(given["task_type"], given["key"], *said, log_id=stream_id.decode())
