"""What `rota.testing` gives: the clock, the faults, the assertions, the fixtures of the plugin."""

from __future__ import annotations

import asyncio
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from rota.app.rota import Rota
from rota.clock import HOUR, from_datetime
from rota.core.outcome import Answer
from rota.core.task import TaskStatus, Transition
from rota.errors import InvalidInput, StoreUnavailable
from rota.stores.memory import MemoryStore
from rota.testing import FakeClock, FaultyStore, assert_scheduled, run_until_idle, servers, until, until_blocking
from rota.testing.conformance.world import World
from rota.testing.redis_servers import RedisServer, redis_executable
from rota.testing.servers import ServerAbsent


class TestFakeClock:
    def test_it_moves_only_when_told(self) -> None:
        clock = FakeClock()
        assert clock.now() == clock.now() == from_datetime(datetime(2026, 1, 5, 9, tzinfo=UTC))
        assert clock.advance("3h") == clock.now()
        assert clock.monotonic() == 3 * 3_600

    @pytest.mark.parametrize("by", ["1h30m", 5_400, 5_400.0, timedelta(minutes=90)])
    def test_by_a_duration_in_any_spelling(self, by: str | float | timedelta) -> None:
        clock = FakeClock(0)
        clock.advance(by)
        assert clock.now() == 90 * 60 * 1_000

    def test_the_wall_may_jump_and_the_monotonic_clock_takes_no_notice(self) -> None:
        clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC))
        clock.set(datetime(2029, 1, 1, tzinfo=UTC))
        assert clock.now() == from_datetime(datetime(2029, 1, 1, tzinfo=UTC))
        assert clock.monotonic() == 0
        assert repr(clock) == "FakeClock(2029-01-01T00:00:00.000Z)"

    def test_never_backwards_by_advance(self) -> None:
        with pytest.raises(InvalidInput):
            FakeClock().advance(-1)


class TestFaultyStore:
    @pytest.fixture
    async def faulty(self, clock: FakeClock) -> FaultyStore:
        store = FaultyStore(MemoryStore(clock))
        await World(store, clock).type()
        return store

    @pytest.fixture
    def world(self, faulty: FaultyStore, clock: FakeClock) -> World:
        return World(faulty, clock)

    async def test_down_does_nothing_and_says_so(self, faulty: FaultyStore, world: World) -> None:
        with faulty.down("schedule") as fault:
            with pytest.raises(StoreUnavailable):
                await world.schedule("k")
            assert await world.task("k") is None
        assert fault.hits == 1
        assert (await world.schedule("k")).task is not None

    async def test_torn_takes_effect_and_loses_the_reply(self, faulty: FaultyStore, world: World) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        with faulty.torn("settle"), pytest.raises(StoreUnavailable):
            await world.settle(task)
        assert await world.status("k") is TaskStatus.COMPLETED
        assert (await world.settle(task)).answer is Answer.ALREADY

    async def test_for_so_many_calls(self, faulty: FaultyStore, world: World) -> None:
        faulty.down("claim", calls=2)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await world.claim()
        assert await world.claim() == []
        assert faulty.calls["claim"] == 3

    async def test_every_verb_until_it_is_healed(self, faulty: FaultyStore, world: World) -> None:
        faulty.down()
        with pytest.raises(StoreUnavailable):
            await world.counts()
        with pytest.raises(StoreUnavailable):
            await world.apply(Transition.PAUSE)
        faulty.heal()
        assert (await world.counts()).pending == 0

    async def test_renew_fails_like_the_others(self, faulty: FaultyStore, world: World) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        with faulty.torn("renew"), pytest.raises(StoreUnavailable):
            world.renew(task, progress="1")
        assert (await world.there("k")).progress == "1"
        with faulty.slow(0.001, "renew"):
            assert world.renew(task).answer is Answer.OK

    async def test_the_operators_verbs_go_by_their_own_names(self, faulty: FaultyStore, world: World) -> None:
        await world.schedule("k")
        with faulty.down("pause"), pytest.raises(StoreUnavailable):
            await world.apply(Transition.PAUSE)
        with faulty.down("pause"):
            assert (await world.apply(Transition.CANCEL)).answer is Answer.OK

    async def test_slow_waits_first(self, faulty: FaultyStore, world: World) -> None:
        with faulty.slow(30, "schedule"), pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await world.schedule("k")
        assert await world.task("k") is None

    def test_a_misspelt_verb_is_noticed(self, faulty: FaultyStore) -> None:
        with pytest.raises(AssertionError, match="claimm"):
            faulty.down("claimm")


class TestAssertScheduled:
    async def test_it_answers_the_task(self, clock: FakeClock) -> None:
        world = World(MemoryStore(clock), clock)
        await world.type()
        made = await world.created("u1", scheduled_at=world.now + HOUR)
        assert await assert_scheduled(world.store, "work", key="u1", status="pending", within="1h") == made
        assert await assert_scheduled(world.store, "work") == made

    async def test_it_shows_what_there_is(self, clock: FakeClock) -> None:
        world = World(MemoryStore(clock), clock)
        await world.type()
        await world.created("u1", scheduled_at=world.now + HOUR)
        await world.created("u2", scheduled_at=world.now - HOUR)
        with pytest.raises(AssertionError) as caught:
            await assert_scheduled(world.store, "work", key="u3", within="5m")
        assert str(caught.value).splitlines() == [
            "No live task of type 'work' with the key 'u3', due within 5m. It is 2026-01-05T09:00:00.000Z; there is:",
            "  u1: pending, due 2026-01-05T10:00:00.000Z (in 1h)",
            "  u2: pending, due 2026-01-05T08:00:00.000Z (1h ago)",
        ]
        with pytest.raises(AssertionError, match="none of this type"):
            await assert_scheduled(world.store, "other")


class TestPlugin:
    async def test_an_application_on_a_told_clock(
        self, rota_app: Rota, rota_clock: FakeClock, rota_store: MemoryStore
    ) -> None:
        seen: list[str] = []

        @rota_app.on_activity(after="30m")
        async def compress(user_id: str) -> None:
            seen.append(user_id)

        async with rota_app:
            await compress.touch(user_id="u1")
            await assert_scheduled(rota_store, "compress", within="30m")
            assert await run_until_idle(rota_app) == 0
            rota_clock.advance("30m")
            assert await run_until_idle(rota_app) == 1
        assert seen == ["u1"]


class TestServers:
    def test_another_server_on_the_port_is_not_taken_for_the_own_one(self, redis: RedisServer, tmp_path: Path) -> None:
        late = RedisServer(redis_executable(), tmp_path / "late", [], port=redis.port)
        with pytest.raises(ServerAbsent, match="in use"):
            late.start()
        late.kill()
        assert redis.is_running

    def test_a_slow_postgres_and_a_user_that_somebody_else_makes_are_waited_for(self, tmp_path: Path) -> None:
        def initdb(args: list[str], **given: object) -> str:
            raise AssertionError

        def pg_ctl(args: list[str], timeout: float) -> float:
            return timeout

        def exists(name: str) -> None:
            raise subprocess.CalledProcessError(9, ["useradd", name])

        def get_server(_directory: Path, cleanup_mode: str) -> float:
            return wheel.pg_ctl(["-w", "start"], timeout=10)

        wheel = SimpleNamespace(initdb=initdb, pg_ctl=pg_ctl, ensure_user_exists=exists, get_server=get_server)
        found = servers._start(wheel, tmp_path, durable=False)  # pyright: ignore[reportPrivateUsage]
        assert found == 2 * servers.START_SECONDS
        assert (wheel.initdb, wheel.pg_ctl) == (initdb, pg_ctl)


class TestUntil:
    async def test_it_waits_for_a_condition_async_or_not(self) -> None:
        seen = iter([False, False, True, 0, "yes"])

        async def ask() -> object:
            return next(seen)

        await until(lambda: next(seen))
        await until(ask)
        assert list(seen) == []

    async def test_what_never_holds_is_said(self) -> None:
        with pytest.raises(AssertionError, match=r"0\.02 s were not enough until pigs fly\."):
            await until(lambda: False, "pigs fly", seconds=0.02)

    async def test_an_error_is_not_waited_out(self) -> None:
        with pytest.raises(ZeroDivisionError):
            await until(lambda: 1 // 0)

    def test_without_an_event_loop(self) -> None:
        seen = iter([False, True])
        until_blocking(lambda: next(seen))
        with pytest.raises(AssertionError, match="until pigs fly"):
            until_blocking(lambda: False, "pigs fly", seconds=0.02)
