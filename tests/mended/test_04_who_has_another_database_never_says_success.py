"""Instances that share a store and not the database: only the one that has the data does the work, and the others say
so. They used to run each other's tasks, find nothing to do, and call that a success."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rota import Rota
from rota.errors import RotaError
from rota.memory import ChatMessagePush, Memory, install_memory
from rota.testing.redis_servers import RedisServer
from rota.testing.waiting import until, until_blocking

REFUSED = "belong to another database"


@pytest.fixture(params=["redis", "postgres"])
def shared_url(request: pytest.FixtureRequest) -> str:
    """A store that instances on several hosts would share."""
    return request.getfixturevalue(f"{request.param}_url")


def instance(store: str, folder: Path) -> tuple[Rota, Memory]:
    """An instance whose database is a file in a folder of its own."""
    folder.mkdir(exist_ok=True)
    configuration = {
        "store": store,
        "spool": "off",
        "database": f"sqlite:///{folder}/rota.db?synchronous=OFF",
        "memory": {"settling": "0s"},
        "scheduler": {
            "tasks": {"memory_compression": {"interval": "1s"}},
            "executor": {"check_interval": "1s"},
        },
    }
    app = Rota(configuration)
    return app, install_memory(app)


async def push(memory: Memory, user_id: str) -> None:
    await memory.push_message(ChatMessagePush(user_id=user_id, content="I love hiking in the mountains."))
    await memory.drain()


async def looked_at(app: Rota) -> dict[str | None, int]:
    """How many contexts each user's runs of compression have found."""
    page = await app.runs("memory_compression", limit=100)
    assert {run.status for run in page.items} <= {"success"}
    return {run.user_id: json.loads(str(run.result))["looked_at"] for run in page.items}


async def is_due(app: Rota) -> bool:
    store = await app.store()
    return (await store.next_due_by_type())["memory_compression"] < await store.now()


async def test_only_who_has_the_data_captures_and_runs(shared_url: str, tmp_path: Path) -> None:
    (one, memory), (other, memory_elsewhere) = (instance(shared_url, tmp_path / name) for name in ("a", "b"))
    async with one, other:
        await push(memory, "u1")
        with pytest.raises(RotaError, match=f"{REFUSED}.*a/rota.db.*postgresql://.*prefix.*rota database adopt"):
            await push(memory_elsewhere, "u2")
        assert not await (await memory_elsewhere.contexts()).forgotten(2**52, after=None, limit=9), "it kept nothing"
        with pytest.raises(RotaError, match=REFUSED):
            await memory_elsewhere.periodic_memory_compression_for_user("u1")
        await other.start()
        await until(lambda: any(REFUSED in reason for reason in other.health().reasons), "it says so")
        assert not other.health().ok
        await until(lambda: is_due(one), "the task is due, and nobody else is there")
        assert await looked_at(one) == {}
        await one.start()
        await until(lambda: looked_at(one), "who has the data has run")
        assert await looked_at(one) == {"u1": 1}


async def test_the_same_database_may_serve_again_and_twice(shared_url: str, tmp_path: Path) -> None:
    """A restart, and several processes in one folder."""
    app, memory = instance(shared_url, tmp_path)
    async with app:
        await push(memory, "u1")
    (again, memory_again), (beside, memory_beside) = instance(shared_url, tmp_path), instance(shared_url, tmp_path)
    async with again, beside:
        await push(memory_again, "u2")
        await push(memory_beside, "u3")
        await again.start()
        await beside.start()

        async def all_ran() -> bool:
            return len(await looked_at(again)) == 3

        await until(all_ran, "all three were compressed")
        assert await looked_at(again) == {"u1": 1, "u2": 1, "u3": 1}
        assert (again.health().reasons, beside.health().reasons) == ((), ())


async def test_a_person_says_which_one_it_is_now(shared_url: str, tmp_path: Path) -> None:
    (one, memory), (other, memory_elsewhere) = (instance(shared_url, tmp_path / name) for name in ("a", "b"))
    async with one, other:
        await push(memory, "u1")
        await one.start()
        await other.start()
        await until(lambda: other.health().reasons, "it says that it leaves memory alone")
        await other.host.database_owner.adopt(await other.store(), "memory")
        await until(lambda: not other.health().reasons, "it has heard of it")
        await until(lambda: one.health().reasons, "so has the other")
        await push(memory_elsewhere, "u2")

        async def has_run() -> bool:
            return (await looked_at(one)).get("u2") == 1

        await until(has_run, "it was found where it is")


async def test_an_emptied_store_belongs_to_whom_it_belonged(redis: RedisServer, redis_url: str, tmp_path: Path) -> None:
    (one, memory), (other, memory_elsewhere) = instance(redis_url, tmp_path / "a"), instance(redis_url, tmp_path / "b")
    async with one, other:
        await push(memory, "u1")
        await one.start()
        await other.start()
        await until(lambda: other.health().reasons, "it says that it leaves memory alone")
        redis.ask("FLUSHALL")

        async def is_noted_again() -> bool:
            return await (await one.store()).noted("database of memory") is not None

        await until(is_noted_again, "somebody has said whose it is")
        assert not any(REFUSED in reason for reason in one.health().reasons)
        with pytest.raises(RotaError, match=REFUSED):
            await push(memory_elsewhere, "u2")


# --- as people have it: two folders, one Redis -----------------------------------------------------------------------


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rota.cli", *arguments],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}


@contextmanager
def up(folder: Path, store: str) -> Generator[Path]:
    """`rota up` in a folder of its own; the file with what it says on stderr."""
    folder.mkdir()
    tasks = "tasks: {memory_compression: {interval: 1s}}"
    settings = f"scheduler: {{{tasks}, executor: {{check_interval: 1s}}}}\nmemory: {{settling: 0s}}\n"
    (folder / "rota.yaml").write_text(f"store: {store}\n{settings}")
    said = folder / "said"
    command = [sys.executable, "-m", "rota.cli", "up", "--port", "0"]
    with said.open("w") as stream:
        process = subprocess.Popen(
            command, cwd=folder, env=_environment(), stdout=subprocess.PIPE, stderr=stream, text=True
        )
    try:
        until_blocking(lambda: "worker started" in said.read_text() or process.poll() is not None, "it is up")
        assert process.poll() is None, said.read_text()
        yield said
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_two_services_in_two_folders(redis_url: str, tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    with up(one, redis_url) as said:
        assert call(one, "memory", "push", "u1", "I love hiking").returncode == 0
        assert REFUSED not in said.read_text()
        with up(other, redis_url) as said_elsewhere:
            assert f"error: The memory tasks of this store {REFUSED}" in said_elsewhere.read_text()
            refused = call(other, "memory", "push", "u2", "I love hiking")
            assert (refused.returncode, REFUSED in refused.stderr) == (3, True)
            healthy, ill = call(one, "doctor"), call(other, "doctor")
            assert (healthy.returncode, ill.returncode) == (0, 1), (healthy.stdout, ill.stdout)
            assert str(one / "rota.db") in ill.stdout
            assert "rota database adopt" in ill.stdout

            def runs() -> list[dict[str, str]]:
                listed = call(other, "run", "ls", "--type", "memory_compression", "--json")
                return json.loads(listed.stdout)["items"]

            until_blocking(runs, "it has run")
            assert [(run["user_id"], json.loads(run["result"])["looked_at"]) for run in runs()] == [("u1", 1)]
    # The first folder is lost for good.
    adopted = call(other, "database", "adopt")
    assert (adopted.returncode, str(one) in adopted.stdout) == (0, True)
    assert call(other, "doctor").returncode == 0
    assert call(other, "memory", "push", "u2", "I love hiking").returncode == 0
