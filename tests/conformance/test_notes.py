"""The rules of rota.testing.conformance.notes, on every store."""

from rota.testing.conformance.notes import TestNotes

__all__ = ["TestNotes"]
