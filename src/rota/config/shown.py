"""How values are shown to people: durations with their units, and nothing secret."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from rota.clock import format_duration
from rota.core.task_type import TaskType, setting_name

__all__ = ["Mask", "hide", "only_the_host", "shown", "struct_rows"]

Mask = Callable[[object], str]
"""What is shown in place of a value that is a secret, or holds one."""

_NOTHING: Final[Mapping[str, Mask]] = MappingProxyType({})


def hide(_: object) -> str:
    """Nothing of it."""
    return "***"


def only_the_host(url: object) -> str:
    """Whoever knows the whole address may post to it."""
    return f"{'/'.join(str(url).split('/', 3)[:3])}/***"


def shown(attribute: str, value: object, unset: Mapping[str, str], masks: Mapping[str, Mask] = _NOTHING) -> str:
    """The value of an attribute. `unset` says what stands for None, where that is not "none"."""
    if value is None:
        return unset.get(attribute, "none")
    if attribute in masks:
        return masks[attribute](value)
    if attribute.endswith("_ms") and isinstance(value, int):
        return format_duration(value)
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownArgumentType] -- only printed


def struct_rows(
    path: str, struct: msgspec.Struct, unset: Mapping[str, str], masks: Mapping[str, Mask] = _NOTHING
) -> Iterator[tuple[str, str]]:
    """Every setting of a struct with its value; those of structs in it below their names."""
    for name in struct.__struct_fields__:
        value: object = getattr(struct, name)
        below = f"{path}.{setting_name(name)}"
        if isinstance(value, msgspec.Struct):
            yield from struct_rows(below, value, unset, masks)
        elif isinstance(struct, TaskType) and name == "options":
            for option, setting in struct.options.items():
                yield f"{path}.{option}", shown(option, setting, unset)
        elif name != "name":
            yield below, shown(name, value, unset, masks)
