"""Compressing memory: what says the same becomes one context, and its sources stay known.

A run takes an owner's fresh contexts in the order in which they were captured, a chunk at a time. Those captured within
the last five minutes are left for the next run: a conversation that is still going on is not cut in two. What joins
what is `grouping`'s rule, and nobody's words join another's: what the assistant said is not what the user said. Each
group is one transaction; those that stand for themselves are one more. So a run may be broken off anywhere, and what it
leaves behind is what a shorter run would have left.

Two runs at once cannot merge a context twice: a group is written only if all of it is as it was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from rota.clock import MINUTE, SECOND, Clock, Instant, Millis
from rota.codec import to_json
from rota.errors import StoreUnavailable
from rota.lazy import lazy_module
from rota.logs import get_logger
from rota.memory.context import MAX_DETAILS_BYTES, Context, Owner, Scope, State
from rota.memory.contexts import Contexts, Lost, Vector
from rota.memory.embedding import Embedder
from rota.memory.grouping import REACH, THRESHOLD, assign, groups
from rota.memory.merging import Merger, merged_details
from rota.memory.vectors import from_bytes, to_bytes

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy_module("numpy")

__all__ = ["BATCH_SIZE", "SETTLING_MS", "Budget", "Compressed", "Compression", "embedded", "who_joins_whom"]

BATCH_SIZE: Final = 100
SETTLING_MS: Final[Millis] = 5 * MINUTE
"""A context is left alone for so long after it was captured."""
QUICK_CHARACTERS: Final = 10_000
"""Texts up to here are embedded on the event loop, if the embedder is an instant one: a few milliseconds at most."""
MAX_LOSSES: Final = 20
"""How often in a row a run begins a chunk again because another run was in it, before it gives up."""

log = get_logger("rota.memory")

Report = Callable[["Compressed"], None]


class Compressed(msgspec.Struct):
    """What a run has done so far."""

    looked_at: int = 0
    kept: int = 0
    merged: int = 0
    """Contexts that live on in another one."""
    groups: int = 0
    substituted: int = 0
    """Of them, those that the rule merged because the model could not."""
    is_finished: bool = True
    """False if time ran out with settled contexts left."""
    has_unsettled: bool = False
    """Whether younger contexts are there, for which somebody must come again."""

    def to_dict(self) -> dict[str, object]:
        return msgspec.to_builtins(self)


class Budget:
    """The time that a run may take. It ends when the next chunk would probably not fit any more."""

    def __init__(self, clock: Clock, total_ms: Millis | None = None) -> None:
        self._clock = clock
        self._started = self._last = clock.monotonic()
        self._total = None if total_ms is None else total_ms / SECOND
        self._longest = 0.0

    def is_spent(self) -> bool:
        """Asked before each chunk."""
        now = self._clock.monotonic()
        self._longest, self._last = max(self._longest, now - self._last), now
        if self._total is None:
            return False
        return now - self._started + 2 * self._longest >= 0.9 * self._total


class Compression:
    """Compresses the memories of one database."""

    def __init__(
        self,
        contexts: Contexts,
        embedder: Embedder,
        merger: Merger,
        *,
        threshold: float = THRESHOLD,
        batch_size: int = BATCH_SIZE,
        settling_ms: Millis = SETTLING_MS,
        reach: int = REACH,
    ) -> None:
        self._contexts = contexts
        self._embedder = embedder
        self._merger = merger
        self._threshold = threshold
        self._batch_size = batch_size
        self._settling_ms = settling_ms
        self._reach = reach

    async def compress(self, scope: Scope, budget: Budget, report: Report | None = None) -> Compressed:
        """Everything in a scope that has settled, owner by owner, until it is done or the budget is spent."""
        done = Compressed()
        now, owners = await self._contexts.owners_with_fresh(scope)
        settled_at = now - self._settling_ms
        for owner in owners:
            await self._compress_owner(owner, settled_at, budget, done, report)
            if not done.is_finished:
                return done
            has_more = await self._contexts.set_watermark(owner, settled_at)
            done.has_unsettled = done.has_unsettled or has_more
        return done

    async def _compress_owner(
        self, owner: Owner, settled_at: Instant, budget: Budget, done: Compressed, report: Report | None
    ) -> None:
        leaders: list[Vector] | None = None
        losses = 0
        while chunk := await self._contexts.fresh(owner, settled_at, limit=self._batch_size):
            if budget.is_spent():
                done.is_finished = False
                return
            try:
                leaders, losses = await self._compress_chunk(owner, chunk, leaders, budget, done), 0
            except Lost:
                leaders, losses = None, losses + 1
                log.warning("memory_lost", user_id=owner.user_id, losses=losses)
                if losses == MAX_LOSSES:
                    raise StoreUnavailable(
                        f"Another run keeps compressing the memory of {owner.user_id!r}. Run it again later."
                    ) from None
            else:
                if len(chunk) < self._batch_size or not done.is_finished:
                    # The last one: whatever is committed late meanwhile, the next run finds.
                    return
            finally:
                if report is not None:
                    report(done)

    async def _compress_chunk(
        self, owner: Owner, chunk: list[Context], leaders: list[Vector] | None, budget: Budget, done: Compressed
    ) -> list[Vector] | None:
        """Decide about each context of a chunk. Answers the leaders after it, or None if they must be read anew.

        A merger that asks a model takes its time, so time may run out between two groups. The rest of the chunk stays
        fresh then, and the next run decides about it as this one would have.
        """
        chunk = await self._with_vectors(owner, chunk)
        is_latest = True
        if leaders is None:
            last_at = chunk[-1].captured_at
            # Contexts that came late may lie between leaders that are there already.
            leaders, has_later = await self._contexts.leaders(owner, self._embedder.name, last_at, limit=self._reach)
            is_latest = not has_later
        mergeable = [context for context in chunk if context.enable_merge]
        joins = who_joins_whom(leaders, mergeable, threshold=self._threshold, reach=self._reach)
        apart: list[int] = []
        results: dict[int, int] = {}
        for number, (leader_id, member_ids) in enumerate(joins.items()):
            if number > 0 and budget.is_spent():
                done.is_finished = False
                return None
            result_id = await self._merge(owner, leader_id, member_ids, done)
            if result_id is None:
                apart += member_ids
                continue
            results[leader_id] = result_id
            done.looked_at += sum(one.id in (leader_id, *member_ids) for one in chunk)
            done.groups += 1
            done.merged += len(member_ids) + (leader_id != result_id)
        merged = {member for leader_id in results for member in joins[leader_id]} | results.keys()
        stay = [context.id for context in chunk if context.id not in merged and context.id not in apart]
        if stay or apart:
            done.kept += await self._contexts.keep(owner, stay, apart=apart)
        done.looked_at += len(stay) + len(apart)
        return self._leaders_after(leaders, mergeable, joins, results) if is_latest else None

    async def _with_vectors(self, owner: Owner, chunk: list[Context]) -> list[Context]:
        """The chunk with a vector of this embedder for each context."""
        name = self._embedder.name
        missing = [context for context in chunk if context.embedder != name]
        if not missing:
            return chunk
        vectors = to_bytes(await embedded(self._embedder, [context.text for context in missing]))
        made = {context.id: vector for context, vector in zip(missing, vectors, strict=True)}
        await self._contexts.set_embeddings(owner.user_id, name, list(made.items()))
        return [
            msgspec.structs.replace(context, embedder=name, embedding=made[context.id])
            if context.id in made
            else context
            for context in chunk
        ]

    async def _merge(self, owner: Owner, leader_id: int, member_ids: Sequence[int], done: Compressed) -> int | None:
        """One group, in one transaction; the id of its result, or None if its members are better kept apart."""
        found = {one.id: one for one in await self._contexts.get_many(owner.user_id, [leader_id, *member_ids])}
        if len(found) != 1 + len(member_ids):
            raise Lost("A context was deleted meanwhile. Look again; nothing was written.")
        leader, members = found[leader_id], [found[member_id] for member_id in member_ids]
        if any(member.state is not State.FRESH for member in members) or leader.state is State.MERGED:
            raise Lost("Another run has compressed these contexts meanwhile. Look again; nothing was written.")
        details = merged_details([leader, *members])
        if len(to_json(details)) > MAX_DETAILS_BYTES:
            # As with the text: leaving some out would forget where something came from.
            return None
        merged = await self._merger.merge([leader, *members])
        if merged is None:
            return None
        (vector,) = to_bytes(await embedded(self._embedder, [merged.text]))
        result_id = await self._contexts.merge(
            leader, members, merged, details, embedder=self._embedder.name, embedding=vector
        )
        done.substituted += merged.is_substitute
        return result_id

    def _leaders_after(
        self,
        leaders: Sequence[Vector],
        chunk: Sequence[Context],
        joins: dict[int, list[int]],
        results: dict[int, int],
    ) -> list[Vector]:
        """The leaders, with those that the chunk has brought; a result stands where its leader stood."""
        members = {member for group in joins.values() for member in group}
        new = [Vector.of(one) for one in chunk if one.id not in members]
        after = sorted([*leaders, *new], key=lambda vector: vector.place)[-self._reach :]
        return [msgspec.structs.replace(vector, id=results.get(vector.id, vector.id)) for vector in after]


def who_joins_whom(
    leaders: Sequence[Vector],
    chunk: Sequence[Context],
    *,
    threshold: float = THRESHOLD,
    reach: int = REACH,
) -> dict[int, list[int]]:
    """The ids of members by the id of their leader, which may be of this chunk itself. Both may come in any order."""
    fresh = [Vector.of(context) for context in chunk]
    if not fresh:
        return {}
    in_order = sorted([*leaders, *fresh], key=lambda vector: vector.place)
    is_fresh = {vector.id for vector in fresh}
    vectors = from_bytes([vector.embedding for vector in in_order])
    leads = np.array([vector.id not in is_fresh for vector in in_order], dtype=np.bool_)
    numbers = {role: number for number, role in enumerate({vector.role for vector in in_order})}
    voices = np.array([numbers[vector.role] for vector in in_order], dtype=np.int64)
    joins = assign(vectors, leads, voices=voices, threshold=threshold, reach=reach)
    return {in_order[leader].id: [in_order[row].id for row in rows] for leader, rows in groups(joins)}


async def embedded(embedder: Embedder, texts: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.int8]]:
    """The vectors of texts; in a thread, unless it takes no time."""
    if embedder.is_instant and sum(map(len, texts)) <= QUICK_CHARACTERS:
        return embedder.embed(texts)
    return await asyncio.to_thread(embedder.embed, texts)
