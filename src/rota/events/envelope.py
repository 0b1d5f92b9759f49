"""An event: something that has happened, named `Domain.Aggregate[.Sub].PastVerb`, in an envelope that all buses carry.

    Event("Genesis.Session.DetailBatchCreated", aggregate_id="s1", payload={"items": [...]})

Events of one key are handled in the order in which they were committed; those of different keys side by side. The key
is the aggregate unless another one is given: where no order is needed, a key of its own lets an event overtake.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Self

import msgspec

from rota.clock import Instant, from_datetime, to_datetime
from rota.codec import to_json, warmed
from rota.errors import InvalidInput
from rota.keys import check_id

__all__ = [
    "DEAD_SUFFIX",
    "MAX_PAYLOAD_BYTES",
    "VERBS",
    "Event",
    "check_topic",
    "check_type",
    "decode",
    "encode",
    "partition_of",
    "payload_json",
    "topic_of",
    "uuid7",
]

VERBS: Final = (
    "Requested",
    "Created",
    "Proposed",
    "Submitted",
    "Confirmed",
    "Updated",
    "Revised",
    "Completed",
    "Finished",
    "Failed",
)
"""How the last part of a name may end."""
MAX_PAYLOAD_BYTES: Final = 262_144
MAX_NAME: Final = 200
DEAD_SUFFIX: Final = ".DLT"
"""What the topic of dead letters has behind its name."""

_WORD: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_VERSION: Final = re.compile(r"[._]?[vV][0-9]+$")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
_HEADER: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class _Named(msgspec.Struct, frozen=True):
    # What an event is called may stand first, without its word.
    event_type: str


class Event(_Named, frozen=True, kw_only=True):
    """What has happened. Whatever is None is filled in when it is added to the outbox."""

    aggregate_id: str
    payload: Any = None
    event_id: str | None = None
    event_version: int = 1
    aggregate_type: str | None = None
    """Domain and aggregate of its name, unless given."""
    key: str | None = None
    """Events of one key keep their order; the aggregate unless given."""
    topic: str | None = None
    correlation_id: str | None = None
    """What it belongs to: a request, a batch, a flow that waits."""
    causation_id: str | None = None
    """The event or command that led to it."""
    user_id: str | None = None
    occurred_at: Instant | None = None
    headers: Mapping[str, str] = {}

    def then(self, event_type: str, payload: object = None, *, aggregate_id: str | None = None, **more: Any) -> Event:
        """An event that this one has led to: of the same aggregate, user and correlation unless others are given."""
        given: dict[str, Any] = {
            "correlation_id": self.correlation_id,
            "causation_id": self.event_id,
            "user_id": self.user_id,
            **more,
        }
        return Event(
            event_type=event_type,
            payload=payload,
            aggregate_id=self.aggregate_id if aggregate_id is None else aggregate_id,
            **given,
        )

    def checked(self) -> Self:
        """The event itself, if all that can be seen of it is right; else `InvalidInput` says what is not."""
        check_type(self.event_type)
        if not 1 <= self.event_version <= 1_000_000:
            raise InvalidInput(f"event_version is {self.event_version!r}. Use a whole number from 1 on.")
        _check_id("aggregate_id", self.aggregate_id)
        for name in ("event_id", "aggregate_type", "key", "correlation_id", "causation_id", "user_id"):
            value = getattr(self, name)
            if value is not None:
                _check_id(name, value)
        if self.topic is not None:
            check_topic(self.topic)
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name) or len(value) > 1_000:
                raise InvalidInput(f"The header {name[:100]!r} has a name or a value that no bus carries.")
        return self


@lru_cache(maxsize=1_024)
def check_type(event_type: str) -> str:
    """The name itself, if it is one of an event."""
    parts = event_type.split(".")
    if not 3 <= len(parts) <= 4 or len(event_type) > MAX_NAME or not all(_WORD.fullmatch(part) for part in parts):
        raise InvalidInput(
            f"No event can be called {event_type[:MAX_NAME]!r}."
            " Name it Domain.Aggregate.PastVerb or Domain.Aggregate.Sub.PastVerb, like 'Genesis.Session.NameCreated'."
        )
    if parts[-1].endswith(VERBS):
        return event_type
    unversioned = _VERSION.sub("", parts[-1])
    if unversioned != parts[-1] and unversioned.endswith(VERBS):
        raise InvalidInput(f"{event_type!r} has a version in its name. Leave it out, and use event_version instead.")
    raise InvalidInput(
        f"{event_type!r} does not say what has happened: its last part must end in {', '.join(VERBS[:-1])} or"
        f" {VERBS[-1]}."
    )


def check_topic(topic: str) -> str:
    """The topic itself, if every bus takes it."""
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise InvalidInput(f"No topic can be called {topic[:MAX_NAME]!r}. Use letters, digits, '.', '_' and '-'.")
    return topic


def topic_of(event_type: str, prefix: str) -> str:
    """The topic of a type: one for all events of an aggregate, because order is kept within a topic only."""
    domain, aggregate, *_ = event_type.split(".")
    return f"{prefix}{domain}.{aggregate}".lower()


def partition_of(key: str, partitions: int) -> int:
    """Which of so many partitions a key belongs to, for ever."""
    return zlib.crc32(key.encode()) % partitions


def uuid7(at: Instant, chance: bytes) -> str:
    """A UUID that sorts by time: 48 bits of milliseconds, the rest from ten bytes of chance."""
    assert len(chance) == 10
    value = (at & (1 << 48) - 1) << 80 | int.from_bytes(chance)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# --- on the wire ---


class _Wire(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope as JSON. What others add to it is passed over."""

    event_id: str
    event_type: str
    aggregate_id: str
    aggregate_type: str = ""
    event_version: int = 1
    key: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    user_id: str | None = None
    occurred_at: datetime | None = None
    payload: msgspec.Raw = msgspec.Raw(b"null")


_DECODER: Final = warmed(
    msgspec.json.Decoder(_Wire), '{"event_id":"e","event_type":"A.B.Created","aggregate_id":"a","payload":{}}'
)


def encode(event: Event, payload: bytes | str) -> bytes:
    """The envelope with a payload that is JSON already."""
    assert event.event_id is not None
    raw = payload.encode() if isinstance(payload, str) else payload
    wire = _Wire(
        event_id=event.event_id,
        event_type=event.event_type,
        aggregate_id=event.aggregate_id,
        aggregate_type=event.aggregate_type or "",
        event_version=event.event_version,
        key=event.key,
        correlation_id=event.correlation_id,
        causation_id=event.causation_id,
        user_id=event.user_id,
        occurred_at=None if event.occurred_at is None else to_datetime(event.occurred_at),
        payload=msgspec.Raw(raw),
    )
    return msgspec.json.encode(wire)


def decode(value: bytes, *, topic: str, key: str, headers: Mapping[str, str]) -> Event:
    """The event that a message carries. `InvalidInput` says why it carries none."""
    try:
        wire = _DECODER.decode(value)
        payload = msgspec.json.decode(wire.payload)
        occurred_at = None if wire.occurred_at is None else from_datetime(wire.occurred_at)
    except (msgspec.MsgspecError, ValueError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"The message is no envelope: {error}.") from None
    check_type(wire.event_type)
    _check_id("event_id", wire.event_id)
    return Event(
        event_type=wire.event_type,
        aggregate_id=wire.aggregate_id,
        payload=payload,
        event_id=wire.event_id,
        event_version=wire.event_version,
        aggregate_type=wire.aggregate_type,
        key=key,
        topic=topic,
        correlation_id=wire.correlation_id,
        causation_id=wire.causation_id,
        user_id=wire.user_id,
        occurred_at=occurred_at,
        headers=headers,
    )


def payload_json(payload: object) -> str:
    """The payload as JSON, if it is some, and not too large."""
    try:
        text = to_json(payload)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"The payload of an event must be JSON: {error}.") from None
    if len(text) > MAX_PAYLOAD_BYTES:
        raise InvalidInput(
            f"The payload of an event is at most {MAX_PAYLOAD_BYTES:,} bytes of JSON; this one has {len(text):,}."
            " Keep large data elsewhere, and send where it is."
        )
    return text.decode()


def _check_id(name: str, value: object) -> None:
    check_id(value, name)
    if not value:
        raise InvalidInput(f"{name} is empty. Give it at least one character.")
