"""erase_user and export_user: all of one user, nothing of another, however it is interrupted."""

from __future__ import annotations

import pytest

from rota.clock import DAY, HOUR
from rota.core.outcome import Answer, TouchOutcome
from rota.core.task import NO_PAST, Identity, RunRecord, TaskStatus, Transition, Want
from rota.core.task_type import TaskType, TriggerMode
from rota.errors import InvalidInput, LimitExceeded
from rota.keys import UserKeyBuilder
from rota.stores.base import Erasure, RunQuery, Snapshot
from rota.testing.conformance.world import WORK, Suite, World

__all__ = ["TestErase", "TestExport", "erase_all", "export_all"]

HOSTILE = (
    "u",
    "u1",
    "u:1",
    "u%3A1",
    "u%",
    "%",
    "*",
    "u*",
    "ü",
    "u\u0301",
    "日本",
    "U",
    "global",
    "u;",
    "u ",
    "?",
    "[u]",
)
"""User ids that are parts, patterns or encodings of each other."""


async def erase_all(world: World, user_id: str, limit: int = 500) -> Erasure:
    """Call until nothing is left to do for now."""
    before, erasure = None, await world.store.erase_user(user_id, limit=limit, now=world.now)
    for _ in range(200):
        if not erasure.has_more(before):
            return erasure
        before, erasure = erasure, await world.store.erase_user(user_id, limit=limit, now=world.now)
    raise AssertionError(f"the erasure of {user_id!r} goes on for ever: {erasure}")


async def export_all(world: World, user_id: str, limit: int = 50) -> list[Snapshot | RunRecord]:
    page = await world.store.export_user(user_id, None, limit)
    found = list(page.items)
    while page.cursor is not None:
        page = await world.store.export_user(user_id, page.cursor, limit)
        found += page.items
    return found


def key_of(user_id: str, device: str | None = None) -> str:
    return UserKeyBuilder().build_key(user_id, device)


class TestErase(Suite):
    async def _user(self, world: World, user_id: str) -> None:
        """Tasks in every state, a past alone, and runs."""
        for at, transition in enumerate((Transition.COMPLETE, Transition.FAIL, Transition.DISCARD)):
            await world.schedule(key_of(user_id, f"{at}"), user_id=user_id, payload="x" * 100)
            await world.run(transition)
        await world.schedule(key_of(user_id, "past"), user_id=user_id)
        await world.run()
        await world.apply(Transition.PURGE, key_of(user_id, "past"))
        await world.series(key_of(user_id, "series"), user_id=user_id, owner=user_id)
        await world.apply(Transition.PAUSE, key_of(user_id, "series"))
        await world.schedule(f"stray of {user_id}", user_id=user_id, scheduled_at=world.now + HOUR)
        await world.schedule(key_of(user_id, "off"), user_id=user_id, scheduled_at=world.now + HOUR)
        await world.apply(Transition.CANCEL, key_of(user_id, "off"))

    async def test_nothing_is_left(self, world: World, work: TaskType) -> None:
        await self._user(world, "u1")
        erasure = await erase_all(world, "u1")
        assert erasure == Erasure(user_id="u1", asked_at=world.now, tasks=6, runs=4, done_at=world.now)
        assert await world.all_tasks() == []
        assert await export_all(world, "u1") == []
        assert await world.runs(None) == []
        assert (await world.store.export()).items == []
        await world.check_counts()
        assert await world.store.erasures() == []
        assert await world.store.erasures(with_done=True) == [erasure]

    async def test_the_past_is_forgotten(self, world: World) -> None:
        await world.type(max_retries=1)
        await world.touch(key_of("u1"))
        world.clock.advance("30m")
        await world.run(Transition.FAIL)
        assert (await world.touch(key_of("u1"))).outcome is TouchOutcome.BLOCKED
        await erase_all(world, "u1")
        assert (await world.touch(key_of("u1"))).outcome is TouchOutcome.CREATED

    @pytest.mark.parametrize("limit", [1, 3])
    async def test_step_by_step(self, world: World, work: TaskType, limit: int) -> None:
        await self._user(world, "u1")
        first = await world.store.erase_user("u1", limit=limit, now=world.now)
        assert first.done_at is None
        assert [each.user_id for each in await world.store.erasures()] == ["u1"]
        world.clock.advance("1m")
        done = await erase_all(world, "u1", limit)
        assert (done.asked_at, done.done_at) == (first.asked_at, world.now)
        assert (done.tasks, done.runs) == (6, 4)
        assert await export_all(world, "u1") == []

    @pytest.mark.parametrize("erased", ["u", "u:1", "%", "*", "u\u0301"])
    async def test_other_users_are_untouched(self, world: World, erased: str) -> None:
        await world.type(interval_ms=0)
        for user_id in HOSTILE:
            await world.touch(key_of(user_id), user_id=user_id)
        for _ in HOSTILE:
            await world.run()
        for user_id in HOSTILE[::2]:
            await world.apply(Transition.PURGE, key_of(user_id))
        before = {user_id: await export_all(world, user_id) for user_id in HOSTILE}
        assert all(len(found) == 2 for found in before.values())
        await erase_all(world, erased)
        for user_id in HOSTILE:
            assert await export_all(world, user_id) == ([] if user_id == erased else before[user_id])

    async def test_a_task_under_another_users_key_belongs_to_its_user(self, world: World, work: TaskType) -> None:
        await world.schedule(key_of("u1"), user_id="u2")
        await world.schedule("anything")
        assert (await erase_all(world, "u1")).tasks == 0
        assert len(await world.all_tasks()) == 2
        assert (await erase_all(world, "u2")).tasks == 1
        assert [task.key for task in await world.all_tasks()] == ["anything"]

    async def test_what_runs_is_told_to_stop_and_goes_afterwards(self, world: World, work: TaskType) -> None:
        await world.schedule("k", user_id="u1")
        running = await world.claim_one()
        erasure = await erase_all(world, "u1")
        assert (erasure.running, erasure.done_at) == (1, None)
        assert (await world.there("k")).want is Want.CANCEL
        assert world.renew(running).answer is Answer.CANCEL
        assert await world.store.erasures() == [erasure]
        world.clock.advance("5s")
        await world.settle(running, Transition.RELEASE)
        erasure = await erase_all(world, "u1")
        assert (erasure.tasks, erasure.runs, erasure.running, erasure.done_at) == (1, 1, 0, world.now)
        assert await world.task("k") is None
        assert await world.runs(None) == []

    async def test_who_runs_is_counted_from_the_first_step_and_keeps_nothing_else(
        self, world: World, work: TaskType
    ) -> None:
        for key in "abcde":
            await world.schedule(key, user_id="u1")
        running = [await world.claim_one() for _ in "ab"]
        first = await world.store.erase_user("u1", limit=1, now=world.now)
        assert (first.running, first.done_at) == (2, None), "told to stop or not yet: two run"
        erasure = await erase_all(world, "u1", limit=1)
        assert (erasure.tasks, erasure.running) == (3, 2)
        assert [(task.key, task.want) for task in await world.all_tasks()] == [
            (task.key, Want.CANCEL) for task in running
        ]

    async def test_a_run_that_began_meanwhile_leaves_no_row(self, world: World, work: TaskType) -> None:
        for key in "ab":
            await world.schedule(key, user_id="u1")
        await world.store.erase_user("u1", limit=1, now=world.now)
        world.clock.advance("1s")
        running = await world.claim_one()
        await erase_all(world, "u1")
        await world.settle(running)
        assert (await erase_all(world, "u1")).done_at == world.now
        assert await world.runs(None) == []

    async def test_who_comes_back_is_a_new_user(self, world: World) -> None:
        await world.type(interval_ms=0)
        for device in "abc":
            await world.touch(key_of("u1", device), user_id="u1")
        running = (await world.claim(1))[0]
        await world.store.erase_user("u1", limit=500, now=world.now)
        world.clock.advance("1s")
        await world.touch(key_of("u1", "b"), user_id="u1")
        await world.run()
        await world.settle(running)
        done = await erase_all(world, "u1")
        assert done.done_at is not None
        assert [task.key for task in await world.all_tasks()] == [key_of("u1", "b")]
        assert [run.key for run in await world.runs(None)] == [key_of("u1", "b")]
        world.clock.advance("1s")
        assert (await erase_all(world, "u1")).tasks == 1
        assert await export_all(world, "u1") == []

    async def test_what_it_completed_is_not_handed_on(self, world: World, work: TaskType) -> None:
        await world.type("next", trigger_mode=TriggerMode.AFTER, after=(WORK, "other"))
        await world.type("other")
        for user_id in ("u1", "u2"):
            await world.schedule(key_of(user_id), "other", user_id=user_id)
            await world.run(task_type="other")
        await world.pump()
        for user_id in ("u1", "u2"):
            await world.schedule(key_of(user_id), user_id=user_id)
            await world.run()
        await erase_all(world, "u1")
        await world.pump()
        assert [task.key for task in await world.all_tasks("next")] == [key_of("u2")]
        assert await export_all(world, "u1") == []

    async def test_a_freed_serial_lets_the_next_one_in(self, world: World, work: TaskType) -> None:
        await world.schedule("holder", serial="s", user_id="u2")
        running = await world.claim_one()
        await world.schedule("a", serial="s", user_id="u1")
        await world.schedule("b", serial="s", user_id="u2")
        assert await world.claim(5) == []
        await world.settle(running)
        assert (await world.there("a")).parked is False
        await erase_all(world, "u1")
        assert (await world.claim_one()).key == "b"

    async def test_the_tombstone_goes_in_the_end(self, world: World, work: TaskType) -> None:
        """An erased user's id is not kept for ever."""
        await world.schedule("k", user_id="u1")
        done = await erase_all(world, "u1")
        world.clock.set(done.asked_at + 7 * DAY)
        await world.prune()
        assert await world.store.erasures(with_done=True) == [done]
        world.clock.advance(1)
        await world.prune()
        assert await world.store.erasures(with_done=True) == []

    async def test_one_that_is_under_way_is_never_dropped(self, world: World, work: TaskType) -> None:
        await world.schedule("k", user_id="u1")
        await world.claim_one()
        await world.store.erase_user("u1", now=world.now)
        world.clock.advance("30d")
        await world.prune()
        assert [each.user_id for each in await world.store.erasures()] == ["u1"]

    async def test_nobody_is_no_user(self, world: World, work: TaskType) -> None:
        with pytest.raises(InvalidInput):
            await world.store.erase_user("")
        with pytest.raises(LimitExceeded):
            await world.store.erase_user("u1", limit=0)


class TestExport(Suite):
    async def test_everything_page_by_page(self, world: World, work: TaskType) -> None:
        await world.type("next", trigger_mode=TriggerMode.AFTER, after=(WORK, "never"))
        await world.type("never")
        for device in "abcd":
            await world.schedule(key_of("u1", device), user_id="u1")
            await world.run()
        await world.pump()
        await world.apply(Transition.PURGE, key_of("u1", "a"))
        await world.schedule("stray", user_id="u1", scheduled_at=world.now + HOUR)
        for limit in (1, 3, 50):
            found = await export_all(world, "u1", limit)
            snapshots = [each for each in found if isinstance(each, Snapshot)]
            assert found[: len(snapshots)] == snapshots
            assert [str(each.identity) for each in snapshots] == sorted(str(each.identity) for each in snapshots)
            assert len(snapshots) == 4 + 5
            assert sum(isinstance(each, RunRecord) for each in found) == 4
        alone = next(each for each in snapshots if each.identity == Identity(WORK, key_of("u1", "a")))
        assert alone.task is None
        assert alone.past != NO_PAST
        assert {each.arrived for each in snapshots if each.identity.task_type == "next"} == {(WORK,)}

    async def test_of_nobody(self, world: World, work: TaskType) -> None:
        await world.schedule("k", user_id="u1")
        assert await export_all(world, "u2") == []
        with pytest.raises(InvalidInput, match="cursor"):
            await world.store.export_user("u1", "nonsense")

    async def test_nothing_changes(self, world: World, work: TaskType) -> None:
        before = await world.created("k", user_id="u1")
        await export_all(world, "u1")
        assert await world.task("k") == before
        assert (await world.store.runs(RunQuery())).items == []
        assert before.status is TaskStatus.PENDING
