"""The scheduler interface: names, parameters, defaults and kinds, as programs were written for them."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields

import pytest

from rota import seeds
from rota.app.rota import Rota
from rota.errors import InvalidInput
from rota.seeds import (
    ITaskScheduler,
    IUserKeyBuilder,
    TaskConfig,
    TaskInfo,
    TaskScheduler,
    TaskStatus,
    TriggerMode,
    UserKeyBuilder,
    UserKeyConfig,
)

# name -> (is async, parameters with their defaults), from the table of `ITaskScheduler`
REQUIRED = inspect.Parameter.empty
METHODS: dict[str, tuple[bool, dict[str, object]]] = {
    "register_task_type": (True, {"config": REQUIRED}),
    "register_handler": (False, {"task_type": REQUIRED, "handler": REQUIRED}),
    "schedule_user_task": (
        True,
        {"task_type": REQUIRED, "user_id": REQUIRED, "device_id": None, "agent_id": None},
    ),
    "get_pending_task": (True, {"task_type": REQUIRED}),
    "complete_task": (True, {"task_type": REQUIRED, "user_key": REQUIRED, "lock_token": REQUIRED, "success": True}),
    "get_task_config": (True, {"task_type": REQUIRED}),
    "start": (True, {}),
    "stop": (True, {"timeout": 30.0}),
    "is_running": (False, {}),
}


@pytest.mark.parametrize("owner", [ITaskScheduler, TaskScheduler, Rota])
@pytest.mark.parametrize("name", METHODS)
def test_signatures_are_those_of_the_interface(owner: type, name: str):
    is_async, wanted = METHODS[name]
    method = getattr(owner, name)
    parameters = dict(inspect.signature(method).parameters)
    del parameters["self"]
    positional = {
        key: parameter.default
        for key, parameter in parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    }
    assert positional == wanted
    assert inspect.iscoroutinefunction(method) is is_async


def test_what_goes_beyond_the_interface_is_optional():
    """`trigger_mode=` became part of register_handler later; whoever does not give it notices nothing."""
    extra = inspect.signature(TaskScheduler.register_handler).parameters["trigger_mode"]
    assert (extra.kind, extra.default) == (inspect.Parameter.KEYWORD_ONLY, None)
    assert inspect.iscoroutinefunction(TaskScheduler.get_queue_depths)
    assert isinstance(TaskScheduler.user_key_builder, property)


def test_the_interfaces_are_abstract():
    assert set(METHODS) == ITaskScheduler.__abstractmethods__
    assert {"build_key", "parse_key", "get_key_dimensions"} == IUserKeyBuilder.__abstractmethods__
    assert issubclass(Rota, ITaskScheduler)
    assert issubclass(TaskScheduler, ITaskScheduler)


def test_the_module_functions():
    assert list(inspect.signature(seeds.get_scheduler).parameters) == []
    assert list(inspect.signature(seeds.set_scheduler).parameters) == ["scheduler"]
    assert list(inspect.signature(seeds.init_scheduler).parameters) == ["redis", "config", "redis_cache"]


def test_task_config_has_its_fields_and_defaults():
    defaults = {field.name: field.default for field in fields(TaskConfig)}
    assert defaults == {
        "name": MISSING,
        "enabled": True,
        "trigger_mode": TriggerMode.USER_ACTIVITY,
        "interval": 1800,
        "timeout": 300,
        "task_ttl": 7200,
        "max_retries": 3,
        "description": "",
    }


def test_user_key_config_has_its_fields_and_defaults():
    defaults = {field.name: field.default for field in fields(UserKeyConfig)}
    assert defaults == {
        "use_user_id": True,
        "use_device_id": True,
        "use_agent_id": True,
        "default_device_id": "default",
        "default_agent_id": "default",
    }
    assert UserKeyBuilder().build_key("u1") == "u1:default:default"


def test_the_enums_have_their_members():
    assert {"user_activity", "periodic", "cron"} <= {mode.value for mode in TriggerMode}
    assert {"pending", "running", "completed", "failed"} <= {status.value for status in TaskStatus}
    assert all(isinstance(member, str) for member in (*TriggerMode, *TaskStatus))


INFO = TaskInfo(
    task_type="memory_compression",
    user_key="u1:phone:default",
    user_id="u1",
    device_id="phone",
    agent_id="default",
    status=TaskStatus.RUNNING,
    created_at=1_735_200_000,
    scheduled_at=1_735_201_800,
    last_activity=1_735_200_500,
    retry_count=1,
    lock_token="42",
)


def test_task_info_has_its_fields():
    assert [field.name for field in fields(TaskInfo)] == [
        "task_type",
        "user_key",
        "user_id",
        "device_id",
        "agent_id",
        "status",
        "created_at",
        "scheduled_at",
        "last_activity",
        "retry_count",
        "lock_token",
    ]
    assert {field.name: field.default for field in fields(TaskInfo) if field.default is not MISSING} == {
        "retry_count": 0,
        "lock_token": None,
    }


def test_task_info_goes_through_texts_and_back():
    texts = INFO.to_dict()
    assert all(isinstance(value, str) for value in texts.values())
    assert (texts["status"], texts["created_at"]) == ("running", "1735200000")
    assert TaskInfo.from_dict(texts) == INFO
    assert TaskInfo.from_dict({**texts, "from_a_newer_version": "1"}) == INFO


def test_task_info_keeps_what_is_none():
    texts = INFO.to_dict() | {"user_id": "", "device_id": "", "agent_id": "", "lock_token": ""}
    info = TaskInfo.from_dict(texts)
    assert (info.user_id, info.device_id, info.agent_id, info.lock_token) == (None, None, None, None)
    assert info.to_dict() == texts


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"task_type": ""}, "needs 'task_type'"),
        ({"status": "runing"}, "Did you mean 'running'"),
        ({"created_at": "yesterday"}, "created_at .* 'yesterday'. Use a whole number"),
    ],
)
def test_task_info_refuses_what_it_cannot_read(wrong: dict[str, str], message: str):
    with pytest.raises(InvalidInput, match=message):
        TaskInfo.from_dict(INFO.to_dict() | wrong)
