"""Refusals: what cannot be used is named with its path, its value, its place and what to do; all at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota import load_config
from rota.errors import InvalidConfig


def refusal(source: str | Path | dict[str, object], **environ: str) -> str:
    with pytest.raises(InvalidConfig) as caught:
        load_config(source, environ=environ)
    return str(caught.value)


def task(**settings: object) -> dict[str, object]:
    return {"scheduler": {"tasks": {"x": settings}}}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"stor": "x"}, "stor is 'x' (argument), but there is no such setting. Did you mean 'store'?"),
        ({"schedular": {"a": 1}}, "schedular is a section (argument), but there is no such setting. Did you mean"),
        (
            {"zzz": 1},
            "zzz is 1 (argument), but there is no such setting. Use one of: agents, alerts, batches, bus, ",
        ),
        (
            {"scheduler": {"taks": {}}},
            "scheduler.taks is {} (argument), but there is no such setting. Did you mean 'tasks'",
        ),
        ({"scheduler": 5}, "scheduler is 5 (argument), but it is a section. It has: enabled, executor"),
        ({"scheduler": {"tasks": ["a"]}}, "scheduler.tasks is ['a'] (argument), but it is a section."),
        ({"scheduler": {"tasks": {"x": 5}}}, "scheduler.tasks.x is 5 (argument), but it is a section."),
        ({"store": {"url": "x"}}, "store is a section (argument), but it takes one value."),
        ({"processing": {"other": 1}}, "processing is a section (argument), but there is no such setting"),
        (task(intervall=5), "scheduler.tasks.x.intervall is 5 (argument), but there is no such setting. Did you mean"),
        (task(options={"a": 1}), "scheduler.tasks.x.options is a section (argument), but there is no such setting."),
        (task(name="y"), "scheduler.tasks.x.name is 'y' (argument), but there is no such setting."),
        (task(retry={"bse": 1}), "scheduler.tasks.x.retry.bse is 1 (argument), but there is no such setting. Did you"),
        (task(retry=5), "scheduler.tasks.x.retry is 5 (argument), but it is a section. It has: base, factor, max."),
        ({1: "x"}, "1 has the key 1, which is no text (argument). Put it in quotes."),
    ],
)
def test_unknown_settings(settings: dict[str, object], says: str) -> None:
    assert says in refusal(settings)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            task(interval="soon"),
            "scheduler.tasks.x.interval is 'soon' (argument). Use 0 seconds to 10 years, like 1800",
        ),
        (task(interval=-5), "scheduler.tasks.x.interval is -5 (argument). Use 0 seconds"),
        (task(interval=True), "scheduler.tasks.x.interval is True (argument). Use seconds or a duration"),
        (task(interval=float("nan")), "scheduler.tasks.x.interval is nan (argument). Use 0 seconds"),
        (task(interval=1e306), "scheduler.tasks.x.interval is 1e+306 (argument). Use 0 seconds"),
        (task(enabled="maybe"), "scheduler.tasks.x.enabled is 'maybe' (argument). Use true or false."),
        (task(max_retries="many"), "scheduler.tasks.x.max_retries is 'many' (argument). Use a whole number."),
        (task(max_retries=True), "scheduler.tasks.x.max_retries is True (argument). Use a whole number."),
        (task(description="\ud800"), r"scheduler.tasks.x.description is '\ud800' (argument). Use valid UTF-8 text."),
        (task(description=5), "scheduler.tasks.x.description is 5 (argument). Use text; put it in quotes."),
        (task(mode="debonce"), "scheduler.tasks.x.mode is 'debonce' (argument). Did you mean 'debounce'?"),
        (task(misfire="never"), "scheduler.tasks.x.misfire is 'never' (argument). Use one of: all, latest, skip."),
        (task(trigger_mode="periodical"), "scheduler.tasks.x.trigger_mode is 'periodical' (argument). Did you mean"),
        (task(priority=11), "scheduler.tasks.x.priority is 11 (argument). Use 0 (last) to 10 (first)"),
        (task(after={"a": 1}), "scheduler.tasks.x.after is a section (argument), but it takes one value."),
        (task(after=5), "scheduler.tasks.x.after is 5 (argument). Use a list of names"),
        (task(timezone="Europe/Berlim"), "scheduler.tasks.x.timezone is 'Europe/Berlim' (argument). "),
        (task(rate_limit={"burst": 5}), "scheduler.tasks.x.rate_limit has no rate. Add one"),
        (task(start_limit={"burst": 5}), "scheduler.tasks.x.start_limit has no rate. Add one"),
        (task(slots="mine"), "scheduler.tasks.x.slots is 'mine' (argument). Use one of: own, shared"),
        (task(rate_limit={"rate": 0}), "scheduler.tasks.x.rate_limit.rate is 0.0 (argument). Use starts per second"),
        (task(batch_size="lots"), "scheduler.tasks.x.batch_size is 'lots' (argument). Use a whole number."),
        (
            task(retention_days=0),
            "scheduler.tasks.x.retention_days is 0 (argument). Use a whole number from 1 to 36600.",
        ),
        (task(trigger_mode="cron", cron="0 99 * * *"), "scheduler.tasks.x.cron is '0 99 * * *' (argument). "),
        ({"scheduler": {"tasks": {"Bad-Name": {}}}}, "scheduler.tasks.Bad-Name.name is 'Bad-Name'. The task type"),
        ({"lease": 2}, "lease is 2s (argument). An instance lets go 2 s before its lease ends"),
        ({"sweep_interval": "20s"}, "sweep_interval is 20s (argument). Use 100ms up to the lease"),
        ({"timezone": "Mars/Olympus"}, "timezone is 'Mars/Olympus' (argument). "),
        ({"timezone": 5}, "timezone is 5 (argument). Use text"),
        (
            {"scheduler": {"executor": {"max_concurrent": 0}}},
            "scheduler.executor.max_concurrent is 0 (argument). Use 1",
        ),
        ({"scheduler": {"executor": {"check_interval": 0}}}, "scheduler.executor.check_interval is 0s (argument). Use"),
        ({"scheduler": {"user_key_config": {"use_user_id": False}}}, "scheduler.user_key_config.use_user_id is false"),
    ],
)
def test_impossible_values(settings: dict[str, object], says: str) -> None:
    message = refusal(settings)
    assert says in message
    assert "problems" not in message, "one mistake is one problem"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("rota.db", "A URL is needed, like 'sqlite:///rota.db'."),
        ("postgres://h/d", "No engine is called 'postgres' here. Did you mean 'postgresql'?"),
        ("mysql://h/d", "No engine is called 'mysql' here. Use one of: memory, postgresql, redis"),
        ("sqlite://rota.db", "A file needs three slashes"),
        ("redis://h:port/0", "The host or the port is broken."),
        ("redis://[::1/0", "The host or the port is broken."),
        ("redis://my host/0", "A URL has no spaces."),
    ],
)
def test_urls_that_name_no_store(url: str, says: str) -> None:
    assert says in refusal({"store": url})


def test_a_database_is_no_queue_and_a_bus_is_no_file() -> None:
    assert "database is 'redis://h' (argument). No engine is called 'redis' here." in refusal({"database": "redis://h"})
    assert "bus is 'sqlite:///x' (argument). No engine is called 'sqlite' here." in refusal({"bus": "sqlite:///x"})


def test_a_circle_of_types() -> None:
    tasks = {name: {"trigger_mode": "after", "after": [other]} for name, other in ("ab", "bc", "ca")}
    message = refusal({"scheduler": {"tasks": tasks}})
    assert "scheduler.tasks has types that wait for each other: " in message
    assert message.count(" after ") == 3


def test_all_problems_come_together(tmp_path: Path) -> None:
    path = tmp_path / "rota.yaml"
    path.write_text("lease: 1\nstor: x\nscheduler:\n  tasks:\n    a: {priority: 11, timeout: 0}\n")
    message = refusal(path, ROTA_SWEEP_INTERVAL="never")
    assert message.startswith("The configuration has 5 problems:\n- ")
    for part in (
        "lease is 1s (file rota.yaml:1)",
        "stor is 'x' (file rota.yaml:2)",
        "scheduler.tasks.a.priority is 11 (file rota.yaml:5)",
        "scheduler.tasks.a.timeout is 0s (file rota.yaml:5)",
        "sweep_interval is 'never' (environment ROTA_SWEEP_INTERVAL)",
    ):
        assert f"\n- {part}" in message


def test_a_misspelt_section_is_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "rota.yaml"
    path.write_text("schedular:\n  enabled: true\n  tasks:\n    a: {interval: 5}\n")
    expected = "schedular is a section (file rota.yaml:2), but there is no such setting. Did you mean 'scheduler'?"
    assert refusal(path) == expected


def test_a_misspelt_mode_does_not_make_its_settings_wrong() -> None:
    assert "problems" not in refusal(task(trigger_mode="crn", cron="0 9 * * *"))


def test_a_misspelt_variable_below_a_known_name_is_refused() -> None:
    message = refusal({}, ROTA_SCHEDULER__EXECUTOR__MAX_CONCURENT="5")
    assert "scheduler.executor.max_concurent is '5' (environment ROTA_SCHEDULER__EXECUTOR__MAX_CONCURENT)" in message
    assert "Did you mean 'max_concurrent'?" in message


# --- files


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"a: [1\nb: 2\n", "is no valid YAML in line 2"),
        (b"scheduler:\n\tenabled: true\n", "is no valid YAML in line 2"),
        (b"a: 1\n---\nb: 2\n", "is no valid YAML in line 2"),
        (b"lease: !!python/object/apply:os.system [ls]\n", "lease is ['ls'] (file rota.yaml:1)"),
        (b"lease: !!python/name:os.system x\n", "lease has a value that cannot be read (file rota.yaml:1)"),
        (b"lease: !!bool maybe\n", "lease has a value that cannot be read (file rota.yaml:1)"),
        (b"lease: !!timestamp soon\n", "lease has a value that cannot be read (file rota.yaml:1)"),
        (b"lease: *nothing\n", "is no valid YAML in line 1"),
        (b"- a\n- b\n", "is no set of settings (line 1)"),
        (b"just words\n", "is no set of settings (line 1)"),
        (b"lease: 1\n\xff\n", "is not UTF-8 in line 2"),
        (b"lease: 10\nbus: a\x07\n", "has an unprintable character in line 2"),
        (b"lease: 10\nlease: 20\n", "lease is given twice (file rota.yaml:2 and line 1). Remove one of them."),
        (b"? [a]\n: 1\n", "has a key that is no text (file rota.yaml:1)"),
        (b"scheduler: {<<: 5}\n", "scheduler.<< merges no mapping (file rota.yaml:1)"),
        (b"lease: 2024-13-45\n", "lease has a value that cannot be read (file rota.yaml:1)"),
        (b"lease: 2024-01-01\n", "lease is datetime.date(2024, 1, 1) (file rota.yaml:1). Use seconds"),
        (b"on: 1\n", "on is 1 (file rota.yaml:1), but there is no such setting"),
        (b"a: " + b"[" * 5_000, "is nested too deeply"),
        (b"#" * 1_100_000, "is over 1048576 bytes"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, raw: bytes, says: str) -> None:
    path = tmp_path / "rota.yaml"
    path.write_bytes(raw)
    assert says in refusal(path)


def test_an_alias_cannot_blow_up(tmp_path: Path) -> None:
    path = tmp_path / "rota.yaml"
    lines = ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{l: *a{n - 1}, r: *a{n - 1}}}" for n in range(1, 40))]
    path.write_text("\n".join(lines))
    assert "is too large or nested too deeply" in refusal(path)
    path.write_text("a: &a\n  b: *a\n")
    assert "is too large or nested too deeply" in refusal(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot be read: No such file or directory. Check the path" in refusal(tmp_path / "none.yaml")
    assert "cannot be read: Is a directory" in refusal(tmp_path)
    assert "cannot be read: embedded null byte" in refusal("a\0b")
    with pytest.raises(InvalidConfig, match="No such file"):
        load_config(environ={"ROTA_CONFIG": str(tmp_path / "none.yaml")})


# --- whatever comes, the answer is a configuration or a refusal in words

_SECTIONS = st.sampled_from(
    ["", "scheduler.", "scheduler.executor.", "scheduler.user_key_config.", "scheduler.tasks.", "scheduler.tasks.x."]
)
_NAMES = st.sampled_from(
    [
        *(
            "store",
            "database",
            "bus",
            "timezone",
            "lease",
            "scheduler",
            "processing",
            "executor",
            "tasks",
            "x",
            "X",
            "",
        ),
        *("enabled", "check_interval", "max_concurrent", "use_user_id", "default_agent_id", "name", "options", "retry"),
        *("interval", "cron", "after", "timeout", "max_wait", "priority", "concurrency", "rate_limit", "retry.max"),
        *("rate_limit.rate", "jitter", "batch_size", "similarity_threshold", "trigger_mode", "mode", "\ud800"),
    ]
)
_TEXTS = st.sampled_from(
    ["", "5", "30m", "true", "cron", "after", "* * * * *", "memory://", "${X}", "${X:1}", "\0", "\ud800"]
)
_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), _TEXTS, st.text(max_size=8), st.lists(_TEXTS, max_size=2)
)
_SETTINGS = st.dictionaries(st.builds("{}{}".format, _SECTIONS, _NAMES), _VALUES, max_size=6)


def nested(flat: dict[str, object]) -> dict[str, object]:
    """Paths as sections in sections; a path below a value is left out."""
    root: dict[str, object] = {}
    for path, value in flat.items():
        *sections, leaf = path.split(".")
        level: object = root
        for section in sections:
            level = level.setdefault(section, {}) if isinstance(level, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] -- a dict of anything
        if isinstance(level, dict):
            level[leaf] = value
    return root


@given(_SETTINGS, _SETTINGS)
def test_any_settings_load_or_are_refused(flat: dict[str, object], flags: dict[str, object]) -> None:
    try:
        config = load_config(nested(flat), environ={}, flags=flags)
        config.validate()
        shown = "".join(row.path + row.value + row.source for row in config.rows())
    except InvalidConfig as error:
        shown = str(error)
    assert shown.encode(), "it can be printed"
