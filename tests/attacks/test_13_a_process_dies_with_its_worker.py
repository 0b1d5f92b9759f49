"""A handler's own process ends with its worker: its task is taken over, and would be worked on twice."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from rota import Rota
from rota.testing.waiting import until_blocking

_PROGRAM = """
    import asyncio, sys
    from rota import Rota
    from {module} import {function} as function

    app = Rota("memory://")
    app.task(name="work", process=True)(function)

    async def main():
        async with app:
            await app.start()
            await app.schedule("work", sys.argv[1])
            await asyncio.Event().wait()

    asyncio.run(main())
"""


def with_a_child(payload: str) -> None:
    """Starts a process itself, writes down both, and ignores every wish to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    _write_down(Path(payload), os.getpid(), grandchild.pid)
    while True:
        time.sleep(1)


def without_a_break(payload: str) -> None:
    """Native code that never lets another thread of its process run, with a process of its own."""
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    _write_down(Path(payload), os.getpid(), grandchild.pid)
    ctypes.PyDLL(None).sleep(600)


def reads_its_input() -> str:
    return repr(sys.stdin.read())


def _write_down(path: Path, *pids: int) -> None:
    path.with_suffix(".part").write_text(" ".join(map(str, pids)))
    path.with_suffix(".part").rename(path)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # its new parent may take its time to bury it


@pytest.mark.parametrize("function", [with_a_child, without_a_break])
def test_a_killed_workers_process_is_gone_with_all_it_started(function: object, tmp_path: Path) -> None:
    name = str(getattr(function, "__name__", ""))
    program, started = tmp_path / "program.py", tmp_path / "pids"
    program.write_text(dedent(_PROGRAM.format(module=__name__, function=name)))
    root = str(Path(__file__).parents[2])
    worker = subprocess.Popen([sys.executable, program, started], env={**os.environ, "PYTHONPATH": root})
    pids: list[int] = []
    try:
        until_blocking(started.exists, "the handler runs")
        pids = [int(pid) for pid in started.read_text().split()]
        assert all(map(is_alive, pids))
        worker.kill()
        worker.wait()
        until_blocking(lambda: not any(map(is_alive, pids)), "nothing of it is left", seconds=20)
    finally:
        worker.kill()
        for pid in filter(is_alive, pids):
            os.kill(pid, signal.SIGKILL)


async def test_a_handler_that_reads_its_input_finds_nothing_and_breaks_nothing() -> None:
    app = Rota("memory://")
    app.task(name="work", process=True)(reads_its_input)
    async with app:
        receipt = await app.schedule("work", "x" * 200_000)
        assert await app.run_until_idle() == 1
        task = await app.tasks.get("work", receipt.key)
        assert task is not None
        assert (task.status, task.result) == ("completed", "''")
