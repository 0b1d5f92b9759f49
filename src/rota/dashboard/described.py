"""The description of the API as a page shows it: operations by what they are about, with their fields in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from rota.api.models import NO_NUL
from rota.api.paths import quote_key

__all__ = ["Answer", "Described", "Field", "Model", "Operation", "Piece", "tag_word"]

Schema = Mapping[str, Any]

_KINDS: Final[Mapping[str, str]] = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "null": "null",
}
_LIMITS: Final[Mapping[str, str]] = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "minLength": "not empty",
    "maxLength": "at most {} characters",
    "minItems": "{} or more",
    "maxItems": "at most {}",
    "pattern": "as {}",
    "default": "else {}",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the words for what a field takes; `model` is the one that it names."""

    words: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a model, or a parameter. `place` is where a parameter stands."""

    name: str
    kind: Sequence[Piece]
    limits: str
    says: str
    is_needed: bool
    place: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes when all is well."""

    status: str
    says: str
    kind: Sequence[Piece]
    example: str | None


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: what it takes, and what it answers."""

    id: str
    method: str
    path: str
    tag: str
    title: str
    says: str
    role: str
    parameters: Sequence[Field]
    body: str | None
    """The model of the body."""
    fields: Sequence[Field]
    body_example: str | None
    answers: Sequence[Answer]
    problems: Sequence[str]
    example_path: str
    is_open_to_look: bool
    """It only looks, and needs nothing to be said."""

    @property
    def search_words(self) -> str:
        """Everything that it may be looked for by."""
        names = (each.name for each in (*self.parameters, *self.fields))
        return " ".join((self.id, self.method, self.path, self.title, self.says, *names)).lower()


@dataclass(frozen=True, slots=True)
class Model:
    """One model: an object with fields, or a choice."""

    name: str
    says: str
    fields: Sequence[Field]
    choices: Sequence[str]


@dataclass(frozen=True)
class Described:
    """A description (OpenAPI), to be read by people."""

    given: Schema
    _schemas: Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_schemas", self.given["components"]["schemas"])

    @property
    def about(self) -> str:
        """What holds for every operation."""
        return str(self.given["info"].get("description", ""))

    def operations(self) -> Iterator[Operation]:
        """Every operation, as they come."""
        for path, methods in self.given["paths"].items():
            for method, said in methods.items():
                yield self._operation(method.upper(), path, said)

    def by_tag(self) -> dict[str, list[Operation]]:
        """The operations by what they are about."""
        found: dict[str, list[Operation]] = {}
        for operation in self.operations():
            found.setdefault(operation.tag, []).append(operation)
        return found

    def models(self) -> list[Model]:
        """Every model, by name."""
        return [
            Model(
                name, str(said.get("description", "")), self._fields(said), [str(each) for each in said.get("enum", ())]
            )
            for name, said in sorted(self._schemas.items())
        ]

    def problems(self) -> list[tuple[str, str]]:
        """Each status of an answer that is no success, with what it means."""
        answers: Schema = self.given["components"].get("responses", {})
        return [(status, str(said["description"])) for status, said in answers.items()]

    def _operation(self, method: str, path: str, said: Schema) -> Operation:
        parameters = [self._parameter(each) for each in said.get("parameters", ())]
        content: Schema | None = None
        if "requestBody" in said:
            content = said["requestBody"]["content"].get("application/json")
        body = None if content is None else str(content["schema"].get("$ref", "")).rpartition("/")[2] or None
        return Operation(
            id=str(said["operationId"]),
            method=method,
            path=path,
            tag=tag_word(str((said.get("tags") or ["other"])[0])),
            title=str(said.get("summary", "")),
            says=str(said.get("description", "")),
            role=str(said.get("x-rota-role", "")),
            parameters=parameters,
            body=body,
            fields=() if body is None else self._fields(self._schemas[body]),
            body_example=None if content is None else _written(content.get("example")),
            answers=[self._answer(status, each) for status, each in said["responses"].items() if status < "300"],
            problems=[status for status in said["responses"] if status >= "300"],
            example_path=_example_path(path, said.get("parameters", ())),
            is_open_to_look=method == "GET" and not any(each.is_needed for each in parameters),
        )

    def _parameter(self, said: Schema) -> Field:
        schema: Schema = said["schema"]
        is_needed = bool(said.get("required", False))
        place = {"path": "in the address", "header": "header"}.get(said["in"], "")
        return Field(said["name"], self._kind(schema), _limits(schema), said.get("description", ""), is_needed, place)

    def _fields(self, schema: Schema) -> list[Field]:
        needed = schema.get("required", ())
        return [
            Field(name, self._kind(said), _limits(said), str(said.get("description", "")), name in needed)
            for name, said in schema.get("properties", {}).items()
        ]

    def _answer(self, status: str, said: Schema) -> Answer:
        for kind, content in said.get("content", {}).items():
            schema: Schema = content.get("schema", {})
            pieces = self._kind(schema) if kind == "application/json" else [Piece(kind)]
            return Answer(status, said.get("description", ""), pieces, _written(content.get("example")))
        return Answer(status, said.get("description", ""), [Piece("nothing")], None)

    def _kind(self, schema: Schema) -> list[Piece]:
        """What a schema takes, in words."""
        if "$ref" in schema:
            name = str(schema["$ref"]).rpartition("/")[2]
            choices = self._schemas[name].get("enum")
            return [Piece(_choice(choices), None)] if choices else [Piece(name, name)]
        if options := schema.get("anyOf") or schema.get("oneOf"):
            pieces: list[Piece] = []
            for option in options:
                pieces += [*([Piece(" or ")] if pieces else []), *self._kind(option)]
            return pieces
        if "enum" in schema:
            return [Piece(_choice(schema["enum"]))]
        if "const" in schema:
            return [Piece(_choice([schema["const"]]))]
        if schema.get("type") == "array":
            return [Piece("list of "), *self._kind(schema.get("items", {}))]
        if isinstance(inner := schema.get("additionalProperties"), Mapping):
            return [Piece("object of "), *self._kind(inner)]  # pyright: ignore[reportUnknownArgumentType] -- JSON
        if schema.get("format") == "date-time":
            return [Piece("time")]
        return [Piece(_KINDS.get(schema.get("type", ""), "any JSON"))]


def tag_word(tag: str) -> str:
    """What operations are about, as a word of an address."""
    return tag.replace(" ", "-")


def _choice(values: Sequence[object]) -> str:
    return " or ".join(f"“{value}”" if isinstance(value, str) else json.dumps(value) for value in values)


def _limits(schema: Schema) -> str:
    """What else a value has to be."""
    options: Sequence[Schema] = schema.get("anyOf") or ()
    first: Schema = next((option for option in options if option.get("type") != "null"), schema)
    said = {**first, **schema}
    limits = {name: said[name] for name in _LIMITS if said.get(name) is not None}
    if limits.get("pattern") == NO_NUL:
        del limits["pattern"]  # nobody means to send one
    is_some = "minLength" in limits and limits.pop("minLength") == 1
    words = [_LIMITS[name].format(_limit(value)) for name, value in limits.items()]
    return ", ".join(["not empty", *words] if is_some else words)


def _limit(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"`{_plain(value)}`"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _written(example: object) -> str | None:
    if example is None or isinstance(example, str):
        return example
    return json.dumps(example, ensure_ascii=False, indent=2)


def _example_path(path: str, parameters: Sequence[Schema]) -> str:
    """An address of the operation: with what it must name, and nothing more."""
    query: dict[str, str] = {}
    for each in parameters:
        value = str(each.get("example", each["name"]))
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", quote_key(value))
        elif each["in"] == "query" and each.get("required"):
            query[each["name"]] = value
    return f"{path}?{urlencode(query)}" if query else path
