"""The rules of rota.testing.conformance.redrive, on every store."""

from rota.testing.conformance.redrive import TestRedrive

__all__ = ["TestRedrive"]
