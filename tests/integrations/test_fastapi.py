"""Rota inside a FastAPI application: lifespan, dependency, mounted dashboard, and the example as a process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
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
from rota.testing.waiting import until_blocking

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


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_the_example(tmp_path: Path) -> None:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE)],
        cwd=tmp_path,
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            until_blocking(lambda: answers(client), "it is up")
            for text in ("hello", "good night"):
                said = client.post("/messages?user=ada", content=text, headers={"content-type": "text/plain"}).json()
                assert said["answer"] == f"You said: {text}"
            until_blocking(lambda: client.get("/memories/ada").json()["memory"] is not None, "the memory was summed up")
            assert client.get("/memories/ada").json()["memory"] == "ada has said 2 things, last: good night"
            secret = (tmp_path / "chat.token").read_text().strip()
            bearer = {"Authorization": f"Bearer {secret}"}
            runs = client.get("/rota/api/runs", headers=bearer).json()["items"]
            assert [run["status"] for run in runs] == ["success"]
            page = client.get(f"/rota/login?token={secret}", follow_redirects=True)
            assert page.status_code == 200
            assert "<html" in page.text
            # A page that is open, with its stream, does not keep the application from ending.
            with client.stream("GET", "/rota/api/live", headers=bearer) as stream:
                next(stream.iter_raw())
                process.send_signal(signal.SIGTERM)
                out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert "Traceback" not in err
    assert out == "ada has said 2 things, last: good night\n"


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/rota/healthz").status_code == 200
    except httpx.TransportError:
        return False
