"""Batches: "50 names in this style", split, ranked, limited, made by agents and streamed back, first items at once.

`app.batches.start(...)` asks for one; `@app.generator` makes items of an own type.
"""

from __future__ import annotations

from rota.lazy import lazy

# Type checkers read the same names in `__init__.pyi`.
_HOMES = {
    "rota.batches.batch": (
        "Batch",
        "BatchStatus",
        "EndReason",
        "Subtask",
        "SubtaskStatus",
        "UnknownBatch",
    ),
    "rota.batches.generators.base": (
        "Generated",
        "GenerationRequest",
        "Generator",
        "Item",
    ),
    "rota.batches.part": (
        "BatchesPart",
        "batches_of",
        "install_batches",
    ),
    "rota.batches.request": (
        "BatchRequest",
        "BatchesFrozen",
        "BatchesFull",
        "OtherRequest",
    ),
    "rota.batches.rows": ("BatchEvent",),
    "rota.batches.service": (
        "BatchHandle",
        "BatchItem",
        "BatchQuery",
        "BatchResult",
        "Batches",
        "Switches",
    ),
    "rota.batches.sync": (
        "BatchOptions",
        "SyncBatch",
        "SyncBatches",
    ),
}

__all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
