"""A week of users who never stop: everything is compressed in time; by flaw 13's rule half of it never is."""

from __future__ import annotations

import asyncio
import os
import random

import pytest
from sqlalchemy import func, select

from rota import Rota
from rota.clock import DAY, MINUTE, SECOND, Instant
from rota.database import Database
from rota.database.tables.memory import contexts as table
from rota.memory import ChatPush, Message, State, install_memory
from rota.memory.compression import SETTLING_MS
from rota.memory.types import MEMORY_COMPRESSION
from rota.stores.memory import MemoryStore
from rota.testing import FakeClock

USERS = 50 if os.environ.get("ROTA_FUZZ") else 6
"""Twenty show what fifty do, in less than half of the time."""
DAYS = 7
INTERVAL_MS = MEMORY_COMPRESSION.interval_ms
TICK_MS = INTERVAL_MS // 3


# Thousands of compressions: half a minute of a core, and more on one that is shared.
@pytest.mark.timeout(900)
async def test_every_context_is_compressed_in_time(clock: FakeClock) -> None:
    """Once an interval, each user: what waits has settled less than an interval ago."""
    # Nobody counts, for that would also find whoever was forgotten.
    tasks = {"statistics_update": {"enabled": False}}
    configuration = {"database": "sqlite:///:memory:", "scheduler": {"tasks": tasks}}
    app = Rota(configuration, store=MemoryStore(clock), clock=clock)
    memory = install_memory(app)
    chance = random.Random(7)
    captured = 0
    oldest_ms = 0
    async with app:
        database = await app.database()
        for tick in range(DAYS * DAY // TICK_MS):
            # Everybody is active in every interval, a third of them in each tick.
            active = [user for user in range(USERS) if (tick + user) % 3 == 0 or chance.random() < 0.05]
            pushes = [ChatPush(messages=[Message(content=note(chance))], user_id=f"u{user}") for user in active]
            await asyncio.gather(*(memory.push(push) for push in pushes))
            captured += len(pushes)
            await memory.drain()
            await app.run_until_idle()
            if tick % 7 == 0:
                oldest_ms = max(oldest_ms, await oldest_fresh_ms(database, clock.now()))
            clock.advance(TICK_MS / SECOND)

        # Silence: whoever spoke last is compressed too, without another word.
        for _ in range(2):
            clock.advance(INTERVAL_MS / SECOND)
            await app.run_until_idle()
        rows = await database.read(
            lambda connection: connection.execute(
                select(table.c.state, func.count()).where(table.c.has_compression == 0).group_by(table.c.state)
            ).all()
        )
        counts = {row[0]: row[1] for row in rows}
        assert counts.get(State.FRESH, 0) == 0
        assert sum(counts.values()) == captured > USERS * DAYS * DAY // INTERVAL_MS
        assert 0 < oldest_ms <= INTERVAL_MS + SETTLING_MS
        compressions = sum([(await memory.figures(f"u{user}")).compressions for user in range(USERS)])
        assert compressions <= USERS * (DAYS * DAY // INTERVAL_MS + 2)


async def oldest_fresh_ms(database: Database, now: Instant) -> int:
    statement = select(func.min(table.c.captured_at)).where(table.c.state == State.FRESH)
    oldest = await database.read(lambda connection: connection.execute(statement).scalar())
    return 0 if oldest is None else now - oldest


def note(chance: random.Random) -> str:
    things = ("train to Berlin leaves at", "sister lives in Oslo since", "rent is due on day", "dog eats cups:")
    return f"{chance.choice(('My', 'The'))} {chance.choice(things)} {chance.randrange(30)}."


async def test_by_the_rule_of_flaw_13_half_is_never_compressed(clock: FakeClock) -> None:
    """Activity within an interval of the last run is dropped, and a run takes [now - interval - 5 min, now - 5 min]."""
    app = Rota(store=MemoryStore(clock), clock=clock)
    said: list[Instant] = []
    compressed: set[Instant] = set()

    @app.on_activity(after=INTERVAL_MS / SECOND, cooldown="skip", on_busy="ignore")
    async def memory_compression(user_id: str) -> None:
        until = clock.now() - 5 * MINUTE
        compressed.update(at for at in said if until - INTERVAL_MS <= at <= until)

    async with app:
        for _ in range(DAYS * DAY // (2 * MINUTE)):
            said.append(clock.now())
            await memory_compression.touch(user_id="u1")
            await app.run_until_idle()
            clock.advance("2m")
    assert 0.45 < 1 - len(compressed) / len(said) < 0.55
