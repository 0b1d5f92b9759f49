"""Rota inside a FastAPI application: lifespan, dependency, mounted dashboard, and the example as a process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from starlette.testclient import TestClient

from rota import Rota
from rota.errors import InvalidConfig
from rota.integrations.fastapi import RotaLifespan, get_rota, mount
from rota.stores.memory import MemoryStore
from rota.testing import FaultyStore
from rota.testing.waiting import PATIENCE, until_blocking

EXAMPLE = Path(__file__).parents[2] / "examples" / "fastapi_app" / "main.py"


def chat(rota: Rota, *, worker: bool = True) -> FastAPI:
    """An application with one route, on a Rota with one type."""

    @rota.on_activity(after="0s")
    async def upkeep(user_id: str) -> str:
        return f"kept {user_id}"

    assert upkeep.name == "upkeep"
    api = FastAPI(lifespan=RotaLifespan(rota, worker=worker))

    @api.post("/messages")
    async def say(user: str, rota: Annotated[Rota, Depends(get_rota)]) -> dict[str, str]:
        return {"upkeep": (await rota.touch("upkeep", user)).outcome}

    @api.get("/runs")
    async def runs(rota: Annotated[Rota, Depends(get_rota)]) -> list[str | None]:
        return [run.result for run in (await rota.runs()).items]

    assert say is not runs
    return api


def local(api: FastAPI) -> TestClient:
    return TestClient(api, base_url="http://localhost")


def test_an_application_starts_while_the_store_is_away(tmp_path: Path) -> None:
    """It takes what its users do, and works when the store is there."""
    store = FaultyStore(MemoryStore())
    rota = Rota({"spool": str(tmp_path / "spool.db"), "database": f"sqlite:///{tmp_path}/rota.db"}, store=store)
    api = chat(rota)
    mount(api, rota, "/rota", token_file=tmp_path / "rota.token")
    with store.down():
        client = local(api)
        client.__enter__()
        assert client.post("/messages?user=ada").json() == {"upkeep": "spooled"}
        assert client.get("/rota/readyz").status_code == 503
    until_blocking(rota.is_running, "the store was found")
    until_blocking(lambda: client.get("/runs").json() == ["kept ada"], "the upkeep was done")
    client.__exit__(None, None, None)
    assert not rota.is_running()


def test_the_lifespan_connects_and_works(sqlite_url: str) -> None:
    rota = Rota(sqlite_url)
    with local(chat(rota)) as client:
        assert client.post("/messages?user=ada").json() == {"upkeep": "created"}
        until_blocking(lambda: client.get("/runs").json() == ["kept ada"], "the upkeep was done")
        assert rota.is_running()

    assert not rota.is_running()


def test_without_a_worker_it_only_connects(sqlite_url: str) -> None:
    rota = Rota(sqlite_url)
    with local(chat(rota, worker=False)) as client:
        assert client.post("/messages?user=ada").json() == {"upkeep": "created"}
        assert not rota.is_running()


def test_an_existing_lifespan_is_kept_and_lies_within(sqlite_url: str) -> None:
    story: list[str] = []
    rota = Rota(sqlite_url)

    @asynccontextmanager
    async def theirs(app: FastAPI) -> AsyncGenerator[dict[str, str]]:
        story.append(f"begins, {len(await app.state.rota.types())} types")
        yield {"colour": "green"}
        story.append(f"ends, {len(await app.state.rota.types())} types")

    api = FastAPI(lifespan=RotaLifespan(rota, worker=False, around=theirs))
    mount(api, rota, "/rota")

    @api.get("/colour")
    async def colour(request: Request) -> str:
        return request.state.colour

    with local(api) as client:
        assert client.get("/colour").json() == "green"
        assert client.get("/rota/healthz").status_code == 200
    assert colour is not None
    assert story == ["begins, 0 types", "ends, 0 types"]


def test_mounted_alone_it_holds_its_own_connection(sqlite_url: str, tmp_path: Path) -> None:
    rota = Rota(sqlite_url)
    api = FastAPI()
    mount(api, rota, "/deep/rota/", token_file=tmp_path / "first.token")
    with local(api) as client:
        secret = (tmp_path / "first.token").read_text().strip()
        bearer = {"Authorization": f"Bearer {secret}"}
        assert client.get("/deep/rota/api/tasks").status_code == 401
        assert client.get("/deep/rota/api/tasks", headers=bearer).json()["items"] == []
        page = client.get(f"/deep/rota/login?token={secret}")
        assert page.status_code == 200
        assert page.url.path.startswith("/deep/rota")
        assert 'href="/deep/rota/' in page.text
        assert "/deep/rota/static/" in page.text
        assert client.get("/api/tasks", headers=bearer).status_code == 404


def test_a_host_that_is_not_named_is_refused(sqlite_url: str) -> None:
    api = FastAPI()
    mount(api, Rota(sqlite_url), allowed_hosts=["chat.example"])
    with TestClient(api, base_url="http://chat.example") as named:
        assert named.get("/rota/healthz").status_code == 200
        assert named.get("/rota/healthz", headers={"host": "evil.example"}).status_code == 400


@pytest.mark.parametrize("path", ["rota", "/", "", "/a b", "//x"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(InvalidConfig, match="/rota"):
        mount(FastAPI(), Rota("memory://"), path)


def test_an_application_without_a_rota_says_so() -> None:
    api = FastAPI()

    @api.get("/")
    async def home(rota: Annotated[Rota, Depends(get_rota)]) -> str:
        return str(rota)

    assert home is not None
    with pytest.raises(Exception, match="RotaLifespan"), local(api) as client:
        client.get("/")


# --- the example, as people run it -----------------------------------------------------------------------------------


@pytest.fixture
def port() -> Generator[int]:
    """A free port that is given to nobody else meanwhile: bound and not listened at, it is open to whoever names it."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


def test_the_example(tmp_path: Path, port: int) -> None:
    summed_up = "ada has said 2 things, last: good night"
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE)],
        cwd=tmp_path,
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, trust_env=False) as client:
            until_blocking(lambda: answers(client), "it is up")
            began = time.monotonic()
            for text in ("hello", "good night"):
                said = client.post("/messages?user=ada", content=text, headers={"content-type": "text/plain"}).json()
                assert said["answer"] == f"You said: {text}"
            within = time.monotonic() - began
            until_blocking(lambda: client.get("/memories/ada").json()["memory"] == summed_up, "it was summed up")
            secret = (tmp_path / "chat.token").read_text().strip()
            bearer = {"Authorization": f"Bearer {secret}"}

            def runs() -> list[str]:
                return [run["status"] for run in client.get("/rota/api/runs", headers=bearer).json()["items"]]

            # The memory is there before its run has ended.
            until_blocking(lambda: runs() and set(runs()) == {"success"}, "its run has ended")
            page = client.get(f"/rota/login?token={secret}", follow_redirects=True)
            assert page.status_code == 200
            assert "<html" in page.text
            # A page that is open, with its stream, does not keep the application from ending.
            with client.stream("GET", "/rota/api/live", headers=bearer) as stream:
                next(stream.iter_raw())
                process.send_signal(signal.SIGTERM)
                out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert "Traceback" not in err
    lines = out.splitlines()
    assert lines[-1] == summed_up
    if within < 1.5:  # a machine that takes two seconds for both messages may sum up each of them
        assert lines == [summed_up]


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/rota/healthz").status_code == 200
    except httpx.TransportError:
        return False
