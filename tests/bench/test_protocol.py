"""The protocol of the measured programs, end to end: Rota on SQLite, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.environments import ROOT

pytest.importorskip("uvloop", reason="the measured programs run on uvloop; install rota[fast]")


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    command = [sys.executable, "-m", "bench.rota_peer", *arguments]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300, check=False)


def _told(folder: Path, case: str, count: int) -> dict[str, Any]:
    done = _run(folder, case, f"sqlite:///{folder}/rota.db", str(count))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_work_is_scheduled_touched_and_run(tmp_path: Path) -> None:
    told = _told(tmp_path, "work", 300)

    assert set(told["figures"]) == {"schedule", "touch", "run", "python_us"}
    assert all(value > 0 for value in told["figures"].values())
    assert told["version"]
    assert told["settings"]
    assert told["cannot"] == {}


def test_delayed_tasks_start_after_they_are_due(tmp_path: Path) -> None:
    figures = _told(tmp_path, "latency", 200)["figures"]

    assert 0 <= figures["latency_p50_ms"] <= figures["latency_p99_ms"]


def test_a_case_that_is_not_known_is_refused(tmp_path: Path) -> None:
    done = _run(tmp_path, "nonsense", "memory://", "1")

    assert done.returncode != 0
    assert "work|sleepers|latency|burst|idle" in done.stderr
