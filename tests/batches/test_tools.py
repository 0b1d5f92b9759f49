"""Batches for agents: the two tools of the MCP server, called by the official client, with a worker behind it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from pydantic import BaseModel
from tests.api.stage import Stage, serving
from tests.batches.scene import Scene, World, opened_scene
from tests.mcp.test_http import call, refused

from rota import Rota
from rota.access import AuditLog, AuditQuery, Principal, Role
from rota.agents import AgentSettings, install_agents
from rota.agents.operator import AgentOperator
from rota.api import Service, create_api
from rota.errors import InvalidInput
from rota.extend import AgentTool, Part, ToolCaller
from rota.testing.waiting import PATIENCE, until

ADMIN = Principal("test", "ann", Role.ADMIN, "code")
PLACES: dict[str, Any] = {"type": "location_name", "count": 20, "style": "norse"}


@dataclass
class Server:
    """The MCP server of an app, and its owner."""

    port: int
    operator: AgentOperator

    @asynccontextmanager
    async def connect(self, group: str, **settings: Any) -> AsyncGenerator[Client]:
        """The official client, with a token of this group."""
        secret = (await self.operator.add_token(group, f"agents of {group}", **settings)).secret
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=PATIENCE) as http,
            Client(streamable_http_client(f"http://127.0.0.1:{self.port}/mcp", http_client=http)) as client,
        ):
            yield client


@asynccontextmanager
async def mcp_server(app: Rota, tmp_path: Path) -> AsyncGenerator[Server]:
    agents = install_agents(app, AgentSettings(groups_dir=tmp_path / "groups", isolation="process", uid_base=None))
    async with Service(app) as service:
        operator = AgentOperator(agents, ADMIN, app.database)
        for group in ("family", "work"):
            await operator.add_group(group)
        async with serving(Stage(service, create_api(service, dashboard=False), {})) as port:
            yield Server(port, operator)


@asynccontextmanager
async def met(world: World, tmp_path: Path, **settings: Any) -> AsyncGenerator[tuple[Scene, Server]]:
    async with opened_scene(world, **settings) as scene, mcp_server(scene.app, tmp_path) as server:
        yield scene, server


async def test_an_agent_has_a_batch_made_and_reads_it(world: World, tmp_path: Path) -> None:
    async with met(world, tmp_path) as (scene, server), server.connect("family") as client:
        scene.run()
        made = await call(client, "start_batch", **PLACES, wait_seconds=30, deadline="5m", priority=8)
        assert (made["status"], made["made"], made["cursor"]) == ("completed", 20, None)
        assert len({item["name"] for item in made["items"]}) == 20
        assert made["items"][0]["fields"]["description"].startswith("number ")
        assert "complete" in made["message"]

        first = await call(client, "batch_status", batch_id=made["batch_id"], limit=15)
        rest = await call(client, "batch_status", batch_id=made["batch_id"], limit=15, cursor=first["cursor"])
        assert [*first["items"], *rest["items"]] == made["items"]
        assert (first["subtasks"], first["subtasks_done"], rest["cursor"]) == (2, 2, None)

        batch = await scene.part.batches.get(made["batch_id"])
        assert (batch.owner, batch.session_id, batch.priority) == ("agent:family", "agent:family", 8)
        entries, _ = await AuditLog(await scene.app.database()).page(AuditQuery(action="batch.start"))
        assert [(entry.via, entry.target) for entry in entries] == [("mcp", batch.id)]


async def test_who_does_not_wait_asks_later_and_who_waits_too_short_has_what_came(
    file_world: World, tmp_path: Path
) -> None:
    async with met(file_world, tmp_path) as (scene, server), server.connect("family") as client:
        scene.maker.gate.clear()
        scene.run()
        at_once = await call(client, "start_batch", **PLACES)
        assert (at_once["status"], at_once["made"], at_once["items"]) == ("running", 0, [])
        assert "batch_status" in at_once["message"]
        too_short = await call(client, "start_batch", **PLACES, wait_seconds=0.2)
        assert (too_short["status"], too_short["items"]) == ("running", [])
        assert (await scene.work()).feed.listeners == 0, "nobody waits any longer"
        scene.maker.gate.set()

        async def is_complete() -> bool:
            return (await call(client, "batch_status", batch_id=at_once["batch_id"]))["made"] == 20

        await until(is_complete, "all of them are there")


async def test_a_group_sees_nothing_of_another_group_or_of_people(file_world: World, tmp_path: Path) -> None:
    async with (
        met(file_world, tmp_path) as (scene, server),
        server.connect("family") as family,
        server.connect("work") as work,
    ):
        theirs = (await call(family, "start_batch", **PLACES))["batch_id"]
        said = await refused(work, "batch_status", batch_id=theirs)
        absent = await refused(work, "batch_status", batch_id="0" * len(theirs))
        assert said.replace(theirs, "") == absent.replace("0" * len(theirs), ""), "it looks like none at all"
        assert "[unknown_batch]" in said
        persons = (await scene.start()).id
        assert "[unknown_batch]" in await refused(family, "batch_status", batch_id=persons)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({**PLACES, "count": 501}, "count is 501. Use a whole number from 1 to 500. [invalid_input]"),
        ({**PLACES, "count": 0}, 'A good call: {"type": "location_name"'),
        ({**PLACES, "type": "place_name"}, "Nobody makes items of the type 'place_name'"),
        ({**PLACES, "deadline": "soon"}, "deadline"),
        ({**PLACES, "wait_seconds": 31}, "wait_seconds: Input should be less than or equal to 30"),
        ({**PLACES, "owner": "agent:work"}, "owner: there is no such argument"),
        ({**PLACES, "caller": "work"}, "caller: there is no such argument"),
        ({"type": "item"}, "count: Field required"),
    ],
)
async def test_what_is_wrong_is_said_so_that_it_can_be_put_right(
    file_world: World, tmp_path: Path, arguments: dict[str, Any], said: str
) -> None:
    async with met(file_world, tmp_path) as (scene, server), server.connect("family") as client:
        answer = await refused(client, "start_batch", **arguments)
        assert said in answer
        assert "Traceback" not in answer
        assert (await scene.part.batches.list()).items == []


async def test_limits_and_switches_are_told(file_world: World, tmp_path: Path) -> None:
    async with (
        met(file_world, tmp_path, owner_items_per_minute=30) as (scene, server),
        server.connect("family") as family,
        server.connect("work") as work,
    ):
        await call(family, "start_batch", **PLACES)
        assert "[batches_full]" in await refused(family, "start_batch", **PLACES)
        await call(work, "start_batch", **PLACES)  # each group has its own share
        await scene.part.batches.freeze()
        assert "[batches_frozen]" in await refused(work, "start_batch", **{**PLACES, "count": 1})


async def test_a_token_has_the_tools_and_the_role_that_it_was_given(file_world: World, tmp_path: Path) -> None:
    async with met(file_world, tmp_path) as (_, server):
        async with server.connect("family", role=Role.VIEWER) as client:
            assert "start_batch" not in {tool.name for tool in (await client.list_tools()).tools}
            assert "not yours" in await refused(client, "start_batch", **PLACES)
            assert "[unknown_batch]" in await refused(client, "batch_status", batch_id="x")
        async with server.connect("family", tools=["start_batch", "list_tasks"]) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {"start_batch", "list_tasks"}
            made = await call(client, "start_batch", **PLACES)
            assert "not yours" in await refused(client, "batch_status", batch_id=made["batch_id"])
        async with server.connect("family", in_runs=True) as client:
            assert "A scheduled run may not" in await refused(client, "start_batch", **PLACES)
            assert (await call(client, "batch_status", batch_id=made["batch_id"]))["count"] == 20
        with pytest.raises(InvalidInput, match="start_batch"):
            await server.operator.add_token("family", "chat", tools=["start_batches"])


async def test_the_tools_are_there_over_stdio(file_world: World, tmp_path: Path) -> None:
    store = file_world.settings["store"]
    arguments = ["-m", "rota.cli", "mcp", "--store", store, "--group", "family"]
    env = {**os.environ, "COVERAGE_PROCESS_START": ""}
    async with met(file_world, tmp_path) as (scene, _):
        scene.run()
        server = StdioServerParameters(command=sys.executable, args=arguments, env=env, cwd=tmp_path)
        async with Client(server) as client:
            made = await call(client, "start_batch", **PLACES, wait_seconds=30)
        assert (made["status"], len(made["items"])) == ("completed", 20)


# --- the way in for parts --------------------------------------------------------------------------------------------


class Letters(BaseModel):
    letters: list[str]


async def write_letter(caller: ToolCaller, text: str) -> Letters:
    """Write a letter."""
    if not text:
        raise InvalidInput("text is empty. Write something.")
    letterbox = caller.host.part(Letterbox)
    letterbox.letters.append(f"{caller.group}: {text}")
    return Letters(letters=letterbox.letters)


async def lose_letter(caller: ToolCaller) -> Letters:
    """Lose a letter."""
    raise RuntimeError(f"a secret of {caller.group}")


class Letterbox(Part):
    name = "letterbox"

    def __init__(self) -> None:
        self.letters: list[str] = []

    def tools(self) -> list[AgentTool]:
        return [
            AgentTool(name="write_letter", title="Write", function=write_letter, example="{}", is_for_runs=True),
            AgentTool(name="lose_letter", title="Lose", function=lose_letter, example="{}"),
        ]


async def test_any_part_brings_tools(sqlite_url: str, tmp_path: Path) -> None:
    app = Rota(sqlite_url, parts=[Letterbox()])
    async with mcp_server(app, tmp_path) as server:
        async with server.connect("family") as client:
            assert await call(client, "write_letter", text="Hello.") == {"letters": ["family: Hello."]}
            assert await refused(client, "write_letter", text="") == "text is empty. Write something. [invalid_input]"
            assert "secret" not in await refused(client, "lose_letter"), "what nobody foresaw stays here"
            assert "write_letter" in await refused(client, "write_leter")
        async with server.connect("work", in_runs=True) as run:
            assert len((await call(run, "write_letter", text="From a run."))["letters"]) == 2
            assert "A scheduled run may not" in await refused(run, "lose_letter")
