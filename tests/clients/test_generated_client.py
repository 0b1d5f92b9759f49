"""A client in Python, made from the description by a generator that knows nothing of Rota: without a warning, and it
works.

`make client` gets the generator; without it this test is skipped, and fails in CI.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Final

import pytest
from tests.api.stage import serving, staged

from rota.access import Role

ENVIRONMENT: Final = Path(__file__).parents[2] / ".cache" / "client-venv" / "bin"
SETTINGS: Final = Path(__file__).parent / "generator.yaml"
PROGRAM: Final = Path(__file__).parent / "program.py"


@pytest.fixture
def generator() -> Path:
    path = ENVIRONMENT / "openapi-python-client"
    if path.exists():
        return path
    sentence = "There is no generator of clients here: `make client` gets it."
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)


async def test_a_client_is_made_without_a_warning_and_works(generator: Path, sqlite_url: str, tmp_path: Path) -> None:
    async with staged(sqlite_url) as stage, serving(stage) as port:
        (tmp_path / "rota.json").write_text(json.dumps(stage.api.openapi()))
        said = await run(
            str(generator), "generate", "--path", "rota.json", "--output-path", "rota_client", "--meta", "none",
            "--config", str(SETTINGS), "--fail-on-warning", at=tmp_path,
        )  # fmt: skip
        assert "Warning" not in said, said
        answer = await run(
            str(ENVIRONMENT / "python"), str(PROGRAM), f"http://localhost:{port}", stage.secrets[Role.OPERATOR],
            at=tmp_path,
        )  # fmt: skip
        seen = json.loads(answer)
        assert seen.pop("modules") > 200  # a module for each operation and each model
        assert seen == {"made": "created", "listed": ["from-a-client"], "refused": "unknown_task_type"}


async def run(*command: str, at: Path) -> str:
    """What a program says, if it ends well. The generator looks for its formatter on the way, and the program for what
    was made in the folder that it is run in."""
    way = f"{ENVIRONMENT}{os.pathsep}{os.environ['PATH']}"
    surroundings = {**os.environ, "PATH": way, "PYTHONPATH": str(at)}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=at, env=surroundings, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, error = await process.communicate()
    assert process.returncode == 0, f"{command[0]} ended with {process.returncode}: {out.decode()} {error.decode()}"
    return out.decode()
