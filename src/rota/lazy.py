"""Packages whose names are imported when they are first used, so that importing the package costs next to nothing.

    __all__, __getattr__, __dir__ = lazy(__name__, {"rota.memory.contexts": ("Contexts",)})

Python reads this line; type checkers read the package's `__init__.pyi`, which imports the same names
(`from rota.memory.contexts import Contexts as Contexts`). `tests/layers` holds the two together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["lazy"]


def lazy(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package; `homes` has its names by the modules that define them."""
    home_of = {name: module for module, names in homes.items() for name in names}

    def look_up(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home), name)
        vars(sys.modules[package])[name] = value
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return sorted(home_of), look_up, names
