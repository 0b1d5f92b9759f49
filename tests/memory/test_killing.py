"""Killed at any point: no context lost, none merged twice, the owner always right, and the same groups in the end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_compression_may_be_killed_anywhere(tmp_path: Path) -> None:
    """20 failpoints over a whole run, 10 memories each."""
    command = [sys.executable, "-m", "tests.memory.killing", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report == {"killed": 200, "tries": 200, "wrong": []}
