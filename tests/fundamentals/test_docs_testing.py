"""All that the page about testing shows: its program, its settings, and its tests, run by a pytest of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
PROGRAM = "# assistant.py\n"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_every_recipe_works(tmp_path: Path) -> None:
    (program,) = (block for block in blocks("python") if block.startswith(PROGRAM))
    recipes = "\n".join(block for block in blocks("python") if not block.startswith(PROGRAM))
    (settings,) = blocks("toml")
    (tmp_path / "assistant.py").write_text(program)
    (tmp_path / "pyproject.toml").write_text(settings)
    (tmp_path / "test_assistant.py").write_text(recipes)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:randomly", "-p", "no:cacheprovider"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{recipes.count('def test_')} passed" in done.stdout
    # Nobody was asked for the store that the program names, and nothing was left beside it.
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("__")) == [
        *("assistant.py", "pyproject.toml", "test_assistant.py")
    ]
