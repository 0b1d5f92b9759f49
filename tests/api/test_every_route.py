"""Every operation, as the description lists them: it works, its role is held to, and what acts is in the audit log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from tests.api.calls import CALLS, perform
from tests.api.stage import Stage

from rota.access import AuditLog, AuditQuery, Role
from rota.api.application import OPEN

NOT_AUDITED = {
    "touch": "the hot path of applications, which must work while the database is away",
    "preview_schedule": "changes nothing",
    "push_chat": "the hot path too",
    "push_chat_message": "the hot path too",
    "push_screenshot": "the hot path too",
    "push_document": "the hot path too",
}


class Operation(NamedTuple):
    id: str
    method: str
    path: str
    role: str


def operations(stage: Stage) -> Iterator[Operation]:
    schema: dict[str, Any] = stage.api.openapi()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield Operation(operation["operationId"], method.upper(), path, operation["x-rota-role"])


async def test_every_operation_has_a_good_call(stage: Stage) -> None:
    assert {operation.id for operation in operations(stage)} == set(CALLS)


@pytest.mark.parametrize("name", sorted(CALLS))
async def test_it_answers_as_described(stage: Stage, name: str) -> None:
    """FastAPI checks each answer against its model: what is not as described would be an error."""
    answer = await perform(stage, CALLS[name])
    assert answer.status_code == CALLS[name].status, answer.text


async def test_every_operation_declares_a_role(stage: Stage) -> None:
    without = {operation.path for operation in operations(stage) if operation.role == "none"}
    assert without == OPEN
    assert {operation.role for operation in operations(stage)} == {"none", *(role.value for role in Role)}


async def test_acting_needs_more_than_looking(stage: Stage) -> None:
    """Whatever is no GET needs at least an operator, but for looking at a trigger."""
    lax = [each.id for each in operations(stage) if each.method != "GET" and each.role not in ("operator", "admin")]
    assert lax == ["preview_schedule"]


async def test_every_route_times_every_role(stage: Stage) -> None:
    await stage.service.feed.close()  # so that the stream ends
    wrong: list[str] = []
    for operation in operations(stage):
        for role, client in stage.clients.items():
            answer = await call(client, operation)
            if not is_right(operation, role, answer.status_code):
                wrong.append(f"{role} {operation.method} {operation.path}: {answer.status_code}")
    assert wrong == []


async def call(client: httpx.AsyncClient, operation: Operation) -> httpx.Response:
    """With a body that no operation accepts, so that nobody gets further than the door by being allowed."""
    path = re.sub(r"\{run_id\}", "1", operation.path)
    path = re.sub(r"\{id\}", "0123abcd", path)
    path = re.sub(r"\{type\}", "absent", path)
    path = re.sub(r"\{\w+\}", "nobody", path)
    body = None if operation.method in ("GET", "DELETE") else {"nonsense": 1}
    return await client.request(operation.method, path, json=body)


def is_right(operation: Operation, role: Role | None, status: int) -> bool:
    if operation.role == "none":
        return status == 200
    if role is None:
        return status == 401
    if not role.allows(Role(operation.role)):
        return status == 403
    return status not in (401, 403) and status < 500


@pytest.mark.parametrize("name", sorted(name for name, call in CALLS.items() if call.action is not None))
async def test_what_acts_is_in_the_audit_log(stage: Stage, name: str) -> None:
    await perform(stage, CALLS[name])
    entries, _ = await AuditLog(await stage.app.database()).page(AuditQuery())
    me = (await stage.admin.get("/api/me")).json()["id"]
    assert [(entry.actor, entry.action, entry.via, entry.outcome) for entry in entries] == [
        (me, CALLS[name].action, "api", "ok")
    ]


async def test_nothing_acts_without_an_entry(stage: Stage) -> None:
    silent = {each.id for each in operations(stage) if each.method != "GET" and CALLS[each.id].action is None}
    assert silent == set(NOT_AUDITED)


async def test_a_refused_action_is_in_the_audit_log_too(stage: Stage) -> None:
    answer = await stage.operator.post("/api/tasks/job/absent/pause")
    assert answer.status_code == 404
    (entry,) = (await stage.operator.get("/api/audit")).json()["items"]
    assert entry["outcome"].startswith("unknown_task")


async def test_an_address_names_every_method_that_it_knows(stage: Stage) -> None:
    known: dict[str, set[str]] = {}
    for operation in operations(stage):
        known.setdefault(operation.path, set()).add(operation.method)
    for path in known:
        address = re.sub(r"\{\w+\}", "x", path)
        answer = await stage.admin.request("TRACE", address)
        assert answer.status_code == 405, path
        # An address without a parameter may fit one with: an event could be called "replay".
        fitting = [each for each in known if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", each), address)]
        assert set(answer.headers["Allow"].split(", ")) == set().union(*(known[each] for each in fitting)), path
