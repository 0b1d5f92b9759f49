"""Settings as flat layers: every value under its path, with the place that it came from.

A layer is one source (the file, the environment, the flags). Later layers lie on earlier ones. Reading a source never
judges a value; it only collects the problems of reading, so that they are reported with all the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

__all__ = [
    "Given",
    "KeyPath",
    "Layer",
    "dotted",
    "environment_layer",
    "flag_layer",
    "mapping_layer",
    "merged",
    "substituted",
]

KeyPath = tuple[str, ...]


class Given(NamedTuple):
    """A value, and where it was given."""

    value: object
    source: str


Layer = dict[KeyPath, Given]

_PREFIX: Final = "ROTA_"
_NO_SETTINGS: Final = frozenset({"ROTA_APP", "ROTA_CONFIG"})
"""Where to find the app and the settings, which is not itself a setting."""
_MAX_DEPTH: Final = 16
_VARIABLE = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\}")


def dotted(path: KeyPath) -> str:
    """The path as people write it."""
    return ".".join(path)


def mapping_layer(data: Mapping[str, object], environ: Mapping[str, str], problems: list[str]) -> Layer:
    """The settings of a mapping that a program hands in."""
    layer: Layer = {}
    _flatten(data, (), layer, problems)
    return substituted(layer, environ, problems)


def _flatten(data: Mapping[Any, object], path: KeyPath, layer: Layer, problems: list[str]) -> None:
    for key, value in data.items():
        below = (*path, str(key))
        if not isinstance(key, str):
            problems.append(f"{dotted(below)} has the key {key!r}, which is no text (argument). Put it in quotes.")
        elif isinstance(value, Mapping) and value:
            if len(below) > _MAX_DEPTH:
                problems.append(f"{dotted(below)} is nested too deeply (argument). Settings have at most 5 levels.")
            else:
                _flatten(value, below, layer, problems)  # pyright: ignore[reportUnknownArgumentType] -- a Mapping of what, nobody knows yet
        else:
            layer[below] = Given(value, "argument")


def environment_layer(environ: Mapping[str, str], known: Iterable[str], warnings: list[str]) -> Layer:
    """The settings in `ROTA_*`, levels parted by `__`. An empty variable is as good as none.

    Others may own variables of this prefix (Kubernetes sets ROTA_PORT for a service called rota), so one that begins
    with no known name is only worth a warning; a misspelt one below a known name is refused with the rest.
    """
    layer: Layer = {}
    foreign: list[str] = []
    names = {*known}
    for variable, value in sorted(environ.items()):
        path = tuple(variable.removeprefix(_PREFIX).lower().split("__"))
        if not variable.startswith(_PREFIX) or variable in _NO_SETTINGS or value == "":
            continue
        if path[0] in names:
            layer[path] = Given(value, f"environment {variable}")
        else:
            foreign.append(variable)
    if foreign:
        warnings.append(f"No setting is called {', '.join(foreign)}; ignored. `rota config show` lists all settings.")
    return layer


def flag_layer(flags: Mapping[str, object] | None, short: Mapping[str, KeyPath]) -> Layer:
    """The settings of the command line. None is a flag that was not given; `short` has the paths of short names."""
    layer: Layer = {}
    for flag, value in (flags or {}).items():
        if value is None:
            continue
        name = flag.replace("-", "_")
        layer[short.get(name, tuple(name.split(".")))] = Given(value, f"flag --{name.replace('_', '-')}")
    return layer


def merged(layers: Iterable[Layer]) -> Layer:
    """One layer of all, later ones on top. A value replaces a section of the same path, and the other way round."""
    result: Layer = {}
    for layer in layers:
        hidden = {path[:end] for path in layer for end in range(1, len(path))}
        result = {
            path: given
            for path, given in result.items()
            if path not in hidden and not any(path[:end] in layer for end in range(1, len(path)))
        }
        result.update(layer)
    return result


def substituted(layer: Layer, environ: Mapping[str, str], problems: list[str]) -> Layer:
    """`${VAR}` and `${VAR:default}` replaced; `$${` stays `${`. What comes out empty was not given."""
    result: Layer = {}
    for path, (value, source) in layer.items():
        used: list[str] = []
        missing: list[str] = []
        replaced = _substitute(value, environ, used, missing)
        problems.extend(
            f"{dotted(path)} needs the environment variable {name} ({source}). Set it, or write ${{{name}:default}}."
            for name in missing
        )
        if not missing and not (used and replaced == ""):
            result[path] = Given(replaced, f"{source} with ${{{'}, ${'.join(used)}}}" if used else source)
    return result


def _substitute(value: object, environ: Mapping[str, str], used: list[str], missing: list[str]) -> object:
    def replace(match: re.Match[str]) -> str:
        literal, name, default = match.groups()
        if literal:
            return literal
        used.append(name)
        if name not in environ and default is None:
            missing.append(name)
        return environ.get(name, default or "")

    if isinstance(value, str):
        return _VARIABLE.sub(replace, value)
    if isinstance(value, list):
        items: list[object] = value  # pyright: ignore[reportUnknownVariableType] -- a list of what, nobody knows yet
        return [_substitute(item, environ, used, missing) for item in items]
    return value
