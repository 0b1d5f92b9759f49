"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import rota

INITS = sorted(Path(rota.__file__).parent.glob("*/__init__.py"))
PACKAGES = ["rota", *(f"rota.{path.parent.name}" for path in INITS if "import lazy" in path.read_text())]


def seen_by_type_checkers(package: ModuleType) -> dict[str, tuple[str, ...]]:
    tree = ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    seen: dict[str, tuple[str, ...]] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            # Without `as` a stub imports for itself alone.
            offered = [alias.name for alias in node.names if alias.asname == alias.name]
            seen[str(node.module)] = tuple(sorted((*seen.get(str(node.module), ()), *offered)))
    return seen


@pytest.mark.parametrize("name", PACKAGES)
def test_type_checkers_and_python_see_the_same(name: str) -> None:
    package = import_module(name)
    homes: dict[str, tuple[str, ...]] = vars(package)["_HOMES"]
    assert seen_by_type_checkers(package) == {home: tuple(sorted(names)) for home, names in homes.items()}
    assert sorted(one for names in homes.values() for one in names) == sorted(package.__all__)
    assert set(package.__all__) <= set(dir(package))
    for one in package.__all__:
        assert getattr(package, one) is vars(package)[one], "found once, it is there"


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match=r"module 'rota\.memory' has no attribute 'Memmory'"):
        getattr(import_module("rota.memory"), "Memmory")  # noqa: B009 - the name must not be checked before it runs
