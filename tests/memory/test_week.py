"""A week of fifty users who never stop: everything is compressed in time; by the seeds' rule half of it never is."""

from __future__ import annotations

import random

import pytest
from sqlalchemy import func, select

from rota import Rota
from rota.clock import DAY, HOUR, MINUTE, SECOND, Instant
from rota.database import Database
from rota.database.tables.memory import contexts as table
from rota.memory import ChatPush, Message, State, install_memory
from rota.memory.compression import SETTLING_MS
from rota.memory.types import MEMORY_COMPRESSION
from rota.stores.memory import MemoryStore
from rota.testing import FakeClock

DAYS = 7
INTERVAL_MS = 6 * HOUR


@pytest.mark.parametrize(
    ("users", "days", "interval_ms"),
    [
        # A compression costs 7 ms of a core. Fifty users for a week at the default interval would be 16,800 of them,
        # two minutes; at six hours it is a twelfth. The default interval is there with fewer users and days: what is
        # new with it is that the settling lag is a sixth of it and not a seventieth.
        pytest.param(50, DAYS, INTERVAL_MS, id="a week of fifty users"),
        pytest.param(8, 1, MEMORY_COMPRESSION.interval_ms, id="a day at the default interval"),
    ],
)
async def test_every_context_is_compressed_in_time(clock: FakeClock, users: int, days: int, interval_ms: int) -> None:
    """Once an interval, each user: what waits has settled less than an interval ago."""
    configuration = {
        "database": "sqlite:///week.db?synchronous=OFF",
        "scheduler": {"tasks": {"memory_compression": {"interval": interval_ms / SECOND}}},
    }
    tick_ms = interval_ms // 3
    app = Rota(configuration, store=MemoryStore(clock), clock=clock)
    memory = install_memory(app)
    chance = random.Random(7)
    captured = 0
    oldest_ms = 0
    async with app:
        database = await app.database()
        for tick in range(days * DAY // tick_ms):
            for user in range(users):
                # Everybody is active in every interval, a third of them in each tick.
                if (tick + user) % 3 == 0 or chance.random() < 0.05:
                    await memory.push(ChatPush(messages=[Message(content=note(chance))], user_id=f"u{user}"))
                    captured += 1
            await memory.drain()
            await app.run_until_idle()
            if tick % 7 == 0:
                oldest_ms = max(oldest_ms, await oldest_fresh_ms(database, clock.now()))
            clock.advance(tick_ms / SECOND)

        # Silence: whoever spoke last is compressed too, without another word.
        for _ in range(2):
            clock.advance(interval_ms / SECOND)
            await app.run_until_idle()
        rows = await database.read(
            lambda connection: connection.execute(
                select(table.c.state, func.count()).where(table.c.has_compression == 0).group_by(table.c.state)
            ).all()
        )
        counts = {row[0]: row[1] for row in rows}
        assert counts.get(State.FRESH, 0) == 0
        assert sum(counts.values()) == captured > users * days * DAY // interval_ms
        assert oldest_ms <= interval_ms + SETTLING_MS
        compressions = sum([(await memory.figures(f"u{user}")).compressions for user in range(users)])
        assert compressions <= users * (days * DAY // interval_ms + 2)


async def oldest_fresh_ms(database: Database, now: Instant) -> int:
    statement = select(func.min(table.c.captured_at)).where(table.c.state == State.FRESH)
    oldest = await database.read(lambda connection: connection.execute(statement).scalar())
    return 0 if oldest is None else now - oldest


def note(chance: random.Random) -> str:
    things = ("train to Berlin leaves at", "sister lives in Oslo since", "rent is due on day", "dog eats cups:")
    return f"{chance.choice(('My', 'The'))} {chance.choice(things)} {chance.randrange(30)}."


async def test_by_the_seeds_rule_half_is_never_compressed(clock: FakeClock) -> None:
    """Activity within an interval of the last run is dropped, and a run takes [now - interval - 5 min, now - 5 min]."""
    app = Rota(store=MemoryStore(clock), clock=clock)
    said: list[Instant] = []
    compressed: set[Instant] = set()

    @app.on_activity(after="6h", cooldown="skip", on_busy="ignore")
    async def memory_compression(user_id: str) -> None:
        until = clock.now() - 5 * MINUTE
        compressed.update(at for at in said if until - INTERVAL_MS <= at <= until)

    async with app:
        for _ in range(DAYS * DAY // (5 * MINUTE)):
            said.append(clock.now())
            await memory_compression.touch(user_id="u1")
            await app.run_until_idle()
            clock.advance("5m")
    assert 0.45 < 1 - len(compressed) / len(said) < 0.55
