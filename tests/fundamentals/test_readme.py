"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_program_does_what_its_comments_say(tmp_path: Path) -> None:
    (program,) = blocks("python")
    (tmp_path / "assistant.py").write_text(program)
    said = run([sys.executable, "assistant.py"], tmp_path).splitlines()
    assert said == ["coalesced 9", "compressing the memory of u1 on phone", "1 run"]


def test_the_schedule_commands_work(tmp_path: Path) -> None:
    """On the store that the README's program has made, with a type that a schedule may be made for."""
    app = "from rota import Rota\napp = Rota('sqlite:///rota.db')\n@app.task\nasync def report(payload): ...\n"
    connect = "import asyncio\nasync def main():\n    async with app: pass\nasyncio.run(main())\n"
    run([sys.executable, "-c", app + connect], tmp_path)
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("rota ")]
    assert len(commands) >= 5
    for line in commands:
        if not line.startswith("rota worker"):
            arguments = re.findall(r"'[^']*'|\"[^\"]*\"|\S+", line)[1:]
            run([sys.executable, "-m", "rota.cli", *(argument.strip("'\"") for argument in arguments)], tmp_path)
