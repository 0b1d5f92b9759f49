"""`kill -9` of `rota up`, a real process, in mid-run: the agent is gone, the run is `lost`, the schedule goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from rota import Rota
from rota.agents import AgentSettings, Caller, Limits, install_agents
from rota.testing.waiting import until

# The lease is far longer than it takes to end an agent, and than any instance that lives is held up.
CONFIG = """
store: {url}
lease: 15s
sweep_interval: 200ms
agents:
  groups_dir: {groups}
  isolation: process
  command: {command}
"""
# Each copy writes a file of its own, and one for every other copy that it meets alive. It does not end when asked to.
AGENT = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for name in os.listdir('.'):
    if name.startswith('pid-') and os.path.exists('/proc/' + name[4:]):
        open('met-' + name, 'w').close()
open('pid-%d' % os.getpid(), 'w').close()
time.sleep(300)
"""


def pids(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def start(config: Path) -> asyncio.subprocess.Process:
    """`rota up`, as anybody starts it, on a port of its own."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rota.cli", "up", "--config", str(config), "--port", "0"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        cwd=config.parent,
    )


@pytest.mark.timeout(400)  # more than all that is waited for here
async def test_killing_rota_ends_the_agent_and_the_schedule_goes_on(
    tmp_path: Path, groups_dir: Path, python: str
) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}?synchronous=OFF"
    ann = Caller.person("ann")
    settings = AgentSettings(groups_dir=groups_dir, isolation="process", limits=Limits())
    app = Rota(url)
    agents = install_agents(app, settings)
    async with app:
        await (await agents.groups()).add("family")
        made = await agents.schedule_task(
            ann, group="family", prompt="x", schedule_type="interval", schedule_value="1h"
        )
        await agents.run_task(ann, made.id)

    folder = groups_dir / "family"
    config = tmp_path / "service.yaml"
    config.write_text(CONFIG.format(url=url, groups=groups_dir, command=json.dumps([python, "-c", AGENT])))
    programs = [await start(config)]
    try:
        await until(lambda: pids(folder))
        (agent,) = pids(folder)
        programs.append(await start(config))  # stands by, and must not take the run over too early
        os.kill(programs[0].pid, signal.SIGKILL)
        await programs[0].wait()
        # The lease has to end first, and is prolonged once if nobody has swept for a while.
        await until(lambda: len(pids(folder)) == 2, "the run was taken over", seconds=120)
        assert list(folder.glob("met-*")) == [], "gone before anybody else took the run over"
        assert [pid for pid in pids(folder) if is_alive(pid)] == [pid for pid in pids(folder) if pid != agent]
        async with app:
            rows = (await agents.task_history(ann, made.id)).items
            assert [row["status"] for row in rows] == ["lost"]
            (running,) = await agents.running(ann)
            assert running.token > rows[0]["token"]
    finally:
        for process in programs:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    await until(lambda: not any(is_alive(pid) for pid in pids(folder)))
