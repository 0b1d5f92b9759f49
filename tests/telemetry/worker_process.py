"""A worker as people start one, in a process of its own, with its metrics on a port of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

__all__ = ["PROJECT", "Samples", "WorkerProcess", "samples_of", "serving", "worker"]

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

PROJECT = """
from rota import Rota

app = Rota()

@app.on_activity(after="0s", max_retries=0)
async def greet(user_id: str) -> str:
    if user_id.startswith("bad"):
        raise ValueError(user_id)
    return f"hello {user_id}"

@app.task
async def report(payload: dict) -> str:
    return "done"
"""


@dataclass(frozen=True)
class WorkerProcess:
    """One that runs, and where it tells of itself."""

    process: subprocess.Popen[str]
    url: str

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=30)

    def samples(self) -> Samples:
        """What Prometheus reads."""
        answer = self.get("/metrics")
        assert answer.status_code == 200, answer.text
        return samples_of(answer.text)

    def is_ready(self) -> bool:
        return self.get("/readyz").status_code == 200

    def counts(self) -> dict[tuple[str, str], float]:
        """What it says of the whole store: by type, and by the names that `Counts` has."""
        return dict(_counts(self.samples()))


def samples_of(text: str) -> Samples:
    """Every sample of a scrape, by its name and its labels."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}


def _counts(samples: Samples) -> Iterator[tuple[tuple[str, str], float]]:
    statuses = {"success": "succeeded_total", "error": "errored_total", "lost": "lost_total"}
    totals = {"rota_store_created_total": "created_total", "rota_store_coalesced_total": "coalesced_total"}
    for (name, labels), value in samples.items():
        said = dict(labels)
        if name == "rota_queue_depth":
            yield (said["type"], said["state"]), value
        elif name == "rota_store_runs_total":
            yield (said["type"], statuses[said["status"]]), value
        elif name in totals:
            yield (said["type"], totals[name]), value


@contextmanager
def serving(folder: Path, store: str, *arguments: str, project: str = PROJECT) -> Generator[subprocess.Popen[str]]:
    """`rota worker` for the length of the block."""
    (folder / "project.py").write_text(project)
    command = [sys.executable, "-m", "rota.cli", "worker", "--app", "project:app", *arguments]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    environ["ROTA_STORE"] = store
    process = subprocess.Popen(
        command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def worker(folder: Path, store: str, *arguments: str, project: str = PROJECT) -> Generator[WorkerProcess]:
    """The same with its metrics on a port that was free."""
    with serving(folder, store, "--metrics-port", "0", *arguments, project=project) as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told.startswith("Metrics: "), process.communicate(timeout=60)[1]
        yield WorkerProcess(process, told.removeprefix("Metrics: ").strip().removesuffix("/metrics"))
