"""The server of a real model, for as long as the tests of a file run."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

ENVIRONMENT = Path(__file__).parents[2] / ".cache" / "llm-venv"
SERVER = Path(__file__).with_name("model_server.py")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Where it listens. Without its environment the tests that want it are skipped."""
    if not (ENVIRONMENT / "ready.stamp").exists():
        pytest.skip("There is no environment with a model here: `make test-llm` makes one.")
    told = tmp_path_factory.mktemp("model") / "log"
    with told.open("w") as log:
        server = subprocess.Popen(
            [ENVIRONMENT / "bin" / "python", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            encoding="utf-8",
        )
        with server:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            assert address, f"the server of the model did not start:\n{told.read_text()}"
            yield address
            server.kill()  # it may still be talking
