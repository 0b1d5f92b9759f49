"""Looking and telling: once over all instances, with patience for sinks, and never stopped by one."""

from __future__ import annotations

import asyncio

import pytest
from scene import Recorded, Scene

from rota import load_config
from rota.alerts import AlertDuty, Alerts, try_sink
from rota.alerts.alert_store import AlertNotice
from rota.alerts.delivery import MAX_TRIES, Delivered, Tried, back_off_ms
from rota.alerts.reading import READ
from rota.clock import SECOND, Instant
from rota.core.alert import ENGINE_KINDS, EngineKind
from rota.core.task import Identity
from rota.errors import InvalidConfig, InvalidInput, WebhookFailed, WebhookRefused
from rota.testing.faulty import FaultyStore
from rota.testing.waiting import PATIENCE

DEAD = {"dead": {"kind": "dead_letters", "for": "30s", "to": ["there"]}}
AT_ONCE = {"dead": {"kind": "dead_letters", "for": "0s", "to": ["there"]}}


async def look(scene: Scene, duty: AlertDuty, *, times: int = 1, every: str = "15s") -> None:
    for _ in range(times):
        scene.clock.advance(every)
        await duty.run_once()


async def come_and_go(scene: Scene, duty: AlertDuty, *, times: int) -> None:
    """A dead letter, looked at when it is there and when it is not."""
    for _ in range(times):
        await scene.fail("u1")
        await look(scene, duty)
        await scene.store.purge([Identity("work", "u1")])
        await look(scene, duty)


async def test_an_alert_fires_after_its_hold_and_is_resolved_after_its_hold(scene: Scene) -> None:
    await scene.add_type()
    duty = scene.duty(DEAD)
    await look(scene, duty)
    await scene.fail("u1")
    await look(scene, duty, times=2)
    assert scene.sink.told == []
    await look(scene, duty)
    assert scene.sink.told == [("dead", "work", "firing")]
    (firing,) = await scene.alerts.firing()
    assert (firing.rule, firing.subject, firing.value, firing.is_clearing) == ("dead", "work", "1", False)
    assert await scene.alerts.count() == 1

    await scene.store.purge([Identity("work", "u1")])
    await look(scene, duty, times=2)
    assert [one.is_clearing for one in await scene.alerts.firing()] == [True]
    await look(scene, duty)
    assert scene.sink.told[1:] == [("dead", "work", "resolved")]
    assert await scene.alerts.firing() == []
    events = (await scene.alerts.history()).items
    assert [event.state.value for event in events] == ["resolved", "firing"]
    assert all(event.delivered["there"]["ok"] for event in events)
    assert "1 task of work has failed" in events[1].to_dict()["summary"]  # pyright: ignore[reportOperatorIssue] -- a text


async def test_one_that_flaps_says_nothing(scene: Scene) -> None:
    await scene.add_type()
    duty = scene.duty(DEAD)
    await come_and_go(scene, duty, times=5)
    assert scene.sink.told == []


async def test_it_survives_a_restart(scene: Scene) -> None:
    await scene.add_type()
    await scene.fail("u1")
    await look(scene, scene.duty(AT_ONCE, "first"))
    scene.clock.advance("2m")  # the first one is gone, and its turn with it
    await look(scene, scene.duty(AT_ONCE, "second"), times=3)
    assert scene.sink.told == [("dead", "work", "firing")]


async def test_only_one_looks_at_a_time_and_the_next_takes_over(scene: Scene) -> None:
    await scene.add_type()
    one, other = scene.duty(AT_ONCE, "one"), scene.duty(AT_ONCE, "other")
    assert (await one.watch.run_once()).was_ours
    assert not (await other.watch.run_once()).was_ours
    scene.clock.advance("46s")
    assert (await other.watch.run_once()).was_ours
    assert not (await one.watch.run_once()).was_ours


async def test_whoever_stops_gives_the_turn_back(scene: Scene) -> None:
    await scene.add_type()
    one, other = scene.duty(AT_ONCE, "one"), scene.duty(AT_ONCE, "other")
    one.stop()
    async with asyncio.timeout(PATIENCE):
        await one.run()
    assert (await one.watch.run_once()).was_ours
    async with asyncio.timeout(PATIENCE):
        await one.run()
    assert (await other.watch.run_once()).was_ours


async def test_what_was_measured_by_one_that_slept_through_its_turn_is_not_used(scene: Scene) -> None:
    await scene.add_type()
    await scene.fail("u1")
    sleepy = scene.duty(AT_ONCE, "sleepy")
    slow = FaultyStore(scene.store)
    sleepy.watch._store = slow  # pyright: ignore[reportPrivateUsage]
    reached, go_on = asyncio.Event(), asyncio.Event()
    counts = scene.store.counts

    async def late_counts() -> object:
        reached.set()
        await go_on.wait()
        return await counts()

    slow.counts = late_counts  # pyright: ignore[reportAttributeAccessIssue] -- held back by hand
    looking = asyncio.create_task(sleepy.watch.run_once())
    await reached.wait()
    scene.clock.advance("1h")
    go_on.set()
    assert (await looking).changes == 0
    assert (await scene.alerts.history()).items == []


async def test_a_sink_that_fails_is_tried_again_with_pauses_that_grow(scene: Scene) -> None:
    await scene.add_type()
    await scene.fail("u1")
    scene.sink.failures = [OSError("no"), OSError("still no")]
    duty = scene.duty(AT_ONCE)
    await duty.run_once()
    assert scene.sink.told == []
    for _ in range(20):
        scene.clock.advance("1s")
        await duty.courier.run_once()
    assert scene.sink.told == [("dead", "work", "firing")]
    (event,) = (await scene.alerts.history()).items
    assert event.delivered["there"]["tries"] == 3


@pytest.mark.parametrize("error", [WebhookRefused("private"), WebhookFailed("gone", is_final=True)])
async def test_what_is_final_is_given_up_at_once_and_said_so(scene: Scene, error: Exception) -> None:
    await scene.add_type()
    await scene.fail("u1")
    scene.sink.failures = [error]
    duty = scene.duty(AT_ONCE)
    await duty.run_once()
    await look(scene, duty, times=3, every="10m")
    (event,) = (await scene.alerts.history()).items
    assert event.delivered["there"]["given_up"] is True
    assert event.delivered["there"]["error"] == str(error)
    assert scene.sink.told == []


async def test_a_sink_that_never_takes_it_is_given_up_on_in_the_end(scene: Scene) -> None:
    await scene.add_type()
    await scene.fail("u1")
    scene.sink.failures = [OSError("no")] * 50
    duty = scene.duty(AT_ONCE)
    await duty.run_once()
    for _ in range(MAX_TRIES + 3):
        scene.clock.advance("11m")
        await duty.courier.run_once()
    (event,) = (await scene.alerts.history()).items
    assert (event.delivered["there"]["tries"], event.delivered["there"]["given_up"]) == (MAX_TRIES, True)


async def test_a_broken_sink_stops_neither_the_look_nor_the_other_sink(scene: Scene) -> None:
    await scene.add_type()
    await scene.add_type("other")
    rules = {"dead": {"kind": "dead_letters", "for": "0s", "to": ["there", "log"]}}
    duty = scene.duty(rules)
    scene.sink.failures = [OSError("no")] * 50
    await scene.fail("u1")
    await look(scene, duty)
    await scene.fail("u2", name="other")
    await look(scene, duty)
    events = (await scene.alerts.history()).items
    assert {event.subject for event in events} == {"work", "other"}
    assert all(event.delivered["log"]["ok"] for event in events)
    assert not any(event.delivered["there"]["ok"] for event in events)


async def test_what_is_told_of_one_subject_keeps_its_order(scene: Scene) -> None:
    await scene.add_type()
    duty = scene.duty(AT_ONCE)
    scene.sink.failures = [OSError("no")] * 3
    await scene.fail("u1")
    await look(scene, duty, every="1s")
    await scene.store.purge([Identity("work", "u1")])
    for _ in range(60):
        await look(scene, duty, every="1s")
    assert [change for _, _, change in scene.sink.told] == ["firing", "resolved"]


async def test_a_courier_that_died_leaves_it_to_another(scene: Scene) -> None:
    await scene.add_type()
    await scene.fail("u1")
    one, other = scene.duty(AT_ONCE, "one"), scene.duty(AT_ONCE, "other")
    await one.watch.run_once()
    held = await one.alert_store.undelivered()
    assert await one.alert_store.acquire(held[1][0], 30_000) is not None
    await other.courier.run_once()
    assert scene.sink.told == []
    scene.clock.advance("31s")
    await other.courier.run_once()
    assert scene.sink.told == [("dead", "work", "firing")]


class Slow(Recorded):
    """A sink that takes its time, and lets another instance look in the meantime."""

    def __init__(self, scene: Scene, seconds: int) -> None:
        super().__init__()
        self._scene, self._seconds = scene, seconds
        self.other: AlertDuty | None = None

    async def send(self, notice: AlertNotice, now: Instant) -> None:
        other, self.other = self.other, None
        self._scene.clock.advance(self._seconds)
        assert self._scene.clock.now() - now <= self._seconds * SECOND, "it was told a time that is long gone"
        await super().send(notice, now)
        if other is not None:
            await other.courier.run_once()
            self.other = other


async def test_a_notice_is_its_couriers_from_the_moment_it_is_taken_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.alerts.duty.AT_ONCE", 1)
    for number in range(6):
        await scene.add_type(f"type{number}")
        await scene.fail("u1", name=f"type{number}")
    sink = Slow(scene, 9)
    one, sink.other = scene.duty(AT_ONCE, "one", sink), scene.duty(AT_ONCE, "other", sink)
    await one.run_once()
    assert sorted(sink.told) == [("dead", f"type{number}", "firing") for number in range(6)]


class Held(Recorded):
    """A sink that has heard, and does not say so before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.heard, self.let_go = asyncio.Event(), asyncio.Event()

    async def send(self, notice: AlertNotice, now: Instant) -> None:
        await super().send(notice, now)
        self.heard.set()
        await self.let_go.wait()


@pytest.mark.parametrize("hangs", [False, True])
async def test_one_that_is_stopped_while_it_tells_notes_it_first_unless_the_sink_hangs(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    await scene.add_type()
    await scene.fail("u1")
    sink = Held()
    duty = scene.duty(AT_ONCE, "one", sink)
    running = asyncio.create_task(duty.run())
    # One that hangs is waited for in vain, so not for long; for one that answers a busy machine may take its time.
    monkeypatch.setattr("rota.alerts.duty.FAREWELL_SECONDS", 0.01 if hangs else PATIENCE)
    async with asyncio.timeout(PATIENCE):
        await sink.heard.wait()
        running.cancel()
        if not hangs:
            sink.let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await running
    scene.clock.advance("31s")
    await scene.duty(AT_ONCE, "other").run_once()
    assert sink.told == [("dead", "work", "firing")]
    assert scene.sink.told == ([("dead", "work", "firing")] if hangs else []), (
        "only what nobody has noted is told again"
    )


async def test_a_dead_sink_hides_nothing_from_one_that_is_well(scene: Scene) -> None:
    dead = Recorded(failures=[OSError("no")] * 1_000)
    names = [f"type{number:03}" for number in range(80)]
    for name in names:
        await scene.add_type(name)
        await scene.fail("u1", name=name)
    many = scene.duty(AT_ONCE, "one")
    many.courier.sinks["there"] = dead
    await many.run_once()
    await scene.add_type("well")
    await scene.fail("u1", name="well")
    await many.watch.run_once()
    many.courier.sinks["there"] = scene.sink
    await many.courier.run_once()
    assert scene.sink.told == [("dead", "well", "firing")], "the others wait for their next try"


async def test_one_sink_that_fails_does_not_keep_the_end_from_another(scene: Scene) -> None:
    await scene.add_type()
    duty = scene.duty({"dead": {"kind": "dead_letters", "for": "0s", "to": ["there", "log"]}})
    well = duty.courier.sinks["log"] = Recorded()
    scene.sink.failures = [OSError("no")] * 4
    await scene.fail("u1")
    await look(scene, duty, every="1s")
    await scene.store.purge([Identity("work", "u1")])
    await look(scene, duty, every="1s")
    assert [change for _, _, change in well.told] == ["firing", "resolved"]
    assert scene.sink.told == []
    for _ in range(10):
        await look(scene, duty, every="1m")
    assert [change for _, _, change in scene.sink.told] == ["firing", "resolved"]
    assert [change for _, _, change in well.told] == ["firing", "resolved"]


async def test_a_sink_that_failed_is_tried_again_long_before_the_next_look(scene: Scene) -> None:
    await scene.add_type()
    await scene.fail("u1")
    scene.sink.failures = [OSError("no")]
    duty = scene.duty(AT_ONCE)
    _, report = await duty.run_once()
    assert (report.told, report.failed, report.next_ms) == (0, 1, back_off_ms(1))
    assert duty.courier.pause_after(report) == 5.0


async def test_what_somebody_else_is_telling_is_not_overtaken(scene: Scene) -> None:
    await scene.add_type()
    one, other = scene.duty(AT_ONCE, "one"), scene.duty(AT_ONCE, "other")
    await scene.fail("u1")
    await one.watch.run_once()
    await scene.store.purge([Identity("work", "u1")])
    await one.watch.run_once()
    alert_store = other.alert_store
    left = alert_store.undelivered

    async def overtaken(limit: int = 50) -> tuple[Instant, list[AlertNotice]]:
        found = await left(limit)
        assert await one.alert_store.acquire(found[1][0], 30_000) is not None
        return found

    alert_store.undelivered = overtaken  # the other's hold comes between its look and its own
    report = await other.courier.run_once()
    assert scene.sink.told == []
    assert report.next_ms is not None


async def test_a_clock_that_was_set_back_does_not_silence_anybody(scene: Scene) -> None:
    await scene.add_type()
    await scene.fail("u1")
    scene.sink.failures = [OSError("no")]
    duty = scene.duty(AT_ONCE)
    await duty.run_once()
    scene.clock.set(scene.clock.now() - 3_600_000)
    await duty.courier.run_once()
    assert scene.sink.told == [("dead", "work", "firing")]


async def test_whoever_was_told_that_it_fires_is_told_that_it_is_over(scene: Scene) -> None:
    await scene.add_type()
    await scene.fail("u1")
    await look(scene, scene.duty(AT_ONCE, "one"))
    to_the_log = {"dead": {"kind": "dead_letters", "for": "0s", "to": ["log"]}}
    await scene.store.purge([Identity("work", "u1")])
    await look(scene, scene.duty(to_the_log, "one"))
    assert scene.sink.told == [("dead", "work", "firing"), ("dead", "work", "resolved")]


async def test_when_something_began_that_fires_still_is_not_forgotten(scene: Scene) -> None:
    await scene.add_type()
    await scene.fail("u1")
    duty = scene.duty(AT_ONCE)
    await look(scene, duty)
    scene.clock.advance("91d")
    assert await duty.alert_store.prune() == 0
    assert len(await scene.alerts.firing()) == await scene.alerts.count() == 1


async def test_a_rule_that_nobody_has_any_more_is_resolved(scene: Scene) -> None:
    await scene.add_type()
    await scene.fail("u1")
    await look(scene, scene.duty(AT_ONCE, "one"))
    without = scene.duty({"late": {"kind": "oldest_pending", "to": ["there"]}}, "one")
    await look(scene, without, every="1m")
    assert len(await scene.alerts.firing()) == 1, "another instance may still have the rule"
    await look(scene, without, times=10, every="1m")
    assert await scene.alerts.firing() == []
    assert "its rule is gone" in (await scene.alerts.history()).items[0].summary
    assert scene.sink.told == [("dead", "work", "firing"), ("dead", "work", "resolved")]


async def test_the_history_comes_in_pages_and_old_events_go(scene: Scene) -> None:
    await scene.add_type()
    duty = scene.duty(AT_ONCE)
    await come_and_go(scene, duty, times=4)
    seen: list[int] = []
    cursor: str | None = None
    while True:
        page = await scene.alerts.history(3, cursor)
        seen += [event.id for event in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == 8
    with pytest.raises(InvalidInput):
        await scene.alerts.history(0)
    with pytest.raises(InvalidInput, match="cursor"):
        await scene.alerts.history(3, "x; drop table")
    scene.clock.advance("91d")
    assert await duty.alert_store.prune() == 8


async def test_a_store_that_is_away_changes_nothing(scene: Scene) -> None:
    await scene.add_type()
    await scene.fail("u1")
    faulty = FaultyStore(scene.store)
    duty = scene.duty(AT_ONCE)
    await duty.run_once()
    duty.watch._store = faulty  # pyright: ignore[reportPrivateUsage]
    with faulty.down(), pytest.raises(Exception, match="down on purpose"):
        await duty.watch.run_once()
    assert len(await scene.alerts.firing()) == 1
    assert scene.sink.told == [("dead", "work", "firing")]


def test_pauses_grow_up_to_a_limit() -> None:
    assert [back_off_ms(tries) // 1_000 for tries in (1, 2, 3, 7, 8, 50)] == [5, 10, 20, 320, 600, 600]


def test_a_delivery_is_written_so_that_the_open_ones_can_be_found() -> None:
    delivered = Delivered.to(["a", "b"])
    assert delivered.encode().startswith('{"done":false')
    half = delivered.after({"a": Tried().succeeded(5)}, 5)
    assert half.left() == ["b"]
    assert not half.done
    done = half.after({"b": Tried().failed(6, "no", is_final=True)}, 6)
    assert done.done
    assert Delivered.decode(done.encode()) == done


async def test_a_test_alert_goes_to_one_sink(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    config = scene.config(AT_ONCE)
    await try_sink(config, "log", scene.clock.now())
    assert "This is a test" in caplog.text
    with pytest.raises(InvalidInput, match="Did you mean 'there'"):
        await try_sink(config, "ther", scene.clock.now())


async def test_a_private_webhook_is_refused_at_the_start(scene: Scene) -> None:
    section = {"sinks": {"ops": {"webhook": "https://127.0.0.1/x"}}}
    config = load_config({"store": "memory://", "alerts": section}, environ={})
    with pytest.raises(InvalidConfig, match="open internet"):
        AlertDuty(scene.store, scene.database, config, clock=scene.clock)


async def test_a_secret_that_cannot_sign_is_refused_at_the_start(scene: Scene) -> None:
    section = {"sinks": {"ops": {"webhook": "https://hooks.example.org/", "secret": "whsec_this is no base64"}}}
    config = load_config({"store": "memory://", "alerts": section}, environ={})
    with pytest.raises(InvalidConfig, match="base64"):
        AlertDuty(scene.store, scene.database, config, clock=scene.clock)


def test_every_kind_of_the_engine_is_described_and_read() -> None:
    assert set(EngineKind) == set(READ) == set(ENGINE_KINDS)


async def test_reading_needs_nothing_but_a_database(scene: Scene) -> None:
    assert await Alerts(scene.database).firing() == []
    assert (await Alerts(scene.database).history()).items == []
    assert Recorded().told == []
