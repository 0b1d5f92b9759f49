"""Every door of the whole service, dashboard and `/mcp` included, times everybody who may stand before it.

The doors are those that the application has, not those that somebody remembered to describe.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from inspect import iscoroutinefunction
from typing import NamedTuple

import httpx
import pytest
from fastapi import APIRouter, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from tests.api.stage import Stage, a_client, session_of, staged

from rota.access import AuditLog, AuditQuery, Principal, Role
from rota.api.application import OPEN, OPEN_PAGES
from rota.api.auth import SESSION_COOKIE, Gate
from rota.api.routing import need_of

FOR_AGENTS = {
    "GET /api/agents/groups",
    "GET /api/agents/running",
    "GET /api/agents/schedules",
    "GET /api/agents/schedules/{id}",
    "GET /api/agents/schedules/{id}/runs",
    "GET /api/agents/waiting",
    "PATCH /api/agents/schedules/{id}",
    "POST /api/agents/schedules",
    "POST /api/agents/schedules/{id}/cancel",
    "POST /api/agents/schedules/{id}/pause",
    "POST /api/agents/schedules/{id}/resume",
    "POST /api/agents/schedules/{id}/run-now",
}
"""What a token that is narrowed to a group opens, as far as its role goes; everything else refuses it."""


class Door(NamedTuple):
    method: str
    path: str
    role: Role | None

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


@pytest.fixture
async def whole(sqlite_url: str) -> AsyncGenerator[Stage]:
    """With the pages for people; the stream is closed, so that it ends."""
    async with staged(sqlite_url, dashboard=True) as stage:
        await stage.service.feed.close()
        yield stage


def doors(stage: Stage) -> Iterator[Door]:
    routers: list[APIRouter] = stage.api.state.routers()
    for route in (route for router in routers for route in router.routes):
        assert isinstance(route, APIRoute), route
        need = need_of(route)
        for method in route.methods or ():
            yield Door(method, route.path_format, None if need is None else need.role)


async def knock(client: httpx.AsyncClient, door: Door, headers: dict[str, str] | None = None) -> int:
    """With a body that nothing accepts: whoever is let in changes nothing."""
    path = re.sub(r"\{run_id\}|\{context_id\}", "1", door.path)
    path = re.sub(r"\{id\}", "0123abcd", path)
    path = re.sub(r"\{(task_)?type\}", "absent", path)
    path = re.sub(r"\{\w+\}", "nobody", path)
    body = None if door.method in ("GET", "DELETE") else {"nonsense": 1}
    return (await client.request(door.method, path, json=body, headers=headers)).status_code


def expected(door: Door, role: Role | None) -> str:
    if door.role is None:
        return "open"
    if role is None:
        return "401"
    return "in" if role.allows(door.role) else "403"


def seen(door: Door, status: int) -> str:
    if door.role is None:
        # Signing in is open to everybody, and refuses what is no token.
        return "open" if status < 400 or door.path.startswith(OPEN_PAGES) else str(status)
    return str(status) if status in (401, 403) else "in"


async def test_every_door_times_everybody(whole: Stage) -> None:
    found = list(doors(whole))
    posts = {door.path for door in found if door.path.startswith("/act/")}
    assert len(found) > 100
    assert len(posts) > 10
    wrong: list[str] = []
    for door in found:
        for role, client in whole.clients.items():
            status = await knock(client, door)
            if seen(door, status) != expected(door, role) or status >= 500:
                wrong.append(f"{role or 'nobody'} {door.name}: {status}")
    assert wrong == []


async def test_every_door_is_the_same_for_a_session(whole: Stage) -> None:
    wrong: list[str] = []
    for role in Role:
        headers = {"Cookie": f"{SESSION_COOKIE}={await session_of(whole, role)}"}
        for door in doors(whole):
            status = await knock(whole.anonymous, door, headers)
            if seen(door, status) != expected(door, role) or status >= 500:
                wrong.append(f"{role} {door.name}: {status}")
    assert wrong == []


async def test_what_is_open_is_said_to_be(whole: Stage) -> None:
    unexpected = [
        door.path
        for door in doors(whole)
        if door.role is None and door.path not in OPEN and not door.path.startswith(OPEN_PAGES)
    ]
    assert unexpected == []


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN])
async def test_a_token_of_agents_opens_their_routes_alone(whole: Stage, role: Role) -> None:
    tokens = await whole.service.tokens()
    made = await tokens.add("chat", role, created_by="test", scope={"group": "family"})
    opened: set[str] = set()
    async with a_client(whole.api, made.secret) as agent:
        for door in doors(whole):
            if door.role is not None and await knock(agent, door) not in (401, 403):
                opened.add(door.name)
    assert opened <= FOR_AGENTS
    if role is not Role.VIEWER:
        assert opened == FOR_AGENTS


async def test_mcp_takes_agents_alone(whole: Stage) -> None:
    pytest.importorskip("mcp")
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    for role, client in whole.clients.items():
        for method in ("GET", "POST", "DELETE"):
            answer = await client.request(method, "/mcp", json=body, headers=headers)
            assert answer.status_code == (401 if role is None else 403), (role, method)
    session = {**headers, "Cookie": f"{SESSION_COOKIE}={await session_of(whole, Role.ADMIN)}"}
    assert (await whole.anonymous.post("/mcp", json=body, headers=session)).status_code == 401
    made = await (await whole.service.tokens()).add("chat", Role.OPERATOR, created_by="test", scope={"group": "family"})
    async with a_client(whole.api, made.secret) as agent:
        assert (await agent.post("/mcp", json=body, headers=headers)).status_code == 200
        foreign = {**headers, "Origin": "http://evil.example"}
        assert (await agent.post("/mcp", json=body, headers=foreign)).status_code == 403


async def test_no_door_is_opened_by_another_site(whole: Stage) -> None:
    """Whatever is not safe refuses a page of another site, whoever is signed in, before it does anything."""
    wrong: list[str] = []
    for door in doors(whole):
        if door.method != "GET":
            status = await knock(whole.admin, door, {"Origin": "http://evil.example"})
            if status != 403:
                wrong.append(f"{door.name}: {status}")
    assert wrong == []
    assert (await AuditLog(await whole.app.database()).page(AuditQuery()))[0] == []


async def test_whoever_comes_is_looked_up_once(whole: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of an answer wants to know who asks: the page, what acts in their name, the page of an error."""
    identify, asked = Gate.identify, list[str]()

    async def counting(gate: Gate, request: Request, *, through_outages: bool = False) -> Principal | None:
        asked.append(request.url.path)
        return await identify(gate, request, through_outages=through_outages)

    monkeypatch.setattr(Gate, "identify", counting)
    for door in doors(whole):
        if door.role is not None:
            asked.clear()
            await knock(whole.admin, door, {"Accept": "text/html"})
            assert len(asked) == 1, door.name


def test_no_request_goes_to_a_thread_for_what_it_depends_on(whole: Stage) -> None:
    """FastAPI calls a dependency that is no coroutine in a thread pool, request by request."""
    routers: list[APIRouter] = whole.api.state.routers()
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    found = [dependant for route in routes for dependant in depended_on(route.dependant)]
    assert len(found) > 100
    assert {str(dependant.call) for dependant in found if not iscoroutinefunction(dependant.call)} == set()


def depended_on(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for below in dependant.dependencies:
        yield from depended_on(below)
