"""Wherever a worker runs the duties of the parts run: in a FastAPI application and beside a plain `rota worker` alike.

Each of the two raises an alert, forgets an agent's schedule that was over long ago, and gives a run its MCP socket.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from rota import Rota
from rota.agents import Caller, agents_of
from rota.agents.schedules.origins import Origins
from rota.alerts import Alerts
from rota.clock import DAY, SystemClock
from rota.core.task import Identity
from rota.database.tables.agents import provenance
from rota.integrations.fastapi import RotaLifespan
from rota.testing.waiting import until_blocking

APP = """
import os
from pathlib import Path

from rota import Rota
from rota.agents import AgentSettings, install_agents

app = Rota()
said = '''printf '{"status": "success", "result": "%s"}' "$ROTA_MCP_SOCKET" '''
install_agents(
    app,
    AgentSettings(groups_dir=Path("groups"), isolation="process", uid_base=None, command=("/bin/sh", "-c", said)),
)

@app.task(max_retries=0)
async def broken() -> None:
    raise ValueError("no")
"""
CONFIG = """
alerts:
  check_interval: 1s
  defaults: false
  rules:
    letters: {kind: dead_letters, threshold: 1, for: 0s}
"""
ANN = Caller.person("ann")


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "served.py").write_text(APP)
    (tmp_path / "rota.yaml").write_text(CONFIG)


def served() -> Rota:
    """The same app, made in this process."""
    spec = importlib.util.spec_from_file_location("served", "served.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert isinstance(module.app, Rota)
    return module.app


@contextmanager
def in_fastapi() -> Generator[None]:
    with TestClient(FastAPI(lifespan=RotaLifespan(served()))):
        yield


@contextmanager
def beside_a_worker() -> Generator[None]:
    command = [sys.executable, "-m", "rota.cli", "worker", "--app", "served:app"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait()


async def what_is_there_to_do() -> tuple[str, str]:
    """A dead letter to come, a schedule that was over long ago, and one that runs now: the ids of the two."""
    app = served()
    async with app:
        await app.schedule("broken")
        agents, store = agents_of(app), await app.store()
        await (await agents.groups()).add("main", is_main=True)
        over, runs = [
            await agents.schedule_task(ANN, prompt="x", schedule_type="cron", schedule_value="0 9 1 * *", group="main")
            for _ in range(2)
        ]
        await agents.cancel_task(ANN, over.id)
        await store.purge([Identity("agent", over.id)])
        long_ago = SystemClock().now() - 90 * DAY
        old = provenance.update().where(provenance.c.id == over.id).values(created_at=long_ago, decided_at=long_ago)
        await (await app.database()).write(lambda connection: connection.execute(old))
        await agents.run_task(ANN, runs.id)
        return over.id, runs.id


async def what_was_done(over: str, runs: str) -> dict[str, object]:
    app = served()
    async with app:
        database = await app.database()
        history = (await agents_of(app).task_history(ANN, runs)).items
        return {
            "alerts": [one.rule for one in await Alerts(database).firing()],
            "old schedules": sorted(await Origins(database).get([over])),
            "socket": history[0]["result"] if history else None,
        }


@pytest.mark.parametrize("working", [in_fastapi, beside_a_worker])
def test_duties_run_wherever_a_worker_runs(working: Callable[[], AbstractContextManager[None]]) -> None:
    over, runs = asyncio.run(what_is_there_to_do())
    seen: dict[str, object] = {}

    def is_done() -> bool:
        seen.update(asyncio.run(what_was_done(over, runs)))
        return seen["alerts"] == ["letters"] and not seen["old schedules"] and bool(seen["socket"])

    with working():
        until_blocking(is_done, "all three are done")
    assert str(seen["socket"]).startswith("/"), "the run was given the name of its socket"
