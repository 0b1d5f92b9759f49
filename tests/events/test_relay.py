"""Which events a round of the relay takes: the oldest of each key, and none is held up by the many of another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update
from tests.events.chain import Chain, Instance, chain_on
from tests.events.conftest import BusWorld

from rota.database.tables.events import outbox
from rota.events.events import Events
from rota.events.relay import EARLY, Relay

GROUP = 8


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def chain(bus: BusWorld, request: pytest.FixtureRequest) -> AsyncGenerator[Chain]:
    async with chain_on(bus, str(request.getfixturevalue(str(request.param)))) as chain:
        yield chain


async def relay_of(chain: Chain) -> Relay:
    bus = await chain.world.bus()
    instance = Instance("one", Events(chain.database, bus, chain.config, chain.outbox), lease_ms=60_000)
    return instance.make_relay(group=GROUP)


async def sent(chain: Chain) -> list[tuple[str, int]]:
    """What has been sent so far, as it was added."""
    rows = await chain.outbox_rows(status="sent")
    return [(row.key, int(row.payload.removeprefix('{"number":').removesuffix("}"))) for row in rows]


@pytest.mark.parametrize("bus", ["redis6"], indirect=True)
async def test_a_key_with_much_before_it_holds_nobody_up(chain: Chain) -> None:
    many = EARLY * GROUP + 10
    await chain.publish(*(chain.event("hot", number) for number in range(many)))
    await chain.publish(*(chain.event(f"k{number}", 0) for number in range(GROUP - 1)))
    relay = await relay_of(chain)
    assert (await relay.run_once()).sent == GROUP
    assert set(await sent(chain)) == {("hot", 0), *((f"k{number}", 0) for number in range(GROUP - 1))}


@pytest.mark.parametrize("bus", ["redis6"], indirect=True)
async def test_keys_that_wait_hold_nobody_up(chain: Chain) -> None:
    """The first of many keys are somebody else's, or are to be tried later: whoever came after them goes."""
    waiting = EARLY * GROUP + 10
    await chain.publish(*(chain.event(f"w{number}", 0) for number in range(waiting)))
    await chain.database.write(lambda connection: connection.execute(update(outbox).values(next_at=2**52)))
    await chain.publish(*(chain.event(f"w{number}", 1) for number in range(waiting)), chain.event("free", 0))
    relay = await relay_of(chain)
    assert (await relay.run_once()).sent == 1
    assert await sent(chain) == [("free", 0)]


@pytest.mark.parametrize("bus", ["redis6"], indirect=True)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=st.lists(st.sampled_from(["a", "b", "c", *(f"k{number}" for number in range(12))]), max_size=90))
async def test_each_round_takes_the_first_of_each_key_and_all_get_there(chain: Chain, keys: Sequence[str]) -> None:
    await chain.database.write(lambda connection: connection.execute(outbox.delete()))
    if keys:
        await chain.publish(*(chain.event(key, number) for number, key in enumerate(keys)))
    relay = await relay_of(chain)
    left: defaultdict[str, list[int]] = defaultdict(list)
    for number, key in enumerate(keys):
        left[key].append(number)
    done: list[tuple[str, int]] = []
    while any(left.values()):
        report = await relay.run_once()
        new = sorted(set(await sent(chain)) - set(done), key=lambda one: one[1])
        assert report.sent == len(new) > 0
        assert len({key for key, _ in new}) == len(new) <= GROUP, "of each key one"
        for key, number in new:
            assert left[key].pop(0) == number, "the oldest"
        done += new
    assert (await relay.run_once()).sent == 0


@pytest.mark.parametrize("bus", ["redis6"], indirect=True)
async def test_a_relay_that_stops_lets_go_of_what_it_had_claimed_for_its_next_round(chain: Chain) -> None:
    await chain.publish(*(chain.event("a", number) for number in range(3)))
    stopped, other = await relay_of(chain), await relay_of(chain)
    assert (await stopped.run_once()).sent == 1
    assert (await other.run_once()).sent == 0  # the next one is claimed already
    await stopped.close()
    assert (await other.run_once()).sent == 1
    assert await sent(chain) == [("a", 0), ("a", 1)]
    await other.close()
