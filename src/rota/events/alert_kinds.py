"""What rules under `alerts` can look at because there are events: how long the outbox waits, and dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rota.core.alert import AlertUnit
from rota.part import AlertContext, Measured, MeasuredKind

__all__ = ["ALERT_KINDS"]

OUTBOX: Final = "outbox"


async def _outbox_lag(context: AlertContext) -> Iterable[Measured]:
    from rota.clock import SECOND
    from rota.events.reading import EventReading

    waited = await EventReading(context.database).waits_ms()
    return [Measured(OUTBOX, 0.0 if waited is None else waited / SECOND)]


async def _dead_letters(context: AlertContext) -> Iterable[Measured]:
    from rota.events.reading import EventReading

    reading = EventReading(context.database)
    dead = await reading.dead_by_consumer()
    refused = (await reading.figures()).refused
    if refused:
        dead[OUTBOX] = refused
    return [Measured(subject, count) for subject, count in dead.items()]


ALERT_KINDS: Final = (
    MeasuredKind(
        name="outbox_lag",
        about="how long the first event in the outbox waits to be published",
        unit=AlertUnit.SECONDS,
        usual=60.0,
        words="The first event in the outbox has waited for {value}; the limit is {limit}.",
        measure=_outbox_lag,
    ),
    MeasuredKind(
        name="event_dead_letters",
        about="events that a consumer has given up, or that the bus has refused, and that wait for somebody to look",
        unit=AlertUnit.NUMBER,
        usual=1.0,
        words="Events that were given up at {subject}: {value}; the limit is {limit}.",
        measure=_dead_letters,
    ),
)
