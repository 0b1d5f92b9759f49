"""Handlers in a process of their own, through the decorator: the child finds the function behind the handle."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os
from pathlib import Path
from rota import Rota

app = Rota({"store": "memory://"})

@app.task(process=True)
def plain(payload: str) -> None:
    Path(payload).write_text(str(os.getpid()))

@app.task(process=True)
async def asynchronous(payload: str) -> None:
    Path(payload).write_text(str(os.getpid()))
"""


async def test_plain_and_async_handlers_run_in_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "program_of_the_process_test.py").write_text(PROGRAM)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    program = importlib.import_module("program_of_the_process_test")
    async with program.app as app:
        await program.plain.schedule(str(tmp_path / "plain"))
        await program.asynchronous.schedule(str(tmp_path / "async"))
        await app.run_until_idle()
        runs = (await app.runs()).items

    assert [(run.status, run.error) for run in runs] == [("success", None)] * 2
    pids = {int((tmp_path / name).read_text()) for name in ("plain", "async")}
    assert len(pids) == 2
    assert os.getpid() not in pids
