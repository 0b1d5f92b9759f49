"""A store with a believable past: several types, users and schedules, an hour of runs, failures, alerts, actions.

Everything goes through the store's own verbs, told what time it was.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence

from rota import Rota
from rota.access import Principal, Role
from rota.app.operator import Operator
from rota.clock import HOUR, MINUTE, SECOND, Instant
from rota.core.history import Slice, of_run
from rota.core.task import Activity, Identity, NewTask, Settlement, Task, Transition
from rota.database.tables import alerts as alert_tables
from rota.errors import RotaError
from rota.keys import UserKeyBuilder, UserKeyConfig
from rota.stores.base import Beat, ClaimRequest, Store

USERS = ("ada", "grace", "linus", "margaret", "edsger", "barbara", "donald", "radia", "tim", "hedy")
ERRORS = (
    ("error", "ConnectError: the embedding service did not answer within 10 s"),
    ("timeout", "The run took longer than 5m and was ended."),
    ("error", "ValueError: 'context' is missing in record 4711"),
    ("rate_limited", "429 Too Many Requests: slow down, retry after 30 s"),
)
SCHEDULES: Sequence[Mapping[str, str]] = (
    {"id": "morning-brief", "type": "agent", "cron": "0 9 * * 1-5", "timezone": "Europe/Berlin", "owner": "ada"},
    {"id": "standup-notes", "type": "agent", "cron": "30 9 * * 1-5", "timezone": "America/New_York", "owner": "grace"},
    {"id": "weekly-report", "type": "agent", "cron": "0 17 * * 5", "timezone": "Asia/Shanghai", "owner": "ada"},
    {"id": "inbox-watch", "type": "agent", "every": "15m", "owner": "radia"},
    {"id": "price-check", "type": "agent", "every": "1h30m", "owner": "tim"},
    {"id": "month-end", "type": "report", "cron": "0 6 L * *", "timezone": "UTC", "owner": "finance"},
    {"id": "heartbeat", "type": "report", "every": "1m", "owner": "ops"},
)


def demo_app(url: str) -> Rota:
    """Types that look like somebody's application."""
    app = Rota(url, max_concurrent=4)

    @app.on_activity(after="30m", cooldown="defer", description="Merge what a user said into their memory")
    async def memory_compression(user_id: str) -> str:
        return f"merged the memory of {user_id}"

    @app.on_activity(after="1h", cooldown="defer", description="Refresh a user's embeddings")
    async def embedding_refresh(user_id: str) -> str:
        return f"refreshed {user_id}"

    @app.task(description="Run an agent's prompt", max_retries=2)
    async def agent(payload: object) -> object:
        return payload

    @app.task(description="Build and send a report", max_retries=1)
    async def report(payload: object) -> object:
        return payload

    @app.task(
        name="detail_batch", description="One slice of a batch", max_retries=0, rate_limit={"rate": 50, "burst": 50}
    )
    async def detail_batch(payload: object) -> object:
        return payload

    @app.every("24h", description="Remove what is past its retention", run_on_start=False)
    async def data_cleanup() -> None: ...

    return app


async def fill(app: Rota, *, seed: int = 7) -> None:
    """A past for a connected app."""
    chance = random.Random(seed)
    store = await app.store()
    now = await store.now()
    await _minutes(store, now, chance)
    await _schedules(app, store, now, chance)
    await _users(store, now, chance)
    await _batches(store, now, chance)
    await _instances(store, now)
    await _alerts(app, now)
    await _actions(app)


async def _minutes(store: Store, now: Instant, chance: random.Random) -> None:
    slices: list[Slice] = []
    for minute in range(62):
        at = now - minute * MINUTE
        wave = 1.0 + 0.5 * ((minute % 23) / 23) + (1.6 if 18 <= minute <= 22 else 0)
        for task_type, mode, per in (
            ("memory_compression", "user_activity", 22), ("agent", "cron", 5), ("detail_batch", "once", 34),
            ("embedding_refresh", "user_activity", 9), ("report", "interval", 2),
        ):  # fmt: skip
            for _ in range(int(per * wave * chance.uniform(0.6, 1.3))):
                bad = chance.random() < (0.16 if 19 <= minute <= 21 else 0.025)
                reason = (
                    chance.choice(["error", "error", "timeout", "lost", "cancelled", "rate_limited"]) if bad else None
                )
                late = int(chance.lognormvariate(2.4 if minute % 20 else 6.0, 1.1))
                took = int(chance.lognormvariate(5.5, 1.2))
                slices.append(of_run(task_type, mode, at, reason=reason, late_ms=late, took_ms=took))
    await store.record(slices)


async def _schedules(app: Rota, store: Store, now: Instant, chance: random.Random) -> None:
    for given in SCHEDULES:
        settings = {name: value for name, value in given.items() if name not in ("id", "type")}
        payload = {
            "prompt": f"Write the {given['id'].replace('-', ' ')}",
            "tone": "calm",
            "sources": ["mail", "calendar"],
        }
        await app.schedules.upsert(given["id"], type=given["type"], payload=payload, **settings)  # pyright: ignore[reportArgumentType] -- texts, by name
        identity = Identity(given["type"], given["id"])
        for run in range(22):
            await _ran(
                store, identity, now - (22 - run) * 2 * MINUTE, chance, failing=chance.random() < 0.12, manual=True
            )
    await store.pause([Identity("agent", "weekly-report")])


async def _ran(
    store: Store, identity: Identity, at: Instant, chance: random.Random, *, failing: bool, manual: bool = False
) -> Task | None:
    """One run of a task, at a time of the past."""
    if manual:
        await store.run_now([identity], now=at)
    request = ClaimRequest(
        wants=[(identity.task_type, 1)], instance="worker-a-1c9e", claim_id=f"{identity}-{at}", lease_ms=10 * MINUTE
    )
    claimed = await store.claim(request, now=at)
    if not claimed.tasks:
        return None
    task = claimed.tasks[0]
    took = int(chance.lognormvariate(7.5, 1.0))
    reason, error = chance.choice(ERRORS)
    settlement = Settlement(
        task_type=task.task_type,
        key=task.key,
        token=task.token,
        transition=Transition.FAIL if failing else Transition.COMPLETE,
        duration_ms=took,
        reason=reason if failing else None,
        error=error if failing else None,
        result=None if failing else json.dumps({"merged": chance.randint(1, 40), "kept": chance.randint(100, 900)}),
    )
    await store.settle([settlement], now=at + took)
    return task


async def _users(store: Store, now: Instant, chance: random.Random) -> None:
    keys = UserKeyBuilder(UserKeyConfig())
    for place, user in enumerate(USERS * 2):
        task_type = "memory_compression" if place < len(USERS) else "embedding_refresh"
        interval = 30 * MINUTE if place < len(USERS) else HOUR
        device = chance.choice(["phone", "laptop"])
        activity = Activity(
            task_type=task_type,
            key=keys.build_key(user, device, None),
            user_id=user,
            device_id=device,
            agent_id="default",
        )
        at = now - interval - chance.randint(5, 40) * MINUTE
        await store.touch([activity], now=at)
        for _ in range(chance.randint(0, 5)):
            await store.touch([activity], now=at + chance.randint(1, 300) * SECOND)
        await _ran(store, activity.identity, at + interval + chance.randint(1, 900), chance, failing=place % 7 == 3)
        if place % 3:
            await store.touch([activity], now=now - chance.randint(10, 600) * SECOND)


async def _batches(store: Store, now: Instant, chance: random.Random) -> None:
    for place in range(36):
        at = now - (50 - place) * MINUTE
        payload = json.dumps({"batch": f"b-{place // 12}", "index": place % 12, "style": "nordic", "items": 5})
        identity = Identity("detail_batch", f"b-{place // 12}:{place % 12}")
        await store.schedule([NewTask(task_type="detail_batch", key=identity.key, payload=payload, priority=7)], now=at)
        await _ran(store, identity, at + 40, chance, failing=place % 4 == 1)
    due = now + 20 * MINUTE
    for place in range(24):
        await store.schedule(
            [NewTask(task_type="detail_batch", key=f"b-9:{place}", scheduled_at=due + place * SECOND, user_id="ada")]
        )


async def _instances(store: Store, now: Instant) -> None:
    types = ("memory_compression", "embedding_refresh", "agent", "report", "detail_batch", "data_cleanup")
    for name, host, ago in (
        ("worker-a-1c9e", "atlas", 0),
        ("worker-b-77f0", "boreas", 1),
        ("worker-c-02ab", "calypso", 90),
    ):
        beat = Beat(instance=name, host=host, pid=4000 + ago, started_at=now - 3 * HOUR, types=types, running=ago % 3)
        await store.tick(beat, now=now - ago * SECOND)


async def _alerts(app: Rota, now: Instant) -> None:
    database = await app.database()
    rows = (
        ("dead_letters", "detail_batch", "firing", "9", "9 tasks of detail_batch have failed for good.", 12),
        ("failure_rate", "agent", "firing", "21%", "21 of 100 runs of agent failed within 5m (21%).", 40),
        ("failure_rate", "agent", "resolved", "2%", "2 of 100 runs of agent failed within 5m (2%).", 25),
    )
    for rule, subject, state, value, summary, ago in rows:
        entry = {"at": now - ago * MINUTE, "rule": rule, "subject": subject, "state": state, "value": value}
        statement = alert_tables.history.insert().values(**entry, summary=summary)
        await database.write(lambda connection, statement=statement: connection.execute(statement))
    firing = alert_tables.states.insert().values(
        rule="dead_letters", subject="detail_batch", state="firing", since_at=now - 12 * MINUTE, seen_at=now, value="9"
    )
    await database.write(lambda connection: connection.execute(firing))


async def _actions(app: Rota) -> None:
    operator = Operator(app, Principal("token:5ad0c1f2", "on call", Role.OPERATOR, "dashboard"))
    await operator.override("detail_batch", {"concurrency": 4})
    await operator.override("embedding_refresh", {"frozen": True})
    await operator.apply(Transition.PAUSE, Identity("agent", "price-check"))
    await operator.apply(Transition.RESUME, Identity("agent", "price-check"))
    try:
        await operator.apply(Transition.REDRIVE, Identity("agent", "price-check"))
    except RotaError:
        await asyncio.sleep(0)  # refused, and the log says so
