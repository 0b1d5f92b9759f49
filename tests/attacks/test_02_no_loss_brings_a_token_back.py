"""2: Redis loses what it had, and the next token is higher all the same; whoever holds an older one is refused."""

from __future__ import annotations

from tests.records import put_field

from rota.clock import SystemClock
from rota.core.outcome import Answer
from rota.core.task import NewTask, Renewal, Settlement, Task, Transition
from rota.core.task_type import TaskType, TriggerMode
from rota.core.token import floor_at
from rota.stores import open_store
from rota.stores.base import ClaimRequest, Store
from rota.testing.redis_servers import RedisServer
from rota.triggers import Interval, encode_trigger


async def _claimed(store: Store, claim_id: str, *, recurring: bool = False) -> Task:
    now = await store.now()
    trigger = encode_trigger(Interval(3_600_000, anchor_at=now)) if recurring else None
    await store.put_types([TaskType(name="work", trigger_mode=TriggerMode.ONCE)])
    await store.schedule([NewTask(task_type="work", key="k", trigger=trigger, scheduled_at=now)])
    claimed = await store.claim(ClaimRequest(wants=[("work", 1)], instance="i", claim_id=claim_id, lease_ms=10_000))
    (task,) = claimed.tasks
    return task


async def test_after_everything_was_lost_tokens_go_on_above(redis: RedisServer, redis_url: str) -> None:
    """By the script, and by the slow way, which a task that recurs takes."""
    store = open_store(redis_url)
    await store.open()
    tokens: list[int] = []
    for number in range(6):
        tokens.append((await _claimed(store, f"c{number}", recurring=number % 2 == 1)).token)
        redis.ask("FLUSHALL")
    assert tokens == sorted(set(tokens))
    assert tokens[0] > floor_at(SystemClock().now() - 600_000)
    await store.close()


async def test_a_run_from_before_the_loss_is_refused(redis: RedisServer, redis_url: str) -> None:
    store = open_store(redis_url)
    await store.open()
    old = await _claimed(store, "before")
    redis.ask("FLUSHALL")
    new = await _claimed(store, "after")
    assert [r.answer for r in store.renew([Renewal("work", "k", old.token)], 10_000)] == [Answer.STALE]
    stale = Settlement(task_type="work", key="k", token=old.token, transition=Transition.COMPLETE)
    assert [reply.answer for reply in await store.settle([stale])] == [Answer.STALE]
    good = Settlement(task_type="work", key="k", token=new.token, transition=Transition.COMPLETE)
    assert [reply.answer for reply in await store.settle([good])] == [Answer.OK]
    await store.close()


async def test_the_counter_alone_is_lost(redis: RedisServer, redis_url: str) -> None:
    """The task's own last token still counts, also with a clock that is behind."""
    store = open_store(redis_url)
    await store.open()
    task = await _claimed(store, "one")
    release = Settlement(task_type="work", key="k", token=task.token, transition=Transition.RELEASE)
    await store.settle([release])
    redis.ask("DEL", "scheduler:seq:{work}")
    put_field(redis, "work", "k", "last_token", task.token + 10**9)
    request = ClaimRequest(wants=[("work", 1)], instance="i", claim_id="two", lease_ms=10_000)
    (again,) = (await store.claim(request)).tasks
    assert again.token == task.token + 10**9 + 1
    assert int(str(redis.ask("GET", "scheduler:seq:{work}"))) == again.token
    await store.close()
