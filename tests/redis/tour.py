"""A tour of every verb of a store, over several types: for tests that care where a verb goes, not what it means."""

from __future__ import annotations

from rota.clock import HOUR
from rota.core.failure import FailureReport
from rota.core.outcome import Answer, TouchOutcome
from rota.core.task import Activity, Identity, TaskStatus, Transition
from rota.core.task_type import RateLimit, TriggerMode
from rota.stores.base import RunLeft, RunQuery, RunRef, TaskQuery
from rota.testing.conformance.world import World

TYPES = ("alpha", "beta", "gamma", "delta")
"""Spread over all three nodes of a cluster."""


async def tour(world: World) -> None:
    """Every verb at least once, and most of them on every type at once."""
    await _declare(world)
    await _make(world)
    await _run(world)
    await _apply(world)
    await _keep_house(world)
    await _look(world)


async def _declare(world: World) -> None:
    for name in TYPES:
        await world.type(name, max_retries=1)
    await world.type("follower", trigger_mode=TriggerMode.AFTER, after=TYPES[:2])
    limit = RateLimit(rate=1.0, burst=2)
    await world.type("limited", rate_limit=limit, start_limit=limit)
    await world.store.override_type("delta", {"enabled": False})
    await world.store.override_type("delta", {"enabled": None})
    assert [record.task_type.name for record in await world.store.list_types()] == sorted(
        [*TYPES, "follower", "limited"]
    )


async def _make(world: World) -> None:
    for name in TYPES:
        await world.schedule("once", name, owner="o1", owner_limit=5, user_id="u1")
        await world.schedule("high", name, priority=9, payload="x" * 500)
        for key in ("serial-1", "serial-2"):
            await world.schedule(key, name, serial="s")
        await world.series("series", name)
    activities = [Activity(task_type=name, key="u1:phone", user_id="u1") for name in TYPES]
    made = await world.store.touch(activities * 2, now=world.now)
    assert [touched.outcome for touched in made] == [TouchOutcome.CREATED] * 4 + [TouchOutcome.COALESCED] * 4
    for name in TYPES:
        assert (await world.update("series", name, payload="new")).answer is Answer.OK
    for number in range(3):
        await world.schedule(f"l{number}", "limited")


async def _run(world: World) -> None:
    claimed = await world.claim(10, (*TYPES, "limited"))
    by_type = {name: sorted(task.key for task in claimed if task.task_type == name) for name in (*TYPES, "limited")}
    assert by_type.pop("limited") == ["l0", "l1"]
    assert all(keys == ["high", "once", "serial-1"] for keys in by_type.values()), by_type
    for task in claimed:
        assert world.renew(task, progress="half").answer is Answer.OK
        left = RunLeft(RunRef(task.task_type, task.key, task.token), "{}")
        assert await world.store.keep_details([left], now=world.now) == [Answer.OK]
        assert (
            await world.settle(task, Transition.RETRY if task.key == "high" else Transition.COMPLETE)
        ).answer is Answer.OK
        assert (await world.settle(task, Transition.FAIL)).answer is Answer.STALE
    taken = await world.claimed(10, TYPES, instance="i2", claim_id="lost-reply")
    assert {task.key for task in taken.tasks} == {"serial-2"}
    assert len(await world.store.abandon("i2", "lost-reply", now=world.now)) == len(TYPES)
    for task in await world.claim(10, TYPES):
        await world.settle(task, Transition.FAIL, failure="f1", details="{}")
    runs = (await world.store.runs(RunQuery(limit=10))).items
    assert any(await world.store.details([RunRef(run.task_type, run.key, run.token) for run in runs]))
    reports = [FailureReport(task_type=name, id="f1", kind="ValueError", at=world.now) for name in TYPES]
    await world.store.count_failures(reports, now=world.now)
    assert await world.store.mute_failure(TYPES[0], "f1", world.now + HOUR, "ada", now=world.now) is not None
    assert [each.group.id for each in await world.store.failures()] == ["f1"] * len(TYPES)


async def _apply(world: World) -> None:
    for transition, answer in (
        (Transition.PAUSE, Answer.OK),
        (Transition.RESUME, Answer.OK),
        (Transition.RUN_NOW, Answer.OK),
    ):
        asked = [Identity(name, "series") for name in TYPES]
        assert {reply.answer for reply in await world.store.apply(transition, asked, now=world.now)} == {answer}
    for name in TYPES:
        assert (await world.apply(Transition.REDRIVE, "serial-2", name)).answer is Answer.OK
        assert (await world.apply(Transition.CANCEL, "serial-2", name)).answer is Answer.OK
        assert (await world.apply(Transition.PURGE, "serial-2", name)).answer is Answer.OK
        assert (await world.apply(Transition.END, "u1:phone", name)).answer is Answer.OK
        await world.store.reset_breaker([Identity(name, "serial-2")])


async def _keep_house(world: World) -> None:
    assert await world.pump() > 0
    assert await world.status("once", "follower") is TaskStatus.PENDING
    crashed = await world.claim(10, TYPES, instance="doomed")
    assert {task.key for task in crashed} >= {"series"}
    reaped = await world.tick_past_lease()
    assert len(reaped) == len(crashed)
    assert (await world.store.take("api", 2, rate=1.0, burst=3, now=world.now)).granted == 2
    await world.store.take("api", -1, rate=1.0, burst=3, now=world.now)
    world.clock.advance(30 * 24 * HOUR // 1_000)
    assert (await world.prune()).purged > 0
    await world.store.wait(1)
    await world.store.leave("i2")


async def _look(world: World) -> None:
    for name in TYPES:
        assert len((await world.store.find(TaskQuery(task_type=name))).items) > 0
        await world.check_counts(name)
    everything = await world.store.find(TaskQuery(limit=1_000))
    identities = [task.identity for task in everything.items]
    assert identities == sorted(identities)
    assert len(await world.store.get(identities)) == len(identities)
    await world.store.find(TaskQuery(user_id="u1"))
    await world.store.find(TaskQuery(owner="o1", status=TaskStatus.PENDING))
    await world.store.runs(RunQuery(limit=10))
    assert {instance.beat.instance for instance in await world.store.instances()} <= {"i1", "i2"}
    assert set(await world.store.counts()) >= set(TYPES)
