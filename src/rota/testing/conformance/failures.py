"""Groups of failures: counted by reports, over all instances, and never by a look at the runs."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from rota.clock import DAY, HOUR
from rota.core.distinct import number_of
from rota.core.failure import KEPT_MS, MAX_GROUPS, FailureGroup, FailureReport
from rota.core.task import TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.errors import InvalidInput
from rota.stores.base import Failures
from rota.testing.conformance.world import WORK, Suite, World

__all__ = ["TestFailures"]


def report(world: World, failure_id: str = "f1", **fields: object) -> FailureReport:
    known = FailureReport(
        task_type=WORK, id=failure_id, kind="ValueError", place="pay.py in charge", message="no <n>", at=world.now
    )
    return replace(known, **fields)


async def count(world: World, *reports: FailureReport) -> None:
    await world.store.count_failures(reports, now=world.now)


async def groups(world: World) -> list[FailureGroup]:
    return [each.group for each in await world.store.failures()]


class TestFailures(Suite):
    async def test_reports_add_up(self, world: World, work: TaskType) -> None:
        first_at = world.now
        await count(world, report(world, count=2, users=(number_of("u1"),)), report(world, users=(number_of("u2"),)))
        world.clock.advance("2h")
        await count(world, report(world, count=4, users=(number_of("u1"), number_of("Köln ✓"))))
        (group,) = await groups(world)
        assert (group.task_type, group.id, group.kind) == (WORK, "f1", "ValueError")
        assert (group.place, group.message) == ("pay.py in charge", "no <n>")
        assert (group.count, group.user_count, group.first_at, group.last_at) == (7, 3, first_at, world.now)
        assert [count for _, count in group.chart(world.now, 3)] == [3, 0, 4]

    async def test_of_several_processes_at_once(self, world: World, work: TaskType) -> None:
        await asyncio.gather(*(count(world, report(world, count=3), report(world, "f2")) for _ in range(8)))
        assert {group.id: group.count for group in await groups(world)} == {"f1": 24, "f2": 8}

    async def test_the_one_seen_last_comes_first(self, world: World, work: TaskType) -> None:
        await world.type("other")
        await count(world, report(world, "f1"), report(world, "f2", task_type="other"))
        world.clock.advance("1s")
        await count(world, report(world, "f3"))
        world.clock.advance("1s")
        await count(world, report(world, "f1"))
        assert [group.id for group in await groups(world)] == ["f1", "f3", "f2"]
        assert [each.group.id for each in await world.store.failures("other")] == ["f2"]
        assert [each.group.id for each in await world.store.failures(WORK, "f3")] == ["f3"]
        assert await world.store.failures(WORK, "f9") == []

    async def test_the_dead_letters_of_a_group_are_counted(self, world: World, work: TaskType) -> None:
        for key, failure in (("a", "f1"), ("b", "f1"), ("c", "f2")):
            await world.schedule(key)
            await world.run(Transition.FAIL, failure=failure)
        await count(world, report(world, "f1", count=2), report(world, "f2"), report(world, "f3"))
        assert {each.group.id: each.dead for each in await world.store.failures()} == {"f1": 2, "f2": 1, "f3": 0}
        await world.apply(Transition.REDRIVE, "a")
        (found,) = await world.store.failures(WORK, "f1")
        assert isinstance(found, Failures)
        assert found.dead == 1
        assert [task.key for task in await world.all_tasks(failure="f1", status=TaskStatus.FAILED)] == ["b"]

    async def test_muting(self, world: World, work: TaskType) -> None:
        await count(world, report(world))
        until = world.now + HOUR
        muted = await world.store.mute_failure(WORK, "f1", until, "ada", now=world.now)
        assert muted is not None
        assert (muted.muted_until, muted.muted_by, muted.is_muted(world.now)) == (until, "ada", True)
        world.clock.advance("1h")
        await count(world, report(world))
        (group,) = await groups(world)
        assert (group.count, group.muted_until, group.is_muted(world.now)) == (2, until, False)
        heard = await world.store.mute_failure(WORK, "f1", None, "bob", now=world.now)
        assert heard is not None
        assert (heard.muted_until, heard.muted_by) == (None, None)
        assert await world.store.mute_failure(WORK, "f9", until, "ada", now=world.now) is None

    async def test_a_type_keeps_so_many(self, world: World, work: TaskType) -> None:
        for start in range(0, MAX_GROUPS, 50):
            world.clock.advance("1s")
            await count(world, *(report(world, f"f{at}") for at in range(start, start + 50)))
        world.clock.advance("1s")
        await count(world, report(world, "new"), report(world, "f0"))
        found = {group.id: group.count for group in await groups(world)}
        assert len(found) == MAX_GROUPS
        assert (found["new"], found["f0"]) == (1, 2)
        assert {f"f{at}" for at in range(50)} - found.keys() != set()

    async def test_what_is_not_seen_any_more_is_forgotten(self, world: World, work: TaskType) -> None:
        await count(world, report(world, "old"))
        world.clock.advance("2h")
        await count(world, report(world, "new"))
        world.clock.set(world.now + KEPT_MS - HOUR)
        await world.prune(run_ttl_ms=365 * DAY)
        assert [group.id for group in await groups(world)] == ["new"]

    async def test_nothing_to_report(self, world: World, work: TaskType) -> None:
        await count(world)
        assert await groups(world) == []

    async def test_what_cannot_be_kept_is_refused(self, world: World, work: TaskType) -> None:
        with pytest.raises(InvalidInput):
            await count(world, report(world, message="\x00"))
        assert await groups(world) == []
