"""Sinks: a command gets JSON and no shell, and its whole family ends with it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec
import pytest

from rota.alerts.alert_store import AlertNotice
from rota.alerts.delivery import Delivered
from rota.alerts.sinks import CommandFailed, CommandSink, LogSink
from rota.core.alert import AlertChange
from rota.testing.waiting import PATIENCE, until

NOTICE = AlertNotice(7, 1_000, "dead", "work", AlertChange.FIRING, "1", "1 task; $(rm -rf /)", Delivered.to(["there"]))


def python(code: str, *arguments: str) -> CommandSink:
    return CommandSink((sys.executable, "-c", code, *arguments), timeout=PATIENCE)


async def test_a_command_gets_the_alert_on_its_standard_input(tmp_path: Path) -> None:
    target = tmp_path / "seen"
    code = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_bytes(sys.stdin.buffer.read())"
    await python(code, str(target)).send(NOTICE, 2_000)
    said = msgspec.json.decode(target.read_bytes())
    assert said["type"] == "alert.firing"
    assert said["data"]["summary"] == "1 task; $(rm -rf /)"
    assert said["data"]["rule"] == "dead"


async def test_a_command_that_fails_says_what_it_said() -> None:
    with pytest.raises(CommandFailed, match="ended with 3: no pager"):
        await python("import sys; print('no pager', file=sys.stderr); sys.exit(3)").send(NOTICE, 0)


async def test_a_command_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(CommandFailed, match="cannot be started"):
        await CommandSink(("/nowhere/at/all",)).send(NOTICE, 0)


async def test_a_command_that_does_not_read_or_says_too_much_is_no_trouble() -> None:
    await python("import os; os.close(0)").send(NOTICE, 0)
    await python("import sys; sys.stderr.write('x' * 3_000_000)").send(NOTICE, 0)


async def test_a_command_that_hangs_is_ended_with_all_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, sys, pathlib, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path(sys.argv[1] + '.tmp').write_text(str(child.pid))\n"
        "pathlib.Path(sys.argv[1] + '.tmp').rename(sys.argv[1])\n"
        "time.sleep(600)\n"
    )
    sending = asyncio.create_task(python(code, str(pid_file)).send(NOTICE, 0))
    await until(lambda: pid_file.exists() or sending.done())
    # Its time is up as soon as it has its child, however long a busy machine took to start the two.
    loop = asyncio.get_running_loop()
    clock = loop.time
    monkeypatch.setattr(loop, "time", lambda: clock() + PATIENCE)
    with pytest.raises(CommandFailed, match=f"longer than {PATIENCE:g} s"):
        await sending
    pid = int(pid_file.read_text())
    await until(lambda: not _is_alive(pid))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        if not Path("/proc/self/stat").exists():
            return True
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    # An orphan that nobody has collected yet is dead all the same.
    return state != "Z"


async def test_the_log_takes_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await LogSink().send(NOTICE, 0)
    await LogSink().send(NOTICE._replace(change=AlertChange.RESOLVED), 0)
    assert "alert firing rule=dead subject=work" in caplog.text
    assert "alert resolved" in caplog.text
