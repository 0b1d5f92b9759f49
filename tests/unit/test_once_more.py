"""What `.ci/run` does with tests that fail: run once more, named as flaky, and a failure only if they fail again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "once_more.py"
PYTEST = (sys.executable, "-m", "pytest")

FINE = "def test_fine(): pass\n"
ONCE = """
from pathlib import Path

def test_once():
    mark = Path(__file__).with_suffix(".mark")
    if not mark.exists():
        mark.touch()
        raise AssertionError("only the first time")
"""
ALWAYS = "def test_always(): raise AssertionError('every time')\n"
DYING = "import os\ndef test_dying(): os._exit(3)\n"
BROKEN = "import nothing_of_that_name\n"
SKIPPED_THEN = """
from pathlib import Path
import pytest

def test_skipped_then():
    mark = Path(__file__).with_suffix(".mark")
    if mark.exists():
        pytest.skip("it did not run")
    mark.touch()
    raise AssertionError("the first time")
"""


class RunCi(Protocol):
    def __call__(self, *contents: str, workers: int | None = None) -> tuple[int, str]: ...


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCi:
    """Put tests into files and run them as CI does; the exit code, and what was said."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a start takes long enough without them
    (tmp_path / "pytest.ini").touch()

    def run_ci(*contents: str, workers: int | None = None) -> tuple[int, str]:
        for number, content in enumerate((FINE, *contents)):
            (tmp_path / f"test_file{number}.py").write_text(content, encoding="utf-8")
        parallel = () if workers is None else ("-p", "xdist", "-n", str(workers))
        command = [sys.executable, str(SCRIPT), *PYTEST, "--", *PYTEST, *parallel]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout + ended.stderr

    return run_ci


@pytest.mark.parametrize("workers", [None, 2])
def test_all_is_well(run: RunCi, workers: int | None) -> None:
    code, said = run(workers=workers)
    assert code == 0, said
    assert "once more" not in said


@pytest.mark.parametrize("workers", [None, 2])
def test_what_fails_once_is_named_as_flaky(run: RunCi, workers: int | None) -> None:
    code, said = run(ONCE, workers=workers)
    assert code == 0, said
    assert "run once more: 1 failed\n" in said
    assert "flaky: test_file1.py::test_once\n" in said


@pytest.mark.parametrize("workers", [None, 2])
def test_what_fails_again_fails(run: RunCi, workers: int | None) -> None:
    code, said = run(ONCE, ALWAYS, workers=workers)
    assert code == 1, said
    assert "flaky: test_file1.py::test_once\n" in said
    assert "failed again: test_file2.py::test_always\n" in said


@pytest.mark.parametrize("workers", [None, 2])
def test_what_cannot_be_collected_fails(run: RunCi, workers: int | None) -> None:
    code, said = run(ONCE, BROKEN, workers=workers)
    assert code == 1, said
    assert "not run again: test_file2.py cannot be collected" in said


def test_a_process_that_died_fails(run: RunCi) -> None:
    code, said = run(ONCE, DYING, workers=2)
    assert code == 1, said
    assert "not run again: a process died in test_file2.py::test_dying" in said


def test_a_session_without_an_end_fails(run: RunCi) -> None:
    code, said = run(DYING)
    assert code == 1, said
    assert "not run again: pytest did not get to its end" in said


def test_a_second_run_that_runs_nothing_fails(run: RunCi) -> None:
    code, said = run(SKIPPED_THEN)
    assert code == 1, said
    assert "failed again: test_file1.py::test_skipped_then\n" in said


def test_ci_runs_what_the_readme_says() -> None:
    lines = SCRIPT.with_name("run").read_text(encoding="utf-8").splitlines()
    assert "make check" in lines
    assert lines[-1].endswith(" -- make test")
