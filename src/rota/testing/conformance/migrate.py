"""Moving to another store: `export` shows everything, `restore` writes it as it was, and doing it twice is harmless.

The other store is the memory store, so that every engine is both a place to leave and a place to come to.
"""

from __future__ import annotations

import pytest

from rota.clock import HOUR, MINUTE
from rota.core.outcome import Answer, TouchOutcome
from rota.core.task import NO_PAST, Identity, Task, TaskStatus, Transition
from rota.core.task_type import TriggerMode
from rota.errors import InvalidInput, LimitExceeded
from rota.stores.base import Restored, Snapshot, Store
from rota.stores.memory import MemoryStore
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import WORK, Suite, World

__all__ = ["TestExport", "TestRestore"]


async def everything(store: Store, limit: int = 50) -> list[Snapshot]:
    page = await store.export(limit=limit)
    found = list(page.items)
    while page.cursor is not None:
        page = await store.export(page.cursor, limit)
        found += page.items
    return found


async def lived_in(world: World) -> None:
    """One task in every state, with what each remembers."""
    await world.type(max_retries=0)
    for key in ("done", "dead", "gone", "held", "busy", "due"):
        await world.touch(key, user_id=key, device_id="phone")
    world.clock.advance("30m")
    running = {task.key: task for task in await world.claim(6)}
    await world.settle(running["done"], result="fine")
    await world.settle(running["dead"], Transition.RETRY, error="it answers 500")
    for key in ("gone", "held", "due"):
        await world.settle(running[key], Transition.RELEASE)
    await world.apply(Transition.CANCEL, "gone")
    await world.apply(Transition.PAUSE, "held")
    await world.series("hourly", payload='{"a": 1}', owner="o", priority=9, serial="s", expires_at=world.now + 9 * HOUR)


class TestExport(Suite):
    @pytest.mark.parametrize("limit", [1, 3, 50])
    async def test_every_identity_once_and_in_order(self, world: World, limit: int) -> None:
        await lived_in(world)
        found = await everything(world.store, limit)
        assert [snapshot.identity.key for snapshot in found] == [
            "busy",
            "dead",
            "done",
            "due",
            "gone",
            "held",
            "hourly",
        ]
        assert [snapshot.task for snapshot in found] == await world.all_tasks()

    async def test_a_past_without_a_task_is_there_too(self, world: World, work: None) -> None:
        await world.schedule()
        await world.run()
        await world.apply(Transition.PURGE)
        (snapshot,) = await everything(world.store)
        assert (snapshot.identity, snapshot.task) == (Identity(WORK, "k"), None)
        assert snapshot.past.last_exec_at == world.now

    async def test_what_has_arrived_for_a_task_that_was_never_made(self, world: World, work: None) -> None:
        await world.type("other")
        await world.type("both", trigger_mode=TriggerMode.AFTER, after=(WORK, "other"))
        await world.schedule()
        await world.run()
        await world.pump()
        found = {snapshot.identity: snapshot for snapshot in await everything(world.store, 1)}
        waiting = found[Identity("both", "k")]
        assert (waiting.task, waiting.past, waiting.arrived) == (None, NO_PAST, (WORK,))

    async def test_nothing_changes(self, world: World) -> None:
        await lived_in(world)
        before = await everything(world.store)
        assert await everything(world.store) == before

    async def test_nothing_is_an_empty_page(self, store: Store) -> None:
        assert await everything(store) == []

    async def test_pages_and_cursors_are_checked(self, store: Store) -> None:
        with pytest.raises(LimitExceeded):
            await store.export(limit=1_001)
        with pytest.raises(InvalidInput, match="cursor"):
            await store.export("nonsense")


class TestRestore(Suite):
    @pytest.fixture
    async def old(self, clock: FakeClock) -> World:
        """The store that is left, with a task in every state."""
        world = World(MemoryStore(clock), clock)
        await lived_in(world)
        return world

    @pytest.fixture
    async def new(self, world: World, old: World) -> World:
        """The store that is moved to; it knows the type."""
        await world.store.put_types([record.task_type for record in await old.store.list_types()])
        return world

    async def move(self, old: World, new: World) -> dict[str, Restored]:
        snapshots = await everything(old.store)
        answers = await new.store.restore(snapshots, now=new.now)
        return {snapshot.identity.key: answer for snapshot, answer in zip(snapshots, answers, strict=True)}

    async def test_everything_is_as_it_was(self, old: World, new: World) -> None:
        assert set((await self.move(old, new)).values()) == {Restored.MOVED}
        there = {snapshot.identity.key: snapshot for snapshot in await everything(old.store)}
        here = {snapshot.identity.key: snapshot for snapshot in await everything(new.store)}
        assert here.pop("busy") != there.pop("busy")
        assert here == there
        await new.check_counts()

    async def test_a_running_task_is_released(self, old: World, new: World) -> None:
        before = await old.there("busy")
        await self.move(old, new)
        after = await new.there("busy")
        assert (after.status, after.scheduled_at) == (TaskStatus.PENDING, before.scheduled_at)
        assert (after.token, after.last_token, after.last_outcome) == (0, before.token, Transition.RELEASE)
        assert (after.errors, after.crashes, after.attempt) == (0, 0, 0)
        assert (await new.settle(before)).answer is Answer.STALE

    async def test_twice_changes_nothing(self, old: World, new: World) -> None:
        await self.move(old, new)
        before = await everything(new.store)
        assert set((await self.move(old, new)).values()) == {Restored.ALREADY}
        assert await everything(new.store) == before
        await new.check_counts()

    async def test_what_was_run_here_meanwhile_is_not_run_again(self, old: World, new: World) -> None:
        await self.move(old, new)
        new.clock.advance(1)
        for task in await new.claim(9):
            await new.settle(task)
        assert (await new.status("due"), await new.status("busy")) == (TaskStatus.COMPLETED, TaskStatus.COMPLETED)
        again = await self.move(old, new)
        assert (again["due"], again["busy"]) == (Restored.KEPT, Restored.KEPT)
        new.clock.advance("3h")
        await new.prune()
        assert await new.status("due") is None
        assert (await self.move(old, new))["due"] is Restored.KEPT

    async def test_a_live_task_is_kept(self, old: World, new: World) -> None:
        mine = await new.created("due", payload='"mine"')
        answers = await self.move(old, new)
        assert answers["due"] is Restored.KEPT
        assert await new.there("due") == mine
        await new.check_counts()

    async def test_an_older_finished_task_makes_room(self, old: World, new: World, clock: FakeClock) -> None:
        now = clock.now()
        clock.set(now - 2 * HOUR)
        await new.schedule("due")
        await new.run()
        clock.set(now)
        assert (await self.move(old, new))["due"] is Restored.MOVED
        assert await new.there("due") == await old.there("due")
        await new.check_counts()

    async def test_no_token_is_handed_out_twice(self, old: World, new: World) -> None:
        used = {task.token or task.last_token for task in await old.all_tasks() if task.token or task.last_token}
        assert used
        await self.move(old, new)
        # Tokens carry the time: what is claimed after the move has higher ones than whatever was claimed before it.
        new.clock.advance(1)
        taken = await new.claim(9)
        assert len(taken) == 2
        assert min(task.token for task in taken) > max(used)

    async def test_a_tasks_next_token_is_higher_also_in_the_same_millisecond(self, old: World, new: World) -> None:
        used = {task.identity: max(task.token, task.last_token) for task in await old.all_tasks()}
        assert any(used.values())
        await self.move(old, new)
        taken = await new.claim(9)
        assert len(taken) == 2
        assert all(task.token > used[task.identity] for task in taken)

    async def test_tokens_never_go_back(self, old: World, new: World) -> None:
        before: list[Task] = []
        for at in range(12):
            await new.schedule(f"first-{at}")
            before += await new.claim()
        await self.move(old, new)
        after = await new.claim(9)
        assert min(task.token for task in after) > max(task.token for task in before)

    async def test_cooldown_and_breaker_come_along(self, old: World, new: World) -> None:
        await new.type(max_retries=1, version=2)
        await self.move(old, new)
        assert (await new.touch("done")).outcome is TouchOutcome.COOLDOWN
        assert (await new.touch("dead")).outcome is TouchOutcome.BLOCKED

    async def test_a_series_goes_on(self, old: World, new: World) -> None:
        await self.move(old, new)
        new.clock.advance("1h")
        task = next(task for task in await new.claim(9) if task.key == "hourly")
        assert task.fire_at == new.now
        settled = await new.settle(task)
        assert settled.task is not None
        assert settled.task.next_fire == new.now + HOUR

    async def test_owners_users_and_due_times_are_found(self, old: World, new: World) -> None:
        await self.move(old, new)
        assert [task.key for task in await new.all_tasks(owner="o")] == ["hourly"]
        assert [task.key for task in await new.all_tasks(user_id="held")] == ["held"]
        assert [task.key for task in await new.all_tasks(status=TaskStatus.FAILED)] == ["dead"]
        assert (await new.tick()).next_due_at == new.now
        assert sorted(task.key for task in await new.claim(9)) == ["busy", "due"]

    async def test_a_type_that_is_not_known_here_is_refused(self, old: World, world: World) -> None:
        assert set((await self.move(old, world)).values()) == {Restored.UNKNOWN_TYPE}
        assert await everything(world.store) == []

    async def test_a_parked_task_is_let_in_once_nobody_runs(self, old: World, new: World) -> None:
        for key in ("one", "two"):
            await old.schedule(key, serial="narrow", scheduled_at=old.now - MINUTE)
        assert {task.key for task in await old.claim(9)} == {"one", "due"}
        assert (await old.there("two")).parked
        await self.move(old, new)
        await new.tick()
        held = [task.key for task in await new.claim(9) if task.serial == "narrow"]
        assert len(held) == 1

    async def test_what_has_arrived_comes_along(self, old: World, new: World) -> None:
        other = await old.type("other")
        both = await old.type("both", trigger_mode=TriggerMode.AFTER, after=(WORK, "other"))
        await old.schedule("k")
        await old.settle(next(task for task in await old.claim(9) if task.key == "k"))
        await old.pump()
        await new.store.put_types([other, both])
        await self.move(old, new)
        assert (await self.move(old, new))["k"] is Restored.ALREADY
        await new.schedule("k", "other")
        await new.run(task_type="other")
        await new.pump()
        assert await new.status("k", "both") is TaskStatus.PENDING

    async def test_nothing_is_restored_from_nothing(self, store: Store) -> None:
        assert await store.restore([]) == []
