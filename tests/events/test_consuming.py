"""From a commit to its effect, on every bus: once, in the order of the keys, whatever fails."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest
from tests.events.chain import Chain

from rota.events.consumer import Effect
from rota.events.delivery import Later, NonRetriable
from rota.events.envelope import Event
from rota.testing.waiting import PATIENCE, until


async def test_what_is_committed_has_its_effect_once_and_in_order(chain: Chain) -> None:
    one = (await chain.instance()).relay()

    async def handle(event: Event) -> Effect:
        return chain.effect(event)

    async with one.consume(handle).running():
        for number in range(5):
            await chain.publish(*(chain.event(f"k{key}", number) for key in range(20)))
        await chain.until_count(100)
    assert await chain.effects() == {f"k{key}": list(range(5)) for key in range(20)}
    assert {row.status for row in await chain.inbox()} == {"done"}
    assert {row.status for row in await chain.outbox_rows()} == {"sent"}


async def test_what_is_rolled_back_is_never_published(chain: Chain) -> None:
    one = (await chain.instance()).relay()
    seen: list[Event] = []

    async def handle(event: Event) -> None:
        seen.append(event)

    def write_and_fail(connection: Any) -> None:
        chain.outbox.add(connection, chain.event("k", 1))
        raise ValueError("changed its mind")

    async with one.consume(handle).running():
        with pytest.raises(ValueError, match="changed its mind"):
            await chain.database.write(write_and_fail)
        await chain.publish(chain.event("k", 2))
        await until(lambda: seen, "the other one is there")
    assert [event.payload["number"] for event in seen] == [2]


async def test_an_event_that_comes_again_has_no_second_effect(chain: Chain) -> None:
    chain.world.needs("replay")
    one = (await chain.instance()).relay()

    async def handle(event: Event) -> Effect:
        return chain.effect(event)

    async with one.consume(handle).running() as running:
        await chain.publish(*(chain.event(f"k{number % 7}", number) for number in range(50)))
        await chain.until_count(50)
        await until(lambda: running.events.stats.handled["mail", "done"] == 50, "all are done")
        await running.events.bus.replay("mail", [chain.world.topic], 0)
        await until(lambda: running.events.stats.handled["mail", "known"] >= 50, "all came again")
    assert await chain.count() == 50


async def test_an_effect_that_fails_leaves_nothing_and_is_tried_again(chain: Chain) -> None:
    one = (await chain.instance()).relay()
    tries: list[int] = []

    async def handle(event: Event) -> Effect:
        def write(connection: Any) -> None:
            chain.effect(event)(connection)
            chain.outbox.add(connection, event.then("Shop.Mail.Created", {}, topic=f"{chain.prefix}elsewhere"))
            tries.append(1)
            if len(tries) < 3:
                raise RuntimeError("the disk of the shop is full")

        return write

    async with one.consume(handle).running():
        await chain.publish(chain.event("k", 1))
        await chain.until_count(1)
        await until(lambda: len(tries) == 3, "it was tried three times")
    assert await chain.effects() == {"k": [1]}
    assert len(await chain.outbox_rows(topic=f"{chain.prefix}elsewhere")) == 1
    (row,) = await chain.inbox()
    assert (row.status, row.attempts, row.crashes, row.envelope) == ("done", 2, 0, None)


async def test_a_key_that_fails_waits_in_order_and_nobody_else_feels_it(chain: Chain) -> None:
    one = (await chain.instance()).relay()
    is_broken = True

    async def handle(event: Event) -> Effect:
        if is_broken and event.key == "bad":
            raise RuntimeError("not today")
        return chain.effect(event)

    async with one.consume(handle, max_attempts=100).running():
        for number in range(4):
            await chain.publish(chain.event("bad", number), *(chain.event(f"k{key}", number) for key in range(10)))
        await chain.until_count(40)
        await until(_lengths(chain, 4), "all of the bad key wait")
        waiting = await chain.inbox(key="bad")
        assert [row.status for row in waiting] == ["retrying"] * 4
        assert [row.attempts > 0 for row in waiting] == [True, False, False, False]
        is_broken = False
        await chain.until_count(44)
    assert (await chain.effects())["bad"] == [0, 1, 2, 3]


def _lengths(chain: Chain, count: int) -> Any:
    async def look() -> bool:
        return len(await chain.inbox(key="bad", status="retrying")) == count

    return look


async def test_attempts_that_are_used_up_end_in_a_dead_letter_with_the_full_original(chain: Chain) -> None:
    one = (await chain.instance()).relay()

    async def handle(event: Event) -> Effect:
        if event.payload["number"] == 1:
            raise RuntimeError("never")
        return chain.effect(event)

    async with one.consume(handle, max_attempts=2).running():
        await chain.publish(chain.event("k", 1, correlation_id="c1", user_id="u1"), chain.event("k", 2))
        await chain.until_count(1)
        await until(lambda: _rows_of(chain, "dead"), "one is dead")
    (dead,) = await chain.inbox(status="dead")
    assert (dead.attempts, dead.error_class, dead.error, dead.user_id) == (2, "RuntimeError", "never", "u1")
    (letter,) = await chain.outbox_rows(topic=f"{chain.world.topic}.DLT")
    body = msgspec.json.decode(letter.payload)
    assert (letter.event_type, letter.key, letter.correlation_id) == ("Rota.Event.Failed", "k", "c1")
    assert (body["type"], body["agent"], body["retries"], body["error"]) == ("error", "mail", 2, "never")
    assert (body["original_topic"], body["message_id"]) == (chain.world.topic, dead.event_id)
    assert body["payload"]["payload"] == {"number": 1}
    assert body["payload"]["event_id"] == dead.event_id


async def _rows_of(chain: Chain, status: str) -> bool:
    return bool(await chain.inbox(status=status))


async def test_what_can_never_succeed_is_dead_at_once_and_later_counts_nowhere(chain: Chain) -> None:
    one = (await chain.instance()).relay()
    waits: list[int] = []

    async def handle(event: Event) -> Effect:
        if event.key == "never":
            raise NonRetriable("no such style")
        if len(waits) < 20:
            waits.append(1)
            raise Later("1ms", "the model is warming up")
        return chain.effect(event)

    async with one.consume(handle, max_attempts=2).running():
        await chain.publish(chain.event("never", 1), chain.event("later", 1))
        await chain.until_count(1)
        await until(lambda: _rows_of(chain, "dead"), "one is dead")
    assert await chain.effects() == {"later": [1]}
    (never,) = await chain.inbox(key="never")
    assert (never.status, never.attempts, never.error) == ("dead", 1, "no such style")
    (later,) = await chain.inbox(key="later")
    assert (later.status, later.attempts) == ("done", 0)


async def test_a_hook_says_what_an_error_means(chain: Chain) -> None:
    one = (await chain.instance()).relay()

    async def handle(event: Event) -> Effect:
        raise KeyError(event.key)

    def classify(error: Exception) -> Any:
        match error.args[0]:
            case "dead":
                return "dead"
            case "broken":
                raise RuntimeError("the hook itself fails")
            case _:
                return None

    async with one.consume(handle, max_attempts=2, classify=classify).running():
        await chain.publish(*(chain.event(key, 1) for key in ("dead", "broken", "usual")))
        await until(lambda: _dead_count(chain, 3), "all are dead")
    assert {row.key: row.attempts for row in await chain.inbox()} == {"dead": 1, "broken": 2, "usual": 2}


async def _dead_count(chain: Chain, count: int) -> bool:
    return len(await chain.inbox(status="dead")) == count


async def test_events_of_other_types_are_passed_over(chain: Chain) -> None:
    one = (await chain.instance()).relay()

    async def handle(event: Event) -> Effect:
        return chain.effect(event)

    async with one.consume(handle, topics=(chain.world.topic,)).running() as running:
        other = Event(event_type="Shop.Order.Updated", aggregate_id="k", topic=chain.world.topic)
        await chain.publish(other, chain.event("k", 1))
        await chain.until_count(1)
        assert running.events.stats.handled["mail", "ignored"] == 1
    assert len(await chain.inbox()) == 1


async def test_two_consumers_have_each_their_own(chain: Chain) -> None:
    one = (await chain.instance()).relay()

    async def mail(event: Event) -> Effect:
        return chain.effect(event, "mail")

    def bill(event: Event) -> Effect:  # in a thread
        return chain.effect(event, "bill")

    async with one.consume(mail, name="mail").consume(bill, name="bill").running():
        await chain.publish(*(chain.event(f"k{number % 3}", number) for number in range(12)))
        await chain.until_count(12, "mail")
        await chain.until_count(12, "bill")
    assert await chain.effects("mail") == await chain.effects("bill")


async def test_a_handler_that_takes_too_long_has_failed(chain: Chain) -> None:
    one = (await chain.instance()).relay()
    tries: list[int] = []

    async def handle(event: Event) -> Effect:
        tries.append(1)
        if len(tries) == 1:
            await asyncio.sleep(PATIENCE)
        return chain.effect(event)

    async with one.consume(handle, timeout_ms=50).running():
        await chain.publish(chain.event("k", 1))
        await chain.until_count(1)
    (row,) = await chain.inbox()
    assert (row.status, row.attempts, row.error_class) == ("done", 1, "TimeoutError")


async def test_whoever_stops_gives_back_what_it_has_not_ended(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.events.consuming.GRACE_SECONDS", 0.05)
    began = asyncio.Event()

    async def hang(event: Event) -> None:
        began.set()
        await asyncio.sleep(PATIENCE)

    async def handle(event: Event) -> Effect:
        return chain.effect(event)

    async with (await chain.instance("first")).relay().consume(hang, concurrency=2).running():
        await chain.publish(*(chain.event(f"k{key}", number) for number in range(2) for key in range(4)))
        await began.wait()
    rows = await chain.inbox()
    assert {(row.status, row.attempts, row.crashes, row.lease_token) for row in rows} <= {("started", 0, 0, None)}
    async with (await chain.instance("second")).relay().consume(handle).running():
        await chain.until_count(8)
    assert await chain.effects() == {f"k{key}": [0, 1] for key in range(4)}


async def test_two_instances_share_the_work_and_one_goes_on_when_the_other_dies(chain: Chain) -> None:
    """The one that dies neither renews nor gives back: what it has is taken over when its leases are over."""

    async def handle(event: Event) -> Effect:
        return chain.effect(event)

    survivor = (await chain.instance("survivor")).relay().consume(handle)
    victim = (await chain.instance("victim")).consume(handle)
    async with survivor.running():
        async with victim.running():
            for number in range(5):
                await chain.publish(*(chain.event(f"k{key}", number) for key in range(40)))
            await chain.until_count(200)
        for number in range(5, 10):
            await chain.publish(*(chain.event(f"k{key}", number) for key in range(40)))
        await chain.until_count(400)
    assert await chain.effects() == {f"k{key}": list(range(10)) for key in range(40)}


async def test_a_handler_that_blocks_the_loop_keeps_its_event(chain: Chain) -> None:
    """The lease is renewed on a thread of its own: another instance does not begin what is under way here."""
    began: list[str] = []

    def handler_of(name: str) -> Any:
        async def handle(event: Event) -> Effect:
            began.append(name)
            time.sleep(2.5)  # noqa: ASYNC251 - that is the point
            return chain.effect(event)

        return handle

    one = (await chain.instance("one", lease_ms=1_000)).relay().consume(handler_of("one"))
    two = (await chain.instance("two", lease_ms=1_000)).consume(handler_of("two"))
    async with one.running(), two.running():
        await chain.publish(chain.event("k", 1))
        await chain.until_count(1)
    assert len(began) == 1
    assert await chain.count() == 1
