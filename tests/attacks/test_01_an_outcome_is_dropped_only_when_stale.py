"""The outcome of a finished run is kept until the store has taken it, or says that its token is stale."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from rota import Rota
from rota.clock import Instant
from rota.core.outcome import Settled
from rota.core.task import Settlement
from rota.errors import InvalidInput, SchemaMismatch, StoreUnavailable
from rota.stores.memory import MemoryStore
from rota.testing import FaultyStore
from rota.testing.waiting import until


class Refusing(FaultyStore):
    """A store whose next settles raise what it was given."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.refusals: list[Exception] = []
        self.refuses_all: Exception | None = None
        self.asked: list[Settlement] = []

    async def settle_runs(
        self, settlements: Sequence[Settlement], *, now: Instant | None = None
    ) -> list[Settled | Exception]:
        self.asked += settlements
        if self.refuses_all is not None:
            raise self.refuses_all
        if self.refusals:
            raise self.refusals.pop(0)
        return await super().settle_runs(settlements, now=now)


@pytest.fixture
def store() -> Refusing:
    return Refusing()


def app_on(store: Refusing) -> Rota:
    app = Rota({"lease": "3s"}, store=store)
    app.task(name="work")(done)
    return app


async def done() -> str:
    return "done"


@pytest.mark.parametrize(
    "refusal",
    [
        RuntimeError("a driver's own word for an outage"),
        OSError("read-only"),
        SchemaMismatch("newer"),
        StoreUnavailable("away"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_the_store_raises_the_outcome_lands_whole(store: Refusing, refusal: Exception) -> None:
    app = app_on(store)
    async with app:
        receipt = await app.schedule("work")
        store.refusals = [refusal] * 4
        assert await app.run_until_idle() == 1
        task = await app.tasks.get("work", receipt.key)
        assert task is not None
        assert (task.status, task.result, len(store.asked)) == ("completed", "done", 5)


async def test_a_text_that_cannot_be_kept_is_left_out_and_the_rest_lands(store: Refusing) -> None:
    app = app_on(store)
    async with app:
        receipt = await app.schedule("work")
        store.refusals = [InvalidInput("no such text"), RuntimeError("and then an outage")]
        assert await app.run_until_idle() == 1
        task = await app.tasks.get("work", receipt.key)
        assert task is not None
        assert (task.status, task.result) == ("completed", None)
        assert [one.result for one in store.asked] == ["done", None, None]


async def test_while_it_waits_its_lease_is_kept_and_health_says_so(store: Refusing) -> None:
    """The work is done: nobody may take the task over and do it again, however long its outcome waits."""
    app = app_on(store)
    store.refuses_all = RuntimeError("cannot execute UPDATE in a read-only transaction")
    with capture_logs() as logs:
        async with app:
            receipt = await app.schedule("work")
            await app.start()
            await until(lambda: store.asked, "the run has ended")

            # For longer than its lease, by the store's own clock.
            lapsed_at = await store.now() + 4_000

            async def is_later() -> bool:
                return await store.now() > lapsed_at

            await until(is_later)
            assert any("read-only" in reason for reason in app.health().reasons)
            store.refuses_all = None

            async def is_completed() -> bool:
                task = await app.tasks.get("work", receipt.key)
                return task is not None and task.status == "completed"

            await until(is_completed)
            task = await app.tasks.get("work", receipt.key)
            assert task is not None
            assert (task.crashes, task.attempt, task.result) == (0, 1, "done")
            await until(lambda: app.health().ok, "all is well again")
            await app.stop()
    waits = [line["failures"] for line in logs if line["event"] == "outcome waits"]
    assert waits[:3] == [1, 2, 4], "it is told now and then, not each time"


async def test_a_stale_token_ends_it(store: Refusing) -> None:
    app = app_on(store)
    async with app:
        receipt = await app.schedule("work")
        store.refuses_all = RuntimeError("away")
        working = asyncio.create_task(app.run_until_idle())
        await until(lambda: store.asked)
        # Somebody else has settled it meanwhile.
        (mine,) = store.asked[:1]
        await store.store.settle(
            [Settlement(task_type="work", key=receipt.key, token=mine.token, transition=mine.transition)]
        )
        store.refuses_all = None
        assert await working == 1
        task = await app.tasks.get("work", receipt.key)
        assert task is not None
        assert task.result is None


async def test_the_last_end_of_a_shutdown_ends_it(store: Refusing) -> None:
    app = app_on(store)
    store.refuses_all = RuntimeError("away")
    async with app:
        receipt = await app.schedule("work")
        await app.start()
        await until(lambda: store.asked)
        await app.stop(timeout=0)
        task = await app.tasks.get("work", receipt.key)
        assert task is not None
        assert task.status == "running", "whoever sweeps takes it back"
