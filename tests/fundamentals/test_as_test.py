"""A run copied as a test: run for real, it fails as the run did, and passes once the handler is mended."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rota import Rota
from rota.app.as_test import as_test, import_of
from rota.core.run_details import decode_details
from rota.core.task import Identity
from rota.stores.base import RunQuery, RunRef

SHOP = """
from rota import Rota

app = Rota()


@app.task(max_retries=3)
def charge_card(payload: dict[str, int], user_id: str) -> str:
    return str(payload["amount"] // payload["parts"])
"""
MENDED = ('payload["parts"])', 'max(1, payload["parts"]))')


async def test_it_fails_as_the_run_did_and_passes_when_the_handler_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rota_use: Callable[[Rota], Rota]
) -> None:
    program = tmp_path / "shop_of_a_test.py"
    program.write_text(SHOP)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    app = rota_use(importlib.import_module("shop_of_a_test").app)
    await app.schedule("charge_card", {"amount": 12, "parts": 0}, key="c1", user_id="u1")
    await app.run_until_idle()

    (tmp_path / "test_copied.py").write_text(await _copied(app))
    failed = await asyncio.to_thread(_pytest, tmp_path)
    assert failed.returncode == 1, failed.stdout
    assert "ZeroDivisionError" in failed.stdout
    assert "1 failed" in failed.stdout

    program.write_text(SHOP.replace(*MENDED))
    passed = await asyncio.to_thread(_pytest, tmp_path)
    assert passed.returncode == 0, passed.stdout
    assert "1 passed" in passed.stdout


async def _copied(app: Rota) -> str:
    """The one run there is, as a test."""
    store = await app.store()
    (run,) = (await store.runs(RunQuery(task_type="charge_card"))).items
    (task,) = await store.get([Identity(run.task_type, run.key)])
    (left,) = await store.details([RunRef(run.task_type, run.key, run.token)])
    assert left is not None
    where = import_of(app, run.task_type)
    assert where == ("shop_of_a_test", "app")
    return as_test(run, task, decode_details(left).payload, where)


def _pytest(folder: Path) -> subprocess.CompletedProcess[str]:
    """As a user runs it: in a folder of their own, without the settings of this project."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        "test_copied.py",
    ]
    (folder / "pytest.ini").touch()
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
