"""Values as every face prints and reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from rota.clock import Instant, from_datetime, isoformat
from rota.errors import InvalidInput
from rota.events.handle import Handle

__all__ = ["handle_dict", "instant_of"]


def handle_dict(handle: Handle) -> dict[str, Any]:
    """A handle with its times in ISO 8601. `next_at` is for those about which something is still to be done."""
    shown: dict[str, Any] = msgspec.structs.asdict(handle)
    times = {name: isoformat(shown[name]) for name in ("expires_at", "resumed_at", "created_at")}
    return {**shown, **times, "status": str(handle.status), "next_at": isoformat(handle.next_at or None)}


def instant_of(text: str) -> Instant:
    """A moment in ISO 8601; without an offset, in UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is no moment. Write it like '2026-01-31T09:30:00Z'.") from None
    return from_datetime(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
