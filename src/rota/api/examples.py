"""Examples for the description: each is put together from those of its fields, so that it has every field.

A model may bring its own (`an_example`); what it leaves out and must be there is filled in.
A field shows its own example, else that of its name (`vocabulary.py`), else the plainest value that it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api.vocabulary import WORDS

__all__ = ["Examples"]

Schema = Mapping[str, Any]

MOMENT: Final = "2026-11-19T08:30:00Z"
_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


class Examples:
    """Makes the examples of a description with these schemas."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas

    def of(self, schema: Schema, name: str = "") -> Any:
        """A value that a schema takes. `name` is what the field or parameter is called."""
        schema = self._resolved(schema)
        options: Sequence[Schema] = schema.get("anyOf") or schema.get("oneOf") or ()
        if schema.get("examples"):
            return self._whole(schema, schema["examples"][0])
        if name in WORDS and self._fits(WORDS[name].example, schema):
            return WORDS[name].example
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][0]
        if schema.get("default") is not None:
            return schema["default"]
        if options:
            return self._one_of(options, name)
        return self._plainest(schema, name)

    def _resolved(self, schema: Schema) -> Schema:
        """With what a reference leads to. What stands beside the reference is about this use of it, and counts."""
        while "$ref" in schema:
            beside = {name: value for name, value in schema.items() if name != "$ref"}
            schema = {**self._schemas[schema["$ref"].rpartition("/")[2]], **beside}
        return schema

    def _whole(self, schema: Schema, given: Any) -> Any:
        """A model's own example, with the fields that must be there and that it leaves out."""
        return {**self._required(schema), **given} if "properties" in schema else given

    def _required(self, schema: Schema) -> dict[str, Any]:
        fields = schema["properties"]
        return {name: self.of(fields[name], name) for name in schema.get("required", ())}

    def _one_of(self, options: Sequence[Schema], name: str) -> Any:
        """The first that is no null; null only where nobody has said what else it could be."""
        is_nullable = any(option.get("type") == "null" for option in options)
        for option in options:
            resolved = self._resolved(option)
            says_much = "$ref" in option or resolved.get("examples") or resolved.get("items")
            if resolved.get("type") != "null" and (says_much or not is_nullable):
                return self.of(option, name)
        return None

    def _fits(self, value: Any, schema: Schema) -> bool:
        options: Sequence[Schema] = schema.get("anyOf") or schema.get("oneOf") or ()
        if options:
            return any(self._fits(value, self._resolved(option)) for option in options)
        if "properties" in schema:
            return False  # a model of its own, whatever it is called
        if "const" in schema or "enum" in schema:
            return value in (schema["enum"] if "enum" in schema else [schema["const"]])
        kind = schema.get("type")
        is_flag_for_number = isinstance(value, bool) and kind != "boolean"
        return kind is None or (isinstance(value, _KINDS[kind]) and not is_flag_for_number)

    def _plainest(self, schema: Schema, name: str) -> Any:
        match schema.get("type"):
            case "array":
                return self._array(schema, name)
            case "string":
                return MOMENT if schema.get("format") == "date-time" else name.replace("_", " ")
            case "integer":
                return int(schema.get("minimum", 0))
            case "number":
                return schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
            case "boolean":
                return False
            case _:
                return self._object(schema)

    def _object(self, schema: Schema) -> Any:
        if "properties" in schema:
            return self._required(schema)
        inner: Schema | bool | None = schema.get("additionalProperties")
        if isinstance(inner, Mapping) and "$ref" in inner:
            return {WORDS["task_type"].example: self.of(inner)}
        return {}

    def _array(self, schema: Schema, name: str) -> Any:
        items: Schema = schema.get("items", {})
        is_much = "$ref" in items or "examples" in items or schema.get("minItems", 0) > 0
        return [self.of(items, name)] if is_much else []
