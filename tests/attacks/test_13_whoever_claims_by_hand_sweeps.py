"""What was claimed by hand, by somebody who vanished, is handed out again, also where no worker runs."""

from __future__ import annotations

import asyncio

import pytest

from rota import Rota
from rota.seeds import TaskInfo
from rota.stores.base import Claimed, ClaimRequest
from rota.stores.memory import MemoryStore
from rota.testing import FakeClock, FaultyStore
from rota.testing.waiting import until


def app_on(url: str) -> Rota:
    app = Rota(url)

    @app.task(timeout="1s")
    async def work() -> None: ...

    return app


@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres"])
async def test_a_vanished_owners_claim_comes_back(store: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(f"{store}_url")
    claimed: list[TaskInfo] = []
    owner, other = app_on(url), app_on(url)
    async with owner, other:
        await owner.schedule("work", key="k")
        first = await owner.get_pending_task("work")
        assert first is not None

        async def is_handed_out() -> bool:
            task = await other.get_pending_task("work")
            claimed.extend([] if task is None else [task])
            return bool(claimed)

        await until(is_handed_out, "the task is handed out again")
        assert (claimed[0].user_key, claimed[0].lock_token != first.lock_token) == ("k", True)
        assert await other.instances() == [], "nobody who claims by hand is listed as a worker"
        await other.complete_task("work", "k", claimed[0].lock_token or "")


async def test_a_program_that_asks_all_the_time_sweeps_once_a_second() -> None:
    clock = FakeClock()
    store = FaultyStore(MemoryStore(clock))
    app = Rota({}, store=store, clock=clock)
    app.task(name="work")(lambda: None)
    async with app:
        for _ in range(50):
            assert await app.get_pending_task("work") is None
        assert store.calls["tick"] == 1
        clock.advance("1s")
        await app.get_pending_task("work")
        assert store.calls["tick"] == 2


class Torn(MemoryStore):
    """Its first claim takes effect and then fails as no store of ours should."""

    async def claim(self, request: ClaimRequest, *, now: int | None = None) -> Claimed:
        claimed = await super().claim(request, now=now)
        if claimed.tasks and not hasattr(self, "was_torn"):
            self.was_torn = True
            raise RuntimeError("a driver's own word")
        return claimed


async def test_a_claim_whose_answer_was_lost_is_given_back_whatever_was_raised() -> None:
    app = Rota({}, store=Torn())
    app.task(name="work")(lambda: None)
    async with app:
        await app.schedule("work", key="k")
        with pytest.raises(RuntimeError):
            await app.get_pending_task("work")
        both = await asyncio.gather(app.get_pending_task("work"), app.get_pending_task("work"))
        assert sorted(task.user_key for task in both if task is not None) == ["k"]
