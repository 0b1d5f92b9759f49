"""Run all tests; run what failed once more, by itself; only what fails again is a failure.

    python3 .ci/once_more.py .venv/bin/pytest -- make test

The command behind the dashes is the one that people run. What came of it is written down by this file, which pytest
loads as a plugin: how the session ended, and which tests failed. Only failed tests are run again. A session that was
broken off, a file that could not be collected and a worker process that died are failures at once, and so is a second
session that did not run each of the failed tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PASSED, FAILED = 0, 1
"""How pytest ends if all tests passed, or some did not. Everything else is no word about tests."""
NOTE = "ONCE_MORE_NOTE"
"""The variable that names the file for what came of a session."""


# --- in pytest ------------------------------------------------------------------------------------------------------


def pytest_configure(config: Any) -> None:
    # Taken out of the environment: a test that starts pytest itself must not write into our file.
    path = os.environ.pop(NOTE, None)
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Notes(Path(path)))


class _Notes:
    """Writes down what came of a session."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: dict[str, None] = {}
        self._passed: dict[str, None] = {}
        self._broken: list[str] = []

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._broken.append(f"{report.nodeid} cannot be collected")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when not in ("setup", "call", "teardown"):
            self._broken.append(f"a process died in {report.nodeid}")
        elif report.failed:
            self._failed[report.nodeid] = None
        elif report.when == "call" and report.passed:
            self._passed[report.nodeid] = None

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        note = {
            "status": int(exitstatus),
            "failed": list(self._failed),
            "passed": [each for each in self._passed if each not in self._failed],
            "broken": self._broken,
        }
        self._path.write_text(json.dumps(note), encoding="utf-8")


# --- around pytest --------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    dashes = arguments.index("--")
    pytest, command = arguments[:dashes], arguments[dashes + 1 :]
    code, note = _run(command)
    if code == 0:
        return 0
    trouble = _trouble(note)
    if trouble is not None:
        return _say(f"not run again: {trouble}", 1)
    failed: list[str] = note["failed"]
    _say(f"run once more: {len(failed)} failed")
    # In one process, and in the order in which they failed.
    _, again = _run([*pytest, "-p", "no:randomly", "-p", "no:cacheprovider", *failed])
    return _judge(failed, again)


def _run(command: list[str]) -> tuple[int, dict[str, Any]]:
    """The exit code of a command, and the note of the pytest that it ran; an empty one if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "note.json"
        here = str(Path(__file__).resolve().parent)
        environment = {
            **os.environ,
            NOTE: str(path),
            "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH")))),
            "PYTEST_ADDOPTS": f"{os.environ.get('PYTEST_ADDOPTS', '')} -p {Path(__file__).stem}".strip(),
        }
        code = subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - what CI was told to run
        return code, json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _trouble(note: dict[str, Any]) -> str | None:
    """Why it is no use to run the failed tests again."""
    if not note:
        return "pytest did not get to its end"
    if note["broken"]:
        return "; ".join(note["broken"])
    if note["status"] != FAILED:
        return f"pytest ended with {note['status']}, which is not about tests that failed"
    return None if note["failed"] else "no test has failed"


def _judge(failed: list[str], again: dict[str, Any]) -> int:
    trouble = None if again.get("status") == PASSED and not again["broken"] else _trouble(again)
    good = set(again.get("passed", ()))
    for test in failed:
        _say(f"flaky: {test}" if test in good else f"failed again: {test}")
    if trouble is not None:
        return _say(f"the second run failed: {trouble}", 1)
    return 0 if good.issuperset(failed) else 1


def _say(text: str, code: int = 0) -> int:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
