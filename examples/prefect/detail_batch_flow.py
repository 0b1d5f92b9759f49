"""A flow of Prefect 3 that has a batch made by Rota, and sleeps until all of it is there.

    pip install "prefect>=3,<4" httpx
    ROTA_URL=http://127.0.0.1:8787 ROTA_TOKEN=... python detail_batch_flow.py

It asks for the batch and pauses. Rota splits it, ranks it, has agents make it, tops it up, and at its end, also a bad
one, resumes the flow, once. Asking and waiting are one transaction in Rota, so no end can come before somebody waits
for it. Nothing is polled, and nothing is lost if either side restarts.
"""

# ruff: noqa: T201 - an example talks to people

from __future__ import annotations

import os
from typing import Any

import httpx
from prefect.input import RunInput
from prefect.runtime import flow_run

from prefect import flow, pause_flow_run, task

DEADLINE_SECONDS = 3_600
"""When Rota ends the batch at the latest, with what has come by then."""
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


@task(retries=3, retry_delay_seconds=2)
def start_batch(correlation_id: str, request: dict[str, Any]) -> tuple[str, str]:
    """The ids of the batch and of the handle by which the flow is resumed. Tried again, it is the same batch."""
    resume = {"flow_run_id": str(flow_run.id), "callback": {"kind": "prefect"}}
    wanted = {**request, "correlation_id": correlation_id, "deadline": f"{DEADLINE_SECONDS}s", "resume": resume}
    with rota() as client:
        batch = client.post("/api/batches", json=wanted, headers={"idempotency-key": correlation_id})
        batch_id = str(batch.raise_for_status().json()["id"])
        found = client.get("/api/handles", params={"correlation_id": correlation_id})
        return batch_id, str(found.raise_for_status().json()["items"][0]["id"])


@task(retries=3, retry_delay_seconds=2)
def read_batch(batch_id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How the batch ended, and its items."""
    asked: dict[str, Any] = {"limit": 100}
    items: list[dict[str, Any]] = []
    with rota() as client:
        batch = client.get(f"/api/batches/{batch_id}").raise_for_status().json()
        while True:
            page = client.get(f"/api/batches/{batch_id}/items", params=asked).raise_for_status().json()
            items += [{"name": item["name"], **item["fields"]} for item in page["items"]]
            if page["cursor"] is None:
                return batch, items
            asked["cursor"] = page["cursor"]


@flow(name="genesis_detail_batch_flow")
def schedule_detail_batch(
    session_id: str, detail_type: str, count: int, style: str | dict[str, Any] = "", priority: int = 5
) -> list[dict[str, Any]]:
    """The details of a batch, as many as could be made."""
    # A run that Prefect starts again is another batch: its results are not those of the run before.
    correlation_id = f"{flow_run.id}:{flow_run.run_count}"
    wanted = {"type": detail_type, "count": count, "style": style, "session_id": session_id, "priority": priority}
    batch_id, handle_id = start_batch(correlation_id, wanted)
    # The key tells Rota that it is this handle that the flow waits for, and afterwards that it waits no more. Prefect
    # must wait longer than Rota does: it fails a flow whose pause is over.
    pause_flow_run(wait_for_input=Batch, key=handle_id, timeout=DEADLINE_SECONDS + 3_600, poll_interval=POLL_SECONDS)
    batch, items = read_batch(batch_id)
    why = "" if batch["reason"] is None else f" ({batch['reason']})"
    print(f"{batch['status']}{why}: {len(items)} of {count} details", flush=True)
    return items


if __name__ == "__main__":
    schedule_detail_batch(session_id="s1", detail_type="character_name", count=50, style="norse")
