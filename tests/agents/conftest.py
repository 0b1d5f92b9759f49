"""What the agents' tests start from: folders that agents can reach, an interpreter that they may run, an app."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.agents.sandbox import require_bubblewrap

from rota import Rota
from rota.agents import Agents, AgentSettings, Limits, install_agents
from rota.agents.isolation import BubblewrapIsolation, Isolation, ProcessIsolation
from rota.agents.settings import ECHO
from rota.testing import FakeClock


@pytest.fixture(autouse=True)
def _no_configuration_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] -- pytest uses it
    """Neither a rota.yaml nor a ROTA_* variable of the machine has a say here."""
    monkeypatch.chdir(tmp_path)
    for name in ("ROTA_CONFIG", "ROTA_STORE", "ROTA_TIMEZONE", "TIMEZONE", "TZ"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def groups_dir() -> Generator[Path]:
    """Not below pytest's own folder, which is closed to every other user: for root, agents run as one."""
    with tempfile.TemporaryDirectory(prefix="rota-agents-") as folder:
        path = Path(folder)
        path.chmod(0o711)
        yield path


@pytest.fixture(scope="session")
def python() -> str:
    """An interpreter that the agents' user may run. The one of the tests may lie in somebody's closed home."""
    if os.geteuid() != 0 or _is_open_to_all(Path(sys.executable).resolve()):
        return sys.executable
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    if found is None:
        pytest.skip("No python3 here can be run by another user than root, and agents of root run as another user.")
    return found


def _is_open_to_all(path: Path) -> bool:
    return all(part.stat().st_mode & 0o005 == 0o005 for part in (path, *path.parents))


@pytest.fixture(params=["process", "bubblewrap"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    """Every isolation that needs no image; bubblewrap must be there where CI can install it."""
    return ProcessIsolation() if request.param == "process" else require_bubblewrap()


@pytest.fixture
def bubblewrap() -> BubblewrapIsolation:
    return require_bubblewrap()


@pytest.fixture
def app(sqlite_url: str, clock: FakeClock) -> Rota:
    return Rota(sqlite_url, clock=clock)


@pytest.fixture
def settings(groups_dir: Path, python: str) -> AgentSettings:
    """The echo agent as a plain process: the handler and the service are the same in every isolation."""
    return AgentSettings(
        groups_dir=groups_dir,
        isolation="process",
        command=(python, "-I", "-S", str(ECHO)),
        # Nothing here needs as long, on however busy a machine.
        limits=Limits(wall_ms=120_000, grace_ms=300),
        gate_ms=120_000,
    )


@pytest.fixture
def agents(app: Rota, settings: AgentSettings) -> Agents:
    return install_agents(app, settings)
