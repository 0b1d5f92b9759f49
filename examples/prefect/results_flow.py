"""A flow of Prefect 3 that sends work to consumers of your own, and sleeps until all of their results are there.

    pip install "prefect>=3,<4" httpx
    ROTA_URL=http://127.0.0.1:8787 ROTA_TOKEN=... python results_flow.py

It splits the work, tells Rota what it waits for, publishes one request for each part, and pauses. Rota counts the
results, also those that come before the pause, and those that come twice only once; when all have come, or the deadline
is over, it resumes the flow, which then reads them. Nothing is polled, and nothing is lost if either side restarts.
"""

# ruff: noqa: T201 - an example talks to people

from __future__ import annotations

import os
from typing import Any

import httpx
from prefect.input import RunInput
from prefect.runtime import flow_run

from prefect import flow, pause_flow_run, task

REQUESTED = "Genesis.Session.DetailBatchGenerationRequested"
CREATED = "Genesis.Session.DetailBatchCreated"
FAILED = "Genesis.Session.DetailBatchFailed"
PART_SIZES = {"character_name": 20, "location_name": 20, "item": 16, "skill": 10, "organization": 10}
WAIT_SECONDS = 3_600
"""When Rota wakes the flow at the latest, with what has come by then."""
POLL_SECONDS = int(os.environ.get("POLL_SECONDS", "5"))
"""How often a paused flow asks Prefect, not Rota, whether it was resumed."""


class Batch(RunInput):
    """What Rota hands to a flow that it resumes: these fields, no more and no fewer."""

    handle_id: str
    correlation_id: str
    expected: int
    done: int
    failed: int
    expired: bool


def rota() -> httpx.Client:
    """Made where it is used: a client is nothing that tasks could be given."""
    token = os.environ.get("ROTA_TOKEN")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(base_url=os.environ.get("ROTA_URL", "http://127.0.0.1:8787"), headers=headers, timeout=30)


def split(detail_type: str, count: int) -> list[int]:
    """How many details each part has to make: as few parts as needed, and all about equal."""
    if count < 1:
        raise ValueError(f"A batch of {count} details is none.")
    parts = -(-count // PART_SIZES.get(detail_type, 20))
    return [count // parts + (number < count % parts) for number in range(parts)]


@task(retries=3, retry_delay_seconds=2)
def create_handle(correlation_id: str, expected_count: int) -> str:
    """Before the first request, so that no result can come before somebody counts it."""
    wanted = {
        "correlation_id": correlation_id,
        "flow_run_id": str(flow_run.id),
        "task_name": "results_flow",
        "expected": [CREATED],
        "failed_types": [FAILED],
        "expected_count": expected_count,
        "callback": {"kind": "prefect"},
        "timeout": f"{WAIT_SECONDS}s",
    }
    with rota() as client:
        found = client.get("/api/handles", params={"correlation_id": correlation_id}).raise_for_status().json()
        if found["items"]:
            return str(found["items"][0]["id"])  # an earlier try has made it, and did not hear so
        return str(client.post("/api/handles", json=wanted).raise_for_status().json()["id"])


@task(retries=3, retry_delay_seconds=2)
def publish(correlation_id: str, session_id: str, parts: list[dict[str, Any]]) -> None:
    """One request for each part. Each has a key of its own, for they need no order; and an id that stays the same if
    this is tried again, so that nobody works twice."""
    events = [
        {
            "event_id": f"{correlation_id}:{part['task_id']}",
            "event_type": REQUESTED,
            "aggregate_type": "GenesisSession",
            "aggregate_id": session_id,
            "key": f"{correlation_id}:{part['task_id']}",
            "correlation_id": correlation_id,
            "payload": {"session_id": session_id, **part},
        }
        for part in parts
    ]
    with rota() as client:
        client.post("/api/events", json={"events": events}).raise_for_status()


@task(retries=3, retry_delay_seconds=2)
def read_results(correlation_id: str) -> list[dict[str, Any]]:
    """The details of all parts that were made."""
    asked: dict[str, Any] = {"correlation_id": correlation_id, "event_type": CREATED, "limit": 100}
    items: list[dict[str, Any]] = []
    with rota() as client:
        while True:
            page = client.get("/api/events", params=asked).raise_for_status().json()
            items += [item for event in page["items"] for item in event["payload"]["items"]]
            if page["cursor"] is None:
                return items
            asked["cursor"] = page["cursor"]


def without_doubles(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the details of one name the first, over the whole batch; what has no name stays, for somebody to look at."""
    known: set[str] = set()
    kept: list[dict[str, Any]] = []
    for item in items:
        name = " ".join(str(item.get("name") or "").lower().split())
        if not name or name not in known:
            kept.append(item)
        known.add(name)
    return kept


@flow(name="results_flow")
def gather_results(
    session_id: str, detail_type: str, count: int, style: dict[str, Any] | None = None, priority: int = 5
) -> list[dict[str, Any]]:
    """The details of a batch, as many as could be made."""
    # A run that Prefect starts again is another batch: its results are not those of the run before.
    correlation_id = f"{flow_run.id}:{flow_run.run_count}"
    sizes = split(detail_type, count)
    handle_id = create_handle(correlation_id, len(sizes))
    parts = [
        {"task_id": f"{detail_type}:{number}", "type": detail_type, "count": size, "style": style, "priority": priority}
        for number, size in enumerate(sizes)
    ]
    publish(correlation_id, session_id, parts)
    # The key tells Rota that it is this handle that the flow waits for, and afterwards that it waits no more. Prefect
    # must wait longer than Rota does: it fails a flow whose pause is over.
    batch = pause_flow_run(
        wait_for_input=Batch, key=handle_id, timeout=WAIT_SECONDS + 3_600, poll_interval=POLL_SECONDS
    )
    items = without_doubles(read_results(correlation_id))
    late = ", the rest did not come in time" if batch.expired else ""
    print(f"{batch.done} of {batch.expected} parts made, {batch.failed} failed{late}: {len(items)} details", flush=True)
    return items


if __name__ == "__main__":
    gather_results(session_id="s1", detail_type="character_name", count=50)
