"""NaN and infinity are no JSON: they became null without a word. Every door refuses them, and says where they stand."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import msgspec
import pytest
from tests.api.stage import staged

from rota import Rota
from rota.cli.payload import read_payload
from rota.codec import to_json
from rota.core.task import Task, TaskStatus
from rota.errors import InvalidInput
from rota.runtime.run import Run
from rota.runtime.verdict import of_value
from rota.testing.clock import FakeClock

NAN, INF = math.nan, math.inf


@dataclasses.dataclass
class Reading:
    at: int
    value: float


class Nested(msgspec.Struct):
    readings: list[Reading]


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (NAN, "it is nan"),
        (-INF, "it is -inf"),
        ({"a": [1, {"b": INF}]}, "['a'][1]['b'] is inf"),
        ((1.5, NAN), "[1] is nan"),
        (Nested([Reading(1, 2.0), Reading(2, NAN)]), "['readings'][1]['value'] is nan"),
    ],
)
def test_what_json_cannot_say_is_refused_by_its_place(value: object, where: str) -> None:
    with pytest.raises(ValueError, match=r"which JSON has no word for") as refused:
        to_json(value)
    assert where in str(refused.value)


@pytest.mark.parametrize("value", [None, {"a": None}, "null", [None, 1.5, "nan"], {"null": 1e308}, Reading(1, 2.0)])
def test_everything_else_is_written_as_ever(value: object) -> None:
    assert to_json(value) == msgspec.json.encode(value)


@pytest.mark.parametrize("number", [NAN, INF])
async def test_no_payload_has_one(number: float, clock: FakeClock) -> None:
    app = Rota(store="memory://", clock=clock)

    @app.task(name="job")
    async def job(payload: object) -> None: ...

    async with app:
        with pytest.raises(InvalidInput, match=rf"The payload of a 'job' task .*\['n'\] is {number}"):
            await app.schedule("job", {"n": number})
        with pytest.raises(InvalidInput, match=rf"The payload of 'daily' .*\['n'\] is {number}"):
            await app.schedules.upsert("daily", type="job", cron="0 9 * * *", payload={"n": number})
        assert not (await app.counts())
    assert job.name == "job"


@pytest.mark.parametrize("text", ['{"n": NaN}', "-Infinity", "[Infinity]"])
def test_the_command_line_takes_none(text: str) -> None:
    assert json.loads(text) is not None, "Python reads it"
    with pytest.raises(InvalidInput, match=r"^The payload \(--payload\) is no JSON"):
        read_payload(text)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999"])
async def test_the_api_takes_none(text: str, sqlite_url: str) -> None:
    async with staged(sqlite_url) as stage:
        said = await stage.operator.post(
            "/api/tasks",
            content=f'{{"task_type": "job", "payload": {{"n": {text}}}}}',
            headers={"content-type": "application/json"},
        )
        assert said.status_code == 422, said.text
        assert "payload" in said.text
        assert not (await stage.operator.get("/api/tasks", params={"task_type": "job"})).json()["items"]


def test_progress_has_none() -> None:
    task = Task("job", "k", TaskStatus.RUNNING, 0, 0, 0)
    run = Run(task, 1_000)
    with pytest.raises(InvalidInput, match=r"The progress of 'k' .*\['done'\] is nan"):
        run.progress({"done": NAN})
    assert run.latest_progress is None


def test_a_result_with_one_is_the_handlers_nonsense() -> None:
    result: dict[str, Any] = {"score": NAN}
    verdict = of_value(result)
    assert (verdict.transition.value, verdict.reason) == ("fail", "error")
    assert verdict.error is not None
    assert "['score'] is nan" in verdict.error
