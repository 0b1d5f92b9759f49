"""What a command that works for long changes in its process."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import asyncio, gc
from rota.cli.event_loop import run_on_loop

{before}

async def main():
    print(gc.get_threshold()[0], type(asyncio.get_running_loop()).__module__.partition(".")[0])

run_on_loop(main(), fast={fast})
"""


@pytest.mark.parametrize(
    ("fast", "before", "printed"),
    [
        (True, "", "50000 uvloop"),
        (True, "gc.set_threshold(9_000)", "9000 uvloop"),
        (False, "", "700 asyncio"),
    ],
)
def test_whoever_works_for_long_looks_for_garbage_seldom(fast: bool, before: str, printed: str) -> None:
    """And an application that has said how often is heard."""
    program = _PROGRAM.format(fast=fast, before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == printed
