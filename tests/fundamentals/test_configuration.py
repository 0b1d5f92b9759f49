"""Code says what a type is; the configuration says how it is run here."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota import InvalidConfig, Rota
from rota.testing import FakeClock

YAML = """\
store: sqlite:///tasks.db
scheduler:
  user_key_config:
    use_agent_id: false
  tasks:
    memory_compression:
      interval: 600
      max_retries: 5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rota.yaml"
    path.write_text(YAML)
    return path


async def test_the_file_wins_over_the_decorator(file: Path, clock: FakeClock):
    """Where the file says nothing, the values in code count."""
    app = Rota(file, clock=clock)

    @app.on_activity(after="30m", max_retries=1, timeout="2m")
    async def memory_compression(user_id: str) -> None: ...

    async with app:
        config = await app.get_task_config("memory_compression")

    assert config is not None
    assert (config.interval, config.max_retries, config.timeout) == (600, 5, 120)


@pytest.mark.usefixtures("file")
def test_rota_yaml_is_found_by_itself():
    """Without a source the environment counts, and the file rota.yaml of the working directory."""
    app = Rota()
    assert app.config.store_url == "sqlite:///tasks.db"
    assert app.user_key_builder.build_key("u1", "phone", "tutor") == "u1:phone"


async def test_the_environment_wins_over_the_file(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ROTA_SCHEDULER__TASKS__MEMORY_COMPRESSION__INTERVAL", "5m")
    app = Rota(file)

    @app.on_activity(after="30m")
    async def memory_compression(user_id: str) -> None: ...

    async with app:
        config = await app.get_task_config("memory_compression")

    assert config is not None
    assert config.interval == 300


def test_the_trigger_mode_belongs_to_the_code(tmp_path: Path):
    """A handler is written for one mode. A configuration that wants another is refused, and both are named."""
    path = tmp_path / "rota.yaml"
    path.write_text("scheduler: {tasks: {data_cleanup: {trigger_mode: periodic, interval: 3600}}}")
    app = Rota(path)

    with pytest.raises(InvalidConfig, match=r"'periodic' \(file rota.yaml:1\).*'user_activity' \(@app.on_activity\)"):

        @app.on_activity(after="30m")
        async def data_cleanup(user_id: str) -> None: ...  # pyright: ignore[reportUnusedFunction] -- it is refused


async def test_a_process_that_is_switched_off_runs_nothing(url: str, clock: FakeClock):
    """scheduler.enabled: false. Touches answer `disabled`, so a program need not know."""
    app = Rota(url, clock=clock, enabled=False)

    @app.on_activity(after="0s")
    async def memory_compression(user_id: str) -> None: ...

    async with app:
        assert (await memory_compression.touch(user_id="u1")).outcome == "disabled"
        assert await app.run_until_idle() == 0
        await app.run()
        assert not app.is_running()
