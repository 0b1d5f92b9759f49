"""The built-in agent runs for every group, wherever Rota itself lies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rota.agents.isolation import AgentInput
from rota.agents.isolation.command import filled
from rota.agents.settings import ECHO, echo_command

GIVEN = AgentInput(prompt="tea at five?", group_folder="family", chat_jid="x", data={"n": 1})


def answer_of(command: tuple[str, ...], user: int | None = None) -> dict[str, object]:
    request = {"prompt": GIVEN.prompt, "sessionId": None, "data": GIVEN.data}
    done = subprocess.run(
        command, input=json.dumps(request), capture_output=True, text=True, check=True, user=user, cwd="/", env={}
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_it_says_back_what_it_was_asked() -> None:
    answer = answer_of(filled((sys.executable, "-I", "-S", str(ECHO)), GIVEN))
    assert (answer["status"], answer["result"]) == ("success", 'tea at five?\n{"n": 1}')


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root's groups have users of their own.")
def test_a_groups_user_can_run_it_where_nobody_else_may_look(tmp_path: Path) -> None:
    if shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip("No python3 here can be run by another user than root.")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shutil.copy(ECHO, closed)
    interpreter = closed / "python"
    interpreter.symlink_to(sys.executable)
    command = filled(echo_command(interpreter, closed / ECHO.name), GIVEN)
    assert answer_of(command, user=1_900_000_001)["result"] == 'tea at five?\n{"n": 1}'


def test_what_everybody_may_read_is_run_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert echo_command(tmp_path / "python", ECHO) == (str(tmp_path / "python"), "-I", "-S", str(ECHO))
