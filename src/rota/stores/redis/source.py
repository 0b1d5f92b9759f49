"""The text of each script: one file per verb, called by its digest.

Every script begins with the lifecycle's table, which is handed over here and written nowhere else, with
`lua/common.lua`, and with the files that it includes. The typed calls are in `scripts.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import NamedTuple

from rota.core.lifecycle import TABLE, Special
from rota.core.task import Task, TaskStatus

__all__ = ["Script", "script"]


_INCLUDE = re.compile(r"^--- include (\w+)$", re.MULTILINE)


class Script(NamedTuple):
    """The text of a script and the name under which the server keeps it."""

    text: str
    digest: str


@cache
def script(name: str) -> Script:
    """The script of a verb."""
    source = _source(name)
    shared = [_source(included) for included in _INCLUDE.findall(source)]
    text = "\n".join([_table(), _fields(), _source("common"), *shared, source])
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def _source(name: str) -> str:
    return files("rota.stores.redis").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


def _table() -> str:
    """The lifecycle's table as Lua: TABLE.claim.pending is 'running'."""
    rows = (f"  ['{event.value}'] = {{ {_row(targets)} }}," for event, targets in TABLE.items())
    return "\n".join(["local TABLE = {", *rows, "}"])


def _fields() -> str:
    """The names of a task's fields: whatever else is in its hash is not the task's, and is kept."""
    return f"local TASK = {{ {', '.join(f'{name} = true' for name in Task.__struct_fields__)} }}"


def _row(targets: Mapping[TaskStatus | Special, TaskStatus | Special]) -> str:
    return ", ".join(f"{source.value} = '{target.value}'" for source, target in targets.items())
