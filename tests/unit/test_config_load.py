"""Loading: where settings come from, which one counts, and that each remembers its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota import Config, load_config
from rota.app.settings import BUILT_IN_SECTIONS
from rota.clock import HOUR, MINUTE, SECOND
from rota.config.model import SETTINGS
from rota.core.task_type import RateLimit, RetryPolicy, TaskType, TriggerMode
from rota.errors import InvalidConfig
from rota.keys import UserKeyConfig

Settings = dict[str, object]


def write(folder: Path, text: str) -> Path:
    path = folder / "rota.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def source(config: Config, path: str) -> str:
    return next(row.source for row in config.rows() if row.path == path)


def test_without_anything_the_defaults_hold() -> None:
    config = load_config({}, environ={})
    assert config == Config()
    assert (config.store_url, config.bus_url, config.timezone) == ("sqlite:///rota.db", "local://", "UTC")
    assert (config.lease_ms, config.sweep_ms, config.check_interval_ms) == (10 * SECOND, SECOND, 10 * SECOND)
    assert (config.max_concurrent, config.enabled, config.user_key) == (5, True, UserKeyConfig())
    assert config.tasks == {}
    assert {row.source for row in config.rows()} == {"default"}


FULL = """\
store: postgresql://rota@db/rota
bus: kafka://k1:9092,k2:9092
timezone: Europe/Berlin
lease: 20s
sweep_interval: 0.5
scheduler:
  enabled: no
  user_key_config: {use_agent_id: false, default_device_id: web}
  executor: {check_interval: 1m, max_concurrent: 8}
  tasks:
    report:
      description: the 9 o'clock brief
      trigger_mode: cron
      cron: 0 9 * * 1-5
      misfire: all
      overlap: queue
      grace: 1h
      slots: own
      rate_limit: {rate: 0.5, burst: 3}
      start_limit: {rate: 4}
      retry: {base: 5, factor: 3, max: 10m}
    digest: {trigger_mode: after, after: [report], timezone: UTC}
    tidy:
"""


def test_a_full_file(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, FULL), environ={})
    assert (config.store_url, config.database_url) == ("postgresql://rota@db/rota", "postgresql://rota@db/rota")
    assert (config.bus_url, config.timezone) == ("kafka://k1:9092,k2:9092", "Europe/Berlin")
    assert (config.lease_ms, config.sweep_ms, config.check_interval_ms) == (20 * SECOND, SECOND // 2, MINUTE)
    assert (config.enabled, config.max_concurrent) == (False, 8)
    assert config.user_key == UserKeyConfig(use_agent_id=False, default_device_id="web")
    assert list(config.tasks) == ["report", "digest", "tidy"]
    assert config.tasks["report"] == TaskType(
        name="report",
        description="the 9 o'clock brief",
        trigger_mode=TriggerMode.CRON,
        cron="0 9 * * 1-5",
        timezone="Europe/Berlin",
        misfire="all",
        overlap="queue",
        grace_ms=HOUR,
        slots="own",
        rate_limit=RateLimit(rate=0.5, burst=3),
        start_limit=RateLimit(rate=4.0),
        retry=RetryPolicy(base_ms=5 * SECOND, factor=3, max_ms=10 * MINUTE),
    )
    assert (config.tasks["digest"].after, config.tasks["digest"].timezone) == (("report",), "UTC")
    assert config.tasks["tidy"] == TaskType(name="tidy", timezone="Europe/Berlin")
    assert config.warnings == ()


def test_every_value_knows_its_line(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, FULL), environ={})
    assert source(config, "store") == "file rota.yaml:1"
    assert source(config, "database") == "the store's"
    assert source(config, "scheduler.executor.max_concurrent") == "file rota.yaml:9"
    assert source(config, "scheduler.tasks.report.retry.base") == "file rota.yaml:21"
    assert source(config, "scheduler.tasks.report.timezone") == "the top-level timezone"
    assert source(config, "scheduler.tasks.digest.timezone") == "file rota.yaml:22"
    assert source(config, "scheduler.tasks.report.priority") == "default"


PATHS = [*SETTINGS, *(f"{section.name}.{one.path}" for section in BUILT_IN_SECTIONS for one in section.settings)]


def value(config: Config, path: str) -> object:
    """The value of a single setting, where the program reads it."""
    if path in SETTINGS:
        return getattr(config, SETTINGS[path])
    found = [
        getattr(section.of(config), setting.attribute)
        for section in BUILT_IN_SECTIONS
        for setting in section.settings
        if path == f"{section.name}.{setting.path}"
    ]
    return found[0]


# Of every setting that does not take a 7: something else than its default.
OTHER_VALUES = {
    "store": "memory://",
    "database": "sqlite:///x.db",
    "bus": "redis://h",
    "timezone": "Asia/Tokyo",
    "scheduler.enabled": "false",
    "server.base_path": "/rota",
    "server.hide_payloads": "true",
    "alerts.enabled": "false",
    "alerts.defaults": "false",
    "webhooks.allow_private": "true",
    "webhooks.allow_http": "true",
    "memory.anonymous": "reject",
    "memory.embedder": "sentence-transformers",
    "memory.settling": "2m",
    "memory.merge": "llm",
    "memory.llm_url": "http://models.example/v1",
    "memory.llm_model": "small",
    "memory.llm_key": "hush",
    "agents.isolation": "bubblewrap",
    "agents.require": "true",
    "agents.mcp_socket": "false",
    "agents.timezone": "Asia/Tokyo",
    "events.retention": "9d",
    "batches.retention": "9d",
    "batches.generator": "openai",
    "events.dead_retention": "60d",
    "agents.command": '["my-agent", ["--resume", "{sessionId}"]]',
    "agents.input_format": "text",
    "agents.output_format": "text",
    "agents.engine": "podman",
    "agents.memory_mib": "512",
    "agents.approval": "none",
}


@pytest.mark.parametrize("path", PATHS)
def test_every_setting_of_the_table_is_read_and_shown(path: str) -> None:
    given = OTHER_VALUES.get(path, "7")
    config = load_config({}, environ={}, flags={path: given})
    assert value(config, path) != value(Config(), path)
    assert source(config, path) == f"flag --{path.replace('_', '-')}"


# --- precedence


def test_flags_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    path = write(tmp_path, "lease: 20s\nsweep_interval: 2s\nbus: redis://file\n")
    environ = {"ROTA_SWEEP_INTERVAL": "3s", "ROTA_BUS": "redis://environment"}
    config = load_config(path, environ=environ, flags={"bus": "redis://flag", "store": None})
    assert (config.lease_ms, source(config, "lease")) == (20 * SECOND, "file rota.yaml:1")
    assert (config.sweep_ms, source(config, "sweep_interval")) == (3 * SECOND, "environment ROTA_SWEEP_INTERVAL")
    assert (config.bus_url, source(config, "bus")) == ("redis://flag", "flag --bus")
    assert (config.store_url, source(config, "store")) == ("sqlite:///rota.db", "default")


def test_the_environment_reaches_every_level() -> None:
    environ = {
        "ROTA_STORE": "memory://",
        "ROTA_SCHEDULER__EXECUTOR__MAX_CONCURRENT": "9",
        "ROTA_SCHEDULER__USER_KEY_CONFIG__USE_AGENT_ID": "false",
        "ROTA_SCHEDULER__TASKS__MEMORY_COMPRESSION__INTERVAL": "15m",
        "ROTA_SCHEDULER__TASKS__MEMORY_COMPRESSION__RATE_LIMIT__RATE": "2.5",
        "ROTA_SCHEDULER__TASKS__DIGEST__TRIGGER_MODE": "after",
        "ROTA_SCHEDULER__TASKS__DIGEST__AFTER": "memory_compression, other",
    }
    config = load_config({}, environ=environ)
    assert (config.store_url, config.max_concurrent, config.user_key.use_agent_id) == ("memory://", 9, False)
    assert config.tasks["memory_compression"].interval_ms == 15 * MINUTE
    assert config.tasks["memory_compression"].rate_limit == RateLimit(rate=2.5)
    assert config.tasks["digest"].after == ("memory_compression", "other")
    path = "scheduler.tasks.memory_compression.interval"
    assert source(config, path) == "environment ROTA_SCHEDULER__TASKS__MEMORY_COMPRESSION__INTERVAL"


def test_the_environment_changes_one_setting_of_a_type_and_leaves_the_others() -> None:
    settings: Settings = {"scheduler": {"tasks": {"x": {"interval": 60, "timeout": 5}}}}
    config = load_config(settings, environ={"ROTA_SCHEDULER__TASKS__X__INTERVAL": "120"})
    assert (config.tasks["x"].interval_ms, config.tasks["x"].timeout_ms) == (120 * SECOND, 5 * SECOND)


def test_an_empty_variable_is_none() -> None:
    assert load_config({"store": "memory://"}, environ={"ROTA_STORE": ""}).store_url == "memory://"


def test_a_variable_of_somebody_else_is_only_a_warning() -> None:
    config = load_config({}, environ={"ROTA_PORT": "tcp://10.0.0.1:80", "ROTA_SERVICE_HOST": "10.0.0.1", "PATH": "x"})
    assert len(config.warnings) == 1
    assert "ROTA_PORT, ROTA_SERVICE_HOST" in config.warnings[0]


def test_flags_by_short_name_and_by_path() -> None:
    config = load_config({}, environ={}, flags={"max-concurrent": 3, "scheduler.tasks.x.priority": 7})
    assert (config.max_concurrent, config.tasks["x"].priority) == (3, 7)
    assert source(config, "scheduler.executor.max_concurrent") == "flag --max-concurrent"


def test_a_value_replaces_a_section_and_the_other_way_round() -> None:
    settings: Settings = {"scheduler": {"tasks": {"x": {"rate_limit": None, "retry": {"base": 5}}}}}
    environ = {"ROTA_SCHEDULER__TASKS__X__RATE_LIMIT__RATE": "1"}
    config = load_config(settings, environ=environ, flags={"scheduler.tasks.x.retry": {}})
    assert config.tasks["x"].rate_limit == RateLimit(rate=1)
    assert config.tasks["x"].retry == RetryPolicy()


# --- which file


def test_rota_yaml_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config(environ={}).lease_ms == 10 * SECOND
    write(tmp_path, "lease: 30s")
    assert load_config(environ={}).lease_ms == 30 * SECOND


def test_rota_config_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "lease: 30s")
    other = tmp_path / "other.yaml"
    other.write_text("lease: 40s")
    environ = {"ROTA_CONFIG": str(other)}
    config = load_config(environ=environ)
    assert (config.lease_ms, source(config, "lease"), config.warnings) == (40 * SECOND, "file other.yaml:1", ())
    assert load_config({"lease": 50}, environ=environ).lease_ms == 50 * SECOND


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n", "\ufeffscheduler:\n", "scheduler: {}\n"])
def test_an_empty_file_is_no_mistake(tmp_path: Path, text: str) -> None:
    assert load_config(write(tmp_path, text), environ={}) == Config()


# --- forms of values


@pytest.mark.parametrize("given", [1800, 1800.0, "1800", "30m", "1800s", "0.5h"])
def test_forms_of_a_duration(given: object) -> None:
    config = load_config({"scheduler": {"tasks": {"x": {"interval": given}}}}, environ={})
    assert config.tasks["x"].interval_ms == 30 * MINUTE


@pytest.mark.parametrize("setting", ["interval", "cron", "max_wait", "concurrency", "rate_limit", "retention_days"])
def test_null_is_the_default(setting: str) -> None:
    config = load_config({"scheduler": {"tasks": {"x": {setting: None}}}}, environ={})
    assert config.tasks["x"] == TaskType(name="x")


def test_options_of_the_built_in_handlers_stand_beside_the_settings() -> None:
    settings: Settings = {"retention_days": "30", "batch_size": 100, "similarity_threshold": "0.85", "backfill_days": 7}
    config = load_config({"scheduler": {"tasks": {"x": settings}}}, environ={})
    expected = {"backfill_days": 7, "batch_size": 100, "retention_days": 30, "similarity_threshold": 0.85}
    assert config.tasks["x"].options == expected
    assert source(config, "scheduler.tasks.x.batch_size") == "argument"


def test_settings_can_be_shared_by_an_anchor(tmp_path: Path) -> None:
    text = "scheduler:\n  tasks:\n    a: &a {interval: 60, priority: 1}\n    b: {<<: *a, priority: 2}\n"
    tasks = load_config(write(tmp_path, text), environ={}).tasks
    assert (tasks["b"].interval_ms, tasks["b"].priority) == (MINUTE, 2)


# --- ${VAR:default}


def test_variables_in_values() -> None:
    settings: Settings = {
        "store": "${STORE:redis://localhost:6379/0}",
        "database": "postgresql://${USER}:${PASSWORD}@db/rota",
        "lease": "${LEASE:15}",
        "scheduler": {"enabled": "${ENABLED:true}", "tasks": {"x": {"description": "costs $${PRICE} or $5"}}},
    }
    config = load_config(settings, environ={"USER": "rota", "PASSWORD": "pw", "ENABLED": "false"})
    assert (config.store_url, config.database_url) == ("redis://localhost:6379/0", "postgresql://rota:pw@db/rota")
    assert (config.lease_ms, config.enabled) == (15 * SECOND, False)
    assert config.tasks["x"].description == "costs ${PRICE} or $5"
    assert source(config, "database") == "argument with ${USER}, ${PASSWORD}"


def test_variables_in_a_list() -> None:
    task: Settings = {"trigger_mode": "after", "after": ["${FIRST:a}", "b"]}
    config = load_config({"scheduler": {"tasks": {"x": task}}}, environ={})
    assert config.tasks["x"].after == ("a", "b")


def test_a_variable_that_is_empty_gives_nothing() -> None:
    config = load_config({"store": "${STORE:}", "lease": "${LEASE}"}, environ={"LEASE": ""})
    assert (config.store_url, config.lease_ms) == ("sqlite:///rota.db", 10 * SECOND)


def test_a_variable_without_value_and_default_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"store needs .* variable STORE \(file rota.yaml:1\).*\$\{STORE:default\}"):
        load_config(write(tmp_path, "store: ${STORE}"), environ={})


def test_the_environment_itself_is_taken_literally() -> None:
    config = load_config({}, environ={"ROTA_SCHEDULER__TASKS__X__DESCRIPTION": "${HOME}", "HOME": "/root"})
    assert config.tasks["x"].description == "${HOME}"


# --- zone and database, which have rules of their own


@pytest.mark.parametrize(
    ("settings", "environ", "zone", "origin"),
    [
        ({}, {}, "UTC", "default"),
        ({}, {"TZ": "Asia/Tokyo"}, "Asia/Tokyo", "environment TZ"),
        ({}, {"TZ": "Asia/Tokyo", "TIMEZONE": "Europe/Paris"}, "Europe/Paris", "environment TIMEZONE"),
        ({}, {"TZ": ":/etc/localtime"}, "UTC", "default"),
        ({}, {"TZ": "Asia/Tokyo", "TIMEZONE": "IST-2"}, "Asia/Tokyo", "environment TZ"),
        ({}, {"ROTA_TIMEZONE": "Europe/Rome", "TZ": "Asia/Tokyo"}, "Europe/Rome", "environment ROTA_TIMEZONE"),
        ({"timezone": "Europe/Berlin"}, {"TZ": "Asia/Tokyo"}, "Europe/Berlin", "argument"),
        ({"timezone": "Europe/Berlin"}, {"ROTA_TIMEZONE": "Europe/Rome"}, "Europe/Rome", "environment ROTA_TIMEZONE"),
    ],
)
def test_the_default_zone(settings: Settings, environ: dict[str, str], zone: str, origin: str) -> None:
    config = load_config(settings, environ=environ)
    assert (config.timezone, source(config, "timezone")) == (zone, origin)


@pytest.mark.parametrize(
    ("store", "database"),
    [
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("postgresql://h/d", "postgresql://h/d"),
        ("redis://h", "sqlite:///rota.db"),
        ("memory://", "sqlite:///:memory:"),
    ],
)
def test_the_database_is_the_stores_where_it_can_be(store: str, database: str) -> None:
    assert load_config({"store": store}, environ={}).database_url == database


@pytest.mark.parametrize("store", ["redis://h", "postgresql://h/d"])
def test_a_shared_store_with_a_local_database_is_worth_a_warning(store: str) -> None:
    config = load_config({"store": store, "database": "sqlite:///rota.db"}, environ={})
    assert len(config.warnings) == 1
    assert "is shared, but the database sqlite:///rota.db is a file of this host" in config.warnings[0]
    assert load_config({"store": store, "database": "postgresql://h/d"}, environ={}).warnings == ()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////var/lib/rota.db",
        "memory://",
        "postgresql:///rota",
        "redis://:pw@h:6379/0",
        "rediss://h",
        "redis+sentinel://h1:26379,h2:26379/mymaster/0",
        "redis+cluster://h1:7000,h2:7001",
    ],
)
def test_stores_by_url(url: str) -> None:
    assert load_config({"store": url}, environ={}).store_url == url


@pytest.mark.parametrize(
    ("store", "spool"),
    [
        ("sqlite:///rota.db", None),
        ("memory://", None),
        ("redis://h", "rota-spool.db"),
        ("postgresql://h/d", "rota-spool.db"),
    ],
)
def test_touches_are_spooled_where_the_store_can_go_away(store: str, spool: str | None) -> None:
    config = load_config({"store": store}, environ={})
    assert config.spool_path == spool
    assert {row.path: row.value for row in config.rows()}["spool"] == (spool or "off")


@pytest.mark.parametrize(
    ("value", "spool"), [("/var/lib/rota/spool.db", "/var/lib/rota/spool.db"), ("off", None), (False, None)]
)
def test_the_spool_is_a_file_or_off(value: object, spool: str | None) -> None:
    config = load_config({"store": "redis://h", "spool": value}, environ={})
    assert (config.spool_path, source(config, "spool")) == (spool, "argument")


def test_off_in_a_file_and_in_the_environment(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, "store: redis://h\nspool: off\n"), environ={}).spool_path is None
    assert load_config({"store": "redis://h"}, environ={"ROTA_SPOOL": "off"}).spool_path is None


@pytest.mark.parametrize("value", [True, 5, "sqlite:///spool.db", " ", ["a.db"]])
def test_a_spool_that_is_no_file(value: object) -> None:
    with pytest.raises(InvalidConfig, match=r"spool is .*Use the path of a file"):
        load_config({"spool": value}, environ={})
