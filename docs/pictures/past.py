"""Two hours that really were worked through: the handlers ran, on a clock that was moved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from docs.pictures.assistant import Pace, Payments, assistant
from rota import Rota
from rota.agents import Caller, agents_of
from rota.clock import MINUTE, SystemClock
from rota.memory import ChatPush, Message, memory_of
from rota.testing import FakeClock

__all__ = ["USERS", "live_through"]

USERS: Final = ("ada", "bao", "cem", "dia", "eli", "fay", "gus", "hua")
MINUTES: Final = 120
AWAY: Final = range(74, 80)
"""Minutes in which the payment provider is away."""
PERSON: Final = Caller.person("ada")
SAID: Final[Sequence[str]] = (
    "I love hiking in the mountains.",
    "I really love hiking in the mountains!",
    "My sister Mira lives in Oslo, and I visit her every June.",
    "Please write to me in short sentences.",
    "The tent should cost less than 200 EUR.",
)


async def live_through(url: str, folder: Path) -> None:
    """Fill a store with the last two hours of the application."""
    now = SystemClock().now()
    clock = FakeClock(now - MINUTES * MINUTE)
    pace, payments = Pace(clock), Payments()
    app = assistant(url, folder, pace, payments, clock)
    async with app:
        await _schedules(app)
        for minute in range(MINUTES):
            clock.set(max(clock.now(), now - (MINUTES - minute) * MINUTE))
            payments.is_away = minute in AWAY
            await _what_comes_in(app, pace, minute)
            await app.run_until_idle()
    clock.set(now)


async def _what_comes_in(app: Rota, pace: Pace, minute: int) -> None:
    """One minute of users: activity, orders, and a client that sends what nobody expected."""
    chance = pace.chance
    for user in chance.sample(USERS, k=chance.randint(1, 4)):
        await app.touch("profile_refresh", user)
    for place in range(chance.randint(1, 3) + (minute % 30) // 10):
        order = 4_000 + minute * 10 + place
        cents = 640_00 if chance.random() < 0.012 else chance.randint(4_00, 90_00)
        await app.schedule(
            "send_invoice", {"order": order, "cents": cents}, key=f"order-{order}", user_id=chance.choice(USERS)
        )
    if minute % 4 == 1:
        field = "text" if minute % 24 == 5 else "content"
        messages = [{"role": "user", field: sentence} for sentence in SAID]
        await app.schedule("summarise", {"messages": messages}, key=f"chat-{minute}", user_id=chance.choice(USERS))


async def _schedules(app: Rota) -> None:
    await app.schedules.upsert(
        "renewals", type="send_invoice", cron="0 6 1 * *", timezone="Europe/Berlin", payload={"order": 1, "cents": 900}
    )
    await app.schedules.upsert(
        "weekly-digest",
        type="summarise",
        cron="0 17 * * 5",
        timezone="America/New_York",
        payload={"messages": []},
        owner="bao",
    )
    await app.schedules.upsert(
        "inbox", type="summarise", every="15m", payload={"messages": [{"content": "hello"}]}, owner="ada"
    )
    agents = agents_of(app)
    groups = await agents.groups()
    await groups.add("main", name="Main", is_main=True, timezone="Europe/Berlin")
    await groups.add("family", name="Family", timezone="Europe/Berlin")
    daily = {"schedule_type": "cron", "schedule_value": "0 9 * * 1-5"}
    await agents.schedule_task(PERSON, group="main", prompt="Tell me what changed since yesterday.", **daily)
    await agents.schedule_task(
        PERSON, group="family", prompt="Is the tent below 200 EUR?", schedule_type="interval", schedule_value="30m"
    )
    await agents.schedule_task(
        Caller.agent("family"), prompt="Remind everybody of Mira's birthday.", schedule_type="cron",
        schedule_value="0 18 11 6 *",
    )  # fmt: skip
    memory = memory_of(app)
    await memory.push(ChatPush(user_id="ada", messages=[Message(content=text, role="user") for text in SAID]))
