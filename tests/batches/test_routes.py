"""Batches over HTTP, with a worker behind it: asked for, followed, refused, held back, over two instances."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest
from tests.api.calls import check_problem
from tests.api.stage import FAST, Stage, a_client, serving
from tests.batches.scene import Scene, World, opened_scene

from rota import Rota
from rota.access import AuditLog, AuditQuery, Role
from rota.api import Service, create_api
from rota.api.live import Feed
from rota.batches.batch import Batch, Subtask
from rota.batches.faces.models import BatchItemModel, BatchModel, BatchSubtaskModel
from rota.batches.part import BatchesPart
from rota.batches.service import BatchItem
from rota.testing.waiting import PATIENCE, until

DROPS = 500 if os.environ.get("ROTA_FUZZ") else 25
NORSE = {"type": "location_name", "count": 20, "style": "norse", "session_id": "s1", "user_id": "u1", "seed": 7}
ENDS = {"completed", "failed", "cancelled"}


@asynccontextmanager
async def service_of(app: Rota) -> AsyncGenerator[Stage]:
    """A service over an app, with a client for every role."""
    service = Service(app)
    service.feed = Feed(service.look, settings=FAST)
    async with service:
        tokens = await service.tokens()
        made = {role: await tokens.add(role.value, role, created_by="test") for role in Role}
        stage = Stage(service, create_api(service, dashboard=False), {role: one.secret for role, one in made.items()})
        stage.clients = {role: a_client(stage.api, stage.secrets[role]) for role in Role}
        stage.clients[None] = a_client(stage.api)
        try:
            yield stage
        finally:
            for client in stage.clients.values():
                await client.aclose()


class Played(NamedTuple):
    """A service, and the app behind it with a generator that a test decides."""

    stage: Stage
    scene: Scene

    @property
    def operator(self) -> httpx.AsyncClient:
        return self.stage.operator

    @property
    def viewer(self) -> httpx.AsyncClient:
        return self.stage.viewer

    async def start(self, **more: Any) -> str:
        answer = await self.operator.post("/api/batches", json={**NORSE, **more})
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    async def until_over(self, batch_id: str) -> dict[str, Any]:
        await follow(self.viewer, batch_id)
        return (await self.viewer.get(f"/api/batches/{batch_id}")).json()


@asynccontextmanager
async def played(world: World, **settings: Any) -> AsyncGenerator[Played]:
    async with opened_scene(world, **settings) as scene, service_of(scene.app) as stage:
        yield Played(stage, scene)


class Told(NamedTuple):
    number: int
    event: str
    data: dict[str, Any]


def told_of(text: str) -> list[Told]:
    """The events of a stream."""
    found: list[Told] = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in lines:
            found.append(Told(int(lines["id"]), lines["event"], json.loads(lines["data"])))
    return found


async def follow(client: httpx.AsyncClient, batch_id: str, **headers: str) -> list[Told]:
    """All of a batch to its end."""
    async with asyncio.timeout(PATIENCE):
        answer = await client.get(f"/api/batches/{batch_id}/events", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert answer.text.startswith("retry: 1000\n\n")
    return told_of(answer.text)


# --- from the request to the items -----------------------------------------------------------------------------------


def test_the_models_mirror_the_python_face() -> None:
    assert set(BatchItemModel.model_fields) == set(BatchItem.__struct_fields__)
    assert {"subtasks", "items", "shortfall", "took_ms"} <= set(BatchModel.model_fields)
    assert set(BatchModel.model_fields) - {"subtasks", "shortfall", "first_response_ms", "took_ms"} <= set(
        Batch.__struct_fields__
    )
    assert set(BatchSubtaskModel.model_fields) <= set(Subtask.__struct_fields__)


async def test_a_batch_is_asked_for_followed_and_read(world: World) -> None:
    async with played(world) as play:
        play.scene.run()
        answer = await play.operator.post("/api/batches", json={**NORSE, "deadline": "5m"})
        accepted = answer.json()
        assert (answer.status_code, answer.headers["Location"]) == (202, f"/api/batches/{accepted['id']}")
        assert (accepted["status"], accepted["items"], accepted["shortfall"]) == ("running", 0, 20)
        assert accepted["owner"].startswith("token:")
        told = await follow(play.viewer, accepted["id"])
        assert [one.number for one in told] == list(range(1, len(told) + 1))
        assert (told[0].event, told[-1].event) == ("accepted", "completed")
        assert {"first_response", "progress"} <= {one.event for one in told}
        names = [one.data["name"] for one in told if one.event == "item"]
        assert len(set(names)) == 20

        path = f"/api/batches/{accepted['id']}"
        found = (await play.viewer.get(path)).json()
        assert (found["status"], found["items"], found["shortfall"], found["reason"]) == ("completed", 20, 0, None)
        assert set(found) == set(accepted)
        first = (await play.viewer.get(f"{path}/items?limit=15")).json()
        rest = (await play.viewer.get(f"{path}/items?limit=15&cursor={first['cursor']}")).json()
        assert [one["name"] for one in first["items"] + rest["items"]] == names
        assert rest["cursor"] is None
        assert (await play.viewer.get(f"{path}/items?outcome=duplicate")).json()["items"] == []
        subtasks = (await play.viewer.get(f"{path}/subtasks")).json()["items"]
        assert [(one["index"], one["count"], one["status"]) for one in subtasks] == [(0, 8, "done"), (1, 12, "done")]


async def test_lists_are_narrowed_and_walked(file_world: World) -> None:
    async with played(file_world) as play:
        first = await play.start()
        second = await play.start(type="skill", session_id="s2", user_id="u2", style={"mood": "grim"})
        third = await play.start(session_id="s2")
        await play.operator.post(f"/api/batches/{third}/cancel")

        async def ids(query: str) -> list[str]:
            return [one["id"] for one in (await play.viewer.get(f"/api/batches?{query}")).json()["items"]]

        assert await ids("") == [third, second, first], "newest first"
        assert await ids("status=cancelled") == [third]
        assert await ids("type=skill") == [second]
        assert await ids("session_id=s2") == [third, second]
        assert await ids("user_id=u1&status=running") == [first]
        me = (await play.operator.get("/api/me")).json()["id"]
        assert await ids(f"owner={me}") == [third, second, first]
        assert await ids("owner=app") == []
        page = (await play.viewer.get("/api/batches?limit=2")).json()
        assert await ids(f"limit=2&cursor={page['cursor']}") == [first]
        assert (await play.viewer.get(f"/api/batches/{second}")).json()["style"] == {"mood": "grim"}


async def test_a_flow_that_waits_has_a_handle(file_world: World) -> None:
    async with played(file_world) as play:
        play.scene.run()
        await play.until_over(await play.start(resume={}, correlation_id="chapter 3"))
        (handle,) = (await play.viewer.get("/api/handles?correlation_id=chapter 3")).json()["items"]
        assert (handle["task_name"], handle["expected_count"]) == ("detail_batch", 1)


# --- the same request again ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["header", "body"])
async def test_the_same_key_and_body_are_one_batch(world: World, place: str) -> None:
    async with played(world) as play:
        headers, key = ({"Idempotency-Key": "k1"}, {}) if place == "header" else ({}, {"idempotency_key": "k1"})
        body = {**NORSE, **key, "deadline": "5m"}
        answers = await asyncio.gather(
            *(play.operator.post("/api/batches", json=body, headers=headers) for _ in range(5))
        )
        assert {one.json()["id"] for one in answers} == {answers[0].json()["id"]}
        assert sorted(one.status_code for one in answers) == [200, 200, 200, 200, 202]
        for one in answers:
            assert one.headers["Location"] == answers[0].headers["Location"]
            assert one.headers.get("Idempotent-Replayed") == (None if one.status_code == 202 else "true")
        same = await play.operator.post("/api/batches", json={**body, "deadline": 300}, headers=headers)
        assert same.status_code == 200, "five minutes, in other words"
        other = await play.operator.post("/api/batches", json={**body, "count": 21}, headers=headers)
        assert "another body" in check_problem(other, 409, "idempotency_conflict")["detail"]
        assert len((await play.viewer.get("/api/batches")).json()["items"]) == 1
        admin = await play.stage.admin.post("/api/batches", json={**body, "count": 21}, headers=headers)
        assert admin.status_code == 202, "keys are each owner's own"
        entries, _ = await AuditLog(await play.stage.app.database()).page(AuditQuery(action="batch.start"))
        assert len(entries) == 2, "what was accepted before is no new action"


async def test_two_different_keys_in_one_request_are_refused(file_world: World) -> None:
    async with played(file_world) as play:
        body = {**NORSE, "idempotency_key": "k1"}
        answer = await play.operator.post("/api/batches", json=body, headers={"Idempotency-Key": "k2"})
        assert "Idempotency-Key" in check_problem(answer, 422, "invalid_input")["detail"]
        answer = await play.operator.post("/api/batches", json=body, headers={"Idempotency-Key": "k1"})
        assert answer.status_code == 202


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"count": 501}, "invalid_input", "count is 501. Use a whole number from 1 to 500."),
        ({"count": 0}, "invalid_request", "body.count: Input should be greater than or equal to 1"),
        ({"count": "20"}, "invalid_request", "body.count"),
        ({"type": "location_nam"}, "invalid_input", "location_name"),
        ({"style": "x" * 5_000}, "invalid_input", "4,096 is the limit"),
        ({"style": 7}, "invalid_request", "body.style"),
        ({"deadline": "2d"}, "invalid_input", "deadline is 172800 s. Use 1s to 1d."),
        ({"deadline": "soon"}, "invalid_input", "deadline"),
        ({"priority": 11}, "invalid_request", "body.priority: Input should be less than or equal to 10"),
        ({"seed": -1}, "invalid_request", "body.seed"),
        ({"distinct": "world"}, "invalid_request", "body.distinct"),
        ({"budget_tokens": 0}, "invalid_request", "body.budget_tokens"),
        ({"session_id": ""}, "invalid_request", "body.session_id"),
        ({"resume": {"callback": {"kind": "pigeon"}}}, "invalid_input", "pigeon"),
        ({"colour": "red"}, "invalid_request", "body.colour"),
    ],
)
async def test_what_cannot_be_used_is_named_with_its_limit(
    file_world: World, change: Mapping[str, object], code: str, said: str
) -> None:
    async with played(file_world) as play:
        answer = await play.operator.post("/api/batches", json={**NORSE, **change})
        assert said in check_problem(answer, 422, code)["detail"]
        assert (await play.viewer.get("/api/batches")).json()["items"] == []


async def test_a_batch_that_is_not_there_is_not_found(file_world: World) -> None:
    async with played(file_world) as play:
        for path in ("", "/items", "/subtasks", "/events"):
            check_problem(await play.viewer.get(f"/api/batches/absent{path}"), 404, "unknown_batch")
        for verb in ("pause", "resume", "cancel"):
            check_problem(await play.operator.post(f"/api/batches/absent/{verb}"), 404, "unknown_batch")


async def test_an_owner_that_has_had_its_share_is_told_when_to_come_back(file_world: World) -> None:
    async with played(file_world, owner_items_per_minute=30) as play:
        await play.start()
        full = await play.operator.post("/api/batches", json=NORSE)
        assert "owner_items_per_minute" in check_problem(full, 429, "batches_full")["detail"]
        assert 1 <= int(full.headers["Retry-After"]) <= 60
        assert (await play.stage.admin.post("/api/batches", json=NORSE)).status_code == 202, "others have theirs"
        too_many = await play.operator.post("/api/batches", json={**NORSE, "count": 31})
        check_problem(too_many, 422, "limit_exceeded")


async def test_a_queue_that_is_full_takes_no_more(file_world: World) -> None:
    async with played(file_world, tasks={"max_pending": 2}) as play:
        await play.start()
        full = await play.operator.post("/api/batches", json=NORSE)
        assert "max_pending" in check_problem(full, 429, "batches_full")["detail"]
        assert full.headers["Retry-After"] == "30"


# --- held back, ended, and the way back ------------------------------------------------------------------------------


async def test_a_batch_is_held_back_goes_on_and_is_ended(world: World) -> None:
    async with played(world) as play:
        held = await play.start()
        paused = (await play.operator.post(f"/api/batches/{held}/pause")).json()
        assert paused["status"] == "paused"
        assert (await play.operator.post(f"/api/batches/{held}/pause")).json() == paused, "again is harmless"
        play.scene.run()
        done = await play.start()
        assert (await play.until_over(done))["status"] == "completed"
        assert (await play.viewer.get(f"/api/batches/{held}")).json() == paused
        assert (await play.operator.post(f"/api/batches/{held}/resume")).json()["status"] == "running"
        assert (await play.until_over(held))["items"] == 20

        play.scene.maker.gate.clear()
        ended = await play.start()
        cancelled = (await play.operator.post(f"/api/batches/{ended}/cancel")).json()
        assert (cancelled["status"], cancelled["items"]) == ("cancelled", 0)
        assert [one.event for one in await follow(play.viewer, ended)] == ["accepted", "cancelled"]
        assert (await play.operator.post(f"/api/batches/{ended}/cancel")).json() == cancelled
        for verb in ("pause", "resume"):
            check_problem(await play.operator.post(f"/api/batches/{ended}/{verb}"), 409, "illegal_transition")


async def test_whoever_may_look_changes_nothing_and_operators_set_no_switches(file_world: World) -> None:
    async with played(file_world) as play:
        batch_id = await play.start()
        check_problem(await play.viewer.post("/api/batches", json=NORSE), 403, "not_allowed")
        check_problem(await play.viewer.post(f"/api/batches/{batch_id}/cancel"), 403, "not_allowed")
        for verb in ("freeze", "degrade", "restore"):
            check_problem(await play.operator.post(f"/api/batches/{verb}"), 403, "not_allowed")
        check_problem(await play.stage.anonymous.get("/api/batches"), 401, "unauthenticated")
        agents = await (await play.stage.service.tokens()).add(
            "chat", Role.ADMIN, created_by="test", scope={"group": "family"}
        )
        async with a_client(play.stage.api, agents.secret) as client:
            check_problem(await client.get("/api/batches"), 403, "not_allowed")
            check_problem(await client.post("/api/batches", json=NORSE), 403, "not_allowed")
            check_problem(await client.get(f"/api/batches/{batch_id}/events"), 403, "not_allowed")


async def test_the_way_back(file_world: World) -> None:
    async with played(file_world) as play:
        admin = play.stage.admin
        assert (await play.viewer.get("/api/batches/switches")).json() == {
            "frozen": False,
            "degraded": False,
            "open": 0,
        }
        known = {**NORSE, "idempotency_key": "k1"}
        batch = (await play.operator.post("/api/batches", json=known)).json()
        assert (await admin.post("/api/batches/freeze")).json() == {"frozen": True, "degraded": False, "open": 1}
        check_problem(await play.operator.post("/api/batches", json=NORSE), 503, "batches_frozen")
        again = await play.operator.post("/api/batches", json=known)
        assert (again.status_code, again.json()["id"]) == (200, batch["id"]), "what was accepted stays so"
        await admin.post("/api/batches/degrade")
        assert (await admin.post("/api/batches/restore")).json() == {"frozen": False, "degraded": False, "open": 1}
        await admin.post("/api/batches/degrade")
        whole = await play.start()
        assert (await play.viewer.get(f"/api/batches/{whole}")).json()["subtasks"]["expected"] == 1


# --- the stream ------------------------------------------------------------------------------------------------------


async def test_whoever_comes_back_gets_what_follows_from_each_number(world: World) -> None:
    async with played(world) as play:
        play.scene.run()
        batch_id = await play.start()
        whole = await follow(play.viewer, batch_id)
        for seen in range(len(whole)):
            assert await follow(play.viewer, batch_id, **{"Last-Event-ID": str(seen)}) == whole[seen:]
        path = f"/api/batches/{batch_id}/events"
        assert told_of((await play.viewer.get(f"{path}?after=3")).text) == whole[3:]
        both = await play.viewer.get(f"{path}?after=3", headers={"Last-Event-ID": "5"})
        assert told_of(both.text) == whole[5:], "the address is the one that it began with"
        over = await play.viewer.get(path, headers={"Last-Event-ID": str(len(whole))})
        assert (over.status_code, over.text) == (204, ""), "nothing will come any more"
        for strange in ("x", "-1", "1.5", "9" * 30):
            answer = await play.viewer.get(path, headers={"Last-Event-ID": strange})
            assert "last-event-id" in check_problem(answer, 422, "invalid_request")["detail"]
        beyond = await play.viewer.get(path, headers={"Last-Event-ID": str(len(whole) + 1)})
        assert f"has told {len(whole)}" in check_problem(beyond, 422, "invalid_input")["detail"]


async def test_what_one_instance_tells_another_one_replays(world: World) -> None:
    async with played(world) as one, opened_scene(world) as other, service_of(other.app) as second:
        one.scene.run()
        batch_id = await one.start()
        here, there = await asyncio.gather(follow(one.viewer, batch_id), follow(second.viewer, batch_id))
        assert here == there
        assert here[-1].event == "completed"
        for seen in (1, len(here) // 2, len(here) - 1):
            assert await follow(second.viewer, batch_id, **{"Last-Event-ID": str(seen)}) == here[seen:]


class Listener:
    """A client over a real socket that is cut off again and again, and comes back with the last number it has seen."""

    def __init__(self, ports: list[int], secrets: list[str], batch_id: str, seed: int) -> None:
        self._instances = list(zip(ports, secrets, strict=True))
        self._batch_id = batch_id
        self._chance = random.Random(seed)
        self.numbers: list[int] = []
        self.events: list[str] = []
        self.silences = 0

    @property
    def is_over(self) -> bool:
        return bool(self.events) and self.events[-1] in ENDS

    async def listen(self, most: int | None = None) -> None:
        """Hear so many events, or all that come, and then be cut off without a goodbye."""
        port, secret = self._chance.choice(self._instances)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        resume = f"Last-Event-ID: {self.numbers[-1]}\r\n" if self.numbers else ""
        path = f"/api/batches/{self._batch_id}/events"
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{resume}"
        writer.write(f"{head}Authorization: Bearer {secret}\r\n\r\n".encode())
        heard = 0
        try:
            while (most is None or heard < most) and not self.is_over:
                heard += await self._hear(reader)
        finally:
            writer.transport.abort()

    async def _hear(self, reader: asyncio.StreamReader) -> int:
        line = (await reader.readline()).decode()
        assert line, "the server hung up"
        self.silences += line.startswith(": ")
        if not line.startswith("id: "):
            return 0
        event = (await reader.readline()).decode()
        self.numbers.append(int(line[4:]))
        self.events.append(event.removeprefix("event: ").strip())
        return 1


async def test_a_listener_that_is_cut_off_again_and_again_misses_nothing_and_hears_nothing_twice(world: World) -> None:
    """On two instances by turns, while the batch is made."""
    async with (
        played(world, per_session=1, first_size=2) as one,
        opened_scene(world) as other,
        service_of(other.app) as second,
        serving(one.stage) as port,
        serving(second) as second_port,
        asyncio.timeout(2 * PATIENCE),
    ):
        one.scene.run()
        count = max(60, DROPS)
        batch_id = await one.start(type="skill", count=count)
        ports, secrets = [port, second_port], [stage.secrets[Role.VIEWER] for stage in (one.stage, second)]
        listeners = [Listener(ports, secrets, batch_id, seed) for seed in range(3)]

        async def hear(listener: Listener) -> None:
            for drop in range(DROPS):
                if listener.is_over:
                    break
                await listener.listen(most=drop % 3)
            if not listener.is_over:
                await listener.listen()

        await asyncio.gather(*(hear(listener) for listener in listeners))
        for listener in listeners:
            assert listener.numbers == list(range(1, len(listener.numbers) + 1))
            assert listener.events.count("item") == count
            assert listener.events[-1] == "completed"
        feeds = [(await app.host.part(BatchesPart).work()).feed for app in (one.stage.app, second.app)]
        await until(lambda: not any(feed.listeners for feed in feeds), "everybody has left")


async def test_a_hundred_listeners_cost_no_more_reads_than_one(file_world: World) -> None:
    async with played(file_world) as play, serving(play.stage) as port, asyncio.timeout(PATIENCE):
        batch_id = await play.start()
        feed = (await play.scene.work()).feed
        listeners = [Listener([port], [play.stage.secrets[Role.VIEWER]], batch_id, seed) for seed in range(100)]
        first = asyncio.create_task(listeners[0].listen())
        await until(lambda: listeners[0].numbers == [1], "the first one listens")
        before = feed.reads
        rest = [asyncio.create_task(listener.listen()) for listener in listeners[1:]]
        await until(lambda: all(listener.numbers == [1] for listener in listeners), "all of them have heard it")
        # However long it takes here: so often it is looked by itself, whether one listens or a hundred.
        assert feed.reads - before <= 5, "what the first one has read is there for all"
        before = feed.reads
        await play.operator.post(f"/api/batches/{batch_id}/cancel")
        await asyncio.gather(first, *rest)
        assert all(listener.events == ["accepted", "cancelled"] for listener in listeners)
        assert feed.reads - before <= 5


async def test_a_silent_line_says_that_it_is_alive_and_a_revoked_token_ends_it(file_world: World) -> None:
    async with played(file_world) as play, serving(play.stage) as port, asyncio.timeout(PATIENCE):
        batch_id = await play.start()
        listener = Listener([port], [play.stage.secrets[Role.VIEWER]], batch_id, 0)
        listening = asyncio.create_task(listener.listen())
        await until(lambda: listener.silences >= 2, "it has said so twice")
        tokens = await play.stage.service.tokens()
        found = await tokens.find(play.stage.secrets[Role.VIEWER])
        assert found is not None
        await tokens.revoke(found.id)
        with pytest.raises(AssertionError, match="hung up"):
            await listening
        assert listener.events == ["accepted"]


async def test_streams_end_with_the_service(file_world: World) -> None:
    async with played(file_world) as play, asyncio.timeout(PATIENCE):
        batch_id = await play.start()
        following = asyncio.create_task(play.viewer.get(f"/api/batches/{batch_id}/events"))
        feed = (await play.scene.work()).feed
        await until(lambda: feed.listeners == 1, "it listens")
        await play.stage.service.feed.close()
        assert {told.event for told in told_of((await following).text)} <= {"accepted"}
        assert feed.listeners == 0
