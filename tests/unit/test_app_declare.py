"""Declaring types: what decorators accept, what they refuse, and what wins."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota import (
    InvalidConfig,
    InvalidInput,
    RateLimit,
    RetryPolicy,
    Rota,
    RotaError,
    StoreUnavailable,
    TaskType,
    TriggerMode,
)
from rota.app.rota import TypeSettings
from rota.core.task_type import setting_name


def nothing() -> None:
    """A handler."""


async def nothing_for(user_id: str) -> None:
    """A handler for a user."""


def app(**settings: object) -> Rota:
    """An app in memory; `settings` are those of the type `nothing`."""
    return Rota({"store": "memory://", "scheduler": {"tasks": {"nothing": settings}} if settings else {}})


async def declared(rota: Rota, name: str = "nothing") -> TaskType:
    async with rota:
        (found,) = [record.task_type for record in await rota.types() if record.task_type.name == name]
    return found


def test_every_setting_of_a_type_can_be_given_to_a_decorator():
    own = {"name", "trigger_mode", "cron", "after"}
    settings = {setting_name(field) for field in TaskType.__struct_fields__} - own
    assert TypeSettings.__optional_keys__ == settings


async def test_durations_are_texts_seconds_or_timedeltas():
    rota = app()
    rota.every("1h30m", timeout=90, grace=timedelta(minutes=5))(nothing)
    task_type = await declared(rota)
    assert (task_type.interval_ms, task_type.timeout_ms, task_type.grace_ms) == (5_400_000, 90_000, 300_000)
    assert task_type.trigger_mode is TriggerMode.PERIODIC


async def test_structures_are_mappings_or_values():
    rota = app()
    rota.task(rate_limit={"rate": 2, "burst": 5}, retry=RetryPolicy(base_ms=5_000, factor=3.0))(nothing)
    task_type = await declared(rota)
    assert task_type.rate_limit == RateLimit(rate=2, burst=5)
    assert task_type.retry == RetryPolicy(base_ms=5_000, factor=3.0)


async def test_the_configuration_wins_piece_by_piece():
    rota = app(retry={"base": 1}, batch_size=10)
    rota.task(retry={"base": "5s", "factor": 3}, priority=7, options={"batch_size": 50, "retention_days": 9})(nothing)
    task_type = await declared(rota)
    assert (task_type.retry.base_ms, task_type.retry.factor, task_type.priority) == (1_000, 3.0, 7)
    assert task_type.options == {"batch_size": 10, "retention_days": 9}


async def test_options_may_stand_beside_the_other_settings_as_in_a_file():
    rota = app()
    beside: Any = {"batch_size": 50}
    rota.task(options={"retention_days": 9}, **beside)(nothing)
    assert (await declared(rota)).options == {"batch_size": 50, "retention_days": 9}


async def test_options_that_cannot_be_are_refused():
    no_mapping: Any = 5
    with pytest.raises(InvalidConfig, match=r"@app.task on 'nothing': options is 5. Use a mapping"):
        app().task(options=no_mapping)(nothing)
    with pytest.raises(InvalidConfig, match="Did you mean 'batch_size'"):
        app().task(options={"batchsize": 5})(nothing)
    with pytest.raises(InvalidConfig, match=r"batch_size is 0 .*Use a whole number from 1"):
        app().task(options={"batch_size": 0})(nothing)
    with pytest.raises(InvalidConfig, match="Did you mean 'batch_size'"):
        await app().register_task_type(TaskType(name="nothing", options={"batchsize": 5}))


async def test_the_zone_of_the_configuration_is_the_default_of_cron():
    rota = Rota({"store": "memory://", "timezone": "Asia/Tokyo", "scheduler": {"tasks": {"nothing": {"timeout": 5}}}})
    rota.cron("0 9 * * *")(nothing)
    rota.cron("0 9 * * *", timezone="Europe/Berlin", name="other")(nothing)
    rota.cron("0 9 * * *", tz="Europe/Rome", name="as_it_was_called_once")(nothing)
    assert (await declared(rota)).timezone == "Asia/Tokyo"
    assert (await declared(rota, "other")).timezone == "Europe/Berlin"
    assert (await declared(rota, "as_it_was_called_once")).timezone == "Europe/Rome"


async def test_a_text_is_taken_literally():
    rota = app()
    rota.task(description="costs ${HOME}")(nothing)
    assert (await declared(rota)).description == "costs ${HOME}"


def test_a_handle_looks_like_its_function():
    handle = app().task(nothing)
    assert (handle.__name__, handle.__doc__, handle.name) == ("nothing", "A handler.", "nothing")
    assert not inspect.iscoroutinefunction(handle.__call__)
    assert inspect.iscoroutinefunction(app().on_activity(nothing_for).__call__)
    assert repr(handle) == "<task type 'nothing'>"


def test_the_same_function_again_is_a_reload_and_another_one_a_mistake():
    rota = app()
    rota.task(nothing)
    rota.task(nothing)
    with pytest.raises(InvalidInput, match="already has the handler"):
        rota.task(name="nothing")(nothing_for)


async def test_types_may_be_declared_while_connected():
    rota = app()
    async with rota:
        handle = rota.task(nothing)
        assert (await handle.schedule()).outcome == "created"


def not_typed(value: object) -> Any:
    """A value as a program without type hints hands it in."""
    return value


def wrong(**settings: object) -> Any:
    """Settings that the type checker would not let through."""
    return settings


def nothing_for_whom(user: str) -> None:
    """A handler that wants what nobody can give it."""


REFUSALS: dict[str, tuple[Callable[[Rota], object], str]] = {
    "unknown setting": (
        lambda r: r.on_activity(**wrong(aftr="30m"))(nothing_for),
        r"@app.on_activity on 'nothing_for': .*aftr.*no such setting\. Did you mean 'after'\?",
    ),
    "impossible value": (
        lambda r: r.on_activity(after="30m", cooldown="deffer")(nothing_for),  # pyright: ignore[reportArgumentType]
        "cooldown is 'deffer'.*Did you mean 'defer'",
    ),
    "no duration": (lambda r: r.every("soon")(nothing), "interval is 'soon'.*like 1800, '30m'"),
    "too fast": (lambda r: r.every("10ms")(nothing), "interval is 10ms.*one second"),
    "bad cron": (lambda r: r.cron("61 * * * *")(nothing), r"@app.cron on 'nothing': .*cron is '61 \* \* \* \*'"),
    "bad zone": (lambda r: r.cron("0 9 * * *", timezone="Europe/Berlinn")(nothing), "Did you mean 'Europe/Berlin'"),
    "bare every": (lambda r: r.every(not_typed(nothing)), r"Write it with parentheses: @app.every\('24h'\)"),
    "bare cron": (lambda r: r.cron(not_typed(nothing)), "Write it with parentheses: @app.cron"),
    "bare after": (lambda r: r.after(not_typed(nothing)), "Write it with parentheses: @app.after"),
    "after nothing": (lambda r: r.after()(nothing), "after is not set.*belong together"),
    "after itself": (lambda r: r.after("nothing")(nothing), "cannot come after itself"),
    "positional duration": (lambda r: r.on_activity(not_typed("30m")), "'30m', which is no function.*after='30m'"),
    "both words": (lambda r: r.on_activity(after="1m", interval="2m"), "interval and after, which mean the same"),
    "mode in code": (
        lambda r: r.task(**wrong(trigger_mode="cron"))(nothing),
        "the decorator is the trigger mode",
    ),
    "bad name": (lambda r: r.task(name="No Good")(nothing), "'No Good' is no valid name"),
    "lambda": (lambda r: r.task(lambda: None), "'<lambda>' is no valid name"),
    "no function": (lambda r: r.task()(not_typed(3)), "is no function"),
    "unknown parameter": (lambda r: r.task(nothing_for_whom), "wants 'user', which nobody can give it"),
    "process of a closure": (lambda r: r.task(process=True, name="x")(lambda: None), "top of a module"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_say_what_is_wrong_and_what_to_do(case: str):
    decorate, message = REFUSALS[case]
    with pytest.raises(InvalidInput, match=message):
        decorate(app())


def test_a_trigger_mode_in_the_configuration_must_not_contradict():
    with pytest.raises(InvalidConfig, match=r"'periodic' \(argument\), but the handler is declared for 'once' \(@app"):
        app(trigger_mode="periodic", interval=60).task(nothing)


def test_the_merged_type_is_checked_too():
    rota = app(interval=3600)
    with pytest.raises(InvalidConfig, match=r"@app.on_activity on 'nothing': .*max_wait is 10m"):
        rota.on_activity(name="nothing", after="5m", max_wait="10m")(nothing_for)


async def test_types_that_wait_for_each_other_are_refused_at_start():
    rota = app()
    rota.after("two", name="one")(nothing)
    rota.after("one", name="two")(nothing)
    with pytest.raises(InvalidConfig, match="wait for each other"):
        await rota.run_until_idle()


async def test_types_whose_keys_differ_in_kind_cannot_share_an_after():
    rota = app()
    rota.on_activity(nothing_for)
    rota.every("1h")(nothing)
    rota.after("nothing_for", "nothing", name="third")(nothing)
    with pytest.raises(InvalidConfig, match="can never both complete for one key"):
        await rota.run_until_idle()


# --- what an app is made from ---


def test_sources_of_an_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.yaml").write_text("store: sqlite:///other.db")
    config = Rota("memory://", max_concurrent=50).config
    assert (config.store_url, config.max_concurrent) == ("memory://", 50)
    assert Rota("my.yaml").config.store_url == "sqlite:///other.db"
    assert Rota(tmp_path / "my.yaml").config.store_url == "sqlite:///other.db"
    assert Rota({"store": "memory://"}).config.store_url == "memory://"
    assert Rota(config).config is config
    assert Rota("my.yaml", store="memory://").config.store_url == "memory://"
    assert Rota().config.store_url == "sqlite:///rota.db"


BAD_SOURCES: dict[str, tuple[Callable[[], object], str]] = {
    "file name": (lambda: Rota("rota.db"), "Write it as 'sqlite:///rota.db'"),
    "no such file": (lambda: Rota("missing.yaml"), "cannot be read"),
    "number": (lambda: Rota(3), "which is no configuration"),  # pyright: ignore[reportArgumentType]
    "unknown flag": (lambda: Rota("memory://", max_concurrency=5), "no such setting"),
    "unknown engine": (lambda: Rota("mysql://x"), "No engine is called 'mysql'"),
    "flags on a config": (lambda: Rota(Rota("memory://").config, lease="5s"), "Put them into the Config"),
    "two stores": (lambda: Rota("memory://", store="sqlite:///x.db"), "two stores"),
}


@pytest.mark.parametrize("case", BAD_SOURCES)
def test_sources_that_are_refused(case: str):
    make, message = BAD_SOURCES[case]
    with pytest.raises(InvalidInput, match=message):
        make()


async def test_a_redis_that_is_not_there_is_said():
    with pytest.raises(StoreUnavailable, match=r"redis://127\.0\.0\.1:1/0 cannot be used right now"):
        await Rota("redis://127.0.0.1:1/0", spool="off").run_until_idle()


async def test_handlers_may_come_while_the_worker_runs():
    rota = app()
    async with rota:
        await rota.start()
        rota.task(nothing)
        with pytest.raises(RotaError, match="already running"):
            await rota.run()
