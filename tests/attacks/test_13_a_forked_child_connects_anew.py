"""An app that was used before a fork works in the child, or says what to do; it never hangs, and the parent goes on.

Every fork happens in a program of its own: the process of the tests has threads that a child would miss.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

_BEGINNING = """
    import asyncio, os, signal, sys, threading
    from rota import Rota

    def make(url):
        app = Rota(url, spool="off")

        @app.on_activity(after="1h")
        async def act(user_id: str): ...

        return app

    def in_a_child(function):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)  # whatever hangs is ended
            try:
                said = function()
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(write, str(said).encode())
            os._exit(0)
        os.close(write)
        said = b""
        while part := os.read(read, 4096):
            said += part
        os.waitpid(pid, 0)
        return said.decode() or "nothing: it hung"

    def touch(app, user):
        return app.sync.touch("act", user).outcome.value

    url = sys.argv[1]
"""

_SYNC = """
    app = make(url)
    print(touch(app, "parent"))
    print(in_a_child(lambda: touch(app, "child")))
    print(in_a_child(lambda: touch(app, "child")))
    print(touch(app, "parent again"))
    app.sync.close()
"""

_UNCONNECTED = """
    app = make(url)
    print(in_a_child(lambda: touch(app, "one")))
    print(in_a_child(lambda: touch(app, "two")))
    print(touch(app, "parent"))
    app.sync.close()
"""

_INSIDE_A_LOOP = """
    app = make(url)

    async def use(user):
        async with app:
            return (await app.touch("act", user)).outcome.value

    async def main():
        async with app:
            print((await app.touch("act", "parent")).outcome.value)

            def inside():
                asyncio._set_running_loop(None)  # as the children of multiprocessing do
                return asyncio.run(use("child"))

            print(in_a_child(inside))
            print((await app.touch("act", "parent again")).outcome.value)

    asyncio.run(main())
    print(in_a_child(lambda: asyncio.run(use("after the loop"))))
"""

_HELD_LOCK = """
    app = make(url)
    print(touch(app, "parent"))
    with app.sync._lock:  # as if another thread were just about to call
        print(in_a_child(lambda: touch(app, "child")))
    app.sync.close()
"""

_WORKER = """
    app = make(url)

    async def main():
        async with app:
            await app.start()
            print(in_a_child(lambda: (app.is_running(), touch(app, "child"))))
            print(app.is_running())
            await app.stop()

    asyncio.run(main())
"""

_PARENT_CLOSES_FIRST = """
    app = make(url)
    touch(app, "parent")
    told, tell = os.pipe()
    go, let_go = os.pipe()

    def inside():
        touch(app, "child")
        os.write(tell, b".")
        os.read(go, 1)
        return touch(app, "child after the parent has closed")

    thread = threading.Thread(target=lambda: print(in_a_child(inside)))
    thread.start()
    os.read(told, 1)
    app.sync.close()
    os.write(let_go, b".")
    thread.join()

    async def seen():
        async with make(url) as other:
            return [task.key.partition(":")[0] for task in (await other.tasks.find(task_type="act")).items]

    print(*sorted(asyncio.run(seen())), sep=", ")
"""

EXPECTED = {
    "sync": (_SYNC, ["created", "created", "coalesced", "created"]),
    "unconnected": (_UNCONNECTED, ["created"] * 3),
    "inside a loop": (_INSIDE_A_LOOP, ["created"] * 4),
    "held lock": (_HELD_LOCK, ["created"] * 2),
    "worker": (_WORKER, ["(False, 'created')", "True"]),
    "parent closes first": (_PARENT_CLOSES_FIRST, ["created", "child, child after the parent has closed, parent"]),
}


def said_by(program: str, url: str, folder: Path) -> list[str]:
    path = folder / "program.py"
    path.write_text(dedent(_BEGINNING) + dedent(program))
    ran = subprocess.run(
        [sys.executable, "-u", path, url], capture_output=True, text=True, timeout=300, cwd=folder, env=dict(os.environ)
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres"])
@pytest.mark.parametrize("way", EXPECTED)
def test_it_works_in_the_child_and_in_the_parent(
    store: str, way: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url: str = request.getfixturevalue(f"{store}_url")
    program, expected = EXPECTED[way]
    assert said_by(program, url, tmp_path) == expected


def test_what_is_in_the_parents_memory_is_refused(tmp_path: Path) -> None:
    """What a child put there would be lost with it."""
    created, refused, coalesced, again = said_by(_SYNC, "memory://", tmp_path)
    assert (created, again) == ("created", "created")
    assert "Fork before the app connects" in refused
    assert coalesced == refused


_BUSY = """
    import rota.forking
    from sqlalchemy import text

    rota.forking.PATIENCE = 0.1
    app = make(url)
    print(touch(app, "parent"))
    begun, go = threading.Event(), threading.Event()

    def endless(connection):
        begun.set()
        go.wait()

    async def write():
        await (await app.database()).write(endless)

    thread = threading.Thread(target=lambda: app.sync.wait(write()))
    thread.start()
    begun.wait()
    print(in_a_child(lambda: touch(app, "child")))
    go.set()
    thread.join()
    print(touch(app, "parent again"))
    app.sync.close()
"""


def test_a_fork_in_the_middle_of_a_long_transaction_is_told(sqlite_url: str, tmp_path: Path) -> None:
    before, refused, after = said_by(_BUSY, sqlite_url, tmp_path)
    assert (before, after) == ("created", "created")
    assert "Fork again" in refused
