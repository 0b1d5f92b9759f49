"""Upkeep: users are active, and a little later, once for each of them, something is done.

    python examples/upkeep.py

Three users send twelve messages. Each user's memory is compressed once, one second after their first message, and
their profile is updated when that is done.
"""

# ruff: noqa: T201 - an example talks to people

from __future__ import annotations

import asyncio

from rota import Rota

app = Rota("sqlite:///upkeep.db")
updated: asyncio.Queue[str] = asyncio.Queue()


@app.on_activity(after="1s", timeout="5m", max_retries=3, cooldown="defer")
async def memory_compression(user_id: str) -> None:
    print(f"compressing the memory of {user_id}")


@app.after("memory_compression")
async def profile_update(user_id: str) -> None:
    print(f"updating the profile of {user_id}")
    updated.put_nowait(user_id)


async def main() -> None:
    users = ("ada", "bob", "cleo")
    async with app:
        for message in range(4):
            for user in users:
                touch = await memory_compression.touch(user_id=user)
                print(f"{user} sends message {message + 1}: {touch.outcome}")
        await app.start()
        for _ in users:
            await updated.get()


if __name__ == "__main__":
    asyncio.run(main())
