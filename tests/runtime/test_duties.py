"""The smaller duties, one pass each, and the loop that they share."""

from __future__ import annotations

import asyncio

import pytest
from stage import Stage
from structlog.testing import capture_logs

from rota.clock import DAY, HOUR, Instant, SystemClock
from rota.core.task import Settlement, Transition
from rota.errors import StoreUnavailable
from rota.runtime.duty import Duty, back_off_seconds
from rota.runtime.health import Pulse
from rota.runtime.listener import Listener
from rota.runtime.pruner import Pruner
from rota.runtime.pump import Pump
from rota.runtime.sweeper import Sweeper
from rota.stores.base import Beat, ClaimRequest, Purged, TaskQuery, Tick
from rota.testing import FakeClock, FaultyStore
from rota.testing.waiting import PATIENCE, until


def half() -> float:
    return 0.5


async def nothing() -> None: ...


class Flaky(Duty[int]):
    """Fails as often as it is told to."""

    name = "flaky"

    def __init__(self, pulse: Pulse, failures: list[Exception]) -> None:
        super().__init__(pulse, half)
        self.failures = failures
        self.passes = 0

    async def run_once(self, now: Instant | None = None) -> int:
        if self.failures:
            raise self.failures.pop()
        self.passes += 1
        return self.passes

    def pause_after(self, report: int) -> float:
        return 60.0


async def test_a_duty_survives_whatever_a_pass_raises() -> None:
    pulse = Pulse(SystemClock())
    duty = Flaky(pulse, [StoreUnavailable("away"), RuntimeError("a mistake")])
    async with asyncio.TaskGroup() as group:
        group.create_task(duty.run())
        await until(lambda: pulse.is_troubled("flaky"))
        await until(lambda: duty.passes == 1)
        assert not pulse.is_troubled("flaky")
        duty.wake()
        await until(lambda: duty.passes == 2)
        duty.stop()


async def test_stopping_a_duty_ends_its_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.runtime.duty._FIRST_PAUSE", 600.0)
    monkeypatch.setattr("rota.runtime.duty._LONGEST_PAUSE", 600.0)
    duty = Flaky(Pulse(SystemClock()), [StoreUnavailable("away") for _ in range(1_000)])
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(duty.run())
        await until(lambda: len(duty.failures) < 1_000)
        duty.stop()


def test_the_back_off_grows_with_jitter_and_is_bounded() -> None:
    assert back_off_seconds(1, 0.0) == 0.05
    assert back_off_seconds(1, 0.5) == 0.1
    assert back_off_seconds(3, 0.5) == 0.4
    assert back_off_seconds(10_000, 0.999) < 3.0


async def test_the_sweeper_beats_reaps_and_passes_on_what_is_next(still_stage: Stage, still_clock: FakeClock) -> None:
    await still_stage.add(nothing)
    await still_stage.schedule("u1")
    made_at = still_clock.now()
    news: list[Tick] = []
    beat = Beat(instance="here", types=("work",), lease_ms=10_000)
    sweeper = Sweeper(still_stage.context(), lambda: beat, news.append, sweep_ms=1_000)
    sweeper.run_once()
    await still_stage.store.claim(ClaimRequest(wants=[("work", 1)], instance="x", claim_id="c", lease_ms=3_000))
    for _ in range(2):
        still_clock.advance("1s")
        assert sweeper.run_once().reaped == 0
    still_clock.advance("1s")
    report = sweeper.run_once()
    assert report.reaped == 1
    assert news[-1].next_due_at == made_at, "it keeps its place"
    assert [one.beat.instance for one in await still_stage.store.instances()] == ["here"]
    assert sweeper.pause(failures=0) == 1.0


async def test_after_an_outage_leases_are_extended_instead(still_stage: Stage, still_clock: FakeClock) -> None:
    await still_stage.add(nothing)
    await still_stage.schedule("u1")
    beat = Beat(instance="here", types=("work",), lease_ms=10_000)
    sweeper = Sweeper(still_stage.context(), lambda: beat, lambda tick: None, sweep_ms=1_000)
    sweeper.run_once()
    await still_stage.store.claim(ClaimRequest(wants=[("work", 1)], instance="x", claim_id="c", lease_ms=10_000))
    still_clock.advance("1h")
    with capture_logs() as said:
        report = sweeper.run_once()
    assert (report.reaped, report.extended) == (0, 1)
    assert [line["event"] for line in said] == ["leases extended"]


async def test_nobody_is_warned_of_the_time_before_the_start(still_stage: Stage, still_clock: FakeClock) -> None:
    """A worker claims before it sweeps for the first time, and nobody swept while none was there: that is no outage."""
    await still_stage.add(nothing)
    await still_stage.schedule("u1")
    await still_stage.store.claim(ClaimRequest(wants=[("work", 1)], instance="here", claim_id="c", lease_ms=10_000))
    beat = Beat(instance="here", types=("work",), lease_ms=10_000)
    sweeper = Sweeper(still_stage.context(), lambda: beat, lambda tick: None, sweep_ms=1_000)
    still_clock.advance("1s")
    with capture_logs() as said:
        assert sweeper.run_once().extended == 1
    assert said == []


async def test_the_pruner_goes_on_while_pages_are_full(still_stage: Stage, still_clock: FakeClock) -> None:
    await still_stage.add(nothing)
    await still_stage.schedule(*(f"u{n}" for n in range(25)))
    await still_stage.worker().run_until_idle()
    still_clock.advance("3h")
    faulty = FaultyStore(still_stage.store)
    pruner = Pruner(still_stage.context(faulty), run_ttl_ms=HOUR, page=10)
    assert await pruner.run_once() == Purged(ended=0, purged=25, forgotten=0, runs=25)
    assert faulty.calls["prune"] == 3
    assert await still_stage.runs() == []
    assert pruner.pause_after(Purged(0, 0, 0, 0)) == 60.0


async def test_the_pruner_leaves_what_is_young(still_stage: Stage, still_clock: FakeClock) -> None:
    await still_stage.add(nothing)
    await still_stage.schedule("u1")
    await still_stage.worker().run_until_idle()
    pruner = Pruner(still_stage.context(), run_ttl_ms=30 * DAY)
    assert await pruner.run_once() == Purged(0, 0, 0, 0)


async def test_the_pump_is_needed_only_if_something_comes_after_something(still_stage: Stage) -> None:
    await still_stage.add(nothing, "first")
    assert not Pump(still_stage.context(), still_stage.types.values()).followed
    await still_stage.add(nothing, "second", after=("first",))
    pump = Pump(still_stage.context(), still_stage.types.values())
    assert pump.followed
    assert pump.pause_after(0) == 1.0


async def test_the_pump_hands_completions_on(still_stage: Stage) -> None:
    await still_stage.add(nothing, "first")
    await still_stage.add(nothing, "second", after=("first",))
    await still_stage.schedule("u1", "u2", name="first")
    first_only = {"first": still_stage.types["first"]}
    still_stage.types, types = first_only, still_stage.types
    still_stage.handlers, handlers = {"first": still_stage.handlers["first"]}, still_stage.handlers
    await still_stage.worker().run_until_idle()
    pump = Pump(still_stage.context(), types.values())
    assert await pump.run_once() == 2
    assert await pump.run_once() == 0
    assert await still_stage.status("u1", "second") == "pending"
    assert set(handlers) == {"first", "second"}


async def test_the_listener_passes_on_that_something_is_due(memory_stage: Stage) -> None:
    await memory_stage.add(nothing)
    pokes: list[int] = []
    listener = Listener(memory_stage.context(), lambda: pokes.append(1))
    async with asyncio.TaskGroup() as group:
        heard = group.create_task(listener.run_once())
        await memory_stage.schedule("u1")
    assert heard.result()
    assert pokes == [1]


def test_health_names_what_fails_and_what_is_silent() -> None:
    clock = FakeClock()
    pulse = Pulse(clock)
    pulse.expect("sweeper", 8.0)
    pulse.expect("pruner", 100.0)
    pulse.good("sweeper")
    assert pulse.reasons() == []
    clock.advance("9s")
    assert pulse.reasons() == ["The sweeper has been silent for 9 s; 8 s is the limit."]
    pulse.bad("pruner", StoreUnavailable("The store is away. Wait."))
    assert "The pruner fails. StoreUnavailable: The store is away. Wait." in pulse.reasons()
    pulse.good("sweeper")
    pulse.good("pruner")
    assert pulse.reasons() == []
    assert pulse.seconds_since_good() == {"sweeper": 0.0, "pruner": 0.0}


async def test_a_worker_that_does_not_run_is_not_healthy(still_stage: Stage) -> None:
    await still_stage.add(nothing)
    health = still_stage.worker().health()
    assert not health.ok
    assert health.reasons == ("The worker is not running.",)


async def test_the_pruner_goes_on_with_erasures(still_stage: Stage, still_clock: FakeClock) -> None:
    """Whoever asked for it may be gone: what still ran then is removed by a later pass."""
    await still_stage.add(nothing)
    await still_stage.schedule("u1", "u2")
    store = still_stage.store
    request = ClaimRequest(wants=[("work", 2)], instance="x", claim_id="c", lease_ms=10_000)
    claimed = (await store.claim(request)).tasks
    assert (await store.erase_user("u1")).running == 1
    pruner = Pruner(still_stage.context(), run_ttl_ms=30 * DAY)
    await pruner.run_once()
    assert [each.running for each in await store.erasures()] == [1]
    await store.settle(
        [
            Settlement(task_type="work", key=task.key, token=task.token, transition=Transition.RELEASE)
            for task in claimed
        ]
    )
    await pruner.run_once()
    assert await store.erasures() == []
    assert [task.key for task in (await store.find(TaskQuery())).items] == ["u2"]
    assert [run.key for run in await still_stage.runs()] == ["u2"]
