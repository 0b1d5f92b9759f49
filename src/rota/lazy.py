"""What is imported when it is first used, so that importing what names it costs next to nothing: the names of packages,
and modules of others.

    __all__, __getattr__, __dir__ = lazy(__name__, {"rota.memory.contexts": ("Contexts",)})

Python reads this line; type checkers read the package's `__init__.pyi`, which imports the same names
(`from rota.memory.contexts import Contexts as Contexts`). `tests/layers` holds the two together.

    if TYPE_CHECKING:
        import numpy as np
    else:
        np = lazy_module("numpy")
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType

__all__ = ["lazy", "lazy_module"]


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


def lazy_module(name: str) -> ModuleType:
    """A module of somebody else's that is slow to import and that most processes never need."""
    return _LazyModule(name)


class _LazyModule(ModuleType):
    """Looks a name up in the module itself, each time: whoever replaces one there replaces it here, too."""

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self.__name__), name)
