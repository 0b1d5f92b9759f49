"""The description of the API says everything: each field, parameter and operation in words, each with an example that
is as it says, and that a service takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator
from tests.api.calls import CALLS, nothing
from tests.api.stage import Stage, an_app

from rota.api import Service, create_api
from rota.core.task_type import TaskType, TriggerMode


class Operation(NamedTuple):
    id: str
    method: str
    path: str
    said: dict[str, Any]

    @property
    def parameters(self) -> list[dict[str, Any]]:
        return self.said.get("parameters", [])

    @property
    def body(self) -> dict[str, Any] | None:
        return self.said["requestBody"]["content"]["application/json"] if "requestBody" in self.said else None

    @property
    def answers(self) -> dict[str, dict[str, Any]]:
        """What it answers when all is well, by status."""
        return {status: said for status, said in self.said["responses"].items() if status < "300"}


def described() -> dict[str, Any]:
    return create_api(Service(an_app("memory://")), dashboard=False).openapi()


def operations(description: dict[str, Any]) -> Iterator[Operation]:
    for path, methods in description["paths"].items():
        for method, said in methods.items():
            yield Operation(said["operationId"], method.upper(), path, said)


DESCRIPTION = described()
OPERATIONS = list(operations(DESCRIPTION))
named = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)


# --- in words --------------------------------------------------------------------------------------------------------


def test_every_field_is_described() -> None:
    silent = [
        f"{name}.{field}"
        for name, schema in DESCRIPTION["components"]["schemas"].items()
        for field, said in schema.get("properties", {}).items()
        if not said.get("description", "").strip()
    ]
    assert silent == [], (
        "These fields say nothing. Write a docstring under each, in its model; or, if the name means the same in every"
        " model, an entry in src/rota/api/vocabulary.py: WORDS."
    )


def test_every_model_is_described() -> None:
    silent = [
        name for name, said in DESCRIPTION["components"]["schemas"].items() if not said.get("description", "").strip()
    ]
    assert silent == [], "These models say nothing. Write a docstring under the name of each class."


def test_no_two_models_have_one_name() -> None:
    """Else both are called by their modules, and so are the classes of every client."""
    long = [name for name in DESCRIPTION["components"]["schemas"] if "__" in name]
    assert long == [], "Another model has the same name. Rename one of the two."


@named
def test_every_operation_is_described(operation: Operation) -> None:
    assert operation.said.get("summary", "").strip()
    assert operation.said.get("description", "").strip(), "Write a docstring under the function of this route."
    assert operation.said.get("tags"), "Make its router by `routes_for(role, tag=...)`."
    silent = [each["name"] for each in operation.parameters if not each.get("description", "").strip()]
    assert silent == [], (
        "These parameters say nothing. Give each a `Query(description=...)`, or, if the name means the same for every"
        " list, an entry in src/rota/api/vocabulary.py: FILTERS."
    )


@named
def test_every_error_is_described_with_its_codes(operation: Operation) -> None:
    problems = DESCRIPTION["components"]["responses"]
    for status in ("400", "401", "403", "404", "409", "413", "415", "422", "429", "503"):
        said = operation.said["responses"][status]
        said = problems[status] if "$ref" in said else said
        assert said["description"].strip()
        assert "$ref" not in operation.said["responses"][status] or "`" in said["description"]


def test_the_codes_are_those_of_the_errors() -> None:
    problems = DESCRIPTION["components"]["responses"]
    for status, codes in {
        "404": ("not_found", "unknown_task", "unknown_task_type", "unknown_batch", "unknown_event"),
        "409": ("illegal_transition", "count_changed", "idempotency_conflict"),
        "422": ("invalid_request", "invalid_input", "invalid_trigger", "limit_exceeded"),
        "429": ("too_many_attempts", "batches_full"),
        "503": ("store_unavailable", "batches_frozen"),
    }.items():
        for code in codes:
            assert f"`{code}`" in problems[status]["description"], (status, code)


# --- by example ------------------------------------------------------------------------------------------------------


@named
def test_every_operation_has_examples(operation: Operation) -> None:
    if operation.body is not None:
        assert "example" in operation.body, "Give the model of the body `model_config = an_example(...)`."
    for status, answer in operation.answers.items():
        for kind, content in answer.get("content", {}).items():
            assert "example" in content, f"The answer {status} ({kind}) has no example. Put one beside its schema."
    assert any("content" in answer for answer in operation.answers.values()) or set(operation.answers) == {"204"}


@named
def test_every_example_is_as_its_schema_says(operation: Operation) -> None:
    contents = [("the body", operation.body)] if operation.body is not None else []
    for status, answer in operation.answers.items():
        content = answer.get("content", {}).get("application/json")
        contents += [] if content is None else [(f"the answer {status}", content)]
    contents += [(f"the parameter {each['name']}", each) for each in operation.parameters if "example" in each]
    for where, content in contents:
        wrong = mistakes(content["schema"], content["example"])
        assert wrong == [], f"The example of {where} is not as its schema says. Mend the model's `an_example(...)`."


def test_every_problem_is_as_its_schema_says() -> None:
    for answer in DESCRIPTION["components"]["responses"].values():
        (content,) = answer["content"].values()
        assert mistakes(content["schema"], content["example"]) == []


def mistakes(schema: dict[str, Any], value: object) -> list[str]:
    validator: Any = Draft202012Validator({**schema, "components": DESCRIPTION["components"]})
    return [mistake.message for mistake in validator.iter_errors(value)]


@pytest.mark.parametrize("name", sorted(each.id for each in OPERATIONS if each.body is not None))
async def test_a_service_takes_the_example_of_the_body(stage: Stage, name: str) -> None:
    """With what it is about prepared as for the operation's good call."""
    (operation,) = [each for each in OPERATIONS if each.id == name]
    await with_the_types_of_the_examples(stage)
    call = CALLS[name]
    values = await (call.prepare or nothing)(stage)
    body = (operation.body or {})["example"]
    answer = await stage.admin.request(call.method, call.path.format(**values), json=body)
    assert answer.status_code in {int(status) for status in operation.answers}, answer.text


async def test_a_service_knows_what_the_examples_ask_for(stage: Stage) -> None:
    """Addresses as the examples of their parameters make them: what they name need not be there."""
    await with_the_types_of_the_examples(stage)
    await stage.service.feed.close()  # so that the streams end
    wrong: list[str] = []
    for operation in OPERATIONS:
        given = {each["name"]: each["example"] for each in operation.parameters if "example" in each}
        path = re.sub(r"\{(\w+)\}", lambda found, given=given: quote(str(given[found[1]]), safe=""), operation.path)
        queries = {each["name"] for each in operation.parameters if each["in"] == "query"}
        query = {name: written(value) for name, value in given.items() if name in queries}
        body = None if operation.body is None else operation.body["example"]
        answer = await stage.admin.request(operation.method, path, params=query, json=body)
        if answer.status_code >= 300 and answer.status_code not in (404, 409):
            wrong.append(f"{operation.method} {answer.url}: {answer.text}")
    assert wrong == []


def written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def with_the_types_of_the_examples(stage: Stage) -> None:
    upkeep = TaskType(name="memory_compression", trigger_mode=TriggerMode.USER_ACTIVITY)
    await (await stage.app.store()).put_types([TaskType(name="report"), upkeep])
