"""Writes the pages that are drawn from the code, so that a picture cannot disagree with it.

`make docs` writes them; `tests/layers/test_diagram.py` fails while one is out of date.
"""

from __future__ import annotations

from pathlib import Path

from rota.core.lifecycle import TABLE, Special
from rota.core.task import TaskStatus

PAGE = Path(__file__).parent / "lifecycle.md"

STATES = ("absent", *(status.value for status in TaskStatus))

OPENING = """# The life of a task

*Written by `make docs` from the table in `src/rota/core/lifecycle.py`, which is the only place that knows it.*

A task is one identity's work: `(task_type, key)`. At most one task of an identity is live (pending, running or
paused). *absent* means that there is no task; *same* that the status stays while something else changes; *leave* that
the task leaves `running` by the five questions below.
"""

LEAVING = """## Leaving `running`

Always in this order, so that no combination of a wish, a failure, a series and a late activity strands a task:

1. Does somebody want it cancelled? It is cancelled.
2. Are there retries left (retry, reap, snooze, release)? It is pending again, or paused if somebody wants that.
3. Is it a series with a next fire? It is pending at that fire, or paused if somebody wants that.
4. Did activity arrive during the run? It is pending once more, unless the breaker is open.
5. Otherwise it is completed, or failed.

The run's own record keeps how the run really ended, in every case.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([OPENING, _table(), "", _diagram(), "", LEAVING])


def _table() -> str:
    rows = [f"| event | {' | '.join(STATES)} |", "|---" * (len(STATES) + 1) + "|"]
    for event, targets in TABLE.items():
        cells = (str(targets.get(_state(name), "")) for name in STATES)
        rows.append(f"| **{event}** | {' | '.join(cells)} |")
    return "\n".join(rows)


def _diagram() -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    for event, targets in TABLE.items():
        for state, target in targets.items():
            lines += [f"    {source} --> {goal}: {event}" for source, goal in _arrows(str(state), str(target))]
    # Where the five questions lead, by their numbers.
    answers = {"cancelled": "1", "pending": "2, 3, 4", "paused": "2, 3, 4", "completed": "5", "failed": "5"}
    lines += [f"    leaving --> {goal}: {question}" for goal, question in answers.items()]
    return "\n".join([*lines, "```"])


def _arrows(state: str, target: str) -> list[tuple[str, str]]:
    """What the table's words mean in a picture; an event that leaves the status as it is has no arrow."""
    source = "[*]" if state == Special.ABSENT else state
    if target == Special.SAME:
        return []
    if target == Special.LEAVE:
        return [(source, "leaving")]
    return [(source, "[*]" if target == Special.GONE else target)]


def _state(name: str) -> TaskStatus | Special:
    return Special.ABSENT if name == "absent" else TaskStatus(name)


if __name__ == "__main__":
    PAGE.write_text(page())
