"""A small chat back end that remembers its users, with Rota as a library, by the names of the scheduler interface.

    uvicorn --app-dir examples assistant.main:app

    curl -d '{"user_id": "ada", "content": "I love hiking in the mountains."}' -H 'Content-Type: application/json' \
        http://127.0.0.1:8000/api/push/chat/message
    curl 'http://127.0.0.1:8000/chat/ada?text=where+should+I+go+hiking'

Every message is kept at once. Half an hour after a user began to talk, their memory is compressed, once, on whichever
instance is free. To see it sooner: `ASSISTANT_INTERVAL=5 ROTA_MEMORY__SETTLING=2s`. Start as many instances as you like
on one store (`ASSISTANT_STORE=redis://...`).
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException

from rota.errors import InvalidInput
from rota.memory import (
    ChatMessagePush,
    ChatPush,
    Memory,
    Scope,
    State,
    create_cleanup_handler,
    create_compression_handler,
    memory_of,
)
from rota.memory.pushes import MessageAnswer, PushAnswer
from rota.seeds import TaskScheduler, get_scheduler, init_scheduler

__all__ = ["app", "create_app"]

TASKS = {
    "memory_compression": {
        "enabled": True,
        "trigger_mode": "user_activity",
        "interval": os.environ.get("ASSISTANT_INTERVAL", "30m"),
        "timeout": 300,
        # The last thing that a user said is not forgotten: the next compression comes, an interval after this one.
        "cooldown": "defer",
    },
    "data_cleanup": {"enabled": True, "trigger_mode": "periodic", "interval": 86400, "timeout": 600},
    # A type of one's own: what it takes is its settings here, a handler, and its registration below.
    "user_profile": {
        "enabled": True,
        "trigger_mode": "user_activity",
        "interval": os.environ.get("ASSISTANT_INTERVAL", "30m"),
    },
}

profiles: dict[str, dict[str, Any]] = {}


def create_app() -> FastAPI:
    """The application, with a scheduler on a SQLite file in the working directory unless the environment says else."""
    scheduler = init_scheduler(os.environ.get("ASSISTANT_STORE", "sqlite:///assistant.db"), {"tasks": TASKS})
    memory = memory_of(scheduler)
    register_handlers(scheduler, memory)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        await scheduler.start()
        yield
        # What was said a moment ago is handed to the scheduler first, and running work may finish.
        await scheduler.stop()

    api = FastAPI(title="Assistant", lifespan=lifespan)
    add_routes(api, memory)
    return api


def register_handlers(scheduler: TaskScheduler, memory: Memory) -> None:
    async def update_profile(user_id: str, device_id: str | None, agent_id: str | None) -> bool:
        profiles[user_id] = (await memory.figures(user_id)).to_dict()
        return True

    scheduler.register_handler("memory_compression", create_compression_handler(memory))  # pyright: ignore[reportArgumentType] -- takes a periodic run's three None too
    scheduler.register_handler("data_cleanup", create_cleanup_handler(memory))  # pyright: ignore[reportArgumentType] -- the same
    scheduler.register_handler("user_profile", update_profile)


def add_routes(api: FastAPI, memory: Memory) -> None:
    @api.post("/api/push/chat/message")
    async def push_message(push: ChatMessagePush) -> MessageAnswer:
        """One message of a user. It is kept when this answers; the scheduler hears of it in the background."""
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

    @api.get("/chat/{user_id}")
    async def chat(user_id: str, text: str) -> dict[str, Any]:
        """An answer to a user. A model would write it, and the notes would be part of its prompt."""
        notes = [hit.context.text for hit in await memory.search(user_id, text, limit=3)]
        scheduler = get_scheduler()
        if scheduler is not None:
            # Whatever else counts as activity is told to the scheduler in the words of its interface.
            await scheduler.schedule_user_task("user_profile", user_id)
        return {"answer": f"You told me: {notes[0]}" if notes else "Tell me about yourself.", "notes": notes}

    @api.get("/memory/{user_id}")
    async def remembered(user_id: str) -> dict[str, Any]:
        """What the assistant knows about a user, in as few words as it has come to."""
        page = await (await memory.contexts()).page(Scope(user_id), states=(State.FRESH, State.KEPT))
        notes = [{"text": one.text, "stands_for": max(1, one.merge_count)} for one in page.contexts]
        figures = (await memory.figures(user_id)).to_dict()
        return {"user_id": user_id, "notes": notes, "figures": figures, "profile": profiles.get(user_id)}


app = create_app()
