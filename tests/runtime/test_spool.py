"""Touches while the store is away: kept on the disk, offered when it is back, and never a run too many or too few."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rota import load_config
from rota.app.rota import Rota
from rota.clock import MINUTE, SECOND, SystemClock
from rota.core.outcome import TouchOutcome
from rota.core.task import Activity, Identity, Settlement, Task, Transition
from rota.core.task_type import TaskType
from rota.errors import InvalidConfig, InvalidInput, RotaError, SchemaMismatch, StoreUnavailable
from rota.runtime.spool import PATIENCE, Offered, Spool, spool_at
from rota.runtime.spool_file import SpoolFile
from rota.seeds import TaskScheduler
from rota.stores.base import ClaimRequest, Store
from rota.stores.memory import MemoryStore
from rota.testing import FakeClock, FaultyStore
from rota.testing.waiting import until

WORK = TaskType(name="work", interval_ms=MINUTE, cooldown="defer")


def active(user: str = "u1", task_type: str = "work") -> Activity:
    return Activity(task_type=task_type, key=user, user_id=user, device_id="phone")


class Outage:
    """A store that can go away, and a spool before it whose offers are made by hand."""

    def __init__(self, store: FaultyStore, spool: Spool, path: Path, clock: FakeClock) -> None:
        self.store, self.spool, self.path, self.clock = store, spool, path, clock

    async def touch(self, user: str = "u1") -> TouchOutcome:
        outcome = (await self.spool.touch(active(user))).outcome
        await self.hold_offers()
        return outcome

    async def hold_offers(self) -> None:
        """A spool offers by itself; here the tests say when."""
        await self.spool.close()

    async def tasks(self) -> list[Task | None]:
        return await self.store.store.get([Identity("work", "u1")])

    async def run_it(self) -> None:
        """Claim what is due and complete it."""
        request = ClaimRequest(wants=[("work", 9)], instance="i", claim_id="c", lease_ms=10 * SECOND)
        done = [
            Settlement(task_type=task.task_type, key=task.key, token=task.token, transition=Transition.COMPLETE)
            for task in (await self.store.store.claim(request)).tasks
        ]
        assert done
        await self.store.store.settle(done)

    def rows(self) -> list[tuple[object, ...]]:
        with sqlite3.connect(self.path) as disk:
            found = disk.execute("SELECT task_type, key, user_id, first_at, last_at, count FROM touches").fetchall()
        disk.close()
        return found


def new_spool(store: Store, path: Path, clock: FakeClock, *, max_rows: int = 1_000, patience: float = 30.0) -> Spool:
    async def ready() -> Store:
        return store

    file = SpoolFile(path, "here", max_rows=max_rows)
    return Spool(file, lambda: store, ready, clock=clock, chance=lambda: 0.5, patience=patience)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # A disk that is busy with something else is no disk that is broken.
    monkeypatch.setattr("rota.runtime.spool_file.DISK_SECONDS", 60.0)
    return tmp_path / "spool.db"


@pytest.fixture
async def outage(path: Path, clock: FakeClock) -> AsyncIterator[Outage]:
    store = FaultyStore(MemoryStore(clock))
    await store.open()
    await store.put_types([WORK])
    made = Outage(store, new_spool(store, path, clock), path, clock)
    yield made
    await made.spool.close()
    await store.close()


# --- spooled and offered --------------------------------------------------------------------------------------------


async def test_a_store_that_answers_is_all_that_is_needed(outage: Outage) -> None:
    assert await outage.touch() is TouchOutcome.CREATED
    assert await outage.spool.offer() == Offered(0, 0)
    assert not outage.path.exists()


async def test_one_row_for_each_user(outage: Outage) -> None:
    first_at = outage.clock.now()
    with outage.store.down("touch"):
        assert await outage.touch() is TouchOutcome.SPOOLED
        last_at = outage.clock.advance(30)
        assert await outage.touch() is TouchOutcome.SPOOLED
        assert await outage.touch("u2") is TouchOutcome.SPOOLED
    assert outage.rows() == [("work", "u1", "u1", first_at, last_at, 2), ("work", "u2", "u2", last_at, last_at, 1)]
    assert outage.spool.spooled == 2


async def test_what_waits_is_offered_when_the_store_is_back(outage: Outage) -> None:
    with outage.store.down():
        await outage.touch()
        await outage.touch("u2")
        with pytest.raises(StoreUnavailable):
            await outage.spool.offer()
        assert outage.spool.is_away
    assert await outage.spool.offer() == Offered(2, 0)
    (task,) = await outage.tasks()
    assert task is not None
    assert (task.status, task.user_id, task.device_id) == ("pending", "u1", "phone")
    assert task.scheduled_at == outage.clock.now() + MINUTE
    assert (outage.rows(), outage.spool.spooled, outage.spool.is_away) == ([], 0, False)
    assert await outage.touch() is TouchOutcome.COALESCED


async def test_what_a_user_did_before_they_were_erased_is_not_offered(outage: Outage) -> None:
    with outage.store.down():
        for user in ("u1", "u2", "u3"):
            assert await outage.touch(user) is TouchOutcome.SPOOLED
        outage.clock.advance("1m")
        for user in ("u1", "u3"):
            await outage.store.store.erase_user(user)
        outage.clock.advance("1m")
        assert await outage.touch("u3") is TouchOutcome.SPOOLED  # a user who comes back is a new one
    assert await outage.spool.offer() == Offered(2, 0)
    assert outage.rows() == []
    found = await outage.store.store.get([Identity("work", user) for user in ("u1", "u2", "u3")])
    assert [task is not None for task in found] == [False, True, True]


async def test_more_than_a_page_is_offered_in_one_pass(outage: Outage) -> None:
    with outage.store.down("touch"):
        await asyncio.gather(*(outage.spool.touch(active(f"u{n:04}")) for n in range(450)))
        await outage.hold_offers()
    before = outage.store.calls["touch"]
    assert await outage.spool.offer() == Offered(450, 0)
    assert outage.store.calls["touch"] - before == 3
    assert (await outage.store.counts())["work"].pending == 450


async def test_known_to_be_away_it_is_not_asked_again(outage: Outage) -> None:
    with outage.store.down("touch"):
        for _ in range(5):
            await outage.touch()
    assert outage.store.calls["touch"] == 1


async def test_a_touch_waits_a_quarter_of_a_second_at_most(outage: Outage) -> None:
    assert PATIENCE == 0.25
    outage.spool = new_spool(outage.store, outage.path, outage.clock, patience=PATIENCE)
    loop = asyncio.get_running_loop()
    with outage.store.slow(600, "touch"):
        started = loop.time()
        assert await outage.touch() is TouchOutcome.SPOOLED
        assert 0.2 < loop.time() - started < 60
        assert await outage.touch() is TouchOutcome.SPOOLED
    assert outage.store.calls["touch"] == 1, "the second one does not wait at all"


async def test_what_no_store_would_take_is_not_spooled(outage: Outage) -> None:
    with outage.store.down("touch"), pytest.raises(InvalidInput, match="NUL"):
        await outage.spool.touch(active("a\0b"))
    assert outage.spool.spooled == 0


# --- never twice ----------------------------------------------------------------------------------------------------


async def test_a_touch_whose_reply_was_lost_makes_one_task(outage: Outage) -> None:
    with outage.store.torn("touch"):
        assert await outage.touch() is TouchOutcome.SPOOLED
    (made,) = await outage.tasks()
    assert made is not None
    assert await outage.spool.offer() == Offered(1, 0)
    (task,) = await outage.tasks()
    assert task is not None
    assert (task.created_at, task.scheduled_at) == (made.created_at, made.scheduled_at)
    assert (await outage.store.counts())["work"].created_total == 1


async def test_a_touch_whose_reply_was_lost_and_that_ran_meanwhile_does_not_run_again(outage: Outage) -> None:
    with outage.store.torn("touch"):
        await outage.touch()
    outage.clock.advance("1m")
    await outage.run_it()
    assert await outage.spool.offer() == Offered(1, 0)
    (task,) = await outage.tasks()
    assert task is not None
    assert task.status == "completed"
    assert outage.rows() == []


async def test_activity_before_a_claim_on_another_instance_is_dealt_with(outage: Outage) -> None:
    with outage.store.down("touch"):
        await outage.touch()
    await outage.store.touch([active()])
    outage.clock.advance("1m")
    await outage.run_it()
    await outage.spool.offer()
    (task,) = await outage.tasks()
    assert task is not None
    assert task.status == "completed"


async def test_activity_after_that_claim_is_not_forgotten(outage: Outage) -> None:
    await outage.store.touch([active()])
    outage.clock.advance("1m")
    await outage.run_it()
    outage.clock.advance(1)
    with outage.store.down("touch"):
        await outage.touch()
    outage.clock.advance("1m")
    await outage.spool.offer()
    (task,) = await outage.tasks()
    assert task is not None
    assert task.status == "pending"


@pytest.mark.parametrize("minutes", [-20, 20])
async def test_a_host_whose_clock_is_off(path: Path, clock: FakeClock, minutes: int) -> None:
    host = FakeClock(clock.now() + minutes * MINUTE)
    store = FaultyStore(MemoryStore(clock))
    await store.put_types([WORK])
    outage = Outage(store, new_spool(store, path, host), path, clock)

    def pass_(seconds: int) -> None:
        clock.advance(seconds)
        host.advance(seconds)

    with store.down("touch"):
        await outage.touch()
    await store.touch([active()])
    pass_(60)
    await outage.run_it()
    assert await outage.spool.offer() == Offered(1, 0)
    (task,) = await outage.tasks()
    assert task is not None
    assert task.status == "completed"

    pass_(1)
    with store.down("touch"):
        await outage.touch()
    pass_(60)
    await outage.spool.offer()
    (task,) = await outage.tasks()
    assert task is not None
    assert task.status == "pending"
    await outage.spool.close()


async def test_an_offer_whose_reply_was_lost_is_made_again(outage: Outage) -> None:
    with outage.store.down("touch"):
        await outage.touch()
    with outage.store.torn("touch"), pytest.raises(StoreUnavailable):
        await outage.spool.offer()
    assert len(outage.rows()) == 1
    assert await outage.spool.offer() == Offered(1, 0)
    assert outage.rows() == []
    assert (await outage.store.counts())["work"].created_total == 1


async def test_a_row_that_is_touched_during_its_offer_stays(outage: Outage) -> None:
    with outage.store.down("touch"):
        await outage.touch()
    answering = outage.store.store.touch

    async def touch(activities: list[Activity], now: int | None = None) -> object:
        answered = await answering(activities, now=now)
        outage.clock.advance(1)
        another_process = SpoolFile(outage.path, "here")
        await another_process.put(active(), outage.clock.now())
        await another_process.close()
        return answered

    outage.store.store.touch = touch  # pyright: ignore[reportAttributeAccessIssue]  # once, between the answer and the removal
    await outage.spool.offer()
    assert [row[-1] for row in outage.rows()] == [2]
    outage.store.store.touch = answering
    await outage.spool.offer()
    assert outage.rows() == []


# --- limits and trouble ---------------------------------------------------------------------------------------------


async def test_past_its_limit_the_spool_says_so(path: Path, clock: FakeClock) -> None:
    store = FaultyStore(MemoryStore(clock))
    await store.put_types([WORK])
    outage = Outage(store, new_spool(store, path, clock, max_rows=2), path, clock)
    with store.down("touch"):
        await outage.touch("u1")
        await outage.touch("u2")
        with pytest.raises(StoreUnavailable, match=r"not taken.*down on purpose.*is full: 2 users wait"):
            await outage.touch("u3")
        assert any("is full" in reason for reason in outage.spool.reasons())
        assert await outage.touch("u2") is TouchOutcome.SPOOLED
    assert await outage.spool.offer() == Offered(2, 0)
    assert outage.spool.reasons() == []
    assert await outage.touch("u3") is TouchOutcome.CREATED
    await outage.spool.close()


async def test_what_the_store_refuses_stays_and_holds_up_nobody(outage: Outage) -> None:
    with outage.store.down("touch"):
        await outage.spool.touch(active("u1", "nobody_knows"))
        await outage.touch("u2")
    assert await outage.spool.offer() == Offered(1, 1)
    (reason,) = outage.spool.reasons()
    assert "1 touches wait in" in reason
    assert "'nobody_knows'" in reason
    await outage.store.put_types([TaskType(name="nobody_knows")])
    assert await outage.spool.offer() == Offered(1, 0)
    assert outage.spool.reasons() == []


async def test_a_full_type_is_offered_again_later(outage: Outage) -> None:
    await outage.store.put_types([TaskType(name="work", max_pending=1, version=2)])
    with outage.store.down("touch"):
        await outage.touch("u1")
        await outage.touch("u2")
    assert await outage.spool.offer() == Offered(1, 1)
    assert "as many pending tasks as it may have" in outage.spool.reasons()[0]
    await outage.store.cancel([Identity("work", "u1")])
    assert await outage.spool.offer() == Offered(1, 0)


async def test_a_file_that_is_none_of_ours(outage: Outage) -> None:
    outage.path.write_text("a letter to grandmother " * 100)
    with outage.store.down("touch"), pytest.raises(StoreUnavailable, match=r"spool\.db cannot be used: file is not"):
        await outage.spool.touch(active())


async def test_a_newer_file_is_refused(outage: Outage) -> None:
    disk = sqlite3.connect(outage.path)
    disk.execute("PRAGMA user_version = 9")
    disk.close()
    with outage.store.down("touch"), pytest.raises(StoreUnavailable, match="newer version"):
        await outage.spool.touch(active())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"spool is .* does not exist"):
        SpoolFile(tmp_path / "no" / "spool.db", "here").check()


async def test_two_stores_in_one_file_are_kept_apart(path: Path, clock: FakeClock) -> None:
    urls = [f"redis://:hunter2@{host}/0" for host in ("a", "b")]
    spools = [spool_at(str(path), url, lambda: None, _away, clock=clock) for url in urls]
    await spools[0].touch(active())
    for spool in spools:
        await spool.close()
    one, other = (SpoolFile(path, f"redis://{host}/0") for host in ("a", "b"))
    assert (await one.count(), await other.is_empty()) == (1, True)
    await one.close()
    await other.close()
    assert b"hunter2" not in await asyncio.to_thread(path.read_bytes)


async def _away() -> Store:
    raise StoreUnavailable("The store is away.")


# --- over the end of the process ------------------------------------------------------------------------------------

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from rota.core.task import Activity
from rota.runtime.spool_file import SpoolFile

async def main():
    spool = SpoolFile(Path(sys.argv[1]), "here")
    for n in range(20):
        await spool.put(Activity(task_type="work", key=f"u{n}", user_id=f"u{n}"), 1)
    print("accepted", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_what_was_accepted_survives_a_kill(outage: Outage) -> None:
    process = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", KILLED, str(outage.path)], capture_output=True, check=False
    )
    assert (process.returncode, process.stdout) == (-signal.SIGKILL, b"accepted\n"), process.stderr
    assert await outage.spool.offer() == Offered(20, 0)


# --- in an app ------------------------------------------------------------------------------------------------------


@pytest.fixture
def app_store(monkeypatch: pytest.MonkeyPatch) -> FaultyStore:
    # A store that is down says so at once; one that is there may take its time on a busy machine.
    monkeypatch.setattr("rota.runtime.spool.PATIENCE", 30.0)
    return FaultyStore(MemoryStore())


def app_on(store: Store, path: Path) -> Rota:
    app = Rota({"spool": str(path)}, store=store)

    @app.on_activity(after="0s", cooldown="defer")
    async def work(user_id: str) -> None:
        """What is done does not matter here."""

    return app


async def test_an_app_without_a_worker_offers_by_itself(app_store: FaultyStore, path: Path) -> None:
    app = app_on(app_store, path)
    others = set(threading.enumerate())
    async with app:
        with app_store.down():
            touch = await app.touch("work", "u1")
            assert (touch.outcome, touch.scheduled_at) == ("spooled", None)
            assert await app.schedule_user_task("work", "u2") is True
            assert app.health().spooled == 2
        await until(lambda: app.health().spooled == 0)
        # The rows are gone on the disk's thread, a moment before the loop knows that the store is back.
        await until(lambda: app.health().last_offered_at is not None)
        assert (await app.counts())["work"].pending == 2
        offered_at = app.health().last_offered_at
        assert offered_at is not None
        assert abs(offered_at - SystemClock().now()) < MINUTE
        assert await app.schedule_user_task("work", "u1") is False
    new = set(threading.enumerate()) - others
    assert not [thread.name for thread in new if thread.name.startswith("rota-spool")]


async def test_a_worker_runs_what_was_spooled(app_store: FaultyStore, path: Path) -> None:
    app = app_on(app_store, path)
    async with app:
        await app.start()
        await until(lambda: app.health().ok)
        with app_store.down():
            await app.touch("work", "u1")
            health = app.health()
            assert not health.ok
            assert any("1 users wait" in reason for reason in health.reasons)

        async def ran() -> bool:
            counts = (await app.counts()).get("work")
            return counts is not None and counts.succeeded_total == 1

        await until(ran)
        await until(lambda: app.health().ok)
        assert app.health().spooled == 0


async def test_what_an_earlier_process_left_is_offered_at_start(app_store: FaultyStore, path: Path) -> None:
    left = SpoolFile(path, "memory://")
    await left.put(active("default"), SystemClock().now())
    await left.close()
    app = app_on(app_store, path)
    async with app:

        async def arrived() -> bool:
            counts = (await app.counts()).get("work")
            return counts is not None and counts.pending == 1

        await until(arrived)


async def test_a_task_scheduler_spools_before_it_was_ever_connected(app_store: FaultyStore, path: Path) -> None:
    config = load_config({"spool": str(path), "scheduler": {"tasks": {"work": {"interval": 60}}}}, environ={})
    scheduler = TaskScheduler(app_store, config)
    with app_store.down("open"):
        assert await scheduler.schedule_user_task("work", "u1") is True
        assert (await scheduler.touch("work", "u2")).outcome == "spooled"
    await until(lambda: scheduler.health().spooled == 0)
    assert (await scheduler.get_queue_depths()) == {"work": 2}
    await scheduler.stop()


async def test_an_app_that_starts_during_an_outage_takes_touches_and_works_when_it_is_over(
    app_store: FaultyStore, path: Path
) -> None:
    app = app_on(app_store, path)
    with app_store.down():
        await app.__aenter__()
        await app.start()
        assert (await app.touch("work", "u1")).outcome == "spooled"
        assert not app.is_running()
        assert any("waits for the store" in reason for reason in app.health().reasons)
        with pytest.raises(StoreUnavailable):
            await app.counts()

    async def ran() -> bool:
        counts = (await app.counts()).get("work") if app.is_running() else None
        return counts is not None and counts.succeeded_total == 1

    await until(ran)
    await until(lambda: app.health().ok)
    assert (await app.touch("work", "u2")).outcome == "created"
    await app.__aexit__(None, None, None)
    assert not app.is_running()
    with pytest.raises(RotaError, match="not connected"):
        await app.counts()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("rota-")]


async def test_an_app_that_began_and_ended_during_an_outage_leaves_its_touches_to_the_next(
    app_store: FaultyStore, path: Path
) -> None:
    app = app_on(app_store, path)
    with app_store.down():
        async with app, app:
            await app.start()
            assert (await app.touch("work", "u1")).outcome == "spooled"
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("rota-")]
    following = app_on(app_store, path)
    async with following, following:
        await until(lambda: following.health().last_offered_at is not None)
        assert (await following.counts())["work"].pending == 1


async def test_what_is_wrong_with_the_store_is_no_outage(path: Path) -> None:
    class Newer(MemoryStore):
        async def open(self) -> None:
            raise SchemaMismatch("It was written by a newer Rota.")

    app = app_on(Newer(), path)
    with pytest.raises(SchemaMismatch):
        await app.start()


def test_without_an_event_loop_an_outage_at_the_start_is_outlived_too(app_store: FaultyStore, path: Path) -> None:
    app = app_on(app_store, path)
    with app_store.down():
        assert app.sync.touch("work", "u1").outcome == "spooled"
    assert _reached(lambda: app.health().spooled == 0)
    assert app.sync.wait(app.counts())["work"].pending == 1
    app.sync.close()


async def test_stopping_while_the_store_is_away(
    app_store: FaultyStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.runtime.spool.PATIENCE", PATIENCE)
    config = load_config({"spool": str(path), "scheduler": {"tasks": {"work": {"interval": 60}}}}, environ={})
    scheduler = TaskScheduler(app_store, config)
    app_store.slow(600, "open")
    assert await scheduler.schedule_user_task("work", "u1") is True
    async with asyncio.timeout(60):
        await scheduler.stop()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "rota-spool"]


def test_without_an_event_loop_too(app_store: FaultyStore, path: Path) -> None:
    app = app_on(app_store, path)
    with app.sync:
        with app_store.down("touch"):
            assert app.sync.touch("work", "u1").outcome == "spooled"
        assert _reached(lambda: app.health().spooled == 0)


def _reached(condition: Callable[[], bool]) -> bool:
    asyncio.run(until(condition))
    return condition()


async def test_without_a_spool_a_store_that_is_away_is_an_error(app_store: FaultyStore) -> None:
    app = Rota({"spool": "off"}, store=app_store)
    app.on_activity(nothing)
    async with app:
        with app_store.down("touch"), pytest.raises(StoreUnavailable):
            await app.touch("nothing", "u1")


async def nothing() -> None:
    """No work."""
