"""The example of a part: its type, page, command, metric and duty are there, and no file of Rota knows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from examples.greeter import Greeter
from playwright.async_api import Browser, expect
from tests.dashboard.conftest import a_context
from tests.dashboard.stage import staged

from rota import Rota
from rota.access import Role
from rota.telemetry.metrics import Metrics
from rota.testing import until

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.asyncio(loop_scope="session")
async def test_its_type_page_metric_and_duty(chromium: Browser, sqlite_url: str) -> None:
    greeter = Greeter()
    app = Rota(sqlite_url, parts=[greeter])
    async with staged(app) as stage:
        await app.schedule("greet", "ada")
        await app.schedule("greet", "bob", delay="1h")
        context = await a_context(chromium)
        page = await context.new_page()
        await page.goto(stage.login(Role.VIEWER))
        await page.get_by_role("link", name="Greetings").click()
        await expect(page.get_by_text("Hello, ada!")).to_be_visible()
        await until(lambda: greeter.waiting == 1, "its duty has counted")
        assert (b"greetings_waiting 1.0" in (await Metrics(app).render())[1]) is True
        assert app.health().ok, app.health().reasons
        await context.close()


def rota(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "ROTA_APP": "examples.greeter:app", "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/src"}
    command = [sys.executable, "-m", "rota.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environ, cwd=tmp_path)


def test_its_command(tmp_path: Path) -> None:
    assert "greet" in rota(tmp_path, "--help").stdout
    refused = rota(tmp_path, "greet", "ada")
    assert "knows no task type 'greet'" in refused.stderr, "nobody serves it yet, and a command declares nothing"
    program = (
        "import asyncio, examples.greeter as g\nasync def main():\n    async with g.app: pass\nasyncio.run(main())"
    )
    environ = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/src"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environ, cwd=tmp_path)
    said = rota(tmp_path, "greet", "ada", "--json")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["outcome"] == "created"


@pytest.mark.parametrize("named", ["examples.nowhere:app", "examples.greeter:nobody", "3:x"])
def test_an_app_that_is_not_there_is_said(tmp_path: Path, named: str) -> None:
    environ = {**os.environ, "ROTA_APP": named, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/src"}
    command = [sys.executable, "-m", "rota.cli", "task", "ls"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, cwd=tmp_path)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert ended.stderr.startswith("error: ")
