"""An application with memories and scheduled agents, and a given text in every field of theirs that a page shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rota import Rota
from rota.agents import Agents, AgentSettings, Caller, Rules, agents_of, install_agents
from rota.agents.schedules.origins import Origins
from rota.core.task import Identity
from rota.database.tables.agents import running
from rota.memory import ChatPush, DocumentPush, MemorySettings, Message, ScreenshotPush, install_memory, memory_of
from rota.stores.base import ClaimRequest

ZONES = ("Europe/Berlin", "America/New_York", None)
DAILY = {"schedule_type": "cron", "schedule_value": "0 9 * * 1-5"}
HOURLY = {"schedule_type": "interval", "schedule_value": "1h"}


def minds_app(url: str, folder: Path) -> Rota:
    """Memories, and agents that no quota keeps from filling a page."""
    app = Rota(url)
    install_memory(app)
    rules = Rules(max_schedules=10_000, max_waiting=10_000)
    install_agents(app, AgentSettings(groups_dir=folder, isolation="process", uid_base=None, rules=rules))
    return app


async def fill_minds(app: Rota, texts: Sequence[str]) -> None:
    """A user and a group of agents for each text; the first user has said all of them."""
    await _remember(app, texts)
    await _schedule(app, texts)


async def _remember(app: Rota, texts: Sequence[str]) -> None:
    memory = memory_of(app)
    everything = " ".join(texts)
    for text in texts:
        said = [
            Message(content=f"{text} {ending}", role="user", keywords=[text[:100]]) for ending in ("today", "today!")
        ]
        await memory.push(ChatPush(user_id=texts[0], device_id=text[:100], agent_id=text[:100], messages=said))
        await memory.push(DocumentPush(user_id=text, title=text, text=everything))
        await memory.push(ScreenshotPush(user_id=text, text=text, window=text, app=text, path=text))
    memory.settings = MemorySettings(settling_ms=-60_000)  # what was said just now has settled
    for text in texts:
        await memory.compress(memory.scope_of(texts[0], text[:100], text[:100]))
    await memory.drain()
    await memory.count()


async def _schedule(app: Rota, texts: Sequence[str]) -> None:
    agents, origins = agents_of(app), Origins(await app.database())
    groups = await agents.groups()
    for place, text in enumerate(texts):
        folder = f"group-{place}"
        await groups.add(folder, name=text, chat_jid=text, is_main=not place, timezone=ZONES[place % len(ZONES)])
        person = Caller.person(text)
        made = await agents.schedule_task(person, group=folder, prompt=text, script=text, **DAILY)
        await origins.set(made.id, last_result=text, held=text, made_by=text)
        await agents.pause_task(person, made.id)
        await agents.schedule_task(Caller.agent(folder), prompt=text, script=text, **HOURLY)
        await _talk(app, agents, folder, text)
        await agents.switch_off(person, folder, text)


async def _talk(app: Rota, agents: Agents, folder: str, text: str) -> None:
    """An agent of the group runs, has said the text, and was told to end by somebody of that name."""
    made = await agents.schedule_task(Caller.person(text), group=folder, prompt=text, **HOURLY)
    await agents.run_task(Caller.person(text), made.id)
    store = await app.store()
    request = ClaimRequest(wants=[("agent", 1)], instance="i", claim_id=made.id, lease_ms=3_600_000)
    (task,) = (await store.claim(request)).tasks
    assert task.identity == Identity("agent", made.id)
    now = await store.now()
    row = {
        "id": made.id,
        "folder": folder,
        "token": task.token,
        "started_at": now - 65_000,
        "seen_at": now,
        "output": text,
    }
    await (await app.database()).write(lambda connection: connection.execute(running.insert().values(**row)))
    await agents.stop_run(Caller.person(text), made.id)
