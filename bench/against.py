"""Rota on Redis beside the Python queues that people compare it with, in one run on one server."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.throughput import measure
from rota.testing.redis_servers import RedisServer, redis_server

__all__ = ["PEERS", "compare"]

ROOT = Path(__file__).parent.parent
ENVIRONMENT = ROOT / "build" / "peers"
REQUIREMENTS = ROOT / "bench" / "peers" / "requirements.txt"
PEERS = ("arq", "saq", "streaq", "taskiq", "dramatiq")
PEER_JOBS = 5_000
OWN_TASKS = 50_000
LIMIT = 120.0


@dataclass(frozen=True)
class Row:
    """One queue: jobs enqueued and run a second, or why it could not be measured."""

    name: str
    enqueue: float = 0.0
    run: float = 0.0
    reason: str = ""


def compare() -> None:
    """Print the table. Every queue gets the same server, emptied before its turn."""
    python = _environment()
    # The system's server where there is one: streaq needs Redis 7, and the wheel in the tests carries 6.2.
    system = shutil.which("redis-server")
    executable = None if system is None else Path(system)
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder), executable=executable) as server:
        rows = [_peer(python, name, server) for name in PEERS]
        rates = asyncio.run(measure(server.url, OWN_TASKS))
        own = Row("rota", rates.schedules, rates.runs)
    measured = [row for row in rows if not row.reason]
    print(f"{'Redis':<12}{'enqueue/s':>12}{'run/s':>10}")
    for row in (*rows, own):
        print(f"{row.name:<12}{row.reason}" if row.reason else f"{row.name:<12}{row.enqueue:>12,.0f}{row.run:>10,.0f}")
    if measured:
        best_enqueue, best_run = max(row.enqueue for row in measured), max(row.run for row in measured)
        print(f"rota : best peer  {own.enqueue / best_enqueue:.1f} : 1 enqueue, {own.run / best_run:.1f} : 1 run")


def _environment() -> Path:
    """The peers' own Python: made once, from the pins in `requirements.txt`."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / "installed"
    if not stamp.exists() or stamp.read_text() != REQUIREMENTS.read_text():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "-r", str(REQUIREMENTS)], check=True)
        stamp.write_text(REQUIREMENTS.read_text())
    return python


def _peer(python: Path, name: str, server: RedisServer) -> Row:
    server.ask("FLUSHALL")
    command = [str(python), "-m", f"bench.peers.{name}_peer", server.url, str(PEER_JOBS)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=True)
        rates = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return Row(name, reason=f"not done within {LIMIT:g} s")
    except subprocess.CalledProcessError as error:
        return Row(name, reason=f"failed: {(error.stderr.strip().splitlines() or ['no message'])[-1][:90]}")
    finally:
        server.ask("FLUSHALL")
    return Row(name, rates["enqueue"], rates["run"])
