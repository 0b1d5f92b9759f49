"""What became of a task: its neighbours in time, who follows it, and what an export says of its runs."""

from __future__ import annotations

import pytest

from rota import Rota, Run
from rota.access import Principal, Role
from rota.app.course import course_of_run, course_of_task
from rota.app.neighbours import failed_beside
from rota.app.operator import Operator
from rota.app.related import kin_of
from rota.batches.names import batch_of_task
from rota.core.task import Identity, Task
from rota.stores.base import RunQuery


async def task_of(app: Rota, task_type: str, key: str) -> Task:
    (task,) = await (await app.store()).get([Identity(task_type, key)])
    assert task is not None
    return task


@pytest.fixture
async def shop(rota_app: Rota) -> Rota:
    """Orders are packed when they are paid; some cards are declined."""

    @rota_app.task(max_retries=0)
    async def pay(payload: str, run: Run) -> None:
        with run.step("ask the bank"):
            if payload == "declined":
                raise PermissionError("the card was declined")

    @rota_app.after("pay")
    async def pack() -> None: ...

    return rota_app


async def test_the_failed_runs_beside_one(shop: Rota) -> None:
    async with shop:
        for key in ("a", "b", "c", "d"):
            await shop.schedule("pay", "fine" if key == "b" else "declined", key=key)
            await shop.run_until_idle()
        store = await shop.store()
        runs = {run.key: run for run in (await store.runs(RunQuery(task_type="pay"))).items}

        async def beside(key: str) -> list[str | None]:
            return [None if run is None else run.key for run in await failed_beside(store, runs[key])]

        assert await beside("a") == [None, "c"]
        assert await beside("c") == ["a", "d"]
        assert await beside("d") == ["c", None]
        assert await beside("b") == [None, None]


async def test_who_follows_has_a_row_and_a_link(shop: Rota) -> None:
    async with shop:
        await shop.schedule("pay", "fine", key="o1")
        await shop.run_until_idle()
        store, now = await shop.store(), shop.host.clock.now()
        paid, packed = await task_of(shop, "pay", "o1"), await task_of(shop, "pack", "o1")
        course = await course_of_task(store, paid, now)
        kin = await kin_of(store, shop.host.parts.values(), paid, course.waterfall, now)
        assert ([task.task_type for task in kin.after], list(kin.before)) == (["pack"], [])
        rows = course.waterfall.with_others(kin.rows).rows
        assert [row.kind for row in rows] == ["made", "attempt", "step", "settled", "after"]
        assert (rows[-1].task, rows[-1].outcome) == (Identity("pack", "o1"), "completed")
        course = await course_of_task(store, packed, now)
        kin = await kin_of(store, shop.host.parts.values(), packed, course.waterfall, now)
        assert ([task.task_type for task in kin.before], list(kin.after)) == (["pay"], [])
        assert course.waterfall.with_others(kin.rows).rows[0].task == Identity("pay", "o1")


async def test_a_run_is_seen_with_its_round_and_the_task_where_it_still_stands_there(shop: Rota) -> None:
    async with shop:
        await shop.schedule("pay", "declined", key="o1")
        await shop.run_until_idle()
        store = await shop.store()
        (first,) = (await store.runs(RunQuery(task_type="pay"))).items
        course = await course_of_run(store, first, shop.host.clock.now())
        assert [row.kind for row in course.waterfall.rows] == ["made", "attempt", "step", "settled"]
        await shop.schedule("pay", "fine", key="o1")
        await shop.run_until_idle()
        course = await course_of_run(store, first, shop.host.clock.now())
        assert [row.kind for row in course.waterfall.rows] == ["attempt", "step"]


async def test_an_export_has_what_runs_have_left(shop: Rota) -> None:
    async with shop:
        await shop.schedule("pay", "declined", user_id="u1")
        await shop.run_until_idle()
        operator = Operator(shop, Principal("token:1", "tests", Role.ADMIN, "code"))
        exported = [item async for item in operator.export_user("u1")]
        (left,) = [item for item in exported if isinstance(item, dict) and item["kind"] == "run_details"]
        assert (left["task_type"], left["exception"]) == ("pay", "PermissionError")
        assert "the card was declined" in str(left["traceback"])


@pytest.mark.parametrize(
    ("key", "batch"), [("0193-ab:0:0", "0193-ab"), ("0193-ab:12:3", "0193-ab"), ("b-0:1", None), ("a/b:1:1", None)]
)
def test_the_batch_that_a_subtask_belongs_to(key: str, batch: str | None) -> None:
    assert batch_of_task(key) == batch
