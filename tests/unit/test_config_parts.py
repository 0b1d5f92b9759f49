"""A part brings its own section: checked, listed and settable like any other, and nothing in `rota.config` names it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rota import Config, Rota, load_config
from rota.agents.section import AGENTS_SECTION
from rota.app.settings import BUILT_IN_SECTIONS
from rota.clock import HOUR, MINUTE, SECOND, Millis
from rota.config import Rule, Section, Setting, TypeOption, read_config
from rota.config.section import whole_number
from rota.config.shown import hide
from rota.config.values import as_choice, as_duration, as_text
from rota.errors import InvalidConfig


@dataclass(frozen=True, kw_only=True)
class GreeterConfig:
    name: str = "world"
    pause_ms: Millis = 5 * SECOND
    phrase: str | None = None


GREETER = Section(
    name="greeter",
    values=GreeterConfig,
    settings=(
        Setting("name", "name", as_text),
        Setting("pause", "pause_ms", as_duration),
        Setting("door.phrase", "phrase", as_text),
    ),
    rules=(Rule("pause", lambda greeter: greeter.pause_ms <= HOUR, "Use 0s to 1h."),),
    type_options={"loudness": whole_number(1, 11), "voice": TypeOption(as_choice("deep", "high"))},
    renamed={"whom": "name"},
    unset={"phrase": "no door"},
    masks={"phrase": hide},
)


Settings = dict[str, object]


def load(source: Path | Settings | None = None, flags: Settings | None = None, **environ: str) -> Config:
    return load_config({} if source is None else source, environ=environ, flags=flags, sections=[GREETER])


def refusal(settings: Settings) -> str:
    with pytest.raises(InvalidConfig) as caught:
        load(settings)
    return str(caught.value)


def test_a_file_the_environment_and_flags_reach_it(tmp_path: Path) -> None:
    path = tmp_path / "rota.yaml"
    path.write_text("greeter:\n  name: Ada\n  pause: 1m\n")
    config = load(path, {"greeter.door.phrase": "sesame"}, ROTA_GREETER__NAME="Grace")
    assert GREETER.of(config) == GreeterConfig(name="Grace", pause_ms=MINUTE, phrase="sesame")
    assert [row for row in config.rows() if row.path.startswith("greeter")] == [
        ("greeter.name", "Grace", "environment ROTA_GREETER__NAME"),
        ("greeter.pause", "1m", "file rota.yaml:3"),
        ("greeter.door.phrase", "***", "flag --greeter.door.phrase"),
    ]
    assert load(flags={"pause": "7s"}).section_values["greeter"] == GreeterConfig(pause_ms=7 * SECOND)


def test_without_a_word_about_it_the_defaults_hold() -> None:
    config = load()
    assert config == Config()
    assert GREETER.of(config) == GREETER.of(Config()) == GreeterConfig()
    assert ("greeter.door.phrase", "no door", "default") in config.rows()


def test_people_find_it_by_its_name() -> None:
    config: Any = load({"greeter": {"name": "Ada"}, "agents": {"timeout": "5m"}})
    assert config.greeter.name == "Ada"
    assert (config.agents.timeout_ms, config.memory.merge, config.alerts.enabled) == (5 * MINUTE, "rules", True)
    with pytest.raises(AttributeError, match="no setting or section 'greter'"):
        config.greter  # noqa: B018 - the mistake under test


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"greeter": {"nam": "x"}}, "but there is no such setting. Did you mean 'name'?"),
        ({"greter": {"name": "x"}}, "but there is no such setting. Did you mean 'greeter'?"),
        ({"greeter": 5}, "greeter is 5 (argument), but it is a section. It has: name, pause, door."),
        ({"greeter": {"pause": "2h"}}, "greeter.pause is 2h (argument). Use 0s to 1h."),
        ({"greeter": {"pause": "soon"}}, "greeter.pause is 'soon' (argument). Use 0 seconds to 10 years"),
        ({"scheduler": {"tasks": {"x": {"loudness": 12}}}}, "scheduler.tasks.x.loudness is 12 (argument). Use a whole"),
        ({"scheduler": {"tasks": {"x": {"loudnes": 1}}}}, "Did you mean 'loudness'?"),
        ({"scheduler": {"tasks": {"x": {"voice": "hgh"}}}}, "tasks.x.voice is 'hgh' (argument). Did you mean"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_a_way_out(settings: Settings, says: str) -> None:
    assert says in refusal(settings)


def test_what_a_part_calls_secret_is_shown_in_no_message() -> None:
    said = refusal({"greeter": {"door": {"phrase": ["sesame"]}}})
    assert said == "greeter.door.phrase is '***' (argument). Use text; put it in quotes."
    assert "T0" not in refusal({"alerts": {"sinks": {"ops": {"webhook": ["https://x.example/T0"]}}}})


def test_a_section_that_nobody_brings_is_no_setting() -> None:
    with pytest.raises(InvalidConfig, match=r"greeter is a section \(argument\), but there is no such setting"):
        load_config({"greeter": {"name": "x"}}, environ={})
    with pytest.raises(InvalidConfig, match=r"agents is a section \(argument\), but there is no such setting"):
        read_config({"agents": {"timeout": 5}}, environ={})
    with pytest.raises(InvalidConfig, match=r"batch_size is 5 .*no such setting"):
        read_config({"scheduler": {"tasks": {"x": {"batch_size": 5}}}}, environ={})
    foreign = load_config({}, environ={"ROTA_GREETER__NAME": "x"})
    assert foreign.warnings == (
        "No setting is called ROTA_GREETER__NAME; ignored. `rota config show` lists all settings.",
    )
    assert read_config({"server": {"port": 1}, "webhooks": {"allow_http": True}}, environ={}).webhooks.allow_http


async def test_its_options_are_for_types_in_code_too() -> None:
    rota = Rota(load({"store": "memory://", "scheduler": {"tasks": {"hello": {"loudness": 3}}}}))

    @rota.task(options={"loudness": 1, "voice": "deep"})
    def hello() -> None: ...

    async with rota:
        (record,) = await rota.types()
    assert record.task_type.options == {"loudness": 3, "voice": "deep"}


def test_an_older_name_is_taken_with_a_word() -> None:
    for config in (load({"greeter": {"whom": "Ada"}}), load(ROTA_GREETER__WHOM="Ada"), load(flags={"whom": "Ada"})):
        assert GREETER.of(config).name == "Ada"
        assert "is now greeter.name; taken as the newer name. Rename it." in config.warnings[0]
    both = load({"greeter": {"whom": "Ada", "name": "Grace"}})
    assert GREETER.of(both).name == "Grace"
    assert "ignored, since the newer name is there too" in both.warnings[0]


def test_the_older_names_of_the_formats_of_agents() -> None:
    given: Settings = {"agents": {"hears": "text", "output_format": "text"}}
    config = load_config(given, environ={"ROTA_AGENTS__SPEAKS": "json"})
    agents = AGENTS_SECTION.of(config)
    assert (agents.input_format, agents.output_format) == ("text", "json")
    assert [warning.partition(";")[0] for warning in config.warnings] == [
        "agents.hears (argument) is now agents.input_format",
        "agents.speaks (environment ROTA_AGENTS__SPEAKS) is now agents.output_format",
    ]


def section(name: str, **options: TypeOption) -> Section[GreeterConfig]:
    return Section(name=name, values=GreeterConfig, settings=(), type_options=options)


@pytest.mark.parametrize("name", ["agents", "store", "scheduler", "tasks", "config", "Greeter", "a.b", "", "server"])
def test_a_section_has_a_name_of_its_own(name: str) -> None:
    with pytest.raises(InvalidConfig, match=f"A section of the configuration cannot be called '{name}'"):
        load_config({}, environ={}, sections=[section(name)])


@pytest.mark.parametrize(("option", "owner"), [("batch_size", "the section 'memory'"), ("timeout", "every task type")])
def test_an_option_has_one_owner(option: str, owner: str) -> None:
    with pytest.raises(InvalidConfig, match=f"option '{option}' of task types, which {owner} has too"):
        load_config({}, environ={}, sections=[section("greeter", **{option: whole_number(1, 2)})])


@pytest.mark.parametrize("one", BUILT_IN_SECTIONS, ids=repr)
def test_no_values_show_what_is_secret(one: Section[Any]) -> None:
    assert [name for name in one.masks if f"{name}=" in repr(one.default)] == []


def test_to_know_the_settings_of_every_part_is_cheap() -> None:
    """Whoever loads a configuration waits for no engine and no part."""
    heavy = ("numpy", "sqlalchemy", "redis", "httpx", "asyncio", "rota.memory.memory", "rota.agents.service")
    program = (
        "import sys, rota; rota.load_config({'agents': {'timeout': 5}}, environ={}).rows();"
        f" print([name for name in {heavy} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
