"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rota.cli import main

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def programs() -> dict[str, str]:
    """The programs, by the file that their first line names."""
    return {block.partition("\n")[0].removeprefix("# "): block for block in blocks("python")}


def test_every_program_is_run_here() -> None:
    assert set(programs()) == {"assistant.py", "chat.py", "orders.py"}


def test_the_program_does_what_its_comments_say(tmp_path: Path) -> None:
    (tmp_path / "assistant.py").write_text(programs()["assistant.py"])
    said = run([sys.executable, "assistant.py"], tmp_path).splitlines()
    # Whoever runs it at nine in Shanghai hears that too.
    mornings = said.count("good morning")
    assert [line for line in said if line != "good morning"] == [
        *("coalesced 9", "compressing the memory of u1 on phone"),
        f"{1 + mornings} run",
    ]


def test_an_event_reaches_its_consumer(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(programs()["orders.py"])
    assert "billing 12" in run([sys.executable, "orders.py"], tmp_path).splitlines()


def test_the_application_answers(tmp_path: Path) -> None:
    client = (
        "from starlette.testclient import TestClient\n"
        "from chat import api\n"
        "with TestClient(api, base_url='http://localhost') as client:\n"
        "    print(client.post('/messages?user=ada').json(), client.get('/rota/healthz').status_code)\n"
    )
    (tmp_path / "chat.py").write_text(programs()["chat.py"])
    said = run([sys.executable, "-c", client], tmp_path)
    assert said.splitlines()[-1] == "{'upkeep': 'created'} 200"
    assert (tmp_path / "chat.token").stat().st_mode & 0o777 == 0o600


def test_the_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the page, on a store with a type that a schedule may be made for."""
    app = "from rota import Rota\napp = Rota('sqlite:///rota.db')\n@app.task\nasync def report(payload): ...\n"
    connect = "import asyncio\nasync def main():\n    async with app: pass\nasyncio.run(main())\n"
    run([sys.executable, "-c", app + connect], tmp_path)
    monkeypatch.chdir(tmp_path)
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("rota ")]
    assert len(commands) >= 12
    for line in commands:
        words = shlex.split(line, comments=True)[1:]
        # Those serve, or wait for somebody who does: tests of their own start that too.
        if words[0] not in ("up", "worker", "mcp", "batch"):
            assert main(words) == 0, line
