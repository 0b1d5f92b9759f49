"""The settings of a task type: one table of defaults, every impossible value named with its path."""

from __future__ import annotations

import json

import pytest

from rota.clock import DAY, HOUR, MINUTE, SECOND
from rota.config.section import option_checks
from rota.core.task_type import (
    RateLimit,
    RetryPolicy,
    TaskConfig,
    TaskType,
    TriggerMode,
    after_cycle,
    decode_task_type,
    encode_task_type,
)
from rota.errors import InvalidConfig
from rota.memory.section import MEMORY_SECTION

OPTIONS = option_checks([MEMORY_SECTION])


def test_the_defaults_are_the_documented_ones() -> None:
    t = TaskType(name="x")
    assert (t.enabled, t.description, t.trigger_mode) == (True, "", TriggerMode.USER_ACTIVITY)
    assert (t.interval_ms, t.timeout_ms, t.task_ttl_ms, t.dead_ttl_ms) == (30 * MINUTE, 5 * MINUTE, 2 * HOUR, 30 * DAY)
    assert (t.max_retries, t.mode, t.max_wait, t.cooldown, t.on_busy) == (3, "delay", 2 * HOUR, "skip", "rerun")
    assert (t.priority, t.aging_ms, t.max_pending, t.concurrency) == (5, 30 * SECOND, 1_000_000, None)
    assert (t.slots, t.start_limit) == ("shared", None)
    assert (t.rate_limit, t.misfire, t.overlap, t.jitter_ms, t.grace_ms) == (None, "latest", "skip", 0, None)
    assert (t.run_on_start, t.retry) == (True, RetryPolicy(base_ms=10 * SECOND, factor=2.0, max_ms=HOUR))
    t.validate()


def test_max_wait_is_as_given() -> None:
    assert TaskType(name="x", max_wait_ms=HOUR).max_wait == HOUR


def test_json_has_every_field_and_comes_back_equal() -> None:
    t = TaskType(
        name="x",
        trigger_mode=TriggerMode.AFTER,
        after=("a", "b"),
        slots="own",
        rate_limit=RateLimit(rate=0.5, burst=2),
        start_limit=RateLimit(rate=3.0, burst=4),
        options={"retention_days": 30},
    )
    text = encode_task_type(t)
    assert decode_task_type(text) == t
    assert set(json.loads(text)) == set(TaskType.__struct_fields__)


def test_json_of_another_version_is_read() -> None:
    assert decode_task_type('{"name": "x", "invented_later": 1}') == TaskType(name="x")


def test_decoding_is_cached_by_text() -> None:
    text = encode_task_type(TaskType(name="cached"))
    assert decode_task_type(text) is decode_task_type(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"name": "x", "priority": "high"}'])
def test_a_broken_record_is_refused_in_words(text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"cannot be read.*Register the type again"):
        decode_task_type(text)


@pytest.mark.parametrize(
    ("task_type", "says"),
    [
        (TaskType(name="Bad"), "tasks.Bad.name is 'Bad'"),
        (TaskType(name="x", interval_ms=-1), "tasks.x.interval is '-1 ms'. Use a duration from 0 to 10 years"),
        (
            TaskType(name="x", interval_ms=999, trigger_mode=TriggerMode.PERIODIC),
            "tasks.x.interval is 999ms. .*Use 1 or",
        ),
        (TaskType(name="x", interval_ms=0, trigger_mode=TriggerMode.INTERVAL), "tasks.x.interval is 0s"),
        (TaskType(name="x", timeout_ms=0), "tasks.x.timeout is 0s. A run needs some time"),
        (TaskType(name="x", max_retries=101), "tasks.x.max_retries is 101. Use 0 .* to 100"),
        (TaskType(name="x", max_retries=-1), "tasks.x.max_retries is -1"),
        (TaskType(name="x", max_wait_ms=MINUTE), "tasks.x.max_wait is 1m. It must not be shorter than interval"),
        (TaskType(name="x", priority=11), "tasks.x.priority is 11. Use 0"),
        (TaskType(name="x", max_pending=0), "tasks.x.max_pending is 0"),
        (TaskType(name="x", concurrency=0), "tasks.x.concurrency is 0.*enabled: false"),
        (
            TaskType(name="x", trigger_mode=TriggerMode.PERIODIC, jitter_ms=30 * MINUTE),
            "tasks.x.jitter is 30m. It must be shorter than interval",
        ),
        (TaskType(name="x", version=-1), "tasks.x.version is -1"),
        (TaskType(name="x", description="x" * 1_001), "tasks.x.description is .*1000 characters"),
        (TaskType(name="x", description="a\0b"), "tasks.x.description is .*UTF-8"),
        (TaskType(name="x", description="\ud800"), "tasks.x.description is .*UTF-8"),
        (TaskType(name="x", trigger_mode=TriggerMode.CRON), "tasks.x.cron is not set.*belong together"),
        (TaskType(name="x", cron="* * * * *"), r"tasks.x.cron is '\* \* \* \* \*'.*trigger_mode: cron"),
        (TaskType(name="x", trigger_mode=TriggerMode.AFTER), "tasks.x.after is not set"),
        (TaskType(name="x", after=("y",)), "tasks.x.after is .*trigger_mode: after"),
        (TaskType(name="x", trigger_mode=TriggerMode.AFTER, after=("x",)), "cannot come after itself"),
        (TaskType(name="x", trigger_mode=TriggerMode.AFTER, after=("y", "y")), "each type once"),
        (TaskType(name="x", trigger_mode=TriggerMode.AFTER, after=("Y",)), "'Y' is no valid name"),
        (TaskType(name="x", retry=RetryPolicy(factor=0.5)), "tasks.x.retry.factor is 0.5"),
        (TaskType(name="x", retry=RetryPolicy(factor=float("nan"))), "tasks.x.retry.factor is nan"),
        (
            TaskType(name="x", retry=RetryPolicy(base_ms=2, max_ms=1)),
            "tasks.x.retry.max is 1ms. It must not be shorter",
        ),
        (TaskType(name="x", retry=RetryPolicy(base_ms=-2)), "tasks.x.retry.base is '-2 ms'"),
        (TaskType(name="x", rate_limit=RateLimit(rate=0)), "tasks.x.rate_limit.rate is 0"),
        (TaskType(name="x", rate_limit=RateLimit(rate=float("inf"))), "tasks.x.rate_limit.rate is inf"),
        (TaskType(name="x", rate_limit=RateLimit(rate=1, burst=0)), "tasks.x.rate_limit.burst is 0"),
        (TaskType(name="x", start_limit=RateLimit(rate=-1)), "tasks.x.start_limit.rate is -1"),
        (TaskType(name="x", start_limit=RateLimit(rate=1, burst=1_000_001)), "tasks.x.start_limit.burst is 1000001"),
        (TaskType(name="x", slots="mine"), "tasks.x.slots is 'mine'"),  # pyright: ignore[reportArgumentType]  # the mistake
        (TaskType(name="x", options={"batchsize": 1}), "tasks.x.batchsize is 1.*Did you mean 'batch_size'"),
        (TaskType(name="x", options={"batch_size": 0}), "tasks.x.batch_size is 0. Use a whole number from 1"),
        (TaskType(name="x", options={"batch_size": 1.5}), "tasks.x.batch_size is 1.5. Use a whole number"),
        (TaskType(name="x", options={"similarity_threshold": True}), "similarity_threshold is True. Use a number"),
        (TaskType(name="x", options={"similarity_threshold": "high"}), "similarity_threshold is 'high'. Use a number"),
    ],
)
def test_impossible_settings(task_type: TaskType, says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        task_type.validate(options=OPTIONS)


@pytest.mark.parametrize(
    ("task_type", "says"),
    [
        (TaskType(name="x", options={"Size": 1}), "tasks.x.Size is 1. Use another name"),
        (TaskType(name="x", options={"timeout": 1}), "tasks.x.timeout is 1. Use another name"),
        (TaskType(name="x", options={"size": float("nan")}), "tasks.x.size is nan. Use a finite number"),
        (TaskType(name="x", options={"word": "\ud800"}), "tasks.x.word is .*UTF-8"),
        (TaskType(name="x", options={f"o{n}": n for n in range(65)}), "tasks.x.options is 65. A type has at most 64"),
    ],
)
def test_what_holds_for_the_options_of_any_handler(task_type: TaskType, says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        task_type.validate()


def test_an_option_that_nobody_is_asked_about_is_fine() -> None:
    assert TaskType(name="x", options={"loudness": 11, "voice": "deep", "slow": True}).problems() == []


def test_a_value_of_the_wrong_type_is_named() -> None:
    wrong = TaskType(name="x", priority="high")  # pyright: ignore[reportArgumentType] -- the mistake under test
    with pytest.raises(InvalidConfig, match=r"tasks.x.priority is 'high'. Expected `int`"):
        wrong.validate()


def test_all_problems_are_told_with_their_sources() -> None:
    problems = TaskType(name="x", priority=11, timeout_ms=0).problems("here", {"here.priority": "file a.yaml:3"})
    assert [problem.split(".", 2)[1] for problem in problems] == ["timeout is 0s", "priority is 11 (file a"]


@pytest.mark.parametrize(
    "task_type",
    [
        TaskType(name="x", interval_ms=0),
        TaskType(name="x", task_ttl_ms=0, max_retries=0, aging_ms=0, priority=0),
        TaskType(name="x", trigger_mode=TriggerMode.CRON, cron="0 9 * * *", jitter_ms=2 * HOUR),
        TaskType(name="x", trigger_mode=TriggerMode.PERIODIC, interval_ms=SECOND, jitter_ms=999),
        TaskType(name="x", options={"similarity_threshold": 1, "batch_size": 100}),
    ],
)
def test_settings_at_the_edge_are_fine(task_type: TaskType) -> None:
    assert task_type.problems(options=OPTIONS) == []


def test_types_that_wait_for_each_other() -> None:
    def after(name: str, *others: str) -> TaskType:
        return TaskType(name=name, trigger_mode=TriggerMode.AFTER, after=others)

    types = {"a": after("a", "b"), "b": after("b", "c"), "c": after("c", "a", "elsewhere")}
    circle = after_cycle(types)
    assert circle[0] == circle[-1]
    assert set(circle) == {"a", "b", "c"}
    assert after_cycle({"a": after("a", "b", "elsewhere")}) == []


# --- TaskConfig, the scheduler interface's face


def test_task_config_has_the_defaults_of_the_interface() -> None:
    assert TaskConfig("x").to_dict() == {
        "name": "x",
        "enabled": True,
        "trigger_mode": "user_activity",
        "interval": 1800,
        "timeout": 300,
        "task_ttl": 7200,
        "max_retries": 3,
        "description": "",
    }


def test_task_config_of_a_redis_hash() -> None:
    hash_of_texts = {"name": "x", "enabled": "false", "trigger_mode": "periodic", "interval": "60", "max_retries": "0"}
    expected = TaskConfig("x", enabled=False, trigger_mode=TriggerMode.PERIODIC, interval=60, max_retries=0)
    assert TaskConfig.from_dict(hash_of_texts) == expected


def test_task_config_round_trips() -> None:
    config = TaskConfig("x", False, TriggerMode.PERIODIC, 60, 30, 90, 1, "words")
    assert TaskConfig.from_dict(config.to_dict()) == config
    assert TaskConfig.from_task_type(config.to_task_type()) == config


def test_task_config_and_task_type_share_their_defaults() -> None:
    assert TaskConfig("x").to_task_type() == TaskType(name="x")


def test_parts_of_a_second_are_rounded_up() -> None:
    assert TaskConfig.from_task_type(TaskType(name="x", timeout_ms=1)).timeout == 1


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, "needs a name"),
        ({"name": 5}, "name of a TaskConfig is 5. Use text"),
        ({"name": "x", "intervall": 5}, "no setting 'intervall'. Did you mean 'interval'"),
        ({"name": "x", "enabled": "maybe"}, "enabled of a TaskConfig is 'maybe'. Use true or false"),
        ({"name": "x", "max_retries": "many"}, "max_retries of a TaskConfig is 'many'. Use a whole number"),
        (
            {"name": "x", "trigger_mode": "periodik"},
            "trigger_mode of a TaskConfig is 'periodik'. Did you mean 'periodic'",
        ),
        ({"name": "x", "interval": "soon"}, "interval of a TaskConfig 'soon' is no duration"),
        ({"name": "x", "interval": None}, "interval of a TaskConfig is None"),
        ({"name": "x", "interval": "1500ms"}, "Use whole seconds"),
    ],
)
def test_impossible_task_configs(data: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        TaskConfig.from_dict(data)
