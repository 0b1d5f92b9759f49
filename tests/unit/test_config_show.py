"""What is shown of a configuration never contains a secret."""

from __future__ import annotations

import dataclasses

import pytest

from rota import Config, load_config
from rota.config.urls import masked
from rota.core.task_type import RateLimit, TaskType
from rota.errors import InvalidConfig


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///rota.db", "sqlite:///rota.db"),
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("redis://:hunter2@h:6379/0", "redis://:***@h:6379/0"),
        ("postgresql://rota:hunter2@h/d", "postgresql://rota:***@h/d"),
        ("postgresql://rota@h/d", "postgresql://rota@h/d"),
        ("postgresql://rota:hun@ter/2@h/d", "postgresql://rota:***@h/d"),
        ("postgresql://h/d?user=a&password=hunter2&x=1", "postgresql://h/d?user=a&password=***&x=1"),
        ("postgresql://h/d?sslPassword=hunter2", "postgresql://h/d?sslPassword=***"),
        ("redis+sentinel://:hunter2@h1:1,h2:2/m", "redis+sentinel://:***@h1:1,h2:2/m"),
        ("kafka://h1:9092,h2:9092", "kafka://h1:9092,h2:9092"),
    ],
)
def test_passwords_in_urls_are_hidden(url: str, shown: str) -> None:
    assert masked(url) == shown


SECRET = {
    "store": "redis://:hunter2@h:6379/0",
    "database": "postgresql://rota:hunter2@h/d",
    "bus": "kafka://rota:hunter2@h:9092",
}


def test_rows_and_repr_and_warnings_show_no_password() -> None:
    config = load_config({**SECRET, "database": "sqlite:///x.db"}, environ={})
    assert "hunter2" not in f"{config} {config!r} {config.rows()} {config.warnings}"
    rows = {row.path: row.value for row in load_config(SECRET, environ={}).rows()}
    assert rows["database"] == "postgresql://rota:***@h/d"


@pytest.mark.parametrize(
    "settings",
    [
        {"store": "rediz://:hunter2@h/0"},
        {"stoer": "redis://:hunter2@h/0"},
        {"store": ["redis://:hunter2@h/0"]},
        {"password": "hunter2"},
        {"redis": {"api_key": "hunter2"}},
        {"store": "redis://:hunter2@h:port/0"},
    ],
)
def test_refusals_show_no_password(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig) as caught:
        load_config(settings, environ={})
    assert "hunter2" not in str(caught.value)


def test_every_setting_has_a_row() -> None:
    task_type = TaskType(
        name="x", rate_limit=RateLimit(rate=2), options={"batch_size": 5}, after=("a", "b"), max_wait_ms=None
    )
    rows = {row.path: row.value for row in Config(tasks={"x": task_type}).rows()}
    assert rows["lease"] == "10s"
    assert rows["scheduler.enabled"] == "true"
    assert rows["scheduler.user_key_config.default_agent_id"] == "default"
    assert rows["scheduler.tasks.x.interval"] == "30m"
    assert rows["scheduler.tasks.x.trigger_mode"] == "user_activity"
    assert rows["scheduler.tasks.x.max_wait"] == "4 x interval"
    assert rows["scheduler.tasks.x.concurrency"] == "max_concurrent"
    assert rows["scheduler.tasks.x.cron"] == "none"
    assert rows["scheduler.tasks.x.after"] == "a, b"
    assert rows["scheduler.tasks.x.rate_limit.rate"] == "2"
    assert rows["scheduler.tasks.x.retry.max"] == "1h"
    assert rows["scheduler.tasks.x.batch_size"] == "5"
    assert "scheduler.tasks.x.name" not in rows


def test_a_config_is_frozen() -> None:
    config = load_config({}, environ={})
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.lease_ms = 5  # pyright: ignore[reportAttributeAccessIssue] -- the mistake under test


def test_a_config_made_by_hand_can_be_checked() -> None:
    config = Config(lease_ms=1, tasks={"x": TaskType(name="x", priority=11)})
    with pytest.raises(InvalidConfig, match=r"lease is 1ms \(default\).*scheduler.tasks.x.priority is 11"):
        config.validate()
