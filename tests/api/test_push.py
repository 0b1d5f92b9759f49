"""Pushing and reading memories over HTTP: the shapes, the limits, who may, and an outage of the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.api.stage import Stage, staged

from rota.memory import ChatPush, Message, memory_of
from rota.stores.memory import MemoryStore
from rota.testing.faulty import FaultyStore
from rota.testing.waiting import until

SAME = ("I love hiking in the mountains.", "I really love hiking in the mountains!")


async def pushed(stage: Stage, where: str, /, **body: object) -> Any:
    answer = await stage.operator.post(f"/api/push/{where}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def contexts(stage: Stage, user_id: str, query: str = "") -> Any:
    return (await stage.operator.get(f"/api/memory/{user_id}/contexts{query}")).json()


async def test_the_answer_to_a_message(stage: Stage) -> None:
    answer = await pushed(stage, "chat/message", user_id="u1", content=SAME[0], something_else=1)
    assert (answer["status"], set(answer)) == ("success", {"status", "batch_id", "context_id"})
    await memory_of(stage.app).drain()
    # The app of this stage has a type of its own for activity: every such type hears of a push.
    assert (await stage.app.counts())["upkeep"].pending == 1


async def test_each_kind_is_kept(stage: Stage) -> None:
    messages = [{"role": "user", "content": text, "timestamp": "2026-01-05T09:30:00"} for text in SAME]
    answer = await pushed(stage, "chat", user_id="u/1", device_id="phone", messages=messages)
    assert (answer["success"], answer["data"]["message_count"]) == (True, 2)
    await pushed(stage, "screenshot", user_id="u/1", text="Oslo S", window="Maps", path="/shots/1.png")
    await pushed(stage, "document", user_id="u/1", text="Oslo is a city.", title="Oslo", enable_merge=False)
    page = await contexts(stage, "u%2F1")
    assert [one["kind"] for one in page["items"]] == ["document", "screenshot", "chat", "chat"]
    assert (page["items"][0]["enable_merge"], page["items"][1]["title"]) == (False, "Maps")
    assert page["items"][2]["created_at"] == "2026-01-05T09:30:00.000Z"
    assert page["items"][2]["device_id"] == "phone"


async def test_a_push_without_a_user_is_the_default_users(stage: Stage) -> None:
    await pushed(stage, "chat/message", content=SAME[0])
    assert len((await contexts(stage, "default"))["items"]) == 1


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("chat", {"messages": []}, 422),
        ("chat", {"messages": [{"content": "x"}] * 101}, 422),
        ("chat", {"messages": [{"content": ""}]}, 422),
        ("chat/message", {"content": "x", "user_id": "__base__"}, 422),
        ("chat/message", {"content": "x", "device_id": "__all__"}, 422),
        ("chat/message", {"content": "x", "user_id": "u" * 256}, 422),
        ("chat/message", {"content": "x", "device_id": "d" * 101}, 422),
        ("chat/message", {"content": "a\0b"}, 422),
        ("chat/message", {"content": "x", "timestamp": "yesterday"}, 422),
        ("chat/message", {"content": "x", "timestamp": "0001-01-01T00:00:00+14:00"}, 422),
        ("chat/message", {"content": "x" * 100_001}, 422),
        ("document", {"text": "x", "importance": 11}, 422),
        ("screenshot", {"text": "   "}, 422),
        ("document", {"text": "x" * (1 << 20)}, 413),
    ],
)
async def test_what_is_refused(stage: Stage, path: str, body: object, status: int) -> None:
    answer = await stage.operator.post(f"/api/push/{path}", json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["status"] == status
    assert (await stage.viewer.get("/api/memory/stats")).json()["contexts"] == 0


async def test_pages_lineage_and_search(stage: Stage) -> None:
    memory = memory_of(stage.app)
    await memory.push(ChatPush(user_id="u1", messages=[Message(content=text) for text in (*SAME, "I live in Oslo.")]))
    memory.settings = type(memory.settings)(settling_ms=-60_000)
    await memory.compress(memory.scope_of("u1"))
    (result,) = (await contexts(stage, "u1", "?results=true"))["items"]
    assert (result["has_compression"], result["merge_count"]) == (True, 2)
    whole = (await stage.operator.get(f"/api/memory/u1/contexts/{result['id']}")).json()
    assert [source["text"] for source in whole["sources"]] == list(SAME)
    assert {source["user_id"] for source in whole["sources"]} == {"u1"}
    other = await stage.operator.get(f"/api/memory/u2/contexts/{result['id']}")
    assert (other.status_code, other.json()["code"]) == (404, "unknown_context")
    hits = (await stage.operator.get("/api/memory/u1/search?text=where do I live&limit=1")).json()["items"]
    assert [hit["text"] for hit in hits] == ["I live in Oslo."]
    figures = (await stage.operator.get("/api/memory/u1/stats")).json()
    assert (figures["contexts"], figures["merged"], figures["results"]) == (4, 2, 1)
    ids, cursor = list[int](), None
    while True:
        page = await contexts(stage, "u1", f"?limit=1{'' if cursor is None else f'&cursor={cursor}'}")
        ids += [one["id"] for one in page["items"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert ids == [4, 3, 2, 1]
    assert (await stage.operator.get("/api/memory/u1/contexts?cursor=x")).status_code == 422


async def test_words_are_not_for_whoever_may_only_look(stage: Stage) -> None:
    assert (await stage.viewer.get("/api/memory/stats")).status_code == 200
    for path in ("contexts", "contexts/1", "stats", "search?text=x"):
        assert (await stage.viewer.get(f"/api/memory/u1/{path}")).status_code == 403
    assert (await stage.viewer.post("/api/push/chat/message", json={"content": "x"})).status_code == 403


async def test_a_push_is_taken_on_while_the_store_is_away(tmp_path: Path) -> None:
    store = FaultyStore(MemoryStore())
    async with staged("memory://", store=store, spool=str(tmp_path / "spool.db")) as stage:
        with store.down():
            for number in range(5):
                await pushed(stage, "chat/message", user_id=f"u{number}", content=SAME[0])
            assert len((await contexts(stage, "u1"))["items"]) == 1
            await memory_of(stage.app).drain()
            assert stage.app.health().spooled == 5
        await until(lambda: not stage.app.health().spooled)
        assert (await stage.app.counts())["upkeep"].pending == 5


async def test_a_users_memory_goes_out_with_the_rest_and_then_away(stage: Stage) -> None:
    for user_id in ("u1", "u2"):
        await pushed(stage, "chat/message", user_id=user_id, content=SAME[0])
    await memory_of(stage.app).drain()
    exported = [line for line in (await stage.admin.get("/api/users/u1/export")).text.splitlines() if line]
    assert sum('"kind":"context"' in line for line in exported) == 1
    assert not any("u2" in line for line in exported)
    erased = await stage.admin.delete("/api/users/u1")
    assert (erased.json()["contexts"], erased.json()["tasks"]) == (1, 1)
    assert (await contexts(stage, "u1"))["items"] == []
    assert len((await contexts(stage, "u2"))["items"]) == 1
    (entry,) = (await stage.operator.get("/api/audit?action=user.erase")).json()["items"]
    assert '"contexts":1' in entry["after"].replace(" ", "")
