"""A small chat back end that remembers its users, with Rota as a library.

    pip install rota
    uvicorn --app-dir examples assistant.main:app

    curl -d '{"user_id": "ada", "content": "I love hiking in the mountains."}' -H 'Content-Type: application/json' \
        http://127.0.0.1:8000/api/push/chat/message

Every message is kept at once. Half an hour after a user began to talk, their memory is compressed, once, on whichever
instance is free; `ASSISTANT_INTERVAL=5` makes that five seconds. Start as many instances as you like on one store.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException

from rota import Rota
from rota.errors import InvalidInput
from rota.memory import ChatMessagePush, ChatPush, Memory, Scope, State, install_memory
from rota.memory.shapes import MessageAnswer, PushAnswer

__all__ = ["app", "create_app"]


def create_app(rota: Rota | None = None) -> FastAPI:
    """The application. What it was not given it makes: a scheduler on a SQLite file in the working directory."""
    scheduler = rota or Rota(
        {
            "store": os.environ.get("ASSISTANT_STORE", "sqlite:///assistant.db"),
            "scheduler": {"tasks": {"memory_compression": {"interval": os.environ.get("ASSISTANT_INTERVAL", "30m")}}},
        }
    )
    memory = install_memory(scheduler)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        async with scheduler:
            await scheduler.start()
            yield
            await memory.drain()

    api = FastAPI(title="Assistant", lifespan=lifespan)
    _add_routes(api, memory)
    return api


def _add_routes(api: FastAPI, memory: Memory) -> None:
    @api.post("/api/push/chat/message")
    async def push_message(push: ChatMessagePush) -> MessageAnswer:
        """One message of a user. The answer does not wait for the scheduler."""
        try:
            return await memory.push_message(push)
        except InvalidInput as error:
            raise HTTPException(422, str(error)) from None

    @api.post("/api/push/chat")
    async def push_chat(push: ChatPush) -> PushAnswer:
        """A conversation, up to 100 messages at once."""
        try:
            return await memory.push(push)
        except InvalidInput as error:
            raise HTTPException(422, str(error)) from None

    @api.get("/memory/{user_id}")
    async def remembered(user_id: str) -> dict[str, Any]:
        """What the assistant knows about a user, in as few words as it has come to."""
        page = await (await memory.contexts()).page(Scope(user_id), states=(State.FRESH, State.KEPT))
        notes = [{"text": one.text, "stands_for": max(1, one.merge_count)} for one in page.contexts]
        return {"user_id": user_id, "notes": notes, "figures": (await memory.figures(user_id)).to_dict()}

    @api.get("/memory/{user_id}/search")
    async def found(user_id: str, text: str) -> list[dict[str, Any]]:
        """What a user has said about something: for the prompt of the next answer."""
        hits = await memory.search(user_id, text, limit=5)
        return [{"text": one.context.text, "similarity": round(one.similarity, 3)} for one in hits]


app = create_app()
