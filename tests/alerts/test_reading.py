"""What the rules look at: each kind over and under its threshold, for one type and for all."""

from __future__ import annotations

from scene import Scene

from rota.alerts.reading import Reading, measure
from rota.clock import MINUTE
from rota.core.alert import AlertRule, EngineKind
from rota.core.history import of_run
from rota.core.task import Activity, NewTask, Settlement, Transition
from rota.core.task_type import TriggerMode
from rota.stores.base import Beat, ClaimRequest, RunQuery
from rota.triggers import Interval, encode_trigger


async def read(scene: Scene, kind: EngineKind, **settings: object) -> dict[str, Reading]:
    rule = AlertRule(name="r", kind=kind, **settings)  # pyright: ignore[reportArgumentType] -- tests name real settings
    return {reading.subject: reading for reading in await measure(scene.store, [rule])}


async def ran(scene: Scene, name: str, *reasons: str | None) -> None:
    now = scene.clock.now()
    slices = [of_run(name, "user_activity", now, reason=reason, late_ms=0, took_ms=1) for reason in reasons]
    await scene.store.record(slices)


async def test_failure_rate_needs_enough_runs_and_ignores_what_somebody_wanted(scene: Scene) -> None:
    for name in ("good", "bad", "few", "cancelled"):
        await scene.add_type(name)
    await ran(scene, "good", *[None] * 8, "error", "timeout")
    await ran(scene, "bad", *[None] * 5, *["error"] * 5)
    await ran(scene, "few", *["error"] * 9)
    await ran(scene, "cancelled", *[None] * 10, *["cancelled"] * 30)
    found = await read(scene, EngineKind.FAILURE_RATE, threshold=0.5)
    assert {name for name, reading in found.items() if reading.holds} == {"bad"}
    assert found["bad"].value == "50%"
    assert "5 of 10 runs of bad failed within 5m" in found["bad"].summary
    scene.clock.advance("7m")
    assert not (await read(scene, EngineKind.FAILURE_RATE))["bad"].holds


async def test_queue_depth_as_a_share_and_as_a_number(scene: Scene) -> None:
    await scene.add_type(max_pending=10)
    await scene.store.schedule([NewTask(task_type="work", key=str(n)) for n in range(8)])
    assert (await read(scene, EngineKind.QUEUE_DEPTH, threshold=0.8))["work"].holds
    assert not (await read(scene, EngineKind.QUEUE_DEPTH, threshold=0.81))["work"].holds
    assert (await read(scene, EngineKind.QUEUE_DEPTH, threshold=8.0))["work"].holds
    assert not (await read(scene, EngineKind.QUEUE_DEPTH, threshold=9.0))["work"].holds
    await scene.store.override_type("work", {"max_pending": 100})
    assert not (await read(scene, EngineKind.QUEUE_DEPTH, threshold=0.8))["work"].holds


async def test_oldest_pending_counts_from_the_due_time(scene: Scene) -> None:
    await scene.add_type()
    await scene.store.schedule([NewTask(task_type="work", key="k", scheduled_at=scene.clock.now() + 60 * MINUTE)])
    assert not (await read(scene, EngineKind.OLDEST_PENDING, threshold=60.0))["work"].holds
    scene.clock.advance("62m")
    reading = (await read(scene, EngineKind.OLDEST_PENDING, threshold=60.0))["work"]
    assert reading.holds
    assert reading.value == "2m"


async def test_dead_letters_of_one_type_or_of_all(scene: Scene) -> None:
    await scene.add_type()
    await scene.add_type("other")
    await scene.fail("u1", "u2")
    assert {name: one.holds for name, one in (await read(scene, EngineKind.DEAD_LETTERS)).items()} == {
        "work": True,
        "other": False,
    }
    assert list(await read(scene, EngineKind.DEAD_LETTERS, type="other")) == ["other"]
    assert not (await read(scene, EngineKind.DEAD_LETTERS, threshold=3.0))["work"].holds


async def test_missed_fires_are_those_that_nobody_ran(scene: Scene) -> None:
    await scene.add_type(trigger_mode=TriggerMode.ONCE)
    trigger = encode_trigger(Interval(MINUTE, anchor_at=scene.clock.now()))
    await scene.store.schedule([NewTask(task_type="work", key="series", trigger=trigger)])
    assert not (await read(scene, EngineKind.MISSED_FIRES))["work"].holds
    scene.clock.advance("10m30s")
    await scene.store.claim(ClaimRequest(wants=[("work", 1)], instance="x", claim_id="c", lease_ms=10_000))
    reading = (await read(scene, EngineKind.MISSED_FIRES))["work"]
    assert reading.holds
    assert reading.value == "9"
    scene.clock.advance("6m")
    assert not (await read(scene, EngineKind.MISSED_FIRES))["work"].holds


async def test_an_overlap_is_no_missed_fire(scene: Scene) -> None:
    """To leave out what falls into a run is what the schedule asks for."""
    await scene.add_type(trigger_mode=TriggerMode.ONCE)
    trigger = encode_trigger(Interval(MINUTE, anchor_at=scene.clock.now()))
    await scene.store.schedule([NewTask(task_type="work", key="series", trigger=trigger)])
    scene.clock.advance("1m")
    claim = ClaimRequest(wants=[("work", 1)], instance="x", claim_id="c", lease_ms=10_000)
    (task,) = (await scene.store.claim(claim)).tasks
    scene.clock.advance("3m30s")
    done = Settlement(task_type="work", key="series", token=task.token, transition=Transition.COMPLETE)
    await scene.store.settle([done])
    assert [run.reason for run in (await scene.store.runs(RunQuery(task_type="work"))).items].count("overlap") == 1
    assert (await read(scene, EngineKind.MISSED_FIRES))["work"].value == "0"


async def test_an_open_breaker_is_a_user_who_is_refused(scene: Scene) -> None:
    await scene.add_type(max_retries=1)
    await scene.fail("u1")
    assert (await read(scene, EngineKind.BREAKER_OPEN))["work"].holds
    activity = Activity(task_type="work", key="u1", user_id="u1")
    assert (await scene.store.touch([activity]))[0].outcome == "blocked"
    await scene.store.reset_breaker([activity.identity])
    assert not (await read(scene, EngineKind.BREAKER_OPEN))["work"].holds


async def test_an_instance_is_lost_when_it_falls_silent_without_a_goodbye(scene: Scene) -> None:
    await scene.add_type()
    await scene.store.tick(Beat(instance="here", types=("work",)))
    await scene.store.tick(Beat(instance="polite", types=("work",)))
    await scene.store.leave("polite")
    assert not (await read(scene, EngineKind.INSTANCE_LOST))["here"].holds
    scene.clock.advance("61s")
    found = await read(scene, EngineKind.INSTANCE_LOST)
    assert {name: one.holds for name, one in found.items()} == {"here": True}
    assert await read(scene, EngineKind.INSTANCE_LOST, type="another") == {}
