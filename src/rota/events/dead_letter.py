"""The letter that tells of an event that was given up: the source system's body, with the full original."""

from __future__ import annotations

from msgspec.structs import replace

from rota.clock import Instant, isoformat
from rota.events.delivery import Failure
from rota.events.envelope import DEAD_SUFFIX, Event
from rota.events.inbox import Arrived
from rota.events.kept import Kept

__all__ = ["dead_letter", "without_original"]

MAX_TOPIC = 200


def dead_letter(
    consumer: str, arrived: Arrived, kept: Kept, event: Event | None, failure: Failure, at: Instant
) -> Event:
    """An event on the topic of dead letters. `event` is None where the message was none."""
    correlation_id = None if event is None else event.correlation_id
    body = {
        "type": "error",
        "id": arrived.event_id,
        "ts": isoformat(at),
        "agent": consumer,
        "original_topic": arrived.topic,
        "partition": kept.partition,
        "offset": kept.offset,
        "message_id": arrived.event_id,
        "correlation_id": correlation_id,
        "retries": failure.attempts,
        "error": failure.error,
        "error_class": failure.error_class,
        "payload": kept.original(),
    }
    # What dies on the topic of dead letters stays there.
    topic = f"{arrived.topic.removesuffix(DEAD_SUFFIX)}{DEAD_SUFFIX}"
    return Event(
        "Rota.Event.Failed",
        aggregate_id=arrived.event_id,
        key=arrived.key,
        topic=topic[-MAX_TOPIC:],
        payload=body,
        correlation_id=correlation_id,
        causation_id=arrived.event_id,
        user_id=arrived.user_id,
    )


def without_original(letter: Event) -> Event:
    """The same for an original that is too large for a letter: it is whole in the inbox."""
    return replace(letter, payload={**letter.payload, "payload": None, "is_cut": True})
