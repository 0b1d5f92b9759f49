"""A run as a test: a function for pytest that does the same work once more, and says whether it succeeds."""

from __future__ import annotations

import re
import sys
from pprint import pformat
from typing import Final, NamedTuple

from rota.app.results import decoded
from rota.app.rota import Rota
from rota.core.task import RunRecord, Task
from rota.keys import GLOBAL_KEY
from rota.masking import HIDDEN, masker

__all__ = ["AppImport", "as_test", "import_of"]

_WIDTH: Final = 110


class AppImport(NamedTuple):
    """Where a program makes its app: the module, and what it is called there."""

    module: str
    name: str


_UNKNOWN: Final = AppImport("your_program", "app")


def import_of(app: Rota, task_type: str) -> AppImport | None:
    """Where the app of this process is made, if it has the handler of this type and stands in the same module."""
    handler = app.host.registry.handlers.get(task_type)
    module = getattr(handler.function, "__module__", None) if handler is not None else None
    if not isinstance(module, str) or module == "__main__" or module.partition(".")[0] == "rota":
        return None
    names = (name for name, value in vars(sys.modules.get(module, object)).items() if value is app)
    name = next(names, None)
    return None if name is None else AppImport(module, name)


def as_test(work: Task | RunRecord, task: Task | None, payload: str | None, where: AppImport | None) -> str:
    """The test, as a file of its own. `work` is the run, or the task if none is meant; `task` is what is known of the
    task beside it; secrets in the payload are hidden."""
    arguments = [_quoted(work.task_type)]
    value = masker().value(decoded(payload))
    if value is not None:
        arguments.append("payload")
    arguments += [f"{name}={_quoted(given)}" for name, given in _named(work, task).items()]
    return "\n".join(
        [
            f'"""{_title(work)}, once more: this test fails as long as the work does."""',
            "",
            "import pytest",
            "",
            *_import(where),
            "",
            "",
            "@pytest.mark.asyncio",
            f"async def test_{_slug(work)}(rota_use):",
            "    app = rota_use(my_app)  # on a clock of its own and a store in memory",
            *(_payload(value) if value is not None else ()),
            f"    made = await app.schedule({', '.join(arguments)})",
            "    await app.run_until_idle()",
            f"    task = await app.tasks.get({_quoted(work.task_type)}, key=made.key)",
            '    assert task.status == "completed", task.error',
            "",
        ]
    )


def _title(work: Task | RunRecord) -> str:
    name = work.task_type if work.key == GLOBAL_KEY else f"{work.task_type}/{work.key}"
    run = f"Run {work.run_id} of " if isinstance(work, RunRecord) and work.run_id else ""
    # Whatever stands in a key, it does not end the sentence.
    return f"{run}{name}".encode("unicode_escape").decode().replace('"', "'")


def _import(where: AppImport | None) -> list[str]:
    module, name = where or _UNKNOWN
    line = f"from {module} import {name} as my_app"
    return [line] if where is not None else ["# Change this line: where your program makes its app.", line]


def _payload(value: object) -> list[str]:
    text = pformat(value, width=_WIDTH - 14, sort_dicts=False)
    first, *rest = text.split("\n")
    lines = [f"    payload = {first}", *(f"{' ' * 14}{line}" for line in rest)]
    if HIDDEN in text:
        lines.insert(0, f"    # {HIDDEN} stands for a secret that is not shown: put one for tests in its place.")
    return lines


def _named(work: Task | RunRecord, task: Task | None) -> dict[str, str]:
    """Whose task it is, by the names that `schedule` has for that."""
    known = {
        "key": None if work.key == GLOBAL_KEY else work.key,
        "user_id": work.user_id,
        "device_id": None if task is None else task.device_id,
        "agent_id": None if task is None else task.agent_id,
    }
    return {name: value for name, value in known.items() if value is not None}


def _quoted(text: str) -> str:
    quoted = repr(text)
    return f'"{quoted[1:-1]}"' if quoted.startswith("'") and '"' not in quoted else quoted


def _slug(work: Task | RunRecord) -> str:
    key = "" if work.key == GLOBAL_KEY else re.sub(r"[^a-z0-9]+", "_", work.key.lower()).strip("_")[:40].rstrip("_")
    return f"{work.task_type}_{key}" if key else work.task_type
