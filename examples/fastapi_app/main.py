"""A chat application of its own that keeps its users' memory with Rota.

    python examples/fastapi_app/main.py
    curl -X POST 'http://127.0.0.1:8000/messages?user=ada' -H 'content-type: text/plain' -d 'hello'

Every message touches the user's upkeep; two seconds after the first one their memory is summed up, once. The dashboard
is at /rota: its first token is in `chat.token`.
"""

# ruff: noqa: T201 - an example talks to people

from __future__ import annotations

import os
from collections import defaultdict
from typing import Annotated

import uvicorn
from fastapi import Body, Depends, FastAPI

from rota import Rota
from rota.integrations.fastapi import RotaLifespan, get_rota, mount

rota = Rota("sqlite:///chat.db")
api = FastAPI(title="Chat", lifespan=RotaLifespan(rota))
mount(api, rota, "/rota", token_file="chat.token")  # noqa: S106 - the name of a file

messages: defaultdict[str, list[str]] = defaultdict(list)
memories: dict[str, str] = {}

Rotas = Annotated[Rota, Depends(get_rota)]


@rota.on_activity(after="2s", cooldown="defer")
async def memory_compression(user_id: str) -> str:
    memories[user_id] = f"{user_id} has said {len(messages[user_id])} things, last: {messages[user_id][-1]}"
    print(memories[user_id], flush=True)
    return memories[user_id]


@api.post("/messages")
async def say(user: str, text: Annotated[str, Body(media_type="text/plain")], rota: Rotas) -> dict[str, str]:
    """Somebody says something: answered at once, remembered a little later."""
    messages[user].append(text)
    touch = await rota.touch("memory_compression", user)
    return {"answer": f"You said: {text}", "upkeep": touch.outcome}


@api.get("/memories/{user}")
async def memory(user: str) -> dict[str, str | None]:
    """What is remembered of somebody."""
    return {"memory": memories.get(user)}


if __name__ == "__main__":
    uvicorn.run(api, port=int(os.environ.get("PORT", "8000")), log_level="warning")
