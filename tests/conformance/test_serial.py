"""The rules of rota.testing.conformance.serial, on every store."""

from rota.testing.conformance.serial import TestParking, TestSerial, TestTheDeadOfOneSerial

__all__ = ["TestParking", "TestSerial", "TestTheDeadOfOneSerial"]
