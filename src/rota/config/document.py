"""A YAML file as a layer, with the line of every value.

The file is composed into nodes instead of plain values: nodes know their lines, and show a key that is written twice.
Only the safe loader's tags exist, so no file can name a Python object.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from rota.config.layers import Given, KeyPath, Layer, dotted
from rota.errors import InvalidConfig
from rota.lazy import lazy_module

if TYPE_CHECKING:
    import yaml
else:
    yaml = lazy_module("yaml")

__all__ = ["read_document"]

_MAX_BYTES: Final = 1_048_576
_MAX_NODES: Final = 20_000
_MAX_DEPTH: Final = 16


def read_document(path: Path, problems: list[str]) -> Layer:
    """The settings of the file. Raises `InvalidConfig` when it cannot be read at all."""
    root = _compose(_read(path), path)
    document = _Document(path, problems)
    if root is None or document.is_empty(root):
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise InvalidConfig(
            f"The configuration {path} is no set of settings (line {_line(root)}). Write it like 'store: sqlite:///rota.db'."
        )
    document.walk(root, ())
    return document.layer


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidConfig(
            f"The configuration {path} cannot be read: {reason}. Check the path (--config or ROTA_CONFIG)."
        ) from None
    if len(raw) > _MAX_BYTES:
        raise InvalidConfig(f"The configuration {path} is over {_MAX_BYTES} bytes. Is it the right file?")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidConfig(f"The configuration {path} is not UTF-8 in line {line}. Save it as UTF-8.") from None


def _compose(text: str, path: Path) -> yaml.Node | None:
    try:
        return yaml.SafeLoader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" in line {mark.line + 1}" if mark else ""
        raise InvalidConfig(
            f"The configuration {path} is no valid YAML{line}: {error.problem or error.context}."
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InvalidConfig(
            f"The configuration {path} has an unprintable character in line {line}. Remove it."
        ) from None
    except RecursionError:
        raise InvalidConfig(f"The configuration {path} is nested too deeply. Settings have at most 5 levels.") from None


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class _Document:
    """One pass over the nodes of one file. An alias may repeat a node without end, so visits are counted."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        self.layer: Layer = {}
        self._path = path
        self._problems = problems
        self._visits = 0
        self._constructor = yaml.SafeLoader("")

    def walk(self, node: yaml.MappingNode, path: KeyPath) -> None:
        for key, value in self._pairs(node, path):
            below = (*path, key)
            if isinstance(value, yaml.MappingNode) and value.value:
                self.walk(value, below)
            else:
                self.layer[below] = Given(self._value(value, below), self._source(value))

    def is_empty(self, node: yaml.Node) -> bool:
        return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"

    def _pairs(self, node: yaml.MappingNode, path: KeyPath) -> Iterator[tuple[str, yaml.Node]]:
        """Keys with their values, each key once: those merged in by `<<` only where the mapping has none itself."""
        self._visit(node, path)
        seen: dict[str, int] = {}
        inherited: list[yaml.Node] = []
        for key, value in node.value:
            name = self._key(key, path)
            if key.tag == "tag:yaml.org,2002:merge":
                inherited.extend(value.value if isinstance(value, yaml.SequenceNode) else [value])
            elif name in seen:
                self._problems.append(
                    f"{dotted((*path, name))} is given twice ({self._source(key)} and line {seen[name]})."
                    " Remove one of them."
                )
            else:
                seen[name] = _line(key)
                yield name, value
        yield from self._inherited(inherited, path, seen)

    def _inherited(
        self, parents: list[yaml.Node], path: KeyPath, seen: dict[str, int]
    ) -> Iterator[tuple[str, yaml.Node]]:
        for parent in parents:
            if not isinstance(parent, yaml.MappingNode):
                self._problems.append(f"{dotted((*path, '<<'))} merges no mapping ({self._source(parent)}).")
                continue
            for name, value in self._pairs(parent, (*path, "<<")):
                if name not in seen:
                    seen[name] = _line(value)
                    yield name, value

    def _key(self, key: yaml.Node, path: KeyPath) -> str:
        """The key as it is written: YAML would read a key called `on` as true."""
        if isinstance(key, yaml.ScalarNode):
            return str(key.value)
        raise InvalidConfig(f"{dotted(path) or 'The file'} has a key that is no text ({self._source(key)}).")

    def _value(self, node: yaml.Node, path: KeyPath) -> object:
        self._visit(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, "item")) for item in node.value]
        if isinstance(node, yaml.MappingNode):
            return {name: self._value(value, (*path, name)) for name, value in self._pairs(node, path)}
        try:
            return cast("object", self._constructor.construct_object(node))  # pyright: ignore[reportUnknownMemberType] -- the stubs say nothing here
        except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError):
            # An explicit tag on the wrong text (`!!bool maybe`) ends in whatever the constructor stumbles over.
            self._problems.append(f"{dotted(path)} has a value that cannot be read ({self._source(node)}). Quote it.")
            return None

    def _visit(self, node: yaml.Node, path: KeyPath) -> None:
        self._visits += 1
        if self._visits > _MAX_NODES or len(path) > _MAX_DEPTH:
            raise InvalidConfig(
                f"{dotted(path[:4])} is too large or nested too deeply ({self._source(node)})."
                f" A configuration has at most {_MAX_NODES} values."
            )

    def _source(self, node: yaml.Node) -> str:
        return f"file {self._path.name}:{_line(node)}"
