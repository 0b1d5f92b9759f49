"""The service as people meet it: how soon the first page is there, how long pages take over a million tasks, and what
500 open dashboards cost that are dropped again and again.

The server is a process of its own, started by `rota up`; the listeners are processes of their own too.
"""

from __future__ import annotations

import asyncio
import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from bench.lists import BIG, SMALL, TASKS, USER, fill_store
from bench.minds import AGENT_SCHEDULE, CONTEXTS, GROUP, RUNS, SCHEDULES, TALKER, fill_minds
from rota.stores import open_store

__all__ = ["Served", "measured", "service", "serving"]

STARTS = 5
TIMES = 20
LISTENERS = int(os.environ.get("ROTA_LISTENERS", "500"))
PROCESSES = 2
DROP_SECONDS = 10.0
LISTEN_SECONDS = float(os.environ.get("ROTA_LISTEN_SECONDS", "60"))


class Served(NamedTuple):
    """A running service, and whom it let in."""

    url: str
    cookies: dict[str, str]
    pid: int
    seconds: float
    """From the start of the process until its first page was read."""


def service() -> None:
    """Print all three."""
    starts()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/rota.db?synchronous=OFF"
        asyncio.run(_fill(url))
        asyncio.run(fill_minds(url, Path(folder)))
        pages(url)
    live()


# --- starting ---------------------------------------------------------------------------------------------------------


def starts() -> None:
    """From `rota up` in an empty folder to the first page, signed in."""
    taken: list[float] = []
    for _ in range(STARTS):
        with tempfile.TemporaryDirectory() as folder, serving(f"sqlite:///{folder}/rota.db", Path(folder)) as served:
            taken.append(served.seconds)
    print(
        f"rota up to the first page, {STARTS} times: {', '.join(f'{each:.2f}' for each in sorted(taken))} s", flush=True
    )


@contextmanager
def serving(store: str, folder: Path, *options: str, database: str | None = None) -> Generator[Served]:
    """`rota up` on a store, which also has the database unless another one is named."""
    command = [sys.executable, "-m", "rota.cli", "--json", "--store", store, "up", "--port", "0", *options]
    environ = {**os.environ, "ROTA_DATABASE": database or store}
    # As it is installed: compiled, once.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Made first: setting a client up takes time that is not the service's.
    with httpx.Client(timeout=30) as client:
        begun = time.perf_counter()
        with subprocess.Popen(
            command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            try:
                assert process.stdout is not None
                ready = _first_object(process.stdout)
                client.get(ready["login"], follow_redirects=True).raise_for_status()
                taken = time.perf_counter() - begun
                yield Served(ready["url"].rstrip("/"), dict(client.cookies), process.pid, taken)
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(60)


def _first_object(stream: Any) -> dict[str, str]:
    text = ""
    for line in stream:
        text += line.decode()
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            continue
    raise RuntimeError(f"rota up ended before it was up: {text}")


# --- pages and lists over a million tasks -----------------------------------------------------------------------------


async def _fill(url: str) -> None:
    store = open_store(url)
    await store.open()
    try:
        await fill_store(store)
    finally:
        await store.close()


def pages(url: str) -> None:
    """The 95th percentile of every page and every list."""
    folder = Path(url.partition("sqlite:///")[2].partition("?")[0]).parent
    with serving(url, folder, "--no-worker") as served, httpx.Client(cookies=served.cookies, timeout=30) as client:
        print(
            f"{TASKS:,} tasks, {CONTEXTS:,} contexts, {SCHEDULES:,} scheduled agents and {RUNS:,} runs of agents"
            f" on SQLite; p95 of {TIMES} each",
            flush=True,
        )
        slowest = max(measured(client, served.url, path) for path in _paths(client, served.url))
        print(f"the slowest page or list takes {slowest:.0f} ms", flush=True)


def _paths(client: httpx.Client, url: str) -> list[str]:
    task = f"{BIG}/{USER}%3Adefault%3Adefault"
    run = client.get(f"{url}/api/runs?limit=1").json()["items"][0]["run_id"]
    found = [
        "/",
        "/?minutes=720",
        "/tasks",
        "/tasks?status=pending",
        "/tasks?status=completed",
        "/tasks?status=failed",
        f"/tasks?type={BIG}&without=completed",
        "/tasks?search=no-such-thing",
        f"/tasks?user={USER}",
        "/tasks?owner=everybody",
        f"/tasks/{task}",
        "/schedules",
        "/schedules?owner=group1",
        f"/schedules/{SMALL}/schedule7",
        "/schedules/new",
        "/runs",
        "/runs?status=error",
        f"/runs?type={BIG}",
        f"/runs/{run}",
        "/dead-letters",
        f"/types/{BIG}",
        "/instances",
        "/alerts",
        "/audit",
        f"/users?user={USER}",
        "/tokens",
        "/help",
        "/memory",
        f"/memory/{TALKER}",
        f"/memory/{TALKER}?state=merged",
        f"/memory/{TALKER}?text=the+concert",
        "/memory/user0000001",
        "/agents",
        f"/agents?group={GROUP}",
        f"/schedules/agent/{AGENT_SCHEDULE}",
        "/runs?type=agent",
    ]
    calls = [
        "/api/overview",
        "/api/types",
        f"/api/types/{BIG}",
        "/api/tasks?limit=200",
        "/api/tasks?status=pending&limit=200",
        "/api/tasks?status=completed&limit=200",
        "/api/tasks?status=running",
        f"/api/tasks?task_type={BIG}&status=failed",
        "/api/tasks?search=no-such-thing",
        "/api/tasks?owner=everybody&status=failed",
        f"/api/tasks/{task}",
        f"/api/tasks/{task}/explain",
        f"/api/tasks/{task}/runs",
        "/api/schedules?limit=200",
        f"/api/schedules/{SMALL}/schedule7/fires?n=20",
        "/api/runs?limit=200",
        f"/api/runs?user={USER}",
        "/api/runs?status=error",
        "/api/dead-letters?limit=200",
        "/api/queues",
        "/api/instances",
        "/api/monitoring/scheduler?hours=168",
        "/api/monitoring/scheduler/queues",
        "/api/monitoring/scheduler/failures?hours=24",
        "/api/audit?limit=200",
        "/api/alerts",
        "/api/tokens",
        "/api/memory/stats",
        f"/api/memory/{TALKER}/stats",
        f"/api/memory/{TALKER}/contexts?limit=200",
        f"/api/memory/{TALKER}/search?text=the+concert",
        f"/api/agents/schedules?group={GROUP}",
        "/api/agents/schedules",
        f"/api/agents/schedules/{AGENT_SCHEDULE}/runs",
        "/api/agents/running",
        "/api/agents/waiting",
        "/api/agents/groups",
        f"/api/users/{USER}/export",
        "/readyz",
        "/metrics",
    ]
    return found + calls


def measured(client: httpx.Client, url: str, path: str) -> float:
    """Print, and give, the 95th percentile of one address."""
    taken: list[float] = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        answer = client.get(url + path)
        taken.append((time.perf_counter() - begun) * 1_000)
        if answer.status_code != 200:
            raise RuntimeError(f"{path} answered {answer.status_code}: {answer.text[:300]}")
    p95 = sorted(taken)[math.ceil(TIMES * 0.95) - 1]
    print(f"{path:<52}{p95:>9.0f} ms", flush=True)
    return p95


# --- many listeners ---------------------------------------------------------------------------------------------------


@dataclass
class Heard:
    """What one process of listeners has heard."""

    connections: int = 0
    events: int = 0
    holes: int = 0
    snapshots: int = 0
    first_at: dict[int, float] = field(default_factory=dict[int, float])
    """When the first of its listeners saw an update that was not a replay, by its number (wall clock)."""
    last_at: dict[int, float] = field(default_factory=dict[int, float])


def live() -> None:
    """500 listeners in other processes, each dropped every 10 s, while tasks come and go."""
    with tempfile.TemporaryDirectory() as folder, serving(f"sqlite:///{folder}/rota.db", Path(folder)) as served:
        context = multiprocessing.get_context("spawn")
        with context.Pool(PROCESSES) as pool:
            share = LISTENERS // PROCESSES
            parts = pool.starmap_async(_listen, [(served.url, served.cookies, share) for _ in range(PROCESSES)])
            sizes = _keep_busy(served, parts)
            heard: list[Heard] = parts.get(timeout=120)
    lags = _spreads(heard)
    print(
        f"{LISTENERS} listeners for {LISTEN_SECONDS:.0f} s, dropped every {DROP_SECONDS:.0f} s:"
        f" {sum(h.connections for h in heard):,} connections, {sum(h.events for h in heard):,} updates,"
        f" {sum(h.holes for h in heard)} holes, {sum(h.snapshots for h in heard) - LISTENERS} snapshots after the first"
    )
    if lags:
        p50, p99 = lags[len(lags) // 2], lags[int(len(lags) * 0.99)]
        print(f"from the first listener to the last: p50 {p50:.0f}, p99 {p99:.0f} ms")
    print(
        f"memory of the service every {DROP_SECONDS:.0f} s: {', '.join(f'{size:.0f}' for size in sizes)} MiB",
        flush=True,
    )


def _keep_busy(served: Served, parts: Any) -> list[float]:
    """Make a task a few times a second, so that there is something to hear; the memory of the service meanwhile."""
    sizes: list[float] = []
    begun = time.monotonic()
    with httpx.Client(cookies=served.cookies, timeout=30, headers={"Origin": served.url}) as client:
        while not parts.ready():
            client.post(f"{served.url}/api/tasks", json={"task_type": "echo", "payload": {}}).raise_for_status()
            if time.monotonic() - begun >= DROP_SECONDS * len(sizes):
                sizes.append(_resident(served.pid))
            parts.wait(0.2)
    return sizes


def _resident(pid: int) -> float:
    pages_held = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages_held * os.sysconf("SC_PAGE_SIZE") / 1_048_576


def _listen(url: str, cookies: dict[str, str], listeners: int) -> Heard:
    return asyncio.run(_crowd(url, cookies, listeners))


async def _crowd(url: str, cookies: dict[str, str], listeners: int) -> Heard:
    heard = Heard()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(cookies=cookies, timeout=60, limits=limits) as client, asyncio.TaskGroup() as group:
        for number in range(listeners):
            group.create_task(_listener(client, url, heard, number / listeners * DROP_SECONDS))
    return heard


async def _listener(client: httpx.AsyncClient, url: str, heard: Heard, first_drop: float) -> None:
    """Listen, be dropped, come back with the last number seen: what follows must be the next number."""
    loop = asyncio.get_running_loop()
    over = loop.time() + LISTEN_SECONDS
    last: str | None = None
    drop_after = max(first_drop, 1.0)
    while loop.time() < over:
        headers = {} if last is None else {"Last-Event-ID": last}
        heard.connections += 1
        try:
            async with asyncio.timeout(min(drop_after, over - loop.time())):
                async with client.stream("GET", f"{url}/api/live", headers=headers) as answer:
                    begun = loop.time()
                    async for line in answer.aiter_lines():
                        if line.startswith("id: "):
                            last = _hear(heard, last, line[4:], is_replay=loop.time() - begun < 1.0)
                        elif line == "event: snapshot":
                            heard.snapshots += 1
        except TimeoutError:
            pass
        drop_after = DROP_SECONDS


def _hear(heard: Heard, last: str | None, seen: str, *, is_replay: bool) -> str:
    heard.events += 1
    boot, _, number = seen.rpartition("-")
    if last is not None:
        known_boot, _, known = last.rpartition("-")
        if boot != known_boot or int(number) != int(known) + 1:
            heard.holes += 1
    if not is_replay:
        now = time.time()
        heard.first_at.setdefault(int(number), now)
        heard.last_at[int(number)] = now
    return seen


def _spreads(heard: list[Heard]) -> list[float]:
    first: defaultdict[int, list[float]] = defaultdict(list)
    last: defaultdict[int, list[float]] = defaultdict(list)
    for part in heard:
        for number, at in part.first_at.items():
            first[number].append(at)
            last[number].append(part.last_at[number])
    return sorted((max(last[number]) - min(first[number])) * 1_000 for number in first)


if __name__ == "__main__":
    service()
