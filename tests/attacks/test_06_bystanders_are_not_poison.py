"""A task that kills its process ends as poison alone: what ran beside it is done in the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from rota.core.task import Identity, NewTask, Task
from rota.core.task_type import TaskType
from rota.stores import open_store
from rota.testing.waiting import until

INNOCENT = [f"innocent-{number}" for number in range(4)]

_PROGRAM = """
    import asyncio, os, sys
    from rota import Rota, Run

    app = Rota({"store": sys.argv[1], "lease": "3s"})
    here = set()

    @app.task(max_retries=0)
    async def work(run: Run) -> None:
        here.add(run.key)
        if run.key == "pill":
            # With everybody that comes along, or after a second alone.
            for _ in range(100):
                if len(here) == 5:
                    break
                await asyncio.sleep(0.01)
            os._exit(9)
        await asyncio.sleep(1.5)

    asyncio.run(app.run(timeout=1))
"""


@pytest.mark.parametrize("store", ["sqlite", "redis"])
async def test_a_pill_among_innocents_ends_alone(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url: str = request.getfixturevalue(f"{store}_url")
    program = tmp_path / "program.py"
    program.write_text(dedent(_PROGRAM))
    opened = open_store(url)
    await opened.open()
    await opened.put_types([TaskType(name="work", max_retries=0)])
    await opened.schedule([NewTask(task_type="work", key=key) for key in [*INNOCENT, "pill"]])
    workers = [subprocess.Popen([sys.executable, program, url])]  # noqa: ASYNC220 - it starts at once

    async def tasks() -> list[Task]:
        found = await opened.get([Identity("work", key) for key in [*INNOCENT, "pill"]])
        return [task for task in found if task is not None]

    async def is_over() -> bool:
        if workers[-1].poll() is not None:
            workers.append(subprocess.Popen([sys.executable, program, url]))  # noqa: ASYNC220
        return all(task.status.value in ("completed", "failed") for task in await tasks())

    try:
        await until(is_over, "all of them have ended", seconds=240)
        *innocent, pill = await tasks()
    finally:
        workers[-1].kill()
        workers[-1].wait()
        await opened.close()
    assert (pill.status.value, pill.reason, len(workers)) == ("failed", "poison", 4)
    assert [task.status.value for task in innocent] == ["completed"] * 4
