"""What the routes answer: shapes, errors, pages, bulk actions."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import httpx
import msgspec
import pytest
from pydantic import BaseModel
from tests.api.calls import check_problem
from tests.api.stage import Stage, staged

from rota.access import AuditEntry
from rota.api.routes.access import AuditModel
from rota.api.routes.schedules import ScheduleModel
from rota.api.routes.task_models import RunModel, TaskModel
from rota.api.routes.tasks import ReceiptModel
from rota.api.routes.touch import TouchModel
from rota.api.routes.types import CountsModel
from rota.api.routes.users import ErasureModel
from rota.app.results import Receipt, RunInfo, ScheduleInfo, TaskDetails, Touch
from rota.stores.base import Counts, Erasure
from rota.stores.memory import MemoryStore
from rota.testing.faulty import FaultyStore


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        (TaskModel, TaskDetails),
        (RunModel, RunInfo),
        (ScheduleModel, ScheduleInfo),
        (TouchModel, Touch),
        (ReceiptModel, Receipt),
    ],
)
def test_the_models_mirror_the_python_face(model: type[BaseModel], answer: Any) -> None:
    assert set(model.model_fields) == {field.name for field in fields(answer)}


@pytest.mark.parametrize(
    ("model", "struct"), [(CountsModel, Counts), (AuditModel, AuditEntry), (ErasureModel, Erasure)]
)
def test_the_models_mirror_the_structs(model: type[BaseModel], struct: type[msgspec.Struct]) -> None:
    assert set(model.model_fields) == set(struct.__struct_fields__)


# --- problems --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/api/nothing", None, 404, "not_found"),
        ("GET", "/nothing", None, 404, "not_found"),
        ("DELETE", "/api/types", None, 405, "method_not_allowed"),
        ("GET", "/api/types/absent", None, 404, "unknown_task_type"),
        ("PATCH", "/api/types/absent", {"frozen": True}, 404, "unknown_task_type"),
        ("PATCH", "/api/types/job", {"frozen": "yes"}, 422, "invalid_request"),
        ("PATCH", "/api/types/job", {"color": 1}, 422, "invalid_request"),
        ("GET", "/api/types/UPPER", None, 422, "invalid_request"),
        ("GET", "/api/tasks/job/absent", None, 404, "unknown_task"),
        ("POST", "/api/tasks/job/absent/pause", None, 404, "unknown_task"),
        ("GET", "/api/tasks?limit=201", None, 422, "invalid_request"),
        ("GET", "/api/tasks?limit=0", None, 422, "invalid_request"),
        ("GET", "/api/tasks?status=strange", None, 422, "invalid_request"),
        ("GET", "/api/tasks?cursor=strange", None, 422, "invalid_input"),
        ("POST", "/api/tasks", {"task_type": "absent"}, 404, "unknown_task_type"),
        ("POST", "/api/tasks", {}, 422, "invalid_request"),
        ("POST", "/api/tasks", {"task_type": "job", "at": "yesterday"}, 422, "invalid_trigger"),
        ("POST", "/api/tasks", {"task_type": "job", "delay": "soon"}, 422, "invalid_input"),
        ("POST", "/api/tasks", {"task_type": "job", "at": "2100-01-01", "delay": 1}, 422, "invalid_input"),
        ("POST", "/api/tasks/bulk", {"event": "pause"}, 422, "invalid_input"),
        ("POST", "/api/tasks/bulk", {"event": "claim", "query": {"task_type": "job"}}, 422, "invalid_request"),
        ("POST", "/api/tasks/bulk", {"event": "pause", "identities": []}, 422, "invalid_request"),
        ("GET", "/api/schedules/job/absent", None, 404, "unknown_task"),
        ("GET", "/api/schedules/job/absent/fires", None, 404, "unknown_task"),
        ("GET", "/api/schedules/job/absent/fires?n=101", None, 422, "invalid_request"),
        ("POST", "/api/schedules/job/absent/pause", None, 404, "unknown_task"),
        ("PUT", "/api/schedules/job/x", {}, 422, "invalid_trigger"),
        ("PUT", "/api/schedules/job/x", {"cron": "nonsense"}, 422, "invalid_trigger"),
        ("PUT", "/api/schedules/job/x", {"cron": "* * * * *", "every": "1h"}, 422, "invalid_trigger"),
        ("PUT", "/api/schedules/job/%25global", {"every": "1h"}, 422, "invalid_input"),
        ("POST", "/api/schedules/preview", {"cron": "0 9 * * *", "timezone": "Mars/Base"}, 422, "invalid_trigger"),
        ("GET", "/api/tasks?statu=failed", None, 422, "invalid_request"),
        ("GET", "/api/types?x=1", None, 422, "invalid_request"),
        ("GET", "/api/tasks?user=%00", None, 400, "invalid_path"),
        ("POST", "/api/tasks/bulk", {"event": "pause", "query": {"search": "\0"}}, 422, "invalid_request"),
        ("POST", "/api/tokens", {"name": "a\0b", "role": "viewer"}, 422, "invalid_request"),
        ("GET", "/api/runs/1", None, 404, "unknown_run"),
        ("GET", "/api/runs/x", None, 422, "invalid_request"),
        ("GET", "/api/runs?key=x", None, 422, "invalid_input"),
        ("POST", "/api/dead-letters/redrive", {}, 422, "invalid_input"),
        ("POST", "/api/dead-letters/redrive", {"all": True, "task_type": "job"}, 422, "invalid_input"),
        ("POST", "/api/touch", {"user_id": "u"}, 422, "invalid_input"),
        ("POST", "/api/touch", {"user_id": "u", "task_types": ["upkeep", "absent"]}, 404, "unknown_task_type"),
        ("POST", "/api/touch", {"user_id": "u", "task_type": "job"}, 422, "invalid_input"),
        ("POST", "/api/touch", {"user_id": "", "task_type": "upkeep"}, 422, "invalid_request"),
        ("GET", "/api/users/nobody/erasure", None, 404, "unknown_erasure"),
        ("DELETE", "/api/tokens/00000000", None, 404, "unknown_token"),
        ("POST", "/api/tokens", {"name": " ", "role": "viewer"}, 422, "invalid_request"),
        ("POST", "/api/tokens", {"name": "x", "role": "king"}, 422, "invalid_request"),
        ("POST", "/api/tokens", {"name": "x", "role": "viewer", "expires": "2001-01-01"}, 422, "invalid_trigger"),
        ("GET", "/api/monitoring/scheduler?hours=169", None, 422, "invalid_request"),
        ("GET", "/api/monitoring/scheduler/failures?hours=25", None, 422, "invalid_request"),
        ("GET", "/api/audit?cursor=x", None, 422, "invalid_input"),
        ("GET", "/api/alerts?cursor=x", None, 422, "invalid_input"),
        ("GET", "/api/overview?minutes=0", None, 422, "invalid_request"),
    ],
)
async def test_each_error_is_a_problem(
    stage: Stage, method: str, path: str, body: object, status: int, code: str
) -> None:
    check_problem(await stage.admin.request(method, path, json=body), status, code)


async def test_a_validation_problem_lists_what_is_wrong(stage: Stage) -> None:
    answer = await stage.admin.post("/api/tasks", json={"task_type": 7, "priority": 11})
    problem = check_problem(answer, 422, "invalid_request")
    assert [error["at"] for error in problem["errors"]] == [["body", "task_type"], ["body", "priority"]]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/tasks?type=job", None),
        ("GET", "/api/runs?type=job", None),
        ("GET", "/api/schedules?type=job", None),
        ("GET", "/api/dead-letters?type=job", None),
        ("GET", "/api/failures?type=job", None),
        ("POST", "/api/tasks", {"type": "job"}),
        ("POST", "/api/tasks/bulk", {"event": "pause", "query": {"type": "job"}}),
        ("POST", "/api/tasks/bulk", {"event": "pause", "identities": [{"type": "job", "key": "k"}]}),
        ("POST", "/api/dead-letters/redrive", {"type": "job"}),
        ("POST", "/api/touch", {"user_id": "u", "type": "job"}),
    ],
)
async def test_who_says_type_is_told_the_word(stage: Stage, method: str, path: str, body: object) -> None:
    answer = await stage.admin.request(method, path, json=body)
    problem = check_problem(answer, 422, "invalid_request")
    said = [problem["detail"], *(error["detail"] for error in problem.get("errors", ()))]
    assert any("'type' here. Did you mean 'task_type'?" in words for words in said), said


async def test_a_field_that_is_like_no_other_is_answered_with_those_there_are(stage: Stage) -> None:
    answer = await stage.admin.post("/api/events", json={"events": [{"colour": 1}]})
    problem = check_problem(answer, 422, "invalid_request")
    (unknown,) = [error for error in problem["errors"] if error["at"] == ["body", "events", "0", "colour"]]
    assert unknown["detail"].startswith("There is no field 'colour' here. Use one of: ")
    assert "aggregate_id" in unknown["detail"]


async def test_broken_json_is_a_problem(stage: Stage) -> None:
    headers = {"Content-Type": "application/json"}
    deep = b'{"task_type": "job", "payload": ' + b"[" * 100_000
    half = b'{"task_type": "job", "payload": "\\ud800"}'
    for content in (deep, half):
        answer = await stage.admin.post("/api/tasks", content=content, headers=headers)
        assert (answer.status_code in (400, 422), answer.json()["status"]) == (True, answer.status_code), answer.text
    for content, status in ((b"{", 422), (b"\xff", 400), (b"[1]", 422), (b"nul", 422), (b'{"priority": NaN}', 422)):
        answer = await stage.admin.post("/api/tasks", content=content, headers=headers)
        check_problem(answer, status, "invalid_request")


@pytest.mark.parametrize("payload", [10**400, 2**64, -(2**63) - 1, 1e308, "\u0000\u2028", [[0]] * 50, {"": {"": None}}])
async def test_whatever_is_json_comes_back(stage: Stage, payload: object) -> None:
    made = await stage.operator.post(
        "/api/tasks", json={"task_type": "job", "key": "k", "payload": payload, "delay": "1h"}
    )
    assert made.status_code == 201
    task = await stage.viewer.get("/api/tasks/job/k")
    assert task.status_code == 200
    assert task.json()["payload"] == payload


async def test_a_state_that_does_not_allow_it_is_a_conflict(stage: Stage) -> None:
    await stage.app.schedule("job", key="t", delay="1h")
    check_problem(await stage.admin.post("/api/tasks/job/t/redrive"), 409, "illegal_transition")
    check_problem(await stage.admin.post("/api/tasks/job/t/purge"), 409, "illegal_transition")


async def test_a_full_type_says_which_limit(stage: Stage) -> None:
    await stage.admin.patch("/api/types/job", json={"max_pending": 1})
    assert (await stage.admin.post("/api/tasks", json={"task_type": "job", "delay": 60})).status_code == 201
    problem = check_problem(
        await stage.admin.post("/api/tasks", json={"task_type": "job", "delay": 60}), 422, "limit_exceeded"
    )
    assert "max_pending" in problem["detail"]


# --- types -----------------------------------------------------------------------------------------------------------


async def test_switches_are_set_and_taken_back(stage: Stage) -> None:
    changed = (
        await stage.operator.patch("/api/types/job", json={"frozen": True, "rate_limit": {"rate": 2, "burst": 5}})
    ).json()
    assert (changed["runs"], changed["accepts"], changed["enabled"]) == (False, True, True)
    assert changed["overrides"] == {"frozen": True, "rate_limit": {"rate": 2.0, "burst": 5}}
    assert changed["effective"]["rate_limit"] == {"rate": 2.0, "burst": 5}
    assert changed["config"]["rate_limit"] is None
    kept = (await stage.operator.patch("/api/types/job", json={"frozen": None, "draining": True})).json()
    assert kept["overrides"] == {"draining": True, "rate_limit": {"rate": 2.0, "burst": 5}}
    assert {
        queue["task_type"]: queue["state"] for queue in (await stage.viewer.get("/api/queues")).json()["items"]
    } == {
        "job": "draining",
        "broken": "on",
        "nightly": "on",
        "upkeep": "on",
    }
    limited = (await stage.operator.patch("/api/types/job", json={"start_limit": {"rate": 3}})).json()
    assert limited["effective"]["start_limit"] == {"rate": 3.0, "burst": 1}
    queues = {queue["task_type"]: queue["limits"] for queue in (await stage.viewer.get("/api/queues")).json()["items"]}
    assert (queues["job"]["start_limit"], queues["upkeep"]["start_limit"]) == ({"rate": 3.0, "burst": 1.0}, None)
    nothing = {"draining": None, "enabled": None, "concurrency": None, "max_pending": None}
    nothing |= {"rate_limit": None, "start_limit": None}
    assert (await stage.operator.patch("/api/types/job", json=nothing)).json()["overrides"] == {}


# --- tasks -----------------------------------------------------------------------------------------------------------


async def test_a_task_is_made_found_and_changed(stage: Stage) -> None:
    request = {
        "task_type": "job",
        "key": "a",
        "payload": {"n": [1, "x", None]},
        "at": "2100-01-01T09:00:00Z",
        "priority": 9,
    }
    made = (await stage.operator.post("/api/tasks", json=request)).json()
    assert made == {"outcome": "created", "task_type": "job", "key": "a", "scheduled_at": "2100-01-01T09:00:00.000Z"}
    again = await stage.operator.post("/api/tasks", json=request)
    assert (again.status_code, again.json()["outcome"]) == (200, "exists")
    task = (await stage.viewer.get("/api/tasks/job/a")).json()
    assert (task["payload"], task["priority"], task["status"]) == ({"n": [1, "x", None]}, 9, "pending")
    assert (await stage.operator.post("/api/tasks/job/a/pause")).json()["status"] == "paused"
    assert (await stage.operator.post("/api/tasks/job/a/resume")).json()["status"] == "pending"
    assert (await stage.operator.post("/api/tasks/job/a/run-now")).json()["status"] == "pending"
    await stage.app.run_until_idle()
    (run,) = (await stage.viewer.get("/api/tasks/job/a/runs")).json()["items"]
    assert (run["status"], run["result"]) == ("success", "{'n': [1, 'x', None]}")
    shown = (await stage.viewer.get(f"/api/runs/{run['run_id']}")).json()
    fall = shown.pop("waterfall")
    assert shown == {**run, "details": None}
    assert [row["kind"] for row in fall["rows"]][-2:] == ["attempt", "settled"]
    assert (await stage.viewer.get("/api/tasks/job/a/waterfall")).json()["rows"] == fall["rows"]


async def walk(client: httpx.AsyncClient, path: str, limit: int) -> list[Any]:
    items: list[Any] = []
    cursor: str | None = None
    for _ in range(200):
        params = {"limit": str(limit)} if cursor is None else {"limit": str(limit), "cursor": cursor}
        page = (await client.get(httpx.URL(path).copy_merge_params(params))).json()
        assert len(page["items"]) <= limit
        items += page["items"]
        cursor = page["cursor"]
        if cursor is None:
            return items
    raise AssertionError("the pages never end")


@pytest.mark.parametrize("limit", [1, 7, 200])
async def test_pages_walk_every_task_once(stage: Stage, limit: int) -> None:
    keys = [f"k/{number % 5}:%&?#+ {number}ü" for number in range(23)]
    for key in keys:
        await stage.app.schedule("job", key=key, delay="1h", user_id=None)
    found = [task["key"] for task in await walk(stage.viewer, "/api/tasks?task_type=job&status=pending", limit)]
    assert sorted(found) == sorted(keys)


async def test_pages_walk_every_run_and_entry_once(stage: Stage) -> None:
    for number in range(7):
        await stage.operator.post("/api/tasks", json={"task_type": "job", "key": f"k{number}"})
    await stage.app.run_until_idle()
    runs = [run["key"] for run in await walk(stage.viewer, "/api/runs?task_type=job", 3)]
    assert sorted(runs) == [f"k{number}" for number in range(7)]
    entries = await walk(stage.operator, "/api/audit?action=task.schedule", 3)
    assert len({entry["id"] for entry in entries}) == len(entries) == 7
    assert [entry["id"] for entry in entries] == sorted((entry["id"] for entry in entries), reverse=True)


async def test_lists_can_be_narrowed(stage: Stage) -> None:
    for key in ("red-1", "red-2", "blue"):
        await stage.app.schedule("job", key=key, delay="1h")
    await stage.app.tasks.pause("job", "red-2")
    await stage.app.schedules.upsert("s", type="job", every="1h", owner="ann")

    async def keys(query: str) -> list[str]:
        return [task["key"] for task in (await stage.viewer.get(f"/api/tasks?task_type=job&{query}")).json()["items"]]

    assert await keys("search=red") == ["red-1", "red-2"]
    assert await keys("search=red&without=paused") == ["red-1"]
    assert await keys("status=paused") == ["red-2"]
    assert await keys("owner=ann") == ["s"]
    assert await keys("schedules=true") == ["s"]


# --- schedules -------------------------------------------------------------------------------------------------------


async def test_a_schedule_lives_by_its_id(stage: Stage) -> None:
    body = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "owner": "ann", "payload": {"a": 1}, "misfire": "skip"}
    made = (await stage.operator.put("/api/schedules/job/ann%2Fbrief", json=body)).json()
    assert (made["id"], made["words"]) == ("ann/brief", "at 02:30, every day")
    assert (await stage.viewer.get("/api/schedules/job/ann%2Fbrief")).json() == made
    listed = (await stage.viewer.get("/api/schedules?owner=ann")).json()["items"]
    assert [each["id"] for each in listed] == ["ann/brief"]
    fires = (await stage.viewer.get("/api/schedules/job/ann%2Fbrief/fires?n=100")).json()
    assert len(fires["fires"]) == 100
    assert (await stage.operator.post("/api/schedules/job/ann%2Fbrief/pause")).json()["status"] == "paused"
    assert (await stage.operator.post("/api/schedules/job/ann%2Fbrief/resume")).json()["status"] == "pending"
    assert (await stage.operator.post("/api/schedules/job/ann%2Fbrief/cancel")).json()["status"] == "cancelled"
    assert (await stage.viewer.get("/api/schedules?status=cancelled")).json()["items"][0]["id"] == "ann/brief"


async def test_a_preview_tells_of_the_clocks(stage: Stage) -> None:
    body = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "n": 100}
    seen = (await stage.viewer.post("/api/schedules/preview", json={**body, "n": 3})).json()
    assert len(seen["fires"]) == 3
    year = {"cron": "30 2 28-31 3,10 0", "timezone": "Europe/Berlin", "n": 100}
    notes = (await stage.viewer.post("/api/schedules/preview", json=year)).json()["notes"]
    assert any("does not exist" in note for note in notes)
    assert any("happens twice" in note for note in notes)


# --- people ----------------------------------------------------------------------------------------------------------


async def test_a_touch_tells_what_became_of_it(stage: Stage) -> None:
    body = {"task_types": ["upkeep"], "user_id": "u1", "device_id": "phone"}
    first = (await stage.operator.post("/api/touch", json=body)).json()["task_types"]["upkeep"]
    second = (await stage.operator.post("/api/touch", json=body)).json()["task_types"]["upkeep"]
    assert (first["outcome"], second["outcome"], second["coalesced"]) == ("created", "coalesced", 1)


async def test_a_users_data_goes_out_whole_and_then_away(stage: Stage) -> None:
    await stage.app.touch("upkeep", "u/1")
    await stage.app.tasks.run_now("upkeep", user_id="u/1")
    await stage.app.run_until_idle()
    await stage.app.touch("upkeep", "u2")
    answer = await stage.admin.get("/api/users/u%2F1/export")
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert {line["kind"] for line in lines} == {"task", "run"}
    assert all("u%2F1" in line["key"] or "u/1" in line["key"] for line in lines)
    erased = await stage.admin.delete("/api/users/u%2F1")
    assert (erased.status_code, erased.json()["done_at"] is not None) == (202, True)
    assert (await stage.admin.get("/api/users/u%2F1/export")).text == ""
    assert [task["user_id"] for task in (await stage.viewer.get("/api/tasks?task_type=upkeep")).json()["items"]] == [
        "u2"
    ]


async def test_a_secret_is_shown_once(stage: Stage) -> None:
    made = (
        await stage.admin.post("/api/tokens", json={"name": "ci", "role": "operator", "expires": "2100-01-01"})
    ).json()
    assert made["token"]["expires_at"] == "2100-01-01T00:00:00.000Z"
    listed = (await stage.admin.get("/api/tokens")).text
    assert made["secret"].startswith("rota_")
    assert made["secret"] not in listed
    assert "digest" not in listed
    assert made["secret"] not in (await stage.admin.get("/api/audit")).text


# --- looking ---------------------------------------------------------------------------------------------------------


async def test_metrics_are_handed_on(stage: Stage) -> None:
    answer = await stage.viewer.get("/metrics")
    assert (answer.text, answer.headers["Content-Type"]) == (
        "rota_up 1\n",
        "text/plain; version=0.0.4; charset=utf-8",
    )
    stage.service.metrics = None
    check_problem(await stage.viewer.get("/metrics"), 404, "not_found")


# --- while the store is away -----------------------------------------------------------------------------------------


async def test_a_store_that_is_away_is_said_so() -> None:
    store = FaultyStore(MemoryStore())
    async with staged("memory://", store=store) as stage:
        with store.down():
            for path in ("/api/types", "/api/tasks", "/api/runs", "/api/queues", "/api/instances"):
                answer = await stage.viewer.get(path)
                check_problem(answer, 503, "store_unavailable")
                assert int(answer.headers["Retry-After"]) > 0
            check_problem(await stage.operator.post("/api/tasks", json={"task_type": "job"}), 503, "store_unavailable")
            ready = await stage.anonymous.get("/readyz")
            assert (ready.status_code, ready.json()["store"]) == (503, "away")
            assert (await stage.anonymous.get("/healthz")).status_code == 200
        assert (await stage.viewer.get("/api/types")).status_code == 200
        assert (await stage.anonymous.get("/readyz")).status_code == 200
