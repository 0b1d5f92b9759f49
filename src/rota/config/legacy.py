"""Settings under the names that older configurations use: taken as their newer names, with a warning each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rota.config.layers import KeyPath, Layer, dotted

__all__ = ["modernised"]

_CHECK_INTERVAL: Final[KeyPath] = ("scheduler", "executor", "check_interval")
_OLD_TASK: Final[KeyPath] = ("processing", "memory_compression")
_NEW_TASK: Final[KeyPath] = ("scheduler", "tasks", "memory_compression")

_RENAMED: Final[dict[KeyPath, KeyPath]] = {
    ("scheduler", "check_interval"): _CHECK_INTERVAL,
    (*_OLD_TASK, "check_interval"): _CHECK_INTERVAL,
}
_SUPERSEDED: Final[frozenset[KeyPath]] = frozenset(
    {("scheduler", "executor", "lock_timeout"), (*_OLD_TASK, "lock_timeout")}
)


def modernised(layer: Layer, renamed: Mapping[KeyPath, KeyPath], warnings: list[str]) -> Layer:
    """The layer under today's names. Where it has both names of a setting, the newer one counts.

    `renamed` has the settings of parts that were called otherwise once.
    """
    renamed = {**_RENAMED, **renamed}
    result = {path: given for path, given in layer.items() if not _is_old(path, renamed)}
    for path, given in layer.items():
        if path in _SUPERSEDED:
            warnings.append(
                f"{dotted(path)} ({given.source}) is ignored: a lock is now a lease, renewed while the task runs."
                " Remove it; `lease` sets its length, and a type's `timeout` ends a run."
            )
        elif _is_old(path, renamed):
            new = renamed.get(path) or (*_NEW_TASK, *path[2:])
            taken = "ignored, since the newer name is there too" if new in result else "taken as the newer name"
            warnings.append(f"{dotted(path)} ({given.source}) is now {dotted(new)}; {taken}. Rename it.")
            result.setdefault(new, given)
    return result


def _is_old(path: KeyPath, renamed: Mapping[KeyPath, KeyPath]) -> bool:
    return path in renamed or path in _SUPERSEDED or path[:2] == _OLD_TASK
