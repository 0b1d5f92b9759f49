"""msgspec ends a process whose threads decode a struct for the first time at once: all are known after the import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import rota

ROOT = Path(rota.__file__).parent
PATHS = sorted(path for path in ROOT.rglob("*.py") if "testing" not in path.parts)

PLAIN = frozenset(
    {
        "tuple[str, ...]",
        "tuple[str | tuple[str, ...], ...]",
        "kind",  # of a setting: text, numbers
        "type(default)",
        "field.type",  # of TaskType, which is warm with all that is in it
        "known[name]",  # of Overrides
    }
)
"""What else is converted to: nothing of it is a struct that is not known yet."""


@cache
def calls(path: Path) -> list[tuple[str, ast.Call]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [(ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def at_import(path: Path) -> Iterator[ast.AST]:
    """What runs when the module is imported."""
    left: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            left += ast.iter_child_nodes(node)


@cache
def warm() -> frozenset[str]:
    """The types of all warmed decoders."""
    return frozenset(
        ast.unparse(call.args[0].args[0])
        for path in PATHS
        for name, call in calls(path)
        if name == "warmed" and isinstance(call.args[0], ast.Call)
    )


def entry_structs() -> list[str]:
    """What the named entries of a configuration are read into: each section says it for its own."""
    made = [call for path in PATHS for name, call in calls(path) if name == "Entries"]
    return [ast.unparse(each.value) for call in made for each in call.keywords if each.arg == "struct"]


def test_the_structs_of_entries_are_found() -> None:
    assert {"AlertRule", "AlertSink"} <= set(entry_structs())


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PATHS, ids=named)
def test_nothing_is_decoded_that_is_not_warm(path: Path) -> None:
    for name, call in calls(path):
        where = f"{named(path)}:{call.lineno}"
        if name.endswith((".json.decode", ".msgpack.decode")):
            assert len(call.args) == 1, where
            assert not call.keywords, f"{where} makes a decoder at the moment it is needed. Use rota.codec.warmed."
        if name == "msgspec.convert":
            for kind in (
                entry_structs() if ast.unparse(call.args[1]) == "entries.struct" else [ast.unparse(call.args[1])]
            ):
                assert kind in warm() | PLAIN, (
                    f"{where} converts to {kind}, which no module warms. Use rota.codec.warmed."
                )


@pytest.mark.parametrize("path", PATHS, ids=named)
def test_a_decoder_is_made_and_warmed_at_import(path: Path) -> None:
    imported = {ast.unparse(node) for node in at_import(path) if isinstance(node, ast.Call)}
    warmed = {ast.unparse(call.args[0]) for name, call in calls(path) if name == "warmed"}
    for name, call in calls(path):
        if name.endswith(".json.Decoder"):
            where = f"{named(path)}:{call.lineno}"
            assert ast.unparse(call) in imported, f"{where} is made in a function"
            assert ast.unparse(call) in warmed, f"{where} is not warmed"


PROBE = """
import gc
import rota
from rota.core.history import Slice
from rota.core.task_type import RateLimit, RetryPolicy, TaskType
from rota.stores.base import Beat, Instance, Overrides
from rota.triggers import Cron, Interval, Once, Policy

class Fresh(rota.core.task_type.msgspec.Struct):
    name: str = ""

# What msgspec has learned of a struct hangs on the class.
for struct in (Fresh, TaskType, RateLimit, RetryPolicy, Policy, Cron, Interval, Once, Slice, Overrides, Beat, Instance):
    if "StructInfo" not in {type(each).__name__ for each in gc.get_referents(struct)}:
        print(struct.__name__)
"""


def test_the_records_of_a_store_are_known_before_its_threads_begin() -> None:
    """In a process that has only imported: what other tests have decoded does not count."""
    ended = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["Fresh"], "only what nobody warms is unknown"
