"""The built-in app: `echo`, and the configuration's say in it."""

from __future__ import annotations

import asyncio
import json

import pytest

from rota import load_config
from rota.app.builtin import build
from rota.core.task_type import TaskType


def run(payload: object, **tasks: dict[str, object]) -> dict[str, object]:
    """The one run of an echo with this payload."""

    async def once() -> dict[str, object]:
        settings = {"echo": {"max_retries": 0, **tasks.get("echo", {})}}
        app = build(load_config({"scheduler": {"tasks": settings}}, environ={}, flags={"store": "memory://"}))
        async with app:
            await app.schedule("echo", payload, key="k")
            await app.run_until_idle()
            (info,) = (await app.runs("echo")).items
            return info.to_dict()

    return asyncio.run(once())


@pytest.mark.parametrize("payload", [None, "hi", 5, [1, 2], {"text": "hi"}, {"sleep": 0.01, "fail": False}])
def test_it_answers_with_its_payload(payload: object) -> None:
    info = run(payload)

    assert info["status"] == "success"
    assert json.loads(str(info["result"])) == {"echo": payload}


def test_it_fails_when_it_is_told_to() -> None:
    info = run({"fail": True})

    assert info["status"] == "error"
    assert "told to fail" in str(info["error"])


@pytest.mark.parametrize("payload", [{"sleep": -1}, {"sleep": 61}, {"sleep": "long"}, {"sleep": True}, {"fail": "yes"}])
def test_wishes_are_bounded(payload: object) -> None:
    info = run(payload)

    assert info["status"] == "error"
    assert "The payload says" in str(info["error"])


def test_the_configuration_has_the_last_word() -> None:
    tasks = {"echo": {"max_retries": 7, "timeout": "5s"}, "mine": {"interval": "1m"}}

    async def types() -> dict[str, TaskType]:
        app = build(load_config({"scheduler": {"tasks": tasks}}, environ={}, flags={"store": "memory://"}))
        async with app:
            return {record.task_type.name: record.task_type for record in await app.types()}

    known = asyncio.run(types())

    assert set(known) >= {"echo", "mine", "memory_compression", "data_cleanup"}
    assert not known["hierarchy_summary"].enabled
    assert (known["echo"].max_retries, known["echo"].timeout_ms) == (7, 5_000)
