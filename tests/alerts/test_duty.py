"""Looking and telling: once over all instances, with patience for sinks, and never stopped by one."""

from __future__ import annotations

import asyncio

import pytest
from scene import Recorded, Scene

from rota.alerts import AlertDuty, Alerts, try_sink
from rota.alerts.delivery import MAX_TRIES, Delivered, Tried, back_off_ms
from rota.alerts.reading import READ
from rota.config import load_config
from rota.core.alert import AlertKind
from rota.core.task import Identity
from rota.errors import InvalidConfig, InvalidInput, WebhookFailed, WebhookRefused
from rota.testing.faulty import FaultyStore

DEAD = {"dead": {"kind": "dead_letters", "for": "30s", "to": ["there"]}}
AT_ONCE = {"dead": {"kind": "dead_letters", "for": "0s", "to": ["there"]}}


async def look(scene: Scene, duty: AlertDuty, *, times: int = 1, every: str = "15s") -> None:
    for _ in range(times):
        scene.clock.advance(every)
        await duty.run_once()


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
    for _ in range(5):
        await scene.fail("u1")
        await look(scene, duty)
        await scene.store.purge([Identity("work", "u1")])
        await look(scene, duty)
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
    running = asyncio.create_task(one.run())
    async with asyncio.timeout(10):
        await running
    assert (await one.watch.run_once()).was_ours
    one_more = asyncio.create_task(one.run())
    async with asyncio.timeout(10):
        await one_more
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
    held = await one._ledger.left()  # pyright: ignore[reportPrivateUsage]
    assert await one._ledger.hold(held[1][0], held[0] + 30_000) is not None  # pyright: ignore[reportPrivateUsage]
    await other.courier.run_once()
    assert scene.sink.told == []
    scene.clock.advance("31s")
    await other.courier.run_once()
    assert scene.sink.told == [("dead", "work", "firing")]


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


async def test_the_history_comes_in_pages_and_old_events_go(scene: Scene) -> None:
    await scene.add_type()
    duty = scene.duty(AT_ONCE)
    for _ in range(4):
        await scene.fail("u1")
        await look(scene, duty)
        await scene.store.purge([Identity("work", "u1")])
        await look(scene, duty)
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
    assert await duty._ledger.prune() == 8  # pyright: ignore[reportPrivateUsage]


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


def test_every_kind_has_a_reading_but_the_one_that_is_refused() -> None:
    assert set(AlertKind) - set(READ) == {AlertKind.OUTBOX_LAG}


async def test_reading_needs_nothing_but_a_database(scene: Scene) -> None:
    assert await Alerts(scene.database).firing() == []
    assert (await Alerts(scene.database).history()).items == []
    assert Recorded().told == []
