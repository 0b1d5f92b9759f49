"""Compression: nothing skipped, nothing twice, nobody else's."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update
from tests.memory.stage import EMBEDDER, Ticking, capture, compress, everything, groups_of, problems_of

from rota.clock import MINUTE, SystemClock
from rota.database import Database
from rota.database.tables.memory import contexts as table
from rota.errors import StoreUnavailable
from rota.memory import Context, Contexts, Merged, Owner, RuleMerger, Scope, State
from rota.memory.compression import Budget, Compressed, Compression
from rota.testing import FakeClock

U1 = Owner("u1")
SAME = ["I love hiking in the mountains.", "I really love hiking in the mountains!", "i love hiking in the mountains"]
OTHER = ["My sister lives in Oslo.", "The invoice number is 2024-118."]


def paraphrases(seed: int, count: int) -> list[str]:
    """Notes about a few things, in varying words: some say the same, some do not."""
    chance = random.Random(seed)
    things = ["train to Berlin leaves at", "sister lives in Oslo since", "rent is due on day", "dog Bruno eats cups:"]
    return [
        f"{chance.choice(['My', 'The', 'Well, my', 'So the'])} {chance.choice(things)} {chance.randrange(4)}."
        for _ in range(count)
    ]


async def test_what_says_the_same_becomes_one(database: Database, contexts: Contexts, clock: FakeClock) -> None:
    ids = await capture(contexts, U1, [*SAME, *OTHER])
    clock.advance("10m")
    done = await compress(database, "u1")

    assert (done.looked_at, done.kept, done.merged, done.groups) == (5, 2, 3, 1)
    assert await groups_of(contexts, "u1") == {frozenset(SAME), *(frozenset({text}) for text in OTHER)}
    (result,) = (await contexts.page(Scope("u1"), only_results=True)).contexts
    assert (result.owner, result.merge_count, result.leader_id) == (U1, 3, ids[0])
    assert result.updated_at == clock.now()
    assert [source.id for source in await contexts.sources("u1", result.id)] == ids[:3]
    assert await problems_of(contexts, U1, ids) == []


async def test_running_again_changes_nothing(database: Database, contexts: Contexts) -> None:
    await capture(contexts, U1, [*SAME, *OTHER])
    await compress(database, "u1")
    before = await everything(contexts, "u1")
    again = await compress(database, "u1")
    assert again.looked_at == 0
    assert await everything(contexts, "u1") == before


async def test_what_comes_later_joins_the_result(database: Database, contexts: Contexts, clock: FakeClock) -> None:
    ids = await capture(contexts, U1, SAME[:2])
    await compress(database, "u1")
    clock.advance("1h")
    ids += await capture(contexts, U1, SAME[2:])
    await compress(database, "u1")
    (result,) = [one for one in await everything(contexts, "u1") if one.state is State.KEPT]
    assert (result.merge_count, result.has_compression) == (3, True)
    assert await problems_of(contexts, U1, ids) == []


async def test_what_has_not_settled_waits(sqlite: Database, clock: FakeClock) -> None:
    contexts = Contexts(sqlite)
    await capture(contexts, U1, SAME[:1])
    clock.advance("4m")
    await capture(contexts, U1, SAME[1:2])
    clock.advance("1m")
    done = await compress(sqlite, "u1", settling_ms=5 * MINUTE)
    assert (done.looked_at, done.has_unsettled) == (1, True)
    (mark,) = await contexts.watermarks("u1")
    assert (mark.compressed_to, mark.runs) == (clock.now() - 5 * MINUTE, 1)
    clock.advance("4m")
    done = await compress(sqlite, "u1", settling_ms=5 * MINUTE)
    assert (done.looked_at, done.has_unsettled, done.groups) == (1, False, 1)


async def test_a_commit_that_comes_late_is_not_passed_over(sqlite: Database, clock: FakeClock) -> None:
    """Its row is older than the watermark when it appears."""
    contexts = Contexts(sqlite)
    await capture(contexts, U1, SAME[:1])
    clock.advance("1h")
    await capture(contexts, U1, OTHER)
    clock.advance("10m")
    await compress(sqlite, "u1")
    (late,) = await capture(contexts, U1, SAME[1:2])
    early = update(table).where(table.c.id == late).values(captured_at=clock.now() - 30 * MINUTE)
    await sqlite.write(lambda connection: connection.execute(early))

    done = await compress(sqlite, "u1")
    assert (done.looked_at, done.groups) == (1, 1)
    assert frozenset(SAME[:2]) in await groups_of(contexts, "u1")


@pytest.mark.parametrize("seed", range(3))
async def test_chunks_of_any_size_give_the_same_groups(sqlite: Database, clock: FakeClock, seed: int) -> None:
    contexts = Contexts(sqlite)
    texts = paraphrases(seed, 60)
    found: list[set[frozenset[str]]] = []
    for size in (1, 7, 100):
        owner = Owner(f"u{size}")
        for text in texts:
            await capture(contexts, owner, [text])
            clock.advance(1)
        await compress(sqlite, owner.user_id, batch_size=size)
        found.append(await groups_of(contexts, owner.user_id))
    assert found[0] == found[1] == found[2]
    assert 1 < len(found[0]) < len(set(texts))


async def test_two_runs_at_once_merge_nothing_twice(database: Database, contexts: Contexts) -> None:
    """The lease prevents it; if it did not, nothing would be lost."""
    ids = [one for seed in range(3) for one in await capture(contexts, U1, paraphrases(seed, 20))]
    runs = (compress(database, "u1", batch_size=7, merger=SlowMerger()) for _ in range(3))
    ended = await asyncio.gather(*runs, return_exceptions=True)
    # One that the others were before too often in a row leaves it to them: the last one has nobody before it.
    assert {type(one) for one in ended} in ({Compressed}, {Compressed, StoreUnavailable}), ended
    assert await problems_of(contexts, U1, ids) == []
    assert all(one.state is not State.FRESH for one in await everything(contexts, "u1"))


class SlowMerger(RuleMerger):
    """Gives the others time to be faster."""

    async def merge(self, sources: Sequence[Context]) -> Merged | None:
        await asyncio.sleep(0)
        return await super().merge(sources)


async def test_what_may_not_be_merged_stands_for_itself(sqlite: Database) -> None:
    contexts = Contexts(sqlite)
    await capture(contexts, U1, SAME[:1])
    await capture(contexts, U1, SAME[1:2], enable_merge=False)
    await capture(contexts, U1, SAME[2:])
    await compress(sqlite, "u1")
    assert await groups_of(contexts, "u1") == {frozenset({SAME[0], SAME[2]}), frozenset({SAME[1]})}


async def test_what_a_merger_keeps_apart_stays_apart(sqlite: Database) -> None:
    class Never:
        async def merge(self, sources: Sequence[Context]) -> Merged | None:
            return None

    contexts = Contexts(sqlite)
    await capture(contexts, U1, SAME)
    done = await compress(sqlite, "u1", merger=Never())
    assert (done.kept, done.merged) == (3, 0)
    assert (await compress(sqlite, "u1")).looked_at == 0


async def test_devices_and_agents_do_not_mix(sqlite: Database) -> None:
    contexts = Contexts(sqlite)
    owners = [Owner("u1", "phone"), Owner("u1", "laptop"), Owner("u1", "phone", "coach")]
    for owner in owners:
        await capture(contexts, owner, SAME[:2])
    done = await compress(sqlite, "u1")
    assert (done.groups, done.merged) == (3, 6)
    results = [one.owner for one in await everything(contexts, "u1") if one.has_compression]
    assert sorted(results) == sorted(owners)


async def test_a_run_stops_before_its_time_is_up(sqlite: Database) -> None:
    """Between chunks; what it has done stays done, and the next run goes on."""
    contexts = Contexts(sqlite)
    await capture(contexts, U1, paraphrases(1, 30))
    compression = Compression(contexts, EMBEDDER, RuleMerger(), batch_size=5, settling_ms=0)
    done = await compression.compress(Scope("u1"), Budget(Ticking(), total_ms=60_000))
    assert not done.is_finished
    assert 0 < done.looked_at < 30
    rest = await compression.compress(Scope("u1"), Budget(SystemClock(), total_ms=60_000))
    assert rest.is_finished
    assert done.looked_at + rest.looked_at == 30


async def test_missing_vectors_are_made_on_the_way(sqlite: Database) -> None:
    contexts = Contexts(sqlite)
    ids = await capture(contexts, U1, SAME)
    await sqlite.write(lambda connection: connection.execute(update(table).values(embedder=None, embedding=None)))
    assert (await compress(sqlite, "u1")).groups == 1
    assert await problems_of(contexts, U1, ids) == []
    assert all(one.embedder == EMBEDDER.name for one in await everything(contexts, "u1"))


async def test_time_may_run_out_between_two_groups(sqlite: Database) -> None:
    """A model takes its time over each group: the run stops within a chunk, and the next one decides about the rest."""

    class Slow(RuleMerger):
        async def merge(self, sources: Sequence[Context]) -> Merged | None:
            clock.advance("20s")
            return await super().merge(sources)

    clock = FakeClock()
    contexts = Contexts(sqlite)
    ids = await capture(contexts, U1, [f"Note {topic}, {word}." for topic in range(10) for word in ("the", "a", "an")])
    ids += await capture(contexts, Owner("u2"), [one.text for one in await contexts.get_many("u1", ids)])
    slow = Compression(contexts, EMBEDDER, Slow(), settling_ms=0)
    runs = 0
    while not (done := await slow.compress(Scope("u1"), Budget(clock, total_ms=100_000))).is_finished:
        runs += 1
        assert 0 < done.groups < 10
    await compress(sqlite, "u2")
    assert runs >= 3
    assert await problems_of(contexts, U1, ids[:30]) == []
    assert await groups_of(contexts, "u1") == await groups_of(contexts, "u2")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    notes=st.lists(st.tuples(st.integers(0, 200), st.booleans()), min_size=1, max_size=25),
    cuts=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
)
async def test_however_it_is_cut_the_groups_are_the_same_and_again_changes_nothing(
    tmp_path: Path, notes: list[tuple[int, bool]], cuts: list[int], sizes: list[int]
) -> None:
    """Runs between any two pushes, chunks of any size: as one run over everything. A run without news writes nothing
    but that it ran."""
    database = Database(f"sqlite:///{tmp_path}/{uuid4().hex}.db?synchronous=OFF", clock=FakeClock())
    await database.open()
    try:
        contexts = Contexts(database)
        texts = [(paraphrases(number, 1)[0], may_merge) for number, may_merge in notes]
        ids: list[int] = []
        for start, (text, may_merge) in enumerate(texts):
            ids += await capture(contexts, U1, [text], enable_merge=may_merge)
            await capture(contexts, Owner("whole"), [text], enable_merge=may_merge)
            if start % cuts[start % len(cuts)] == 0:
                await compress(database, "u1", batch_size=sizes[start % len(sizes)])
        await compress(database, "u1", batch_size=sizes[0])
        await compress(database, "whole")
        assert await groups_of(contexts, "u1") == await groups_of(contexts, "whole")
        assert await problems_of(contexts, U1, ids) == []
        before = await everything(contexts, "u1")
        assert (await compress(database, "u1", batch_size=sizes[-1])).looked_at == 0
        assert await everything(contexts, "u1") == before
    finally:
        await database.close()
