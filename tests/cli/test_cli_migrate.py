"""`rota migrate`: between SQLite and PostgreSQL, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import pytest
from command_line import CallRota, Said, at

from rota.cli import migrate
from rota.clock import HOUR, MINUTE, SECOND
from rota.core.task import Activity, NewTask, Settlement, Task, Transition
from rota.core.task_type import TaskType
from rota.stores import open_store
from rota.stores.base import Beat, ClaimRequest, Snapshot, Store, TaskQuery
from rota.testing import FaultyStore
from rota.triggers import Interval, encode_trigger

T = TypeVar("T")

# Nothing happens in these stores but what a test does: `now` is given, so that no run depends on the hour.
START = 1_767_603_600_000


async def lived_in(store: Store) -> None:
    await store.put_types([TaskType(name="compress", interval_ms=MINUTE, max_retries=0), TaskType(name="off")])
    await store.override_type("off", {"enabled": False})
    users = [Activity(task_type="compress", key=f"u{n:03}", user_id=f"u{n:03}") for n in range(250)]
    await store.touch(users, now=START)
    request = ClaimRequest(wants=[("compress", 3)], instance="i", claim_id="c", lease_ms=10 * SECOND)
    done, dead, busy = (await store.claim(request, now=START + MINUTE)).tasks
    assert busy.status == "running"
    await store.settle([settled(done, Transition.COMPLETE), settled(dead, Transition.FAIL)], now=START + MINUTE)
    await store.purge([done.identity])
    hourly = encode_trigger(Interval(HOUR, START))
    await store.schedule([NewTask(task_type="compress", key="hourly", trigger=hourly, payload="{}")], now=START)


def settled(task: Task, transition: Transition) -> Settlement:
    return Settlement(task_type=task.task_type, key=task.key, token=task.token, transition=transition)


async def tasks(store: Store) -> list[Task]:
    return (await store.find(TaskQuery(limit=1_000))).items


async def snapshots(store: Store) -> list[Snapshot]:
    return (await store.export(limit=1_000)).items


MOVED: dict[str, object] = {
    "types": {"moved": 2, "skipped": 0, "refused": 0},
    "tasks": {"moved": 250, "skipped": 0, "refused": 0, "released": 1},
    "pasts": {"moved": 1, "skipped": 0, "refused": 0},
    "refused": [],
}


@pytest.fixture
def old(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/old.db?synchronous=OFF"
    at(url, lived_in)
    return url


@pytest.fixture
def new(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/new.db?synchronous=OFF"


def moved(rota: CallRota, old: str, new: str, *more: str) -> dict[str, Any]:
    said = rota("migrate", "--from", old, "--to", new, "--json", *more)
    assert said.code == 0, said.err
    return said.json


def check_equal(old: str, new: str) -> None:
    """Everything is there; only the task that was running is released."""
    there, here = at(old, snapshots), at(new, snapshots)
    assert [snapshot.identity for snapshot in here] == [snapshot.identity for snapshot in there]
    differing = [after for before, after in zip(there, here, strict=True) if before != after]
    assert [snapshot.task.status for snapshot in differing if snapshot.task] == ["pending"]


def test_everything_moves(rota: CallRota, old: str, new: str) -> None:
    report = moved(rota, old, new)

    assert {name: report[name] for name in MOVED} == MOVED
    check_equal(old, new)
    off = {record.task_type.name: record.enabled for record in at(new, lambda store: store.list_types())}
    assert off == {"compress": True, "off": False}


def test_there_and_back_over_postgresql(rota: CallRota, old: str, new: str, postgres_url: str) -> None:
    moved(rota, old, postgres_url)
    check_equal(old, postgres_url)

    moved(rota, postgres_url, new)

    assert at(new, snapshots) == at(postgres_url, snapshots)


def test_a_second_run_finds_nothing_to_do(rota: CallRota, old: str, new: str) -> None:
    moved(rota, old, new)

    again = moved(rota, old, new)

    assert again["types"] == {"moved": 0, "skipped": 2, "refused": 0}
    assert again["tasks"] == {"moved": 0, "skipped": 250, "refused": 0, "released": 0}


def test_a_move_that_broke_off_goes_on(rota: CallRota, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fragile(url: str, *, call_timeout: float | None = None) -> Store:
        store = FaultyStore(open_store(url, call_timeout=call_timeout))
        if url == new:
            restores = store.restore

            async def restore(group: list[Snapshot]) -> object:
                if store.calls.get("restore", 0) == 1:
                    store.torn("restore")
                return await restores(group)

            monkeypatch.setattr(store, "restore", restore)
        return store

    with monkeypatch.context() as patched:
        patched.setattr(migrate, "open_store", fragile)
        said = rota("migrate", "--from", old, "--to", new, "--json")
    assert said.code == 3
    assert "after 100 identities. Run the same command again" in said.error["message"]

    report = moved(rota, old, new)

    assert (report["tasks"]["skipped"], report["tasks"]["moved"] + report["pasts"]["moved"]) == (199, 51)
    check_equal(old, new)


def test_a_dry_run_writes_nothing(rota: CallRota, old: str, new: str, tmp_path: Path) -> None:
    report = moved(rota, old, new, "--dry-run")

    assert report["dry_run"] is True
    assert (report["types"]["moved"], report["tasks"]["moved"], report["pasts"]["moved"]) == (2, 250, 1)
    assert not (tmp_path / "new.db").exists()

    moved(rota, old, new)
    report = moved(rota, old, new, "--dry-run")
    assert (report["types"]["skipped"], report["tasks"]["skipped"]) == (2, 249)


def test_in_words(rota: CallRota, old: str, new: str) -> None:
    said = rota("migrate", "--from", old, "--to", new)

    assert said.code == 0
    assert said.out.startswith("Moved from sqlite:///")
    assert "  tasks  250 moved, 0 skipped, 0 refused, 1 released\n" in said.out
    assert said.out.endswith("Start no worker on it again.\n")


def test_while_somebody_works_there_it_is_refused(rota: CallRota, old: str, new: str) -> None:
    async def beat(store: Store) -> None:
        await store.tick(Beat(instance="i", host="web-1", pid=42, lease_ms=HOUR))

    at(old, beat)

    said = rota("migrate", "--from", old, "--to", new, "--json")

    assert said.code == 4
    assert "1 instances work on" in said.error["message"]
    assert "web-1:42" in said.error["message"]
    assert moved(rota, old, new, "--force")["tasks"]["moved"] >= 250


def test_an_instance_that_is_long_silent_does_not_count(rota: CallRota, old: str, new: str) -> None:
    async def beat(store: Store) -> None:
        await store.tick(Beat(instance="i", lease_ms=10 * SECOND), now=START + MINUTE)

    at(old, beat)
    assert moved(rota, old, new)["tasks"]["moved"] == 250


def test_an_override_of_the_new_store_wins(rota: CallRota, old: str, new: str) -> None:
    async def decided(store: Store) -> None:
        await store.put_types([TaskType(name="off", priority=9, version=2)])
        await store.override_type("off", {"enabled": True})

    at(new, decided)
    moved(rota, old, new)

    kept = {record.task_type.name: record for record in at(new, lambda store: store.list_types())}["off"]
    assert (kept.enabled, kept.task_type.priority) == (True, 9)


def refused(said: Said) -> str:
    assert said.code == 2
    return str(said.error["message"])


def test_what_cannot_be_moved(rota: CallRota, old: str, new: str, tmp_path: Path) -> None:
    same = f"sqlite:///{tmp_path}/../{tmp_path.name}/old.db"
    assert "the same store" in refused(rota("migrate", "--from", old, "--to", same, "--json"))
    assert "no such file" in refused(rota("migrate", "--from", new, "--to", old, "--json"))
    assert "no other process" in refused(rota("migrate", "--from", old, "--to", "memory://", "--json"))
    assert "--to" in refused(rota("migrate", "--from", old, "--json"))
    assert not (tmp_path / "new.db").exists()


def test_a_password_is_not_shown(rota: CallRota, old: str) -> None:
    said = rota("migrate", "--from", old, "--to", "postgresql://rota:hunter2@127.0.0.1:1/x", "--json")

    assert said.code == 3
    assert "hunter2" not in said.err
