"""Cleaning up, refreshing, counting, summarising: each by its rule, each again without harm."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update
from tests.memory.stage import EMBEDDER, Ticking, capture, compress, everything

from rota.clock import DAY, SystemClock, isoformat
from rota.database import Database
from rota.database.tables.memory import contexts as table
from rota.memory import Contexts, HashingEmbedder, NewContext, Owner, Scope
from rota.memory.cleanup import Cleanup, lifetime_ms
from rota.memory.compression import Budget
from rota.memory.refresh import Refresh
from rota.memory.statistics import Figures, Statistics
from rota.memory.summary import Summaries
from rota.memory.vectors import Vectors
from rota.testing import FakeClock

U1 = Owner("u1")
SAME = ["I love hiking in the mountains.", "I really love hiking in the mountains!"]


def budget() -> Budget:
    return Budget(SystemClock())


async def important(contexts: Contexts, importance: int, text: str = "A note.") -> int:
    (one,) = await contexts.add(U1, [NewContext(text=text, importance=importance)])
    return one


# --- cleaning up ---


async def test_what_outlived_its_retention_goes(database: Database, contexts: Contexts, clock: FakeClock) -> None:
    ids = {importance: await important(contexts, importance) for importance in (4, 5, 9, 10)}
    cleanup = Cleanup(contexts, retention_days=30)
    left: list[list[int]] = []
    for days in (29, 1, 30, 240, 3000):
        clock.advance(f"{days}d")
        await cleanup.cleanup_expired_data()
        left.append([one for one, kept in ids.items() if await contexts.get("u1", kept) is not None])
    assert left == [[4, 5, 9, 10], [5, 9, 10], [9, 10], [10], [10]]


async def test_a_dry_run_says_what_will_go_and_deletes_nothing(sqlite: Database, clock: FakeClock) -> None:
    contexts = Contexts(sqlite)
    await capture(contexts, U1, SAME)
    await compress(sqlite, "u1")
    await important(contexts, 3)
    clock.advance("61d")
    said = await Cleanup(contexts, 30).cleanup_expired_data(dry_run=True)
    assert (said.deleted, said.sources, said.is_dry) == (3, 2, True)
    assert len(await everything(contexts, "u1")) == 4
    done = await Cleanup(contexts, 30).cleanup_expired_data()
    assert (done.deleted, done.sources) == (3, 2)
    (result,) = await everything(contexts, "u1")
    assert (result.merge_count, await contexts.sources("u1", result.id)) == (2, [])
    assert (await Cleanup(contexts, 30).cleanup_expired_data()).deleted == 0


async def test_a_result_takes_its_sources_along(sqlite: Database, clock: FakeClock) -> None:
    contexts = Contexts(sqlite)
    ids = await capture(contexts, U1, SAME)
    await compress(sqlite, "u1")
    # The sources were merged just now, the result is unimportant and old.
    await sqlite.write(lambda c: c.execute(update(table).where(table.c.has_compression == 1).values(importance=1)))
    clock.advance("30d")
    await sqlite.write(lambda c: c.execute(update(table).where(table.c.id.in_(ids)).values(compressed_at=clock.now())))
    said = await Cleanup(contexts, 30).cleanup_expired_data(dry_run=True)
    done = await Cleanup(contexts, 30).cleanup_expired_data()
    assert (said.deleted, said.sources) == (done.deleted, done.sources) == (3, 2)
    assert await everything(contexts, "u1") == []


@given(st.integers(0, 10), st.integers(0, 1_000), st.integers(1, 1_000 * DAY))
def test_more_important_lives_no_shorter(importance: int, merge_count: int, retention_ms: int) -> None:
    life = lifetime_ms(importance, merge_count, retention_ms)
    longer = lifetime_ms(min(10, importance + 1), merge_count + 1, retention_ms)
    assert life is None or life >= retention_ms
    assert longer is None or (life is not None and longer >= life)


CONTEXTS = st.tuples(st.integers(0, 10), st.integers(0, 4), st.integers(0, 400), st.sampled_from([None, 0, 1, 2]))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=st.lists(CONTEXTS, min_size=3, max_size=12))
async def test_what_goes_is_what_the_rule_says_and_a_dry_run_says_it_first(
    tmp_path: Path, kept: list[tuple[int, int, int, int | None]]
) -> None:
    """Any ages (days), importances and lineages, against the rule read aloud. The first three are results."""
    clock = FakeClock()
    database = Database(f"sqlite:///{tmp_path}/{uuid4().hex}.db?synchronous=OFF", clock=clock)
    await database.open()
    try:
        contexts, now = Contexts(database), clock.now()
        ids = [await important(contexts, importance) for importance, *_ in kept]
        gone: set[int] = set()
        for number, (importance, merge_count, days, into) in enumerate(kept):
            at = now - days * DAY
            changes: dict[str, object] = {"updated_at": at, "compressed_at": at, "merge_count": merge_count}
            if number >= 3 and into is not None:
                changes |= {"state": "merged", "merged_into": ids[into]}
            await database.write(
                lambda c, n=number, to=changes: c.execute(update(table).where(table.c.id == ids[n]).values(to))
            )
            life = 30 * DAY if "state" in changes else lifetime_ms(importance, merge_count, 30 * DAY)
            if life is not None and at + life <= now:
                gone.add(ids[number])
        with_results = {ids[n] for n, one in enumerate(kept) if n >= 3 and one[3] is not None and ids[one[3]] in gone}
        said = await Cleanup(contexts, 30).cleanup_expired_data(dry_run=True)
        done = await Cleanup(contexts, 30).cleanup_expired_data()
        left = {one.id for one in await everything(contexts, "u1")}
        assert set(ids) - left == set(said.ids) == gone | with_results
        assert (done.deleted, done.sources) == (said.deleted, said.sources)
        assert (await Cleanup(contexts, 30).cleanup_expired_data()).deleted == 0
    finally:
        await database.close()


async def test_cleaning_goes_on_where_it_stopped(sqlite: Database, clock: FakeClock) -> None:
    contexts = Contexts(sqlite)
    for _ in range(15):
        await contexts.add(U1, [NewContext(text="old", importance=1) for _ in range(100)])
    clock.advance("31d")
    first = await Cleanup(contexts, 30).cleanup_expired_data(Budget(Ticking(), 40_000))
    assert not first.is_finished
    assert 0 < first.deleted < 1_500
    second = await Cleanup(contexts, 30).cleanup_expired_data()
    assert first.deleted + second.deleted == 1_500


# --- refreshing ---


class Newer(HashingEmbedder):
    """Another embedder, that counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(dimensions=64)
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return super().embed(texts)


async def test_only_stale_and_missing_vectors_are_computed(database: Database, contexts: Contexts) -> None:
    await capture(contexts, U1, ["One.", "Two."])
    await contexts.add(U1, [NewContext(text="Three.")])
    await capture(contexts, Owner("u2"), ["Not mine."])
    newer = Newer()
    assert (await Refresh(contexts, EMBEDDER).refresh(Scope("u1"), budget())).refreshed == 1
    assert (await Refresh(contexts, newer, batch_size=2).refresh(Scope("u1"), budget())).refreshed == 3
    assert sorted(newer.asked) == ["One.", "Three.", "Two."]
    assert (await Refresh(contexts, newer).refresh(Scope("u1"), budget())).refreshed == 0
    assert {one.embedder for one in await everything(contexts, "u1")} == {"hashing-64-2"}
    assert {one.embedder for one in await everything(contexts, "u2")} == {EMBEDDER.name}


# --- counting ---


async def test_figures_of_each_user_and_of_all(database: Database, contexts: Contexts, clock: FakeClock) -> None:
    await capture(contexts, U1, SAME)
    await compress(database, "u1")
    clock.advance("1h")
    await capture(contexts, Owner("u2"), ["Three."])
    statistics = Statistics(contexts)
    done = await statistics.count(budget())
    assert (done.users, done.contexts) == (2, 4)
    mine = await statistics.of_user("u1")
    assert (mine.contexts, mine.fresh, mine.kept, mine.merged, mine.results, mine.compressions) == (3, 0, 1, 2, 1, 1)
    everybody, counted_at = await statistics.in_all()
    assert (everybody.contexts, everybody.fresh, everybody.users, counted_at) == (4, 1, 2, clock.now())
    assert everybody.oldest_fresh_at == clock.now()
    assert list(await statistics.largest()) == ["u1", "u2"]
    assert await statistics.of_user("nobody") == Figures()

    clock.advance("1h")
    await contexts.erase_user("u1")
    await statistics.count(budget())
    assert list(await statistics.largest()) == ["u2"]
    assert everybody.to_dict()["last_captured_at"] == isoformat(clock.now() - 3_600_000)


# --- summarising ---


async def test_days_and_weeks_are_summarised_once(database: Database, contexts: Contexts, clock: FakeClock) -> None:
    clock.set(datetime(2026, 1, 5, 9, tzinfo=UTC))
    for day in range(7):
        await capture(contexts, U1, [f"Day {day}: walked {day} miles.", "The cat slept."])
        if day == 3:
            await compress(database, "u1")
        clock.advance("1d")
    summaries = Summaries(contexts)
    done = await summaries.summarise(Scope("u1"), budget())
    assert (done.days, done.weeks) == (7, 1)
    assert (await summaries.summarise(Scope("u1"), budget())).to_dict() == {"days": 0, "weeks": 0, "is_finished": True}
    (week,) = await summaries.of_user("u1", level="week")
    assert (week.period, week.sources) == ("2026-W02", 14)
    days = await summaries.of_user("u1", level="day")
    assert [one.period for one in days] == [f"2026-01-{day:02}" for day in range(11, 4, -1)]
    assert days[-1].text == "Day 0: walked 0 miles.\nThe cat slept."
    assert await summaries.of_user("u2") == []


@pytest.mark.parametrize(("zone", "day"), [("UTC", "2026-01-05"), ("Pacific/Auckland", "2026-01-06")])
async def test_a_day_is_that_of_the_zone(sqlite: Database, clock: FakeClock, zone: str, day: str) -> None:
    clock.set(datetime(2026, 1, 5, 18, tzinfo=UTC))
    contexts = Contexts(sqlite)
    await capture(contexts, U1, ["Evening here, morning there."])
    clock.advance("2d")
    summaries = Summaries(contexts, timezone=zone)
    await summaries.summarise(Scope("u1"), budget())
    assert [one.period for one in await summaries.of_user("u1", level="day")] == [day]
