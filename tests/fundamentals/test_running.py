"""Serving until stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rota import Rota, RotaError
from rota.testing.waiting import PATIENCE


async def test_run_serves_until_stopped(url: str):
    """Real time: what is due at once starts at once."""
    app = Rota(url)
    done = asyncio.Event()

    @app.task
    async def work() -> None:
        done.set()

    async with app, asyncio.timeout(PATIENCE):
        serving = asyncio.create_task(app.run())
        await work.schedule()
        await done.wait()
        assert app.is_running()
        await app.stop()
        await serving

    assert not app.is_running()


async def test_start_works_in_the_background(url: str):
    """Inside a web server's lifespan, for example. Leaving `async with` stops it."""
    app = Rota(url)
    done = asyncio.Event()

    @app.task
    async def work() -> None:
        done.set()

    async with asyncio.timeout(PATIENCE):
        async with app:
            await app.start()
            await app.start()  # again: harmless
            assert app.is_running()
            await work.schedule()
            await done.wait()
    assert not app.is_running()


async def test_health_says_whether_the_worker_works(url: str):
    app = Rota(url)
    assert not app.health().ok
    async with app:
        await app.start()
        assert app.health().ok


async def test_an_app_that_is_not_connected_says_so(app: Rota):
    @app.on_activity(after="30m")
    async def memory_compression(user_id: str) -> None: ...

    with pytest.raises(RotaError, match=r"not connected\. Use it inside `async with app:`"):
        await memory_compression.touch(user_id="u1")


PROGRAM = """
import asyncio, sys
from rota import Rota

app = Rota(sys.argv[1])

@app.task
async def long_work():
    print("working", flush=True)
    try:
        await asyncio.sleep(float(sys.argv[2]))
        print("finished", flush=True)
    except asyncio.CancelledError:
        print("cancelled", flush=True)
        raise

async def main():
    async with app:
        await long_work.schedule(key="k")
        await app.run()
        print("goodbye", (await app.tasks.get("long_work", "k")).status.value, flush=True)

asyncio.run(main())
"""


def _program(tmp_path: Path, url: str, seconds: float) -> subprocess.Popen[str]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = [sys.executable, str(path), url, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def _lines_until(program: subprocess.Popen[str], wanted: str) -> list[str]:
    assert program.stdout is not None
    lines: list[str] = []
    for line in program.stdout:
        lines.append(line.strip())
        if line.startswith(wanted):
            return lines
    raise AssertionError(f"the program ended without {wanted!r}: {lines}")


def test_the_first_signal_lets_work_finish(tmp_path: Path, url: str):
    with _program(tmp_path, url, 1.0) as program:
        _lines_until(program, "working")
        program.send_signal(signal.SIGTERM)
        lines = _lines_until(program, "goodbye")
        assert program.wait(PATIENCE) == 0
    assert "finished" in lines
    assert lines[-1] == "goodbye completed"


def test_the_second_signal_ends_it_at_once(tmp_path: Path, url: str):
    """What was not finished is released, and waits for another worker."""
    with _program(tmp_path, url, 60.0) as program:
        _lines_until(program, "working")
        program.send_signal(signal.SIGINT)
        program.send_signal(signal.SIGTERM)
        lines = _lines_until(program, "goodbye")
        assert program.wait(PATIENCE) == 0
    assert "cancelled" in lines
    assert lines[-1] == "goodbye pending"
