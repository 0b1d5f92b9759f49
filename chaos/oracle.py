"""What really happened: an append-only file that every handler writes to, beside the store and without it."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

__all__ = ["Line", "read", "starts", "write"]


class Line(NamedTuple):
    """One thing that a handler did."""

    at: float
    what: str
    key: str
    token: int
    pid: int


def write(path: Path, what: str, key: str, token: int) -> None:
    """Append one line; a single write of a short line in append mode is not torn by another process."""
    line = f"{time.time():.6f} {what} {key} {token} {os.getpid()}\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Line]:
    """Everything that was written so far."""
    if not path.exists():
        return []
    fields = (line.split() for line in path.read_text().splitlines())
    return [Line(float(at), what, key, int(token), int(pid)) for at, what, key, token, pid in fields]


def starts(path: Path) -> dict[str, list[Line]]:
    """The starts of each key, in order."""
    found: defaultdict[str, list[Line]] = defaultdict(list)
    for line in read(path):
        if line.what == "start":
            found[line.key].append(line)
    return found
