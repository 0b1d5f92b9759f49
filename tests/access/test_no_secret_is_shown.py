"""A secret in a traceback, a log line, a print, a payload, a result: hidden wherever people can read of it.

A real worker in a process of its own leaves them, on a real file; then everything that can be read is read: each page
that a link leads to, each list of the API with each of its items, the live stream, the commands, and the worker's log.
What the application itself writes to its own streams is its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from tests.dashboard.stage import Stage, staged

from rota import Rota
from rota.access import Principal, Role
from rota.app.operator import Operator
from rota.testing.waiting import until

MARK = "c4n4ry"
"""Stands in every secret of this test and in nothing else."""

SHOP = f'''
import logging
import os
import sys

from rota import Rota, Run

logging.basicConfig(stream=sys.stdout)

app = Rota({{"store": os.environ["SHOP_STORE"], "spool": "off"}})
log = logging.getLogger("shop")


@app.task(max_retries=1, retry={{"base": "10ms", "max": "10ms"}})
async def charge(payload, run: Run):
    log.warning("charging with api_key=%s", "{MARK}-in-a-line")
    print("password: {MARK}-in-a-print")
    run.progress({{"step": 1, "access_token": "{MARK}-in-progress"}})
    with run.step("secret={MARK}-in-a-step"):
        pass
    raise RuntimeError(f"the bank refused token={MARK}-in-a-message and {{os.environ['SHOP_SECRET']}}")


@app.task(max_retries=0, process=True)
def charge_apart(payload):
    print("password={MARK}-printed-apart")
    raise RuntimeError("client_secret={MARK}-raised-apart")


@app.task()
async def paid(payload):
    log.info("signed in with password=%s", "{MARK}-in-a-good-run")
    return {{"refresh_token": "{MARK}-in-a-result", "card": "sk-{MARK}0123456789abcdef"}}


@app.every("1h")
async def look_after():
    raise ValueError("private_key={MARK}-of-a-series")
'''


@asynccontextmanager
async def worked(folder: Path) -> AsyncGenerator[Stage]:
    """A service whose worker is another process, after each of the shop's types has run."""
    url = f"sqlite:///{folder}/rota.db?synchronous=OFF"
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")
    app = Rota({"store": url, "spool": "off"})
    environment = {**os.environ, "SHOP_STORE": url, "SHOP_SECRET": f"{MARK}-of-the-environment", "NO_COLOR": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [environment.get("PYTHONPATH")])])
    async with staged(app, works=False) as stage:
        with (folder / "worker.log").open("wb") as log:
            worker = subprocess.Popen(  # noqa: ASYNC220 - it is started at once, and waited for in a thread
                [sys.executable, "-m", "rota.cli", "worker", "--app", "shop:app"],
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=environment,
                cwd=folder,
            )
            try:
                store = await app.store()

                async def knows_the_types() -> bool:
                    assert worker.poll() is None, (folder / "worker.log").read_text(encoding="utf-8")
                    return {"charge", "charge_apart", "paid"} <= {
                        each.task_type.name for each in await store.list_types()
                    }

                await until(knows_the_types, "the worker has declared its types")
                operator = Operator(app, Principal.at_the_command_line())
                for name in ("charge", "charge_apart", "paid"):
                    await operator.schedule(name, PAYLOAD, key="k1", user_id="ann")
                await operator.upsert_schedule("weekly", "paid", cron="0 9 * * 1", payload=PAYLOAD)

                async def all_is_over() -> bool:
                    counts = await store.counts()
                    return counts["paid"].completed == 1 and [
                        counts[name].failed for name in ("charge", "charge_apart")
                    ] == [1, 1]

                await until(all_is_over, "every task has ended")
                await until(lambda: _groups_are_counted(app), "the failures are counted")
                yield stage
            finally:
                worker.terminate()
                await asyncio.to_thread(worker.wait, 60)


async def _groups_are_counted(app: Rota) -> bool:
    return {found.group.task_type for found in await (await app.store()).failures()} >= {"charge", "charge_apart"}


PAYLOAD = {
    "api_key": f"{MARK}-of-a-payload",
    "card": {"password": f"{MARK}-within"},
    "url": f"https://shop:{MARK}-in-a-url@bank.example/pay",
    "said": f"Authorization: Bearer {MARK}0123456789abcdef",
    "amount": 12,
}


def _shown_secrets(where: str, text: str) -> Iterator[str]:
    for found in re.finditer(rf".{{0,60}}{MARK}.{{0,30}}", text):
        yield f"{where}: {found[0]}"


async def test_no_face_shows_a_secret(tmp_path: Path) -> None:
    async with worked(tmp_path) as stage:
        shown = [
            *await _on_pages(stage),
            *await _on_the_api(stage),
            *await _in_the_terminal(stage, tmp_path),
            *_shown_secrets("worker's log", _without_prints((tmp_path / "worker.log").read_text(encoding="utf-8"))),
        ]
    assert shown == []


def _without_prints(log: str) -> str:
    """A child process prints to the worker's stderr: its stdout is how it answers."""
    return log.replace(f"password={MARK}-printed-apart\n", "")


# --- pages ------------------------------------------------------------------------------------------------------------


async def _on_pages(stage: Stage) -> list[str]:
    """Every page that a link leads to, from the first one on."""
    shown: list[str] = []
    seen: set[str] = set()
    left = ["/"]
    async with stage.client() as client:
        client.cookies.set("rota_session", (await client.get(stage.login())).cookies["rota_session"])
        while left:
            path = left.pop()
            answer = await client.get(f"{stage.url}{path}", headers={"Accept": "text/html"})
            if "html" not in answer.headers.get("content-type", ""):
                continue
            assert answer.status_code == 200, f"{path}: {answer.status_code}"
            shown += _shown_secrets(path, answer.text)
            for link in re.findall(r'<a [^>]*href="([^"]+)"', answer.text):
                parts = urlsplit(urljoin(f"{stage.url}{path}", link.replace("&amp;", "&")))
                found = parts.path + (f"?{parts.query}" if parts.query else "")
                if parts.netloc in stage.url and _is_page(found) and _is_new(found, seen):
                    left.append(found)
    assert {"/tasks/charge/k1", "/failures"} <= seen
    assert any(path.startswith("/runs/") for path in seen)
    return shown


_SAME_PAGE = re.compile(r"cursor=[^&]*|(?:sort|order|from|to|since|until|zone|theme|within|period|minutes)=[^&]*")


def _is_page(path: str) -> bool:
    """The API is read by itself, and one of its streams never ends; an export is the user's own, whole; and signing out
    would end the walk."""
    return not path.startswith(("/api/", "/logout", "/metrics")) and "/export" not in path


def _is_new(path: str, seen: set[str]) -> bool:
    """A page with another order or period is the same page."""
    path = _SAME_PAGE.sub("", path).rstrip("?&")
    if path in seen or len(seen) > 400:
        return False
    seen.add(path)
    return True


# --- the API ----------------------------------------------------------------------------------------------------------


async def _on_the_api(stage: Stage) -> list[str]:
    """Every list, each item of it by itself, and what the live stream sends first."""
    shown: list[str] = []
    async with stage.client(Role.ADMIN, base_url=stage.url) as client:
        lists = [path for path in (await client.get("/api/openapi.json")).json()["paths"] if path.startswith("/api/")]
        runs = (await client.get("/api/runs")).json()["items"]
        assert len(runs) >= 4
        paths = [path for path in lists if "{" not in path and not path.endswith("/live")]
        paths += [f"/api/runs/{run['run_id']}" for run in runs]
        paths += [
            f"/api/tasks/{name}/k1{end}" for name in ("charge", "charge_apart", "paid") for end in ("", "/explain")
        ]
        paths += [
            f"/api/failures/{one['task_type']}/{one['id']}"
            for one in (await client.get("/api/failures")).json()["items"]
        ]
        paths += [f"/api/types/{name}" for name in ("charge", "paid", "look_after")]
        paths += ["/metrics"]
        for path in paths:
            answer = await client.get(path)
            shown += _shown_secrets(f"GET {path}", answer.text)
        async with client.stream("GET", "/api/live") as stream:
            # Who listens hears of what happens from then on.
            await stage.app.schedule("paid", PAYLOAD, key="k2")
            async for line in stream.aiter_lines():
                shown += _shown_secrets("live", line)
                if line.startswith("data:"):
                    break
    return shown


# --- the terminal -----------------------------------------------------------------------------------------------------


async def _in_the_terminal(stage: Stage, folder: Path) -> list[str]:
    """What the commands say, for people and for programs."""
    runs = [run.run_id for run in (await stage.app.runs()).items]
    failures = [f"{each.group.task_type}/{each.group.id}" for each in await (await stage.app.store()).failures()]
    commands = [
        "task ls",
        "task show charge k1",
        "task show paid k1",
        "task explain paid weekly",
        "run ls",
        *(f"run show {run}" for run in runs),
        "dlq ls",
        "failures ls",
        *(f"failures show {name}" for name in failures),
        "type ls",
        "schedule ls",
        "audit ls",
        "top --once",
    ]
    calls = [f"{command}{option}" for command in commands for option in ("", " --json")]
    environment = {**os.environ, "ROTA_STORE": f"sqlite:///{folder}/rota.db", "NO_COLOR": "1", "COLUMNS": "200"}
    # One process for all of them: each by itself would be most of what this test takes.
    said = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", _CALLS, *calls],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
    )
    assert said.returncode == 0, said.stdout[-500:] + said.stderr
    assert said.stdout.count("paid") > len(commands)
    return [*_shown_secrets("terminal", said.stdout), *_shown_secrets("terminal's errors", said.stderr)]


_CALLS = """
import shlex, sys
from rota.cli import main
for call in sys.argv[1:]:
    print("$ rota", call, flush=True)
    code = main(shlex.split(call))
    assert code == 0, (call, code)
"""


@pytest.mark.parametrize("text", [f"password={MARK}", json.dumps({"api_key": MARK})])
def test_the_test_would_see_it(text: str) -> None:
    assert list(_shown_secrets("here", text))
