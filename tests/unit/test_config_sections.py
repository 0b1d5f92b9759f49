"""The sections beside the scheduler's: the server, alerts with their sinks, webhooks, memory and agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota import Config, load_config
from rota.agents.section import AGENTS_SECTION
from rota.alerts.section import ALERTS_SECTION
from rota.app.settings import BUILT_IN_SECTIONS
from rota.config import Setting
from rota.config.settings import ENGINE_SETTINGS
from rota.core.alert import AlertRule, AlertSink, EngineKind
from rota.errors import InvalidConfig

FULL = """
server:
  host: 0.0.0.0
  port: 9000
  base_path: /rota
  allowed_hosts: [rota.example.org, "[::1]"]
  token_file: /etc/rota/token
  hide_payloads: true
timezone: Europe/Berlin
alerts:
  check_interval: 30s
  sinks:
    ops: {webhook: "https://hooks.example.org/T0/secret-path", secret: sixteen-characters}
    pager: {command: [/usr/bin/page, --urgent]}
  rules:
    slow: {kind: oldest_pending, type: work, threshold: 10m, for: 2m, to: [log, ops]}
    failing: {kind: failure_rate, threshold: 20%, window: 15m, at_least: 5, to: [pager]}
agents:
  timezone: Asia/Tokyo
"""


def refusal(settings: dict[str, object]) -> str:
    with pytest.raises(InvalidConfig) as caught:
        load_config(settings, environ={})
    return str(caught.value)


def alerts(**section: object) -> dict[str, object]:
    return {"alerts": section}


def rule(**settings: object) -> dict[str, object]:
    return alerts(rules={"r": settings})


def test_all_sections_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rota.yaml"
    path.write_text(FULL)
    config = load_config(path, environ={})
    assert (config.server.host, config.server.port, config.server.base_path) == ("0.0.0.0", 9000, "/rota")
    assert config.server.allowed_hosts == ("rota.example.org", "[::1]")
    assert (config.server.token_file, config.server.hide_payloads) == ("/etc/rota/token", True)
    assert (config.timezone, AGENTS_SECTION.of(config).timezone) == ("Europe/Berlin", "Asia/Tokyo")
    assert ALERTS_SECTION.of(config).sinks["pager"] == AlertSink(name="pager", command=("/usr/bin/page", "--urgent"))
    assert ALERTS_SECTION.of(config).rules["slow"] == AlertRule(
        name="slow",
        kind=EngineKind.OLDEST_PENDING,
        type="work",
        threshold=600.0,
        for_ms=120_000,
        to=("log", "ops"),
    )
    failing = ALERTS_SECTION.of(config).rules["failing"]
    assert (failing.limit, failing.window_ms, failing.at_least) == (0.2, 900_000, 5)
    rows = {row.path: row for row in config.rows()}
    assert rows["server.port"] == ("server.port", "9000", "file rota.yaml:4")
    assert rows["alerts.rules.slow.threshold"].source == "file rota.yaml:16"
    assert rows["alerts.rules.slow.for"].value == "2m"


def test_no_secret_of_a_sink_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "rota.yaml"
    path.write_text(FULL)
    config = load_config(path, environ={})
    shown = f"{config.rows()} {config!r} {ALERTS_SECTION.of(config).sinks}"
    assert "sixteen-characters" not in shown
    assert "secret-path" not in shown
    rows = {row.path: row.value for row in config.rows()}
    assert rows["alerts.sinks.ops.webhook"] == "https://hooks.example.org/***"
    assert rows["alerts.sinks.ops.secret"] == "***"
    said = refusal(alerts(sinks={"ops": {"webhook": "https://x.example/", "secret": ["hunter2hunter2hu"]}}))
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"server": {"prot": 1}}, "server.prot is 1 (argument), but there is no such setting. Did you mean 'port'?"),
        ({"server": {"port": 70_000}}, "server.port is 70000 (argument). Use 1 to 65535"),
        ({"server": {"port": "web"}}, "server.port is 'web' (argument). Use a whole number."),
        ({"server": {"host": "two words"}}, "server.host is two words"),
        ({"server": {"host": ""}}, "server.host is "),
        ({"server": {"base_path": "rota"}}, "begins with a slash"),
        ({"server": {"base_path": "/rota/"}}, "begins with a slash"),
        ({"server": {"base_path": "/../x y"}}, "begins with a slash"),
        ({"server": {"allowed_hosts": ["https://x.example"]}}, "server.allowed_hosts is https://x.example"),
        ({"server": "here"}, "server is 'here' (argument), but it is a section. It has: host, port"),
        ({"webhooks": {"allow_privat": True}}, "Did you mean 'allow_private'?"),
        ({"memory": {"embedder": "hash"}}, "memory.embedder is 'hash' (argument). Did you mean 'hashing'?"),
        ({"agents": {"isolation": "docker"}}, "agents.isolation is 'docker' (argument). Use one of: auto, bubblewrap"),
        ({"agents": {"timezone": "Mars/Base"}}, "agents.timezone is 'Mars/Base'"),
        (alerts(rules={"r": None}), "alerts.rules.r"),
        (alerts(rules=["x"]), "alerts.rules is ['x'] (argument), but it is a section. It has: names."),
        (alerts(rulez={}), "Did you mean 'rules'?"),
        (alerts(check_interval="10ms"), "alerts.check_interval is 10ms"),
        (rule(threshold=1), "alerts.rules.r has no kind. Say what it looks at: failure_rate, queue_depth"),
        (rule(kind="failure_rat"), "alerts.rules.r.kind is 'failure_rat' (argument). Did you mean 'failure_rate'?"),
        (rule(kind="outbox_lags"), "alerts.rules.r.kind is 'outbox_lags' (argument). Did you mean 'outbox_lag'?"),
        (rule(kind="failure_rate", threshold=20), "alerts.rules.r.threshold (argument): A failure rate is a share"),
        (rule(kind="failure_rate", threshold="-1"), "Use a number above 0."),
        (rule(kind="dead_letters", threshold="many"), "alerts.rules.r.threshold is 'many' (argument)."),
        (rule(kind="dead_letters", fro="1m"), "Did you mean 'for'?"),
        (rule(kind="dead_letters", **{"for": "2d"}), "alerts.rules.r.for (argument): Use 0s to 1d."),
        (rule(kind="failure_rate", window="1s"), "alerts.rules.r.window (argument): Use 1m to 1d."),
        (rule(kind="failure_rate", at_least=0), "alerts.rules.r.at_least (argument): Use 1"),
        (rule(kind="dead_letters", to=["ops"]), "alerts.rules.r.to (argument): There is no sink 'ops'."),
        (rule(kind="dead_letters", to=[]), "Name a sink, like [log]."),
        (alerts(rules={"Not A Name": {"kind": "dead_letters"}}), "Not A Name: Use a name of small letters"),
        (alerts(sinks={"log": {"command": ["x"]}}), "is always there"),
        (alerts(sinks={"a": {"command": "rm -rf /"}}), "alerts.sinks.a.command is 'rm -rf /' (argument). Use a list"),
        (alerts(sinks={"a": {"command": ["x"], "webhook": "https://x.example"}}), "a webhook or a command"),
        (alerts(sinks={"a": {"secret": "0123456789abcdef"}}), "a webhook or a command, one of them"),
        (alerts(sinks={"a": {"command": ["x"], "secret": "0123456789abcdef"}}), "Only webhooks are signed"),
        (alerts(sinks={"a": {"webhook": "https://x.example", "secret": "short"}}), "too short to sign with"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_a_way_out(settings: dict[str, object], says: str) -> None:
    assert says in refusal(settings)


def test_the_environment_reaches_the_new_sections() -> None:
    environ = {
        "ROTA_SERVER__PORT": "9001",
        "ROTA_SERVER__ALLOWED_HOSTS": "a.example, b.example",
        "ROTA_ALERTS__RULES__LATE__KIND": "oldest_pending",
        "ROTA_ALERTS__RULES__LATE__THRESHOLD": "5m",
        "ROTA_SERVICE_HOST": "10.0.0.1",
    }
    config = load_config({}, environ=environ)
    assert (config.server.port, config.server.allowed_hosts) == (9001, ("a.example", "b.example"))
    assert ALERTS_SECTION.of(config).rules["late"].limit == 300.0
    assert "ROTA_SERVICE_HOST" in config.warnings[0]


def test_a_short_flag_means_the_first_setting_of_its_name() -> None:
    config = load_config({}, environ={}, flags={"timezone": "Asia/Tokyo", "check_interval": "20s", "port": 0})
    assert (config.timezone, AGENTS_SECTION.of(config).timezone) == ("Asia/Tokyo", None)
    assert (config.check_interval_ms, ALERTS_SECTION.of(config).check_ms) == (20_000, 15_000)
    assert config.server.port == 0
    assert ALERTS_SECTION.of(load_config({}, environ={}, flags={"enabled": False})).enabled is True


def test_every_row_of_the_table_is_an_attribute_with_its_default() -> None:
    tables: list[tuple[str, object, tuple[Setting, ...]]] = [("", Config(), ENGINE_SETTINGS)]
    tables += [(f"{section.name}.", section.default, section.settings) for section in BUILT_IN_SECTIONS]
    paths = [f"{base}{setting.path}" for base, _, settings in tables for setting in settings]
    assert len(set(paths)) == len(paths)
    held = [(values, setting.attribute) for _, values, settings in tables for setting in settings]
    assert [attribute for values, attribute in held if not hasattr(values, attribute)] == []
