"""Scripts and units of work are two ways to one place: what one writes, the other goes on with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from rota.clock import HOUR, MINUTE
from rota.core.outcome import Answer, ScheduleOutcome
from rota.core.task import Identity, NewTask, Settlement, TaskStatus, Transition
from rota.core.task_type import TaskType, TriggerMode
from rota.errors import StoreUnavailable
from rota.runtime.health import Pulse
from rota.runtime.reconciler import Reconciler
from rota.seeds import RedisTaskScheduler, get_scheduler, init_scheduler, set_scheduler
from rota.stores.redis import RedisStore
from rota.stores.redis.client import Server
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import WORK, World, hourly
from rota.testing.redis_servers import RedisServer, redis_server


@pytest.fixture
async def stores(redis_url: str, clock: FakeClock) -> AsyncIterator[tuple[RedisStore, RedisStore]]:
    made = RedisStore(redis_url, clock=clock), RedisStore(redis_url, clock=clock)
    for store in made:
        await store.open()
    yield made
    for store in made:
        await store.close()


async def test_one_group_of_both_kinds_is_answered_in_order(stores: tuple[RedisStore, ...], clock: FakeClock) -> None:
    """Plain tasks go through the script, series and upserts do not; two of one identity apply in order."""
    store = stores[0]
    await store.put_types([TaskType(name="a"), TaskType(name="b")])
    news = [
        NewTask(task_type="a", key="1"),
        NewTask(task_type="b", key="1", trigger=hourly(clock.now())),
        NewTask(task_type="a", key="2", trigger=hourly(clock.now())),
        NewTask(task_type="a", key="2"),
        NewTask(task_type="a", key="1", payload="new", replace=True),
        NewTask(task_type="b", key="2"),
    ]
    answers = await store.schedule(news, now=clock.now())
    created, exists, updated = ScheduleOutcome.CREATED, ScheduleOutcome.EXISTS, ScheduleOutcome.UPDATED
    assert [answer.outcome for answer in answers] == [created, created, created, exists, updated, created]
    assert [answer.task.identity for answer in answers if answer.task] == [new.identity for new in news]


async def test_plain_and_recurring_tasks_of_one_type(stores: tuple[RedisStore, ...], clock: FakeClock) -> None:
    """The rank decides who is first, not the way it is claimed."""
    world = World(stores[0], clock)
    await world.type()
    await world.schedule("plain-1", scheduled_at=world.now + MINUTE)
    await world.series("series", trigger=hourly(world.now, 2 * MINUTE))
    await world.schedule("plain-2", scheduled_at=world.now + 3 * MINUTE)
    world.clock.advance("5m")
    assert [task.key for task in await world.claim(10)] == ["plain-1", "series", "plain-2"]


async def test_racing_units_of_work_lose_nothing(stores: tuple[RedisStore, ...], clock: FakeClock) -> None:
    """Two instances change the same series at once: one of them is run again, none is lost."""
    first, second = (World(store, clock) for store in stores)
    await first.type()
    await first.series("k")
    replies = await asyncio.gather(
        *(
            world.update("k", payload=f"{number}-{place}")
            for number in range(20)
            for place, world in enumerate((first, second))
        )
    )
    assert {reply.answer for reply in replies} == {Answer.OK}
    assert (await first.there("k")).version == 41


async def test_scripts_and_units_of_work_race(stores: tuple[RedisStore, ...], clock: FakeClock) -> None:
    """Settling (a script) and pausing (a unit of work) at once have some order, and the counters are right."""
    first, second = (World(store, clock) for store in stores)
    await first.type()
    keys = [f"k{number:02}" for number in range(40)]
    await stores[0].schedule([NewTask(task_type=WORK, key=key) for key in keys], now=clock.now())
    tasks = await first.claim(40)
    settled = (
        stores[0].settle(
            [Settlement(task_type=WORK, key=task.key, token=task.token, transition=Transition.RELEASE)], now=clock.now()
        )
        for task in tasks
    )
    paused = (stores[1].pause([Identity(WORK, key)], now=clock.now()) for key in keys)
    answers = await asyncio.gather(*settled, *paused)
    assert {reply.answer for (reply,) in answers} == {Answer.OK}
    assert {task.status for task in await second.all_tasks()} == {TaskStatus.PAUSED}
    await first.check_counts()
    assert (await stores[0].reconcile()).total == 0


async def test_a_completion_handed_on_twice_counts_once(
    stores: tuple[RedisStore, ...], redis: RedisServer, clock: FakeClock
) -> None:
    """The pump is cut off after it handed on and before it took the completion out: the follower runs once."""
    world = World(stores[0], clock)
    await world.type("first")
    await world.type("second", trigger_mode=TriggerMode.AFTER, after=("first",))
    await world.schedule("k", "first")
    await world.run(task_type="first")
    log = cast("list[tuple[str, dict[str, str]]]", redis.ask("XRANGE", "scheduler:after:{first}", "-", "+"))
    ((stream_id, fields),) = log
    assert await world.pump() == 1
    await world.run(task_type="second")
    redis.ask("DEL", "scheduler:after:{first}")
    redis.ask("XADD", "scheduler:after:{first}", stream_id, *(text for pair in fields.items() for text in pair))
    assert await world.pump() == 1
    assert await world.status("k", "second") is TaskStatus.COMPLETED
    await world.schedule("k", "first")
    await world.run(task_type="first")
    await world.pump()
    assert await world.status("k", "second") is TaskStatus.PENDING


async def test_the_servers_clock_rules(redis_url: str) -> None:
    store = RedisStore(redis_url)
    await store.open()
    await store.put_types([TaskType(name=WORK, interval_ms=HOUR)])
    before = await store.now()
    (made,) = await store.schedule([NewTask(task_type=WORK, key="k")])
    assert made.task is not None
    assert before <= made.task.created_at <= await store.now()
    await store.close()


async def test_a_unix_socket_and_a_user(tmp_path: Path) -> None:
    path = tmp_path / "redis.sock"
    with redis_server(tmp_path / "data", extra=["--unixsocket", str(path)]) as server:
        server.ask(
            "ACL",
            "SETUSER",
            "app",
            "on",
            ">se:cret",
            "~scheduler:*",
            "resetchannels",
            "&scheduler:*",
            "+@all",
            "-@dangerous",
        )
        for url in (f"unix://{path}?db=0", f"redis+unix://{path}", f"redis://app:se%3Acret@127.0.0.1:{server.port}/0"):
            store = RedisStore(url)
            await store.open()
            await store.put_types([TaskType(name=WORK)])
            (answer,) = await store.schedule([NewTask(task_type=WORK, key=url)])
            assert answer.outcome is ScheduleOutcome.CREATED
            assert len(await store.get([Identity(WORK, url)])) == 1
            await store.close()
        stranger = RedisStore(f"redis://app:wrong@127.0.0.1:{server.port}/0")
        with pytest.raises(StoreUnavailable, match=r"app:\*\*\*@"):
            await stranger.open()


async def test_the_scheduler_interface_on_a_client(
    redis: RedisServer, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`init_scheduler(redis, config)` with the client that a program has in hand."""
    assert redis_url
    # Its spool is a file of the working directory; here it is not to be used, however long the store takes.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rota.runtime.spool.PATIENCE", 4.0)
    from redis.asyncio import Redis

    client = Redis(host="127.0.0.1", port=redis.port)
    config = {"tasks": {"compress": {"enabled": True, "trigger_mode": "user_activity", "interval": 0}}}
    scheduler = init_scheduler(client, config)
    try:
        assert get_scheduler() is scheduler
        assert await scheduler.schedule_user_task("compress", "u1") is True
        assert (await scheduler.get_queue_depths())["compress"] == 1
        info = await scheduler.get_pending_task("compress")
        assert info is not None
        assert info.lock_token is not None
        await scheduler.complete_task("compress", info.user_key, info.lock_token)
    finally:
        set_scheduler(None)
        await scheduler.stop()
        await client.aclose()
    assert isinstance(RedisTaskScheduler(redis.url, config), RedisTaskScheduler)


async def test_what_was_handed_on_before_a_crash_is_not_handed_on_again(
    stores: tuple[RedisStore, ...], clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pump dies before it has taken out of the log what it handed on; the keys completed in no order of theirs."""
    world = World(stores[0], clock)
    await world.type("a")
    await world.type("b", trigger_mode=TriggerMode.AFTER, after=("a",))
    for key in ("z", "m", "a"):
        await world.schedule(key, "a")
        await world.run(task_type="a")
    many = Server.many

    async def dies(self: Server, commands: Sequence[Sequence[str | int | bytes]]) -> list[object]:
        if commands and commands[0][0] == "XDEL":
            raise StoreUnavailable("The pump died here.")
        return await many(self, commands)

    monkeypatch.setattr(Server, "many", dies)
    with pytest.raises(StoreUnavailable):
        await world.pump()
    monkeypatch.undo()
    for _ in range(3):
        await world.run(task_type="b")
    assert await world.pump() == 3
    assert [await world.status(key, "b") for key in ("a", "m", "z")] == [TaskStatus.COMPLETED] * 3


async def test_a_server_that_has_forgotten_its_scripts_is_told_again(
    stores: tuple[RedisStore, ...], redis: RedisServer, clock: FakeClock
) -> None:
    world = World(stores[0], clock)
    await world.type()
    await world.schedule("k")
    redis.ask("SCRIPT", "FLUSH")
    assert (await world.tick()).next_due_at == world.now
    redis.ask("SCRIPT", "FLUSH")
    task = await world.claim_one()
    redis.ask("SCRIPT", "FLUSH")
    assert world.renew(task).answer is Answer.OK
    redis.ask("SCRIPT", "FLUSH")
    assert (await world.settle(task)).answer is Answer.OK


async def test_one_of_many_instances_reconciles(
    stores: tuple[RedisStore, ...], redis: RedisServer, clock: FakeClock
) -> None:
    world = World(stores[0], clock)
    await world.type()
    await world.schedule("k")
    redis.ask("DEL", "scheduler:queue:{work}")
    assert await world.claim() == []
    duties = [Reconciler(store, clock=clock, pulse=Pulse(clock), chance=lambda: 0.5) for store in stores]
    reports = [await duty.run_once() for duty in duties]
    assert [report and report.total for report in reports] == [1, None], "its place in the queue, once"
    assert (await world.claim_one()).key == "k"
