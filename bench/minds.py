"""Memories and scheduled agents for a service that is measured: many contexts, many schedules, many runs of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from bench.lists import TASKS
from bench.memory import notes
from rota import Rota
from rota.agents import AGENT, AgentSettings, agents_of, install_agents
from rota.clock import HOUR, MINUTE, Instant
from rota.core.task import NewTask, Past, Settlement, Task, TaskStatus, Transition
from rota.database.tables.agents import provenance
from rota.group_commit import MAX_GROUP
from rota.memory import MemorySettings, NewContext, Owner, Scope, install_memory, memory_of
from rota.memory.vectors import to_bytes
from rota.stores.base import ClaimRequest, Snapshot, Store
from rota.triggers import Interval, encode_trigger

__all__ = ["AGENT_SCHEDULE", "CONTEXTS", "GROUP", "RUNS", "SCHEDULES", "TALKER", "fill_minds"]

CONTEXTS: Final = TASKS // 10
RUNS: Final = TASKS // 50
SCHEDULES: Final = 1_000
GROUPS: Final = 50
GROUP: Final = "team7"
AGENT_SCHEDULE: Final = "brief0007"
TALKER: Final = "talker"
"""Who has said a tenth of everything."""


async def fill_minds(url: str, folder: Path) -> None:
    """Put all of it beside the tasks that are there."""
    app = Rota(url)
    install_memory(app)
    install_agents(app, AgentSettings(groups_dir=folder / "groups"))
    async with app:
        store = await app.store()
        await _remember(app)
        await _schedule(app, store, await store.now())
        await _run(store)


async def _remember(app: Rota) -> None:
    memory = memory_of(app)
    contexts = await memory.contexts()
    texts = notes(1_000)
    vectors = to_bytes(memory.embedder.embed(texts))
    for number in range(CONTEXTS // len(texts)):
        owner = Owner(f"user{number:07}" if number % 10 else TALKER)
        said = [NewContext(text=f"{text} Time {number}.") for text in texts]
        await contexts.add(owner, said, embedder=memory.embedder.name, embeddings=vectors)
    memory.settings = MemorySettings(settling_ms=-MINUTE)
    await memory.compress(Scope(TALKER))
    await memory.count()


async def _schedule(app: Rota, store: Store, now: Instant) -> None:
    groups = await agents_of(app).groups()
    for number in range(GROUPS):
        await groups.add(f"team{number}", is_main=not number)
    tasks = [_agent(number, now) for number in range(SCHEDULES)]
    rows = [
        {
            "id": task.key,
            "folder": task.owner,
            "made_by": "bench",
            "depth": 0,
            "approval": "none",
            "digest": "",
            "created_at": now,
            "last_result": "It is done. " * 15,
        }
        for task in tasks
    ]
    await (await app.database()).write(lambda connection: connection.execute(provenance.insert(), rows))
    for start in range(0, SCHEDULES, MAX_GROUP):
        some = tasks[start : start + MAX_GROUP]
        await store.restore([Snapshot(identity=task.identity, task=task, past=Past()) for task in some])


def _agent(number: int, now: Instant) -> Task:
    folder = f"team{number % GROUPS}"
    return Task(
        task_type=AGENT,
        key=f"brief{number:04}",
        status=TaskStatus.PENDING,
        scheduled_at=now + HOUR,
        created_at=now,
        updated_at=now,
        owner=folder,
        serial=folder,
        payload=json.dumps({"group_folder": folder, "chat_jid": folder, "prompt": "Tell me what has changed. " * 8}),
        trigger=encode_trigger(Interval(HOUR, now)),
        trigger_mode="interval",
        next_fire=now + HOUR,
    )


async def _run(store: Store) -> None:
    """Runs of agents that were scheduled once, and are over."""
    for start in range(0, RUNS, MAX_GROUP):
        await store.schedule([NewTask(task_type=AGENT, key=f"once{start + n:06}") for n in range(MAX_GROUP)])
        request = ClaimRequest(wants=[(AGENT, MAX_GROUP)], instance="bench", claim_id=f"a{start}", lease_ms=HOUR)
        claimed = (await store.claim(request)).tasks
        await store.settle(
            [
                Settlement(
                    task_type=AGENT,
                    key=task.key,
                    token=task.token,
                    transition=Transition.COMPLETE,
                    result="It is done.",
                )
                for task in claimed
            ]
        )
