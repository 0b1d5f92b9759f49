"""One name for one option on every face: requests and commands have the word that a call in Python has for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from rota.agents.faces.models import ChangeAgentRequest, ScheduleAgentRequest
from rota.agents.service import Agents
from rota.api.routes.schedules import PreviewRequest, ScheduleRequest
from rota.api.routes.tasks import TaskRequest
from rota.app.rota import Rota, ScheduleOptions, TypeSettings
from rota.app.schedules import Schedules
from rota.app.settings import load_config
from rota.batches.faces.models import StartBatchRequest
from rota.batches.section import BATCHES_SECTION
from rota.batches.service import Batches
from rota.cli import main
from rota.cli import schedules as schedule_commands
from rota.cli import tasks as task_commands
from rota.core.task_type import TaskType, setting_name

OF_TYPE = {"type", "task_type"}
SHORT = {"user": "user_id", "device": "device_id", "agent": "agent_id", "start": "start"}
"""What a command calls shorter: it takes ids alone there."""


def said_by(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "caller", "cli", "schedule_id", "options"} - OF_TYPE


@pytest.mark.parametrize(
    ("request_model", "call"),
    [
        (ScheduleRequest, said_by(Schedules.upsert)),
        (PreviewRequest, said_by(Schedules.explain)),
        (TaskRequest, {"payload", *ScheduleOptions.__annotations__}),
        (ScheduleAgentRequest, said_by(Agents.schedule_task)),
        (ChangeAgentRequest, said_by(Agents.update_task)),
        (StartBatchRequest, said_by(Batches.start)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_request_over_http_and_the_call_in_python(request_model: type[BaseModel], call: set[str]) -> None:
    assert set(request_model.model_fields) - OF_TYPE <= call


@pytest.mark.parametrize(
    ("command", "call"),
    [
        (schedule_commands.add, said_by(Schedules.upsert)),
        (task_commands.schedule, {"payload", *ScheduleOptions.__annotations__}),
    ],
    ids=["schedule add", "task schedule"],
)
def test_a_command_and_the_call_in_python(command: Callable[..., Any], call: set[str]) -> None:
    assert {SHORT.get(name, name) for name in said_by(command)} <= call


def test_a_decorator_and_the_configuration() -> None:
    """Whatever a type can be told in code can be told in a file by the same word."""
    in_a_file = {setting_name(name) for name in TaskType.__struct_fields__}
    assert set(TypeSettings.__annotations__) <= in_a_file


def test_older_names_are_taken() -> None:
    config = load_config({"batches": {"tenant_items_per_minute": 30}}, environ={})
    assert BATCHES_SECTION.of(config).owner_items_per_minute == 30
    assert "owner_items_per_minute" in " ".join(config.warnings)
    Rota({"store": "memory://"}).cron("0 9 * * *", tz="Europe/Berlin")(test_older_names_are_taken)


@pytest.mark.parametrize("name", ["--timezone", "--tz"])
def test_the_short_name_of_a_zone_on_the_command_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "explain", "0 9 * * *", name, "Asia/Tokyo"]) == 0
    assert "Asia/Tokyo" in capsys.readouterr().out
