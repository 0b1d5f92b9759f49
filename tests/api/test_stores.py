"""The same faces over the engines of production, and through an outage."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.stage import Stage, session_of, staged

from rota.access import Role
from rota.api.auth import OUTAGE_MS, SESSION_COOKIE
from rota.errors import StoreUnavailable
from rota.stores.memory import MemoryStore
from rota.testing.faulty import FaultyStore


async def a_tour(stage: Stage) -> None:
    """Make, look, act, list, erase."""
    assert (await stage.anonymous.get("/readyz")).json()["store"] == "ok"
    made = await stage.operator.post("/api/tasks", json={"task_type": "job", "key": "a/b:%c", "delay": "1h"})
    assert made.status_code == 201
    assert (await stage.viewer.get("/api/tasks/job/a%2Fb%3A%25c")).json()["key"] == "a/b:%c"
    assert (await stage.operator.post("/api/tasks/job/a%2Fb%3A%25c/run-now")).status_code == 200
    assert (await stage.operator.post("/api/tasks", json={"task_type": "broken", "key": "d"})).status_code == 201
    touched = await stage.operator.post("/api/touch", json={"task_type": "upkeep", "user_id": "u1"})
    assert touched.json()["task_types"]["upkeep"]["outcome"] == "created"
    put = await stage.operator.put("/api/schedules/job/s", json={"cron": "0 9 * * *", "owner": "ann"})
    assert put.status_code == 200
    await stage.app.run_until_idle()
    (failed,) = (await stage.viewer.get("/api/runs?task_type=broken")).json()["items"]
    run = (await stage.viewer.get(f"/api/runs/{failed['run_id']}")).json()
    assert (run["status"], run["waterfall"]["rows"][-1]["outcome"]) == ("error", "failed")
    assert run["details"]["traceback"].startswith("Traceback")
    assert (await stage.viewer.get("/api/dead-letters")).json()["items"][0]["key"] == "d"
    redriven = await stage.operator.post("/api/dead-letters/redrive", json={"all": True, "expected": 1})
    assert redriven.json()["changed"] == 1
    frozen = await stage.operator.patch("/api/types/job", json={"frozen": True, "max_pending": 7})
    assert frozen.json()["overrides"] == {"frozen": True, "max_pending": 7}
    for path in ("queues", "instances", "overview", "monitoring/scheduler", "audit", "alerts", "schedules"):
        answer = await stage.operator.get(f"/api/{path}")
        assert answer.status_code == 200, answer.text
    assert (await stage.admin.get("/api/users/u1/export")).text.count("\n") == 1
    assert (await stage.admin.delete("/api/users/u1")).json()["tasks"] == 1


async def test_a_tour_on_sqlite(stage: Stage) -> None:
    await a_tour(stage)


@pytest.mark.usefixtures("patient_spool")
async def test_a_tour_on_redis(redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # the database and the spool are files of this place
    async with staged(redis_url) as stage:
        await a_tour(stage)


@pytest.mark.usefixtures("patient_spool")
async def test_a_tour_on_postgresql(postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    async with staged(postgres_url) as stage:
        await a_tour(stage)


async def test_activity_is_taken_on_while_the_store_is_away(tmp_path: Path) -> None:
    store = FaultyStore(MemoryStore())
    async with staged("memory://", store=store, spool=str(tmp_path / "spool.db")) as stage:
        with store.down():
            body = {"task_type": "upkeep", "user_id": "u1"}
            answer = await stage.operator.post("/api/touch", json=body)
            assert (answer.status_code, answer.json()["task_types"]["upkeep"]["outcome"]) == (200, "spooled")
            assert (await stage.anonymous.get("/readyz")).json()["spooled"] == 1


async def test_a_known_token_may_send_activity_while_nobody_can_look_it_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"task_type": "upkeep", "user_id": "u1"}
    session = {"Cookie": f"{SESSION_COOKIE}={await session_of(stage, Role.OPERATOR)}"}
    assert (await stage.anonymous.get("/api/me", headers=session)).status_code == 200
    assert (await stage.operator.post("/api/touch", json=body)).status_code == 200
    assert (await stage.viewer.post("/api/touch", json=body)).status_code == 403

    async def away(_: object) -> None:
        raise StoreUnavailable("postgresql://10.0.0.7 is away")

    monkeypatch.setattr(stage.app.host.own_database.opened, "read", away)
    assert (await stage.operator.post("/api/touch", json=body)).status_code == 200
    assert (await stage.viewer.post("/api/touch", json=body)).status_code == 403, "its role is remembered with it"
    stranger = {"Authorization": "Bearer rota_stranger"}
    refused = [
        await stage.operator.get("/api/me"),
        await stage.operator.get("/api/tasks"),
        await stage.admin.get("/api/tokens"),
        await stage.anonymous.get("/api/me", headers=session),
        await stage.anonymous.post("/api/touch", json=body, headers=session),
        await stage.anonymous.post("/api/touch", json=body, headers=stranger),
    ]
    for answer in refused:
        # Who may have been revoked by now gets nothing, and nobody learns where the database is.
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        assert "10.0.0.7" not in answer.text
    now = stage.service.clock.now()
    monkeypatch.setattr(stage.service.clock, "now", lambda: now + OUTAGE_MS + 60_000)
    assert (await stage.operator.post("/api/touch", json=body)).status_code == 503


async def test_a_token_that_was_refused_is_not_remembered(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"task_type": "upkeep", "user_id": "u1"}
    assert (await stage.operator.post("/api/touch", json=body)).status_code == 200
    tokens = await stage.service.tokens()
    (mine,) = [token for token in await tokens.list() if token.name == "operator"]
    await tokens.revoke(mine.id)
    assert (await stage.operator.post("/api/touch", json=body)).status_code == 401

    async def away(_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(stage.app.host.own_database.opened, "read", away)
    assert (await stage.operator.post("/api/touch", json=body)).status_code == 503
