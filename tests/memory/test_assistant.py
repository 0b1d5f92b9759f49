"""The example runs end to end: a user talks over HTTP, and later their memory is one note shorter."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import httpx
import pytest

from rota import Rota
from rota.testing import FakeClock

EXAMPLES = Path(__file__).parents[2] / "examples"


async def test_a_user_is_remembered_in_fewer_words(
    sqlite_url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    monkeypatch.delitem(sys.modules, "assistant", raising=False)
    from assistant.main import create_app  # pyright: ignore[reportMissingImports, reportUnknownVariableType] -- by path

    rota = Rota(sqlite_url, clock=clock)
    api = create_app(rota)  # pyright: ignore[reportUnknownVariableType] -- the same
    transport = httpx.ASGITransport(app=api)  # pyright: ignore[reportUnknownArgumentType] -- the same
    lifespan = api.router.lifespan_context(api)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] -- the same
    async with lifespan, httpx.AsyncClient(transport=transport, base_url="http://assistant.test") as client:
        for text in ("I love hiking in the mountains.", "I really love hiking in the mountains!", "I live in Oslo."):
            answer = await client.post("/api/push/chat/message", json={"user_id": "ada", "content": text})
            assert answer.status_code == 200
            assert answer.json()["status"] == "success"
        refused = await client.post("/api/push/chat/message", json={"user_id": "__base__", "content": "x"})
        assert (refused.status_code, "reserved" in refused.text) == (422, True)

        clock.advance("30m")
        async with asyncio.timeout(60):
            known = (await client.get("/memory/ada")).json()
            while known["figures"]["fresh"]:
                await asyncio.sleep(0.05)
                known = (await client.get("/memory/ada")).json()
        assert sorted(note["stands_for"] for note in known["notes"]) == [1, 2]
        assert known["figures"]["results"] == 1
        hits = (await client.get("/memory/ada/search", params={"text": "where do I live"})).json()
        assert hits[0]["text"] == "I live in Oslo."
