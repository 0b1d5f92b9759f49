"""Three instances on one database: however they race, every change is made once and told once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scene import Recorded

from rota.alerts import Alerts
from rota.alerts.alert_store import AlertStore
from rota.alerts.duty import AlertCourier
from rota.alerts.reading import Reading
from rota.clock import MINUTE, SECOND
from rota.core.alert import AlertChange, AlertRule, EngineKind, Known, step
from rota.database import Database
from rota.runtime.health import Pulse
from rota.testing import FakeClock

HOLD = 30 * SECOND
TURN = 20 * SECOND
RULE = AlertRule(name="r", kind=EngineKind.DEAD_LETTERS, for_ms=HOLD, to=("there",))

LOOKS = st.lists(st.tuples(st.sampled_from([5, 15, 25, 45]), st.booleans()), min_size=1, max_size=14)


_numbers = count()


class Instance:
    """One of those that race: a connection, an alert store and a courier of its own."""

    def __init__(self, url: str, clock: FakeClock, name: str, sink: Recorded) -> None:
        self.database = Database(url, clock=clock)
        self.alert_store = AlertStore(self.database, name)
        self.courier = AlertCourier(
            self.opened, {"there": sink}, check_ms=SECOND, pulse=Pulse(clock), chance=lambda: 0.5
        )

    async def opened(self) -> AlertStore:
        return self.alert_store

    async def look(self, subject: str, holds: bool) -> int:
        reading = Reading("r", subject, holds, "1", "words")
        if not await self.alert_store.turn.take(TURN):
            return 0
        changes = await self.alert_store.apply([reading], {"r": RULE}, gap_ms=5 * MINUTE)
        await self.courier.run_once()
        # What an earlier example has left is resolved on the way.
        return sum(change.subject == subject for change in changes)


async def race(url: str, looks: list[tuple[int, bool]], subject: str) -> None:
    clock, sink = FakeClock(), Recorded()
    async with AsyncExitStack() as stack:
        instances = [Instance(url, clock, f"{subject}-{number}", sink) for number in range(3)]
        for instance in instances:
            await instance.database.open()
            stack.push_async_callback(instance.database.close)
        expected: list[AlertChange] = []
        known: Known | None = None
        for seconds, holds in looks:
            clock.advance(seconds)
            made = await asyncio.gather(*(instance.look(subject, holds) for instance in instances))
            known, change = step(known, holds, clock.now(), hold_ms=HOLD, gap_ms=5 * MINUTE)
            expected += [] if change is None else [change]
            assert sum(made) == (change is not None)
        events = [
            event for event in (await Alerts(instances[0].database).history(200)).items if event.subject == subject
        ]
        assert [event.state for event in reversed(events)] == expected
        clock.advance("1h")
        for instance in instances:
            await instance.courier.run_once()
        assert [notice.change for notice in sink.seen if notice.subject == subject] == expected
        # Nobody's turn is left over for the next example.
        for instance in instances:
            await instance.alert_store.turn.give_back()


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(looks=LOOKS)
def test_every_change_is_made_once_and_told_once(database_url: str, looks: list[tuple[int, bool]]) -> None:
    # All examples share one database. A subject that Hypothesis drew could come twice, with the first one's history.
    asyncio.run(race(database_url, looks, f"subject-{next(_numbers)}"))
