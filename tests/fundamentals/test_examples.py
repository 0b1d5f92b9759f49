"""The examples run as they stand, from a shell, and say what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

PROMISES = {
    "upkeep.py": ["ada sends message 1: created", "ada sends message 2: coalesced", "updating the profile of cleo"],
    "schedules.py": ["morning-brief: ", "agent: What changed", "success, nothing new", "still next: True"],
    "script.py": ["asked again: exists", "runs: 2", "completed: cat.png resized at attempt 2"],
    "tracing/main.py": [
        "  POST /orders\n    schedule charge_card  created\n",
        "  run charge_card  retry  <- schedule charge_card\n    ask the bank\n    settle\n",
        "  run charge_card  complete  <- schedule charge_card\n    ask the bank\n    settle\n",
        "  run send_receipt  complete  <- schedule charge_card\n",
    ],
}


def test_every_example_is_run_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {name for name in PROMISES if "/" not in name}


@pytest.mark.parametrize("name", PROMISES)
def test_an_example_keeps_its_promises(name: str, tmp_path: Path):
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    for line in PROMISES[name]:
        assert line in done.stdout


def test_each_profile_is_updated_once(tmp_path: Path):
    """Twelve messages of three users are three compressions."""
    command = [sys.executable, str(EXAMPLES / "upkeep.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.count("compressing the memory of") == 3
