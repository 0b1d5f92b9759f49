"""The public face is complete: whatever its calls take or return can be imported from `rota`."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import cast

import pytest

import rota

PUBLIC = [thing for name in rota.__all__ if inspect.isclass(thing := getattr(rota, name)) or inspect.isfunction(thing)]
CALLED = [thing for thing in PUBLIC if thing.__module__.startswith(("rota.app.", "rota.part"))]


def test_rota_offers_the_scheduler_interface_too() -> None:
    from rota import seeds

    assert [name for name in seeds.__all__ if getattr(rota, name, None) is not getattr(seeds, name)] == []


def only_for_type_checkers(module: ModuleType) -> dict[str, object]:
    """What a module imports under `if TYPE_CHECKING`, so that its annotations can be resolved."""
    names: dict[str, object] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                if isinstance(line, ast.ImportFrom):
                    home = importlib.import_module(line.module or "")
                    names |= {alias.asname or alias.name: getattr(home, alias.name) for alias in line.names}
    return names


def functions_of(thing: object) -> Iterator[Callable[..., object]]:
    """A function, or whatever can be called or read of a class, inherited or not.

    Not `of`, by which Rota makes an answer from a record of the store.
    """
    if not isinstance(thing, type):
        assert inspect.isfunction(thing)
        yield thing
        return
    for name in dir(thing):
        if name == "of" or (name.startswith("_") and name != "__init__"):
            continue
        found: object = inspect.getattr_static(thing, name)
        for wrapped in ("fget", "func", "__func__"):  # a property, a cached one, a method of the class
            found = getattr(found, wrapped, found)
        if inspect.isfunction(found) and found.__module__.startswith("rota."):
            yield found


def types_in(hint: object) -> Iterator[type]:
    origin = typing.get_origin(hint)
    for each in (hint, origin):
        if isinstance(each, type):
            yield each
    # The parameters of a Callable are a list.
    for inner in cast("list[object]", hint) if isinstance(hint, list) else typing.get_args(hint):
        yield from types_in(inner)


@pytest.mark.parametrize("thing", CALLED, ids=lambda thing: thing.__name__)
def test_whatever_a_call_takes_or_returns_can_be_imported(thing: object) -> None:
    missing = {
        f"{function.__qualname__}: {found.__module__}.{found.__name__}"
        for function in functions_of(thing)
        for hint in typing.get_type_hints(
            function, localns=only_for_type_checkers(sys.modules[function.__module__])
        ).values()
        for found in types_in(hint)
        if found.__module__.startswith("rota.") and not found.__name__.startswith("_")
        if getattr(rota, found.__name__, None) is not found
    }
    assert sorted(missing) == []


def test_the_calls_are_looked_at() -> None:
    assert {"Rota", "Tasks", "Schedules", "SyncRota", "TaskHandle", "Part", "init_scheduler"} <= {
        thing.__name__ for thing in CALLED
    }
