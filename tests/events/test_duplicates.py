"""Whatever a bus brings again, and however often: each effect once, and the counts exact."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from tests.events.chain import Chain, Instance

from rota.events.consumer import Effect
from rota.events.delivery import NonRetriable
from rota.events.envelope import Event
from rota.testing.waiting import until

DUPLICATES = 50_000 if os.environ.get("ROTA_FUZZ") else 1_000
EVENTS = 250
KEYS = 25


@pytest.mark.timeout(1_200)
async def test_duplicates_and_replays_have_no_effect_and_are_counted_exactly(chain: Chain) -> None:
    events = [chain.event(f"k{number % KEYS}", number, event_id=f"e{number}") for number in range(EVENTS)]
    begun: Counter[int] = Counter()

    async def handle(event: Event) -> Effect:
        number = event.payload["number"]
        begun[number] += 1
        if number % 50 == 7:
            raise NonRetriable("this one never works")
        return chain.effect(event)

    bad = {number for number in range(EVENTS) if number % 50 == 7}
    one = (await chain.instance()).relay().consume(handle, concurrency=20)
    async with one.running():
        await chain.publish(*events)
        await chain.until_count(EVENTS - len(bad))
        handled = one.events.stats.handled
        brought = 0
        while brought < DUPLICATES:
            await _bring_again(chain, one, events)
            brought += EVENTS
            await until(
                lambda brought=brought: handled["mail", "known"] >= brought,
                f"{brought} duplicates were passed over",
                seconds=300,
            )
    assert begun == Counter(range(EVENTS)), "each was begun once"
    assert handled["mail", "done"] == EVENTS - len(bad)
    assert handled["mail", "dead"] == len(bad)
    expected = {
        f"k{key}": [number for number in range(EVENTS) if number % KEYS == key and number not in bad]
        for key in range(KEYS)
    }
    assert await chain.effects() == expected
    statuses = Counter(row.status for row in await chain.inbox())
    assert statuses == {"done": EVENTS - len(bad), "dead": len(bad)}
    letters = [row for row in await chain.outbox_rows() if row.topic.endswith(".DLT")]
    assert len(letters) == len(bad), "one letter for each that is dead"


async def _bring_again(chain: Chain, instance: Instance, events: list[Event]) -> None:
    """By a replay, where the bus has one; else as a relay that has forgotten what it has sent."""
    if "replay" in chain.world.abilities:
        await instance.events.bus.replay("mail", [chain.world.topic], 0)
    else:
        await chain.world.publish(
            *(chain.event(e.aggregate_id, e.payload["number"], event_id=e.event_id) for e in events)
        )
