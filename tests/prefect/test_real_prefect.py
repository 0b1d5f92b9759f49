"""A real Prefect server, and the flows of the examples in it: they pause, and are resumed once, with everything.

`make test-prefect` makes the environment; without it these tests are skipped. Rota's side is its own duty and tables;
only the few routes that the flow asks for are played here, so that a test says when results come. The last tests have a
whole `rota up` instead, with a consumer that does the work, and with batches.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from tests.opening import opened

from rota.clock import SystemClock, parse_duration
from rota.database import Database
from rota.events.callback import CallbackDuty
from rota.events.envelope import Event
from rota.events.handle import HandleStatus, Outcome
from rota.events.handles import Handles
from rota.events.prefect_api import PrefectApi
from rota.runtime.health import Pulse
from rota.testing.waiting import until, until_blocking
from rota.webhooks import Webhooks

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".cache" / "prefect-venv"
PYTHON = ENVIRONMENT / "bin" / "python"
FLOWS = ROOT / "examples" / "prefect"
RESULTS, DETAIL_BATCH = "results_flow.py", "detail_batch_flow.py"
AWAY_SECONDS = float(os.environ.get("PREFECT_AWAY_SECONDS", "5"))
START_SECONDS = 180.0

pytestmark = pytest.mark.skipif(
    not (ENVIRONMENT / "ready.stamp").exists(),
    reason="There is no environment with Prefect here: `make test-prefect` makes one.",
)


# --- Prefect ---------------------------------------------------------------------------------------------------------


class Prefect:
    """A server of our own, in a folder of its own, at one port for as long as the tests run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.api_url = f"http://127.0.0.1:{self.port}/api"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of what this host says about any Prefect, and nothing that would call home."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        return {
            **kept,
            "PREFECT_HOME": str(self.folder),
            "PREFECT_API_URL": self.api_url,
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_SERVER_UI_ENABLED": "false",
            "PREFECT_LOGGING_TO_API_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def start(self) -> None:
        command = [str(PYTHON), "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(self.port)]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self.environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        until_blocking(self._answers, "Prefect answers", seconds=START_SECONDS)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "server.log").read_text()[-4_000:]
        try:
            return httpx.get(f"{self.api_url}/health", timeout=5, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def stop(self) -> None:
        if self._process is None:
            return
        # It has children of its own, in the group that was made for it.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def states(self, flow_run_id: str) -> list[str]:
        answer = httpx.get(
            f"{self.api_url}/flow_run_states/", params={"flow_run_id": flow_run_id}, timeout=30, trust_env=False
        )
        found = sorted(answer.raise_for_status().json(), key=lambda state: state["timestamp"])
        return [str(state["type"]) for state in found]


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Generator[Prefect]:
    server = Prefect(tmp_path_factory.mktemp("prefect"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


# --- Rota, as far as the flow sees it --------------------------------------------------------------------------------


class Rota:
    """The handles of a database behind the routes that the flow asks for."""

    def __init__(self, handles: Handles) -> None:
        self.handles = handles
        self.url = ""
        self.requested: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []
        self.flow_run_id = ""
        self.handle_id = ""
        self.may_publish = asyncio.Event()
        """The flow has published its requests, but is not told so before this is set: it cannot pause."""
        self.may_publish.set()

    async def answer(self, method: str, target: str, body: bytes) -> Any:
        path, asked = urlsplit(target).path, parse_qs(urlsplit(target).query)
        match method, path:
            case "GET", "/api/handles":
                found = await self.handles.find(correlation_id=asked["correlation_id"][0])
                return {"items": [{"id": handle.id} for handle in found.items], "cursor": None}
            case "POST", "/api/handles":
                return {"id": await self._create(json.loads(body))}
            case "POST", "/api/events":
                self.requested = json.loads(body)["events"]
                await self.may_publish.wait()
                return {"event_ids": [event["event_id"] for event in self.requested]}
            case "GET", "/api/events":
                kind = asked["event_type"][0]
                return {"items": [each for each in self.results if each["event_type"] == kind], "cursor": None}
            case _:
                raise AssertionError(f"{method} {target}")

    async def _create(self, wanted: dict[str, Any]) -> str:
        timeout_ms = parse_duration(wanted.pop("timeout"))
        self.flow_run_id = wanted["flow_run_id"]
        self.handle_id = await self.handles.database.write(
            lambda connection: self.handles.create(connection, timeout_ms=timeout_ms, **wanted)
        )
        return self.handle_id

    async def bring(self, *numbers: int) -> None:
        """The results of these parts arrive; every third has failed."""
        for number in numbers:
            request = self.requested[number]
            failed = number % 3 == 2
            kind = "Genesis.Session.DetailBatchFailed" if failed else "Genesis.Session.DetailBatchCreated"
            made = [{"name": f"Name {number}-{each}"} for each in range(request["payload"]["count"])]
            event = Event(
                event_type=kind,
                aggregate_id="s1",
                event_id=f"result-{self.handle_id}-{number}",
                correlation_id=request["correlation_id"],
                payload={"items": made},
            )
            if await self.handles.database.write(
                lambda connection, event=event: self.handles.arrive(connection, event)
            ):
                self.results.append({"event_type": kind, "payload": event.payload})


@asynccontextmanager
async def rota(handles: Handles) -> AsyncGenerator[Rota]:
    made = Rota(handles)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            method, target, _ = head.split(" ")
            said = json.dumps(await made.answer(method, target, body)).encode()
            lines = ["HTTP/1.1 200 OK", f"content-length: {len(said)}", "connection: close", "", ""]
            writer.write("\r\n".join(lines).encode() + said)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield made


@pytest.fixture
async def handles(sqlite_url: str) -> AsyncGenerator[Handles]:
    async with opened(Database(sqlite_url)) as database:
        yield Handles(database)


@asynccontextmanager
async def calling(handles: Handles, prefect: Prefect) -> AsyncGenerator[None]:
    """Two instances that call, as two workers would."""

    async def open_handles() -> Handles:
        return handles

    duties = [
        CallbackDuty(
            open_handles,
            Webhooks(),
            PrefectApi(prefect.api_url),
            pulse=Pulse(SystemClock()),
            chance=lambda: 0.3,  # tries again soon: nobody else does
        )
        for _ in range(2)
    ]
    async with asyncio.TaskGroup() as group:
        for duty in duties:
            group.create_task(duty.run())
        try:
            yield
        finally:
            for duty in duties:
                duty.stop()
    for duty in duties:
        await duty.close()


# --- the flow --------------------------------------------------------------------------------------------------------


class FlowRun:
    """The example in its own process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def said(self) -> str:
        return self._log.read_text()

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def check_lives(self) -> None:
        assert not self.has_ended(), self.said[-4_000:]

    async def end(self) -> str:
        await until(self.has_ended, "the flow has ended", seconds=START_SECONDS)
        assert self._process.returncode == 0, self.said[-4_000:]
        return self.said


@contextmanager
def running(
    prefect: Prefect, rota_url: str, tmp_path: Path, token: str = "", flow: str = RESULTS
) -> Generator[FlowRun]:
    log = tmp_path / "flow.log"
    environment = {**prefect.environment, "ROTA_URL": rota_url, "ROTA_TOKEN": token, "POLL_SECONDS": "1"}
    with log.open("wb") as written:
        process = subprocess.Popen(
            [str(PYTHON), str(FLOWS / flow)], env=environment, cwd=tmp_path, stdout=written, stderr=written
        )
    try:
        yield FlowRun(process, log)
    finally:
        process.kill()
        process.wait()


async def paused(prefect: Prefect, rota: Rota, flow: FlowRun) -> None:
    def is_paused() -> bool:
        flow.check_lives()
        return bool(rota.flow_run_id) and prefect.states(rota.flow_run_id)[-1] == "PAUSED"

    await until(lambda: asyncio.to_thread(is_paused), "the flow has paused", seconds=START_SECONDS)


async def requested(rota: Rota, flow: FlowRun) -> None:
    def has_requested() -> bool:
        flow.check_lives()
        return bool(rota.requested)

    await until(has_requested, "the flow has published its requests", seconds=START_SECONDS)


async def is_resumed(rota: Rota) -> bool:
    return (await rota.handles.get(rota.handle_id)).status is HandleStatus.RESUMED


async def was_tried(rota: Rota) -> bool:
    return (await rota.handles.get(rota.handle_id)).attempts > 0


ALL_OF_THEM = "2 of 3 parts made, 1 failed: 34 details"
"""Fifty in three parts of 17, 17 and 16, and the last one fails."""


async def test_results_before_the_pause_twice_and_in_any_order(
    prefect: Prefect, handles: Handles, tmp_path: Path
) -> None:
    async with calling(handles, prefect), rota(handles) as ours:
        ours.may_publish.clear()
        with running(prefect, ours.url, tmp_path) as flow:
            await requested(ours, flow)
            await ours.bring(2, 0, 2, 1, 0, 1)
            # It is called before it has paused, in vain; that is not the end of it.
            await until(lambda: was_tried(ours))
            ours.may_publish.set()
            assert ALL_OF_THEM in await flow.end()
        await until(lambda: is_resumed(ours))
        await ours.bring(1, 2)
    states = prefect.states(ours.flow_run_id)
    assert states == ["PENDING", "RUNNING", "PAUSED", "RUNNING", "COMPLETED"], "it was not resumed once"


async def test_results_during_the_pause(prefect: Prefect, handles: Handles, tmp_path: Path) -> None:
    async with calling(handles, prefect), rota(handles) as ours:
        with running(prefect, ours.url, tmp_path) as flow:
            await paused(prefect, ours, flow)
            await ours.bring(1, 1, 0)
            flow.check_lives()
            await ours.bring(0, 1, 2)
            assert ALL_OF_THEM in await flow.end()
        await until(lambda: is_resumed(ours))
    states = prefect.states(ours.flow_run_id)
    assert states == ["PENDING", "RUNNING", "PAUSED", "RUNNING", "COMPLETED"]


async def test_a_server_that_was_away_resumes_when_it_is_back(
    prefect: Prefect, handles: Handles, tmp_path: Path
) -> None:
    async with calling(handles, prefect), rota(handles) as ours:
        with running(prefect, ours.url, tmp_path) as flow:
            await paused(prefect, ours, flow)
            await asyncio.to_thread(prefect.stop)
            gone_at = asyncio.get_running_loop().time()
            await ours.bring(0, 1, 2)
            await until(lambda: was_tried(ours))
            await until(lambda: asyncio.get_running_loop().time() - gone_at >= AWAY_SECONDS, seconds=AWAY_SECONDS + 60)
            shown = await handles.get(ours.handle_id)
            assert shown.status in (HandleStatus.READY, HandleStatus.RESUMING)
            await asyncio.to_thread(prefect.start)
            assert ALL_OF_THEM in await flow.end()
        await until(lambda: is_resumed(ours))
    states = prefect.states(ours.flow_run_id)
    assert states == ["PENDING", "RUNNING", "PAUSED", "RUNNING", "COMPLETED"]


async def test_a_run_that_was_cancelled_is_not_waited_for(prefect: Prefect, handles: Handles, tmp_path: Path) -> None:
    async with calling(handles, prefect), rota(handles) as ours:
        with running(prefect, ours.url, tmp_path) as flow:
            await paused(prefect, ours, flow)
            async with httpx.AsyncClient(base_url=prefect.api_url, trust_env=False) as client:
                wanted = {"state": {"type": "CANCELLED", "name": "Cancelled"}}
                answer = await client.post(f"/flow_runs/{ours.flow_run_id}/set_state", json=wanted)
                assert answer.json()["status"] == "ACCEPT"
            await ours.bring(0, 1, 2)

            async def has_failed() -> bool:
                return (await handles.get(ours.handle_id)).status is HandleStatus.FAILED

            await until(has_failed)
    assert "CANCELLED" in ((await handles.get(ours.handle_id)).error or "")


async def test_a_run_that_the_server_does_not_know_is_refused(prefect: Prefect) -> None:
    outcome = Outcome(handle_id="h", correlation_id="c", expected=1, done=1, failed=0, expired=False)
    async with PrefectApi(prefect.api_url) as api:
        says, reason = await api.resume("00000000-0000-0000-0000-000000000001", outcome)
    assert (says, "Flow run not found" in reason) == ("refused", True)


# --- all of it real --------------------------------------------------------------------------------------------------

APP = """
from rota import Rota
from rota.events import Event

app = Rota()

@app.consumer("Genesis.Session.DetailBatchGenerationRequested", name="namer", concurrency=5)
async def make(event: Event):
    number = int(event.payload["task_id"].partition(":")[2])
    if number == 2:
        made = event.then("Genesis.Session.DetailBatchFailed", {"reason": "no idea"})
    else:
        # Every part has one name that each other part has, too.
        names = ["Ada", *(f"Name {number}-{each}" for each in range(1, event.payload["count"]))]
        made = event.then("Genesis.Session.DetailBatchCreated", {"items": [{"name": name} for name in names]})
    outbox = (await app.events()).outbox
    return lambda connection: outbox.add(connection, made)
"""


@contextmanager
def serving(folder: Path, prefect: Prefect, *app: str) -> Generator[tuple[str, str]]:
    """A real service with its worker: its address, and a token that may do everything."""
    folder.mkdir()
    (folder / "namer.py").write_text(APP)
    (folder / "rota.yaml").write_text(f"prefect:\n  api_url: {prefect.api_url}\n")
    command = [sys.executable, "-m", "rota.cli", "up", *app, "--port", "0", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "ROTA_STORE": f"sqlite:///{folder}/rota.db"}
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--config", "rota.yaml"], env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=log
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (folder / "up.log").read_text()[-4_000:]
        ready = json.loads(line)
        yield ready["url"], parse_qs(urlsplit(str(ready["login"])).query)["token"][0]
    finally:
        process.terminate()
        process.communicate()


async def the_handle(url: str, token: str) -> dict[str, Any]:
    """The only one, once Rota knows that its flow goes on."""
    handle: dict[str, Any] = {}
    async with httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {token}"}, trust_env=False) as client:

        async def is_resumed() -> bool:
            (found,) = (await client.get("/api/handles")).json()["items"]
            handle.update(found)
            return handle["status"] == "resumed"

        await until(is_resumed, "Rota knows that the flow goes on")
    return handle


async def test_results_of_a_whole_rota(prefect: Prefect, tmp_path: Path) -> None:
    with (
        serving(tmp_path / "service", prefect, "--app", "namer:app") as (url, token),
        running(prefect, url, tmp_path, token) as flow,
    ):
        assert "2 of 3 parts made, 1 failed: 33 details" in await flow.end()
        handle = await the_handle(url, token)
    assert (handle["done"], handle["failed"]) == (2, 1)
    states = prefect.states(handle["flow_run_id"])
    assert states == ["PENDING", "RUNNING", "PAUSED", "RUNNING", "COMPLETED"]


async def test_a_batch_of_a_whole_rota(prefect: Prefect, tmp_path: Path) -> None:
    """D47, D48: one handle for all subtasks, and the first of their results resumes nothing."""
    with (
        serving(tmp_path / "service", prefect) as (url, token),
        running(prefect, url, tmp_path, token, DETAIL_BATCH) as flow,
    ):
        assert "completed: 50 of 50 details" in await flow.end()
        handle = await the_handle(url, token)
    assert (handle["expected_count"], handle["done"], handle["failed"]) == (1, 1, 0)
    states = prefect.states(handle["flow_run_id"])
    assert states == ["PENDING", "RUNNING", "PAUSED", "RUNNING", "COMPLETED"]
