"""Issue 11, 11: where nothing stands between an agent and Rota, no agent runs until a person has asked for that."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from rota import Rota
from rota.agents import AgentSettings, Caller, Limits, install_agents
from rota.agents.isolation import IsolationName, choose_isolation
from rota.agents.runs.janitor import Janitor
from rota.agents.settings import ECHO
from rota.cli import main
from rota.clock import SystemClock
from rota.errors import RunnerUnavailable
from rota.runtime.health import Pulse
from rota.testing import FakeClock

ANN = Caller.person("ann")


@pytest.fixture
def without_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with neither bubblewrap nor a container engine; answers where its programs are."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("python3", "prlimit", "setpriv", "true", "sh"):
        found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
        if found is not None:
            (programs / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.chdir(tmp_path)
    return programs


@pytest.fixture
def groups_dir() -> Generator[Path]:
    """Not below the tests' own folder, which is closed to a group's user."""
    with tempfile.TemporaryDirectory(prefix="rota-wall-") as made:
        Path(made).chmod(0o711)
        yield Path(made)


def test_a_plain_process_is_never_taken_by_itself(without_sandbox: Path) -> None:
    with pytest.raises(RunnerUnavailable) as refused:
        AgentSettings().choose()
    words = str(refused.value)
    assert "apt install bubblewrap" in words
    assert "agents.image" in words
    assert "agents.isolation: process" in words
    assert AgentSettings(isolation="process").choose().isolation.name == "process", "a person has written it"


def test_a_bubblewrap_that_may_do_nothing_is_none_and_its_words_are_said(without_sandbox: Path) -> None:
    """As in a container that forbids namespaces."""
    bwrap = without_sandbox / "bwrap"
    bwrap.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    bwrap.chmod(0o755)
    with pytest.raises(RunnerUnavailable, match="No permissions to create new namespace") as refused:
        choose_isolation()
    assert "let bwrap make namespaces" in str(refused.value).lower()
    assert "apt install" not in str(refused.value), "it is installed"


@pytest.mark.parametrize("isolation", [None, "process"])
async def test_a_schedule_is_held_until_it_is_asked_for(
    without_sandbox: Path, groups_dir: Path, tmp_path: Path, isolation: IsolationName | None
) -> None:
    clock = FakeClock()
    app = Rota(f"sqlite:///{tmp_path / 'rota.db'}?synchronous=OFF", clock=clock)
    agents = install_agents(
        app,
        AgentSettings(
            groups_dir=groups_dir,
            isolation=isolation,
            command=("/usr/bin/python3", "-I", "-S", "-c", ECHO.read_text(encoding="utf-8")),
            limits=Limits(wall_ms=120_000),
        ),
    )
    async with app:
        await (await agents.groups()).add("main", is_main=True)
        made = await agents.schedule_task(
            ANN, group="main", prompt="hello", schedule_type="cron", schedule_value="0 10 * * *"
        )
        clock.advance("2h")
        await app.run_until_idle()
        found = await agents.get_task(ANN, made.id)
        if isolation == "process":
            assert (found.status, found.held, found.last_result) == ("active", None, "hello")
            return
        assert found.status == "paused"
        assert "apt install bubblewrap" in (found.held or "")
        assert "agents.isolation: process" in (found.held or "")
        assert not (groups_dir / "main").exists(), "nothing was even prepared"


async def test_it_is_said_at_the_start(
    without_sandbox: Path, groups_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = Rota("memory://")
    agents = install_agents(app, AgentSettings(groups_dir=groups_dir))
    await Janitor(agents, Pulse(SystemClock()), lambda: 0.5).say()
    assert "apt install bubblewrap" in caplog.text


def test_doctor_says_it(
    without_sandbox: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROTA_STORE", "memory://")
    main(["doctor"])
    said = capsys.readouterr().out
    assert "warning: agents: No agent runs here" in said
    assert "apt install bubblewrap" in said
