"""Two instances on one store: each user's memory is compressed once, by one of them."""

from __future__ import annotations

import asyncio
from collections import Counter

from rota import Rota
from rota.memory import ChatPush, Contexts, Memory, Message, Scope, State, install_memory
from rota.testing import FakeClock

USERS = 1_000
SAME = ("I love hiking in the mountains.", "I really love hiking in the mountains!")


def instance(url: str, clock: FakeClock) -> tuple[Rota, Memory]:
    app = Rota({"store": url, "scheduler": {"executor": {"max_concurrent": 50}}}, clock=clock)
    return app, install_memory(app)


async def test_a_thousand_users_at_once(sqlite_url: str, clock: FakeClock) -> None:
    (one, memory), (other, other_memory) = instance(sqlite_url, clock), instance(sqlite_url, clock)
    async with one, other:
        for user in range(USERS):
            messages = [Message(content=text) for text in SAME]
            speaks_to = memory if user % 2 else other_memory
            await speaks_to.push(ChatPush(messages=messages, user_id=f"u{user}"))
        await asyncio.gather(memory.drain(), other_memory.drain())
        for _ in range(2):
            clock.advance("30m")
            await asyncio.gather(one.run_until_idle(), other.run_until_idle())

        runs: Counter[str] = Counter()
        instances: set[str | None] = set()
        cursor = None
        while True:
            page = await one.runs("memory_compression", limit=500, cursor=cursor)
            runs.update(run.user_id or "" for run in page.items)
            instances |= {run.instance for run in page.items}
            cursor = page.cursor
            if cursor is None:
                break
        assert len(runs) == USERS
        assert set(runs.values()) == {1}
        assert len(instances) == 2
        for user in range(0, USERS, 50):
            page_of_user = await Contexts(await one.database()).page(Scope(f"u{user}"))
            assert [row.state for row in page_of_user.contexts] == [State.KEPT, State.MERGED, State.MERGED]
