"""The parts that every app knows. Importing one of them costs next to nothing: what it needs, it imports when used."""

from __future__ import annotations

from rota.agents.part import AgentsPart
from rota.alerts.part import AlertsPart
from rota.batches.part import BatchesPart
from rota.events.part import EventsPart
from rota.memory.part import MemoryPart
from rota.part import Part

__all__ = ["built_in_parts"]


def built_in_parts() -> list[Part]:
    """One of each, for one host."""
    return [EventsPart(), BatchesPart(), AgentsPart(), MemoryPart(), AlertsPart()]
