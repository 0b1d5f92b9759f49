"""The rules of rota.testing.conformance.serial, on every store."""

from rota.testing.conformance.serial import TestParking, TestSerial

__all__ = ["TestParking", "TestSerial"]
