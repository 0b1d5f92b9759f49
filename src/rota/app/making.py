"""Offering a task to the store, in the trace of whoever makes it."""

from __future__ import annotations

from msgspec.structs import replace

from rota.core.outcome import Scheduled
from rota.core.task import NewTask
from rota.runtime.observer import Producer
from rota.stores.base import Store

__all__ = ["schedule_one"]


async def schedule_one(store: Store, new: NewTask, producer: Producer | None) -> Scheduled:
    """What the store has made of it. Its runs are linked to this call, if somebody traces."""
    if producer is None:
        (scheduled,) = await store.schedule([new])
        return scheduled
    with producer.making("schedule", new.task_type) as making:
        (scheduled,) = await store.schedule([replace(new, trace=making.trace)])
        making.led_to(scheduled.outcome)
    return scheduled
