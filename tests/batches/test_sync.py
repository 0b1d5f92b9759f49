"""Batches for code without an event loop."""

from __future__ import annotations

import pytest
from tests.batches.scene import Maker, World

from rota import Rota
from rota.batches import BatchesPart, BatchStatus, UnknownBatch


def test_a_batch_without_an_event_loop(file_world: World) -> None:
    app = Rota(file_world.settings, parts=[BatchesPart(generator=Maker())])
    with app.sync as sync:
        batch = sync.batches.start("location_name", 20, style="norse", idempotency_key="k")
        sync.wait(app.start())
        try:
            names = [item.name for item in batch]
            assert len(set(names)) == 20
            result = batch.result()
            assert (result.batch.status, [item.name for item in result.items]) == (BatchStatus.COMPLETED, names)
            told = [event.event for event in batch.events()]
            assert (told[0], told[-1]) == ("accepted", "completed")
            assert [event.number for event in batch.events(after=len(told) - 1)] == [len(told)]
            again = sync.batches.start("location_name", 20, style="norse", idempotency_key="k")
            assert (again.id, again.is_new) == (batch.id, False)
            assert next(iter(sync.batches.handle(batch.id))).name == names[0], "whoever stops early is let go"
            with pytest.raises(UnknownBatch):
                sync.batches.handle("nope")
        finally:
            sync.wait(app.stop())


def test_it_is_held_back_and_ended(file_world: World) -> None:
    app = Rota(file_world.settings, parts=[BatchesPart(generator=Maker())])
    with app.sync as sync:
        batch = sync.batches.start("location_name", 20)
        assert batch.pause().status is BatchStatus.PAUSED
        assert batch.resume().status is BatchStatus.RUNNING
        assert batch.cancel().status is batch.status().status is BatchStatus.CANCELLED
        assert list(batch) == []
