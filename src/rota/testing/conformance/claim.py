"""claim: pending -> running, due, in rank order, one owner each. abandon: what a lost reply took is given back."""

from __future__ import annotations

import asyncio

import pytest

from rota.clock import HOUR, MINUTE, SECOND
from rota.core.outcome import Answer
from rota.core.task import Identity, NewTask, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.core.token import floor_at
from rota.stores.base import ClaimRequest
from rota.testing.conformance.world import LEASE, WORK, Suite, World, hourly

__all__ = ["TestAbandon", "TestClaim", "TestTokens"]


class TestClaim(Suite):
    async def test_status_lease_token_and_owner_are_one_step(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        claimed = await world.claimed(instance="i1", claim_id="c1")
        task = await world.there("k")
        assert claimed.tasks == [task]
        assert claimed.now == world.now
        assert task.status is TaskStatus.RUNNING
        assert task.token > 0
        assert (task.instance, task.claim_id, task.claimed_at) == ("i1", "c1", world.now)
        assert task.lease_until == world.now + LEASE
        assert task.attempt == 1
        await world.check_counts()

    async def test_nothing_is_claimed_before_it_is_due(self, world: World, work: TaskType) -> None:
        await world.schedule("k", scheduled_at=world.now + MINUTE)
        assert (await world.claimed())[:3] == ([], world.now + MINUTE, world.now)
        world.clock.advance("59s")
        assert await world.claim() == []
        world.clock.advance("1s")
        assert len(await world.claim()) == 1

    async def test_what_runs_is_not_claimed_again(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.claim_one()
        assert await world.claim(5) == []

    async def test_at_most_as_many_as_wanted_in_due_order(self, world: World, work: TaskType) -> None:
        for number, key in enumerate("dacb"):
            await world.schedule(key, scheduled_at=world.now + number)
        world.clock.advance("1m")
        assert [task.key for task in await world.claim(3)] == ["d", "a", "c"]
        assert [task.key for task in await world.claim(3)] == ["b"]

    async def test_types_are_served_in_the_order_given(self, world: World, work: TaskType) -> None:
        await world.type("other")
        await world.schedule("a")
        await world.schedule("b", "other")
        request = ClaimRequest(
            wants=[("other", 1), ("unknown", 3), (WORK, 1)], instance="i", claim_id="c", lease_ms=LEASE
        )
        claimed = await world.store.claim(request, now=world.now)
        assert [task.key for task in claimed.tasks] == ["b", "a"]

    async def test_a_type_that_is_off_keeps_its_tasks(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.store.override_type(WORK, {"enabled": False})
        assert (await world.claimed())[:3] == ([], None, world.now)
        await world.store.override_type(WORK, {"enabled": None})
        assert len(await world.claim()) == 1

    async def test_by_hand_the_lease_is_the_types_timeout(self, world: World) -> None:
        await world.type(timeout_ms=7 * MINUTE)
        await world.schedule("k")
        task = (await world.claimed(lease_ms=None)).tasks[0]
        assert task.lease_until == world.now + 7 * MINUTE

    async def test_excluded_identities_are_passed_over(self, world: World, work: TaskType) -> None:
        for number, key in enumerate("abc"):
            await world.schedule(key, scheduled_at=world.now - 10 + number)
        claimed = await world.claimed(2, exclude=frozenset({Identity(WORK, "a")}))
        assert [task.key for task in claimed.tasks] == ["b", "c"]
        assert await world.status("a") is TaskStatus.PENDING

    async def test_it_says_when_the_next_one_is_due(self, world: World, work: TaskType) -> None:
        await world.schedule("a")
        await world.schedule("b")
        await world.schedule("c", scheduled_at=world.now + HOUR)
        first = await world.claimed(1)
        assert first.next_due_at is not None
        assert first.next_due_at <= world.now
        assert (await world.claimed(5)).next_due_at == world.now + HOUR

    async def test_concurrent_claimers_never_share_a_task(self, world: World, work: TaskType) -> None:
        news = [NewTask(task_type=WORK, key=f"k{number:03}") for number in range(120)]
        await world.store.schedule(news, now=world.now)
        claims = [world.claimed(5, instance=f"i{number}", claim_id=f"c{number}") for number in range(30)]
        claimed = [task for answer in await asyncio.gather(*claims) for task in answer.tasks]
        while rest := await world.claim(50):
            claimed += rest
        assert sorted(task.key for task in claimed) == [new.key for new in news]
        assert len({task.token for task in claimed}) == len(news)
        await world.check_counts()

    async def test_the_attempt_counts_up_with_each_retry(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        for attempt in (1, 2, 3):
            assert (await world.claim_one()).attempt == attempt
            await world.settle(await world.there("k"), Transition.RETRY, after_ms=0)


class TestTokens(Suite):
    async def test_a_token_is_never_used_again(self, world: World, work: TaskType) -> None:
        """Not after release, retry, completion, reap, purge, and not by another identity."""
        seen: list[int] = []

        async def claim(key: str = "k") -> None:
            await world.schedule(key)
            task = await world.claim_one()
            assert task.key == key
            seen.append(task.token)

        for transition in (
            Transition.RELEASE,
            Transition.RETRY,
            Transition.SNOOZE,
            Transition.COMPLETE,
            Transition.FAIL,
        ):
            await claim()
            await world.settle(await world.there("k"), transition, after_ms=0)
        await claim()
        await world.tick_past_lease()
        await claim()
        await world.settle(await world.there("k"))
        await world.apply(Transition.PURGE)
        assert await world.task("k") is None
        await claim()
        await claim("other")
        assert len(set(seen)) == len(seen)
        assert seen == sorted(seen)

    async def test_for_one_task_tokens_grow_while_the_clock_steps_back(self, world: World, work: TaskType) -> None:
        seen: list[int] = []
        for transition in (
            Transition.RELEASE,
            Transition.RETRY,
            Transition.SNOOZE,
            Transition.COMPLETE,
            Transition.COMPLETE,
        ):
            await world.schedule("k")
            task = await world.claim_due()
            seen.append(task.token)
            await world.settle(task, transition, after_ms=0)
            world.clock.set(world.now - 10 * MINUTE)
        assert seen == sorted(set(seen))

    async def test_also_after_a_purge_once_a_millisecond_has_passed(self, world: World, work: TaskType) -> None:
        """Nothing of the task is left then but the time."""
        seen: list[int] = []
        for _ in range(5):
            await world.schedule("k")
            seen.append((await world.claim_one()).token)
            await world.settle(await world.there("k"))
            await world.apply(Transition.PURGE)
            world.clock.advance(0.002)
        assert seen == sorted(set(seen))

    @pytest.mark.parametrize("kind", ["plain", "series"])
    async def test_no_two_claims_of_one_millisecond_share_a_token(
        self, world: World, work: TaskType, kind: str
    ) -> None:
        trigger = hourly(world.now) if kind == "series" else None
        for number in range(60):
            await world.schedule(f"k{number:02}", trigger=trigger)
        world.clock.advance(3_600)
        claims = await asyncio.gather(*(world.claim(3) for _ in range(20)))
        tokens = [task.token for tasks in claims for task in tasks]
        assert len(tokens) == 60
        assert len(set(tokens)) == 60

    async def test_a_token_is_never_below_the_time(self, world: World, work: TaskType) -> None:
        """Whatever a store has counted, and lost: with its clock alone its next token is a higher one."""
        await world.schedule("k")
        task = await world.claim_one()
        assert floor_at(world.now) < task.token < 2**53

    async def test_a_token_from_before_a_purge_is_stale(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        old = await world.claim_one()
        await world.settle(old, Transition.FAIL)
        await world.apply(Transition.PURGE)
        await world.schedule("k")
        new = await world.claim_one()
        before = await world.there("k")
        assert (await world.settle(old)).answer is Answer.STALE
        assert world.renew(old).answer is Answer.STALE
        assert await world.there("k") == before == new


class TestAbandon(Suite):
    async def test_a_lost_claim_is_given_back_and_counts_nowhere(self, world: World, work: TaskType) -> None:
        made = [await world.created(key) for key in "ab"]
        await world.claimed(2, instance="i1", claim_id="lost")
        world.clock.advance("1s")
        released = await world.store.abandon("i1", "lost", now=world.now)
        assert sorted(task.key for task in released) == ["a", "b"]
        for key in "ab":
            task = await world.there(key)
            assert (task.status, task.scheduled_at) == (TaskStatus.PENDING, made[0].scheduled_at)
            assert (task.errors, task.crashes, task.attempt) == (0, 0, 0)
        assert len(await world.claim(5)) == 2

    async def test_other_claims_are_left_alone(self, world: World, work: TaskType) -> None:
        for key in "abc":
            await world.schedule(key)
        await world.claimed(1, instance="i1", claim_id="c1")
        await world.claimed(1, instance="i1", claim_id="c2")
        await world.claimed(1, instance="i2", claim_id="c1")
        assert len(await world.store.abandon("i1", "c1", now=world.now)) == 1
        assert (await world.counts()).running == 2

    async def test_a_second_time_there_is_nothing_left(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.claimed(claim_id="lost")
        assert len(await world.store.abandon("i1", "lost", now=world.now)) == 1
        assert await world.store.abandon("i1", "lost", now=world.now) == []
        assert await world.store.abandon("i1", "never", now=world.now) == []

    async def test_the_run_leaves_its_record(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.claimed(claim_id="lost")
        await world.store.abandon("i1", "lost", now=world.now + SECOND)
        assert [(run.status, run.reason) for run in await world.runs()] == [("skipped", "abandoned")]
