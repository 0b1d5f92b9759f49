"""Relays that die between a claim and its note, again and again, two at once: none lost, none out of order.

A relay that is killed runs no more code: what it holds is let go by nobody. So the kill is an exception that nothing
catches, thrown at a point of the round, after which that relay is never used again.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from tests.events.chain import Chain, chain_on
from tests.events.conftest import BusWorld, without_repeats

from rota.clock import SystemClock
from rota.events.buses.base import Bus, Message, Outgoing
from rota.events.envelope import Event, decode
from rota.events.events import Events
from rota.events.relay import Relay
from rota.runtime.duty import DutyContext
from rota.runtime.health import Pulse
from rota.stores.memory import MemoryStore
from rota.testing.waiting import until

KEYS = 40
GROUP = 20
LEASE_MS = 60
POINTS = ("claimed", "before sending", "half sent", "sent", "noting", "noted")


class Killed(BaseException):
    """The process is gone."""


class _Bus(Bus):
    """The real bus, on which the relay dies before, within or after its group."""

    def __init__(self, real: Bus, relay: _MortalRelay) -> None:
        self.name = real.name
        self._real = real
        self._relay = relay

    async def publish(self, group: Sequence[Outgoing]) -> Any:
        self._relay.pass_by("before sending")
        if self._relay.point == "half sent":
            await self._real.publish(group[: len(group) // 2])
            self._relay.sent += len(group) // 2
        self._relay.pass_by("half sent")
        answers = await self._real.publish(group)
        self._relay.sent += len(group)
        self._relay.pass_by("sent")
        return answers

    open = close = lag = replay = reader = None  # pyright: ignore[reportAssignmentType]  # nobody asks it for more


class _MortalRelay(Relay):
    """A relay that dies at a point of its round."""

    def __init__(self, chain: Chain, bus: Bus, context: DutyContext, point: str) -> None:
        super().__init__(self._mine, context, group=GROUP, lease_ms=LEASE_MS)
        self.point = point
        self.sent = 0
        self._events = Events(chain.database, _Bus(bus, self), chain.config, chain.outbox)

    async def _mine(self) -> Events:
        return self._events

    def pass_by(self, point: str) -> None:
        if point == self.point:
            raise Killed

    async def _claim(self, database: Any) -> Any:
        claim = await super()._claim(database)
        if claim is not None:
            self.pass_by("claimed")
        return claim

    def _note(self, database: Any, connection: Any, claim: Any, answers: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        report = Relay._note(database, connection, claim, answers)
        self.pass_by("noting")
        return report

    def _count(self, events: Any, group: Any, answers: Any, seconds: float) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.pass_by("noted")


class _Killer:
    """Two relays at once, each replaced when it has died, until so many have."""

    def __init__(self, chain: Chain, bus: Bus, kills: int, chance: random.Random) -> None:
        self._chain = chain
        self._bus = bus
        self._left = kills
        self._chance = chance
        self._points = itertools.cycle(POINTS)
        self.sent = 0
        self.kills: Counter[str] = Counter()

    async def run(self, name: str, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            relay = self._new(name)
            try:
                while not is_over.is_set():
                    report = await relay.run_once()
                    if not report.sent:
                        await asyncio.sleep(0.001)
            except Killed:
                self.kills[relay.point] += 1
                self._left -= 1
            finally:
                self.sent += relay.sent

    def _new(self, name: str) -> _MortalRelay:
        context = DutyContext(
            MemoryStore(), name, SystemClock(), Pulse(SystemClock()), self._chance.random, call_timeout=60.0
        )
        point = next(self._points) if self._left > 0 else ""
        return _MortalRelay(self._chain, self._bus, context, point)


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def chain(bus: BusWorld, request: pytest.FixtureRequest) -> AsyncGenerator[Chain]:
    async with chain_on(bus, str(request.getfixturevalue(str(request.param)))) as chain:
        yield chain


@pytest.mark.parametrize("bus", ["redis6", "kafka"], indirect=True)
async def test_relays_that_die_lose_nothing_and_reorder_nothing(chain: Chain) -> None:
    kills = 1_000 if os.environ.get("ROTA_FUZZ") else 30
    chance = random.Random(13)
    killer = _Killer(chain, await chain.world.bus(), kills, chance)
    is_over = asyncio.Event()
    relays = [asyncio.create_task(killer.run(name, is_over)) for name in ("one", "two")]
    published: defaultdict[str, list[int]] = defaultdict(list)
    number = 0
    while killer.kills.total() < kills:
        if number % 200 == 0:
            await until(lambda: _is_short(chain), "the relays are not far behind")
        added: list[Event] = []
        for _ in range(10):
            key = f"k{chance.randrange(KEYS)}"
            published[key].append(number)
            added.append(chain.event(key, number))
            number += 1
        await chain.publish(*added)
        await asyncio.sleep(0.002)

    async def all_sent() -> bool:
        return not await chain.outbox_rows(status="new")

    await until(all_sent, "everything is sent")
    is_over.set()
    await asyncio.gather(*relays)
    assert {row.status for row in await chain.outbox_rows()} == {"sent"}
    assert set(killer.kills) == set(POINTS), "each point was met"

    reader = await chain.world.alone(consumer=f"check-{number}")
    seen: list[Message] = []

    async def all_read() -> bool:
        seen.extend(await reader.fetch(1_000, 0.5))
        return len({message.headers["event_id"] for message in seen}) >= number

    await until(all_read, "everything was read")
    numbers = {key: without_repeats([one["number"] for one in values]) for key, values in _payloads(seen).items()}
    assert numbers == dict(published)
    assert len(seen) - number <= GROUP * killer.kills.total(), "at most a group for each kill"


async def _is_short(chain: Chain) -> bool:
    return len(await chain.outbox_rows(status="new")) < 400


def _payloads(messages: Sequence[Message]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for message in messages:
        event = decode(message.value, topic=message.place.topic, key=message.key, headers=message.headers)
        found.setdefault(message.key, []).append(event.payload)
    return found
