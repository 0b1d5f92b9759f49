"""A program's own app under test: `rota_use` gives it on a store in memory and a fake clock, and puts all back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fundamentals import own_program

from rota import Rota
from rota.core.task import RunStatus
from rota.events import Event
from rota.events.part import EventsPart
from rota.stores.memory import MemoryStore
from rota.testing import FakeClock, assert_not_scheduled, assert_scheduled, run_task
from rota.testing.own_app import in_test

Use = Callable[[Rota], Rota]


@pytest.fixture(autouse=True)
def _nothing_done_yet() -> None:  # pyright: ignore[reportUnusedFunction] -- pytest uses it
    for done in (own_program.compressed, own_program.charged, own_program.billed):
        done.clear()


class TestTheAppOfAModule:
    async def test_its_handlers_run_when_the_clock_says_so(self, rota_use: Use, rota_clock: FakeClock) -> None:
        app = rota_use(own_program.app)
        assert app is own_program.app
        await own_program.memory_compression.touch(user_id="u1")
        await assert_scheduled(app, "memory_compression", user_id="u1", within="30m")

        assert await app.run_until_idle() == 0
        rota_clock.advance("30m")
        assert await app.run_until_idle() == 1
        assert own_program.compressed == ["u1"]
        await assert_not_scheduled(app, "memory_compression", user_id="u1")

    @pytest.mark.parametrize("time", [1, 2])
    async def test_every_test_begins_with_nothing(self, rota_use: Use, rota_store: MemoryStore, time: int) -> None:
        app = rota_use(own_program.app)
        await assert_not_scheduled(app, "charge_card")
        await own_program.charge_card.schedule({"amount": time}, user_id="u1")
        task = await assert_scheduled(app, "charge_card", user_id="u1", payload={"amount": time})
        assert await assert_scheduled(rota_store, "charge_card") == task

    def test_without_an_event_loop(self, rota_use: Use, rota_clock: FakeClock) -> None:
        app = rota_use(own_program.app)
        own_program.memory_compression.sync.touch("u1")
        app.sync.wait(assert_scheduled(app, "memory_compression", user_id="u1"))
        rota_clock.advance("31m")
        assert app.sync.run_until_idle() == 1
        assert own_program.compressed == ["u1"]

    async def test_inside_its_own_block_as_well(self, rota_use: Use) -> None:
        async with rota_use(own_program.app) as app:
            await own_program.charge_card.schedule({"amount": 1})
            await assert_scheduled(app, "charge_card")
        await assert_scheduled(app, "charge_card")

    async def test_a_worker_in_the_background(self, rota_use: Use) -> None:
        async with rota_use(own_program.app) as app:
            await app.start()
            assert app.is_running()

    async def test_twice_is_once(self, rota_use: Use) -> None:
        app = rota_use(own_program.app)
        await own_program.charge_card.schedule({"amount": 1})
        await assert_scheduled(rota_use(app), "charge_card")

    async def test_two_apps_of_one_test_share_the_store(self, rota_use: Use) -> None:
        web, worker = rota_use(own_program.app), rota_use(Rota("redis://127.0.0.1:1/0"))
        await web.schedule("charge_card", {"amount": 5})
        await assert_scheduled(worker, "charge_card", payload={"amount": 5})

    async def test_a_retry_waits_for_the_clock(self, rota_use: Use, rota_clock: FakeClock) -> None:
        app = rota_use(own_program.app)
        run = await run_task(app, "charge_card", {"amount": 12}, user_id="u1")
        assert (run.status, run.attempt) == (RunStatus.ERROR, 1)
        assert "payment gateway" in (run.error or "")
        await assert_scheduled(app, "charge_card", user_id="u1", status="pending")

        rota_clock.advance("1m")
        assert await app.run_until_idle() == 1
        assert own_program.charged == [12]
        (last, first) = (await app.runs("charge_card")).items
        assert (first.attempt, last.attempt, last.result) == (1, 2, "charged 12")


class TestAsBefore:
    """What `rota_use` does when a test is over, looked at from inside another one."""

    @pytest.fixture
    def store(self, rota_clock: FakeClock) -> MemoryStore:
        return MemoryStore(rota_clock)

    def test_an_app_that_was_not_connected(self, store: MemoryStore, rota_clock: FakeClock, tmp_path: Path) -> None:
        app = own_program.app
        host, before = app.host, dict(vars(app.host))

        async def test() -> None:
            await app.schedule("charge_card", {"amount": 1})

            @app.task
            async def only_here() -> None: ...

            @app.consumer("Shop.Order.Confirmed")
            async def only_here_as_well(event: Event) -> None: ...  # pyright: ignore[reportUnusedFunction]

            await only_here.schedule()

        with in_test(app, store, rota_clock, tmp_path):
            asyncio.run(test())
        assert app.host is host
        assert vars(host) == before
        assert "only_here" not in host.declared
        assert [one.name for one in host.part(EventsPart).consumers if "only" in one.name] == []

    def test_an_app_that_is_connected_all_the_while(
        self, store: MemoryStore, rota_clock: FakeClock, tmp_path: Path
    ) -> None:
        """As with a loop that all tests of a session share, and a fixture that has connected the app in it."""
        app = Rota(f"sqlite:///{tmp_path / 'own.db'}")

        @app.task
        async def resize(payload: object) -> None: ...

        async def before() -> None:
            await app.__aenter__()
            await resize.schedule({"n": 1}, key="one")
            await (await app.events()).outbox.publish(confirmed("o1"))

        async def test() -> None:
            await assert_not_scheduled(app, "resize")
            await resize.schedule({"n": 2}, key="two")
            await (await app.events()).outbox.publish(confirmed("o2"))

        async def after() -> None:
            await assert_scheduled(app, "resize", key="one")
            await assert_not_scheduled(app, "resize", key="two")
            await (await app.events()).outbox.publish(confirmed("o3"))
            await app.__aexit__(None, None, None)

        with asyncio.Runner() as loop:
            loop.run(before())
            with in_test(app, store, rota_clock, tmp_path):
                loop.run(test())
            loop.run(after())

    def test_an_app_whose_sync_face_is_connected(
        self, store: MemoryStore, rota_clock: FakeClock, tmp_path: Path
    ) -> None:
        app = Rota(f"sqlite:///{tmp_path / 'own.db'}")

        @app.task
        async def resize(payload: object) -> None: ...

        with app.sync:
            resize.sync.schedule({"n": 1}, key="one")
            with in_test(app, store, rota_clock, tmp_path):
                resize.sync.schedule({"n": 2}, key="two")
                app.sync.wait(assert_not_scheduled(app, "resize", key="one"))
            app.sync.wait(assert_scheduled(app, "resize", key="one"))
            app.sync.wait(assert_not_scheduled(app, "resize", key="two"))

    def test_its_store_is_not_asked_and_no_spool_is_made(
        self, store: MemoryStore, rota_clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        app = Rota("redis://127.0.0.1:1/0")  # where an answer is missing, it is kept in a file

        @app.on_activity
        async def touched() -> None: ...

        with in_test(app, store, rota_clock, tmp_path):
            assert asyncio.run(touched.touch("u1")).outcome == "created"
        assert list(tmp_path.iterdir()) == []


def confirmed(order: str) -> Event:
    return Event("Shop.Order.Confirmed", aggregate_id=order)


class TestWhatAFailureShows:
    async def test_what_is_there_instead(self, rota_use: Use) -> None:
        app = rota_use(own_program.app)
        await own_program.charge_card.schedule({"amount": 1}, user_id="u1")
        with pytest.raises(AssertionError) as caught:
            await assert_scheduled(app, "charge_card", user_id="u2", payload={"amount": 2}, within="1h")
        said, line = str(caught.value).splitlines()
        assert said == (
            "No live task of type 'charge_card' with the user_id 'u2', the payload {'amount': 2}, due within 1h. It is"
            " 2026-01-05T09:00:00.000Z; there is:"
        )
        assert line == '  u1:default:default: pending, due 2026-01-05T09:00:00.000Z (in 0s), payload {"amount":1}'

    async def test_what_should_not_be_there(self, rota_use: Use) -> None:
        app = rota_use(own_program.app)
        await own_program.charge_card.schedule({"amount": 1}, user_id="u1")
        with pytest.raises(AssertionError, match=r"should be no live task.*'u1'") as caught:
            await assert_not_scheduled(app, "charge_card", user_id="u1")
        assert "u1:default:default: pending" in str(caught.value)

    async def test_a_type_that_nobody_declared(self, rota_use: Use) -> None:
        with pytest.raises(AssertionError, match=r"does not know it. Did you mean 'charge_card'\?"):
            await assert_scheduled(rota_use(own_program.app), "charge_cart")

    @pytest.mark.parametrize(
        ("payload", "fits"),
        [
            ({"to": "ada"}, True),
            ({"to": {"name": "x"}}, False),
            ({"n": [1, 2]}, True),
            ({"n": [1]}, False),
            ("x", False),
        ],
    )
    async def test_of_a_payload_what_matters(self, rota_use: Use, payload: object, fits: bool) -> None:
        app = rota_use(own_program.app)
        await app.schedule("charge_card", {"to": "ada", "n": [1, 2]})
        wanted = assert_scheduled if fits else assert_not_scheduled
        await wanted(app, "charge_card", payload=payload)

    async def test_a_task_that_was_not_run(self, rota_use: Use) -> None:
        with pytest.raises(AssertionError, match="was not run"):
            await run_task(rota_use(own_program.app), "charge_card", delay="1h")


class TestEventsAndBatches:
    """Consumers and agents are duties beside a worker: `run_until_idle` has them, too."""

    async def test_an_event_is_handled(self, rota_use: Use) -> None:
        app = rota_use(own_program.app)
        await (await app.events()).outbox.publish(created("o1"), created("o2"))
        await app.run_until_idle()
        assert own_program.billed == [{"total": 12}, {"total": 12}]
        await app.run_until_idle()
        assert len(own_program.billed) == 2

    async def test_one_that_fails_waits_for_the_clock(self, rota_use: Use, rota_clock: FakeClock) -> None:
        app = rota_use(own_program.app)
        tried: list[str] = []

        @app.consumer("Shop.Order.Confirmed")
        async def ship(event: Event) -> None:  # pyright: ignore[reportUnusedFunction] -- the app has it
            tried.append(event.aggregate_id)
            if len(tried) == 1:
                raise ConnectionError("carrier")
            await own_program.charge_card.schedule({"amount": 1}, key=event.event_id)

        await (await app.events()).outbox.publish(confirmed("o1"))
        await app.run_until_idle()
        assert tried == ["o1"]
        rota_clock.advance("1m")
        # What it has made due is run as well.
        assert await app.run_until_idle() == 1
        assert tried == ["o1", "o1"]

    async def test_a_batch_is_made(self, rota_use: Use) -> None:
        app = rota_use(own_program.app)
        batch = await app.batches.start("recipe", 7, style="hot")
        assert await app.run_until_idle() >= 1
        assert [item.name async for item in batch] == [f"hot soup {number}" for number in range(7)]


def created(order: str) -> Event:
    return Event("Shop.Order.Created", aggregate_id=order, payload={"total": 12})
