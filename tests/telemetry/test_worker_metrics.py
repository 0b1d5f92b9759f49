"""A worker without the service: metrics and health on a port of its own, and the totals of the whole store."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from tests.telemetry.worker_process import PROJECT, serving, worker

from rota import Rota
from rota.access import Role, Tokens
from rota.api.probes import create_probes
from rota.api.service import Service
from rota.stores.base import Counts
from rota.telemetry import Metrics
from rota.testing.redis_servers import RedisServer, redis_server
from rota.testing.servers import ServerAbsent, require_server
from rota.testing.waiting import until, until_blocking

TOLD = ("pending", "running", "paused", "failed", "created_total", "coalesced_total", "succeeded_total",
        "errored_total", "lost_total")  # fmt: skip


def told_of(counts: dict[str, Counts]) -> dict[tuple[str, str], float]:
    return {(name, each): getattr(found, each) for name, found in counts.items() for each in TOLD}


@pytest.mark.parametrize("store", ["sqlite", "postgres", "redis"])
async def test_two_workers_without_the_service_tell_the_totals_of_the_store(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url: str = request.getfixturevalue(f"{store}_url")
    with worker(tmp_path, url) as one, worker(tmp_path, url) as other:
        async with Rota(url, spool="off") as app:
            await until(lambda: one.is_ready() and other.is_ready(), "both workers are ready")
            users = [*(f"u{number}" for number in range(20)), "bad-1", "bad-2", "bad-3"]
            await asyncio.gather(*(app.touch("greet", user_id=user) for user in users))
            await asyncio.gather(*(app.schedule("report", {"n": number}) for number in range(10)))
            kept = await app.store()

            async def is_done() -> bool:
                counts = await kept.counts()
                runs = counts["greet"].succeeded_total, counts["greet"].errored_total, counts["report"].succeeded_total
                return runs == (20, 3, 10)

            await until(is_done, "all of it has run")
            expected = told_of(dict(await kept.counts()))
            await until(lambda: one.counts() == expected == other.counts(), "both tell the same as the store")
            assert expected["greet", "created_total"] == 23
            assert expected["greet", "failed"] == 3

            # Each has run some or none of it; together they ran all of it.
            ran = [sum(value for (name, _), value in each.samples().items() if name == "rota_runs_total")
                   for each in (one, other)]  # fmt: skip
            assert sum(ran) == 33
            raised = ("rota_failures_recent", frozenset({("type", "greet"), ("exception", "ValueError")}))
            await until(lambda: one.samples().get(raised) == 3, "the failures are grouped")

            # A service tells the same, and so does whoever comes later.
            _, text = await Metrics(app).render()
            assert b'rota_store_runs_total{status="success",type="greet"} 20.0' in text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_while_it_works_and_ends_when_told(number: signal.Signals, tmp_path: Path, sqlite_url: str) -> None:
    with worker(tmp_path, sqlite_url) as one:
        until_blocking(one.is_ready, "it can claim")
        assert one.get("/healthz").json() == {"status": "ok"}
        ready = one.get("/readyz").json()
        assert (ready["store"], ready["can_claim"], ready["reasons"]) == ("ok", True, [])
        assert one.get("/").status_code == 404
        assert "/readyz" in one.get("/").json()["detail"]
        assert one.get("/api/tasks").status_code == 404
        assert httpx.post(f"{one.url}/metrics").status_code == 405
        assert httpx.get(f"{one.url}/metrics", headers={"Host": "evil.example"}).status_code == 400
        with httpx.Client() as scraper:  # a connection that is kept open must keep nobody
            scraper.get(f"{one.url}/metrics").raise_for_status()
            one.process.send_signal(number)
            _, err = one.process.communicate(timeout=60)
    assert one.process.returncode == 0
    assert "Stopped. Nothing was left running." in err
    assert "Traceback" not in err


SLOW = (
    PROJECT
    + """
import asyncio
from pathlib import Path

@app.task
async def slow(payload: str) -> None:
    while not Path(payload).exists():
        await asyncio.sleep(0.02)
"""
)


async def test_it_answers_while_what_runs_is_ending(tmp_path: Path, sqlite_url: str) -> None:
    gate = tmp_path / "gate"
    with worker(tmp_path, sqlite_url, project=SLOW) as one:
        async with Rota(sqlite_url) as app:
            await until(one.is_ready, "it is ready")
            await app.schedule("slow", str(gate))
            running = ("rota_running", frozenset[tuple[str, str]]())
            await until(lambda: one.samples()[running] == 1, "it runs")
        one.process.send_signal(signal.SIGTERM)
        assert one.get("/healthz").status_code == 200
        assert one.samples()[running] == 1
        gate.touch()
        out, err = one.process.communicate(timeout=60)
    assert (one.process.returncode, out) == (0, "")
    assert "Stopped." in err


@pytest.fixture
def server(tmp_path: Path) -> Generator[RedisServer]:
    """A Redis of this test's own, which goes away and comes back."""
    folder = tmp_path / "redis"
    folder.mkdir()
    try:
        with redis_server(folder) as running:
            yield running
    except ServerAbsent as absent:
        require_server(absent)


def test_readiness_goes_with_the_store_and_comes_back_with_it(server: RedisServer, tmp_path: Path) -> None:
    with worker(tmp_path, server.url) as one:
        until_blocking(one.is_ready, "it is ready")
        server.kill()
        until_blocking(lambda: not one.is_ready(), "it says that it cannot work")
        body = one.get("/readyz").json()
        assert (body["status"], body["store"]) == ("not_ready", "away")
        assert body["reasons"][-1] == "The store cannot be reached."
        assert str(server.url.rpartition(":")[2]) not in str(body), "no address is told to everybody"
        assert one.get("/healthz").status_code == 200, "it lives"
        until_blocking(lambda: one.samples()["rota_store_up", frozenset()] == 0, "the metrics say so, too")
        server.start()
        until_blocking(one.is_ready, "it works again")
        until_blocking(lambda: one.samples()["rota_store_up", frozenset()] == 1, "the metrics say so, too")
        one.process.send_signal(signal.SIGTERM)
        _, err = one.process.communicate(timeout=60)
    assert one.process.returncode == 0, err


def ended(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    (folder / "project.py").write_text(PROJECT)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    command = [sys.executable, "-m", "rota.cli", "worker", "--app", "project:app", *arguments]
    return subprocess.run(
        command, cwd=folder, env={**kept, **environ}, capture_output=True, check=False, text=True, timeout=60
    )


def test_a_port_that_is_taken_is_said_before_any_work(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        by_flag = ended(tmp_path, "--metrics-port", port)
        by_setting = ended(tmp_path, ROTA_METRICS__PORT=port)
    for said in (by_flag, by_setting):
        assert said.returncode == 2
        assert f"The port {port} of 127.0.0.1 is taken" in said.stderr
        assert f"--metrics-port {int(port) + 1}" in said.stderr
        assert "Serving" not in said.stderr
    assert not (tmp_path / "rota.db").exists(), "nothing was begun"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--metrics-host", "127.0.0.1"), "--metrics-port N"),
        (("--metrics-port", "70000"), "65535"),
        (("--metrics-port", "0", "--metrics-host", "nowhere.invalid"), "--metrics-host ADDRESS"),
        (("--metrics-port", "0", "--metrics-host", "0.0.0.0"), "rota token add"),
    ],
)
def test_what_cannot_be_shown_is_refused(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    said = ended(tmp_path, *arguments)
    assert said.returncode == 2
    assert words in said.stderr
    assert "Traceback" not in said.stderr


def test_programs_read_the_address_as_json(tmp_path: Path, sqlite_url: str) -> None:
    with serving(tmp_path, sqlite_url, "--json", "--metrics-port", "0") as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["metrics"]
        assert httpx.get(url).status_code == 200
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


async def test_on_the_network_metrics_are_for_those_with_a_token(sqlite_url: str) -> None:
    async with Rota(sqlite_url) as app:
        tokens = Tokens(await app.database())
        viewer = (await tokens.add("prometheus", Role.VIEWER, created_by="test")).secret
        agent = (await tokens.add("chat", Role.VIEWER, created_by="test", scope={"group": "family"})).secret
        probes = create_probes(Service(app, metrics=Metrics(app), is_public=True))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(probes), base_url="http://10.1.2.3") as client:

            async def status(secret: str | None) -> int:
                headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
                return (await client.get("/metrics", headers=headers)).status_code

            assert await status(None) == 401
            assert await status("rota_wrong") == 401
            assert await status(agent) == 403
            assert await status(viewer) == 200
            assert (await client.get("/healthz")).status_code == 200
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.json()["reasons"]) == (503, ["The worker has not begun yet."])


LOOK = f"""{PROJECT}
import sys
from pathlib import Path

@app.task
async def look() -> None:
    Path("seen").write_text(str({{"uvicorn", "fastapi"}} & {{*sys.modules}}))
"""


async def test_without_a_port_no_server_is_imported(tmp_path: Path, sqlite_url: str) -> None:
    seen = tmp_path / "seen"
    with serving(tmp_path, sqlite_url, project=LOOK) as process:
        async with Rota(sqlite_url) as app:
            await until(app.instances, "the worker is there")
            await app.schedule("look")
            await until(lambda: seen.exists() and seen.read_text(), "it has looked")
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert seen.read_text() == "set()"
