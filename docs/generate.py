"""Writes the pages that are drawn from the code, so that a picture cannot disagree with it.

`make docs` writes them; `tests/layers/test_diagram.py` fails while one is out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rota.config import Config
from rota.core.alert import AlertKind, AlertRule, AlertSink
from rota.core.lifecycle import TABLE, Special
from rota.core.task import TaskStatus
from rota.core.task_type import TaskType

HERE = Path(__file__).parent

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


def lifecycle() -> str:
    """The table, the picture, and the questions."""
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


CONFIGURATION = """# Configuration

*The tables are written by `make docs` from `src/rota/config/settings.py`, `src/rota/config/model.py`,
`src/rota/core/task_type.py` and `src/rota/core/alert.py`.*

Settings come from, in rising order: the defaults, a YAML file (`--config`, `ROTA_CONFIG`, or `rota.yaml` in the working
directory), the environment, flags. `rota config show` prints every value with its source, secrets hidden. Unknown
names and impossible values are refused at start, all of them together, each with its path and a suggestion.

```yaml
store: ${DATABASE_URL:sqlite:///rota.db}     # ${VARIABLE:default}
timezone: Europe/Berlin

scheduler:
  executor:
    max_concurrent: 50
  tasks:
    memory_compression:
      trigger_mode: user_activity
      interval: 30m                          # seconds as a number, or a duration
      cooldown: defer
      retry: {base: 10s, factor: 2, max: 1h}
    data_cleanup:
      trigger_mode: cron
      cron: "0 3 * * *"
      timezone: Asia/Shanghai

server:
  host: 127.0.0.1                            # another address than loopback needs access tokens
  port: 8787
  allowed_hosts: [rota.example.org]          # names that clients may call it by

alerts:
  sinks:
    ops: {webhook: "https://hooks.example.org/rota", secret: "${WEBHOOK_KEY:}"}
  rules:
    slow: {kind: oldest_pending, threshold: 10m, for: 2m, to: [log, ops]}
```

In the environment a path is written in capitals with two underscores between its parts:
`ROTA_STORE`, `ROTA_SCHEDULER__EXECUTOR__MAX_CONCURRENT=50`, `ROTA_SCHEDULER__TASKS__MEMORY_COMPRESSION__INTERVAL=10m`.
"""


def configuration() -> str:
    """Every setting with its default."""
    sample = Config(
        tasks={"<name>": TaskType(name="<name>")},
        alert_rules={"<name>": AlertRule(name="<name>", kind=AlertKind.DEAD_LETTERS)},
        alert_sinks={"<name>": AlertSink(name="<name>")},
    )
    rows = [(row.path, row.value) for row in sample.rows()]
    process = [row for row in rows if "<name>" not in row[0]]
    kinds = ", ".join(kind.value for kind in AlertKind if kind is not AlertKind.OUTBOX_LAG)
    rules = [(path, kinds if path == "kind" else value) for path, value in _below(rows, "alerts.rules.<name>.")]
    return "\n".join(
        [
            CONFIGURATION,
            "## The process",
            "",
            *_defaults(process),
            "",
            "## A task type (`scheduler.tasks.<name>.*`)",
            "",
            *_defaults(_below(rows, "scheduler.tasks.<name>.")),
            "",
            "## An alert rule (`alerts.rules.<name>.*`) and a sink (`alerts.sinks.<name>.*`)",
            "",
            "What they mean is said in [alerts.md](alerts.md).",
            "",
            *_defaults(rules),
            "",
            *_defaults(_below(rows, "alerts.sinks.<name>.")),
            "",
        ]
    )


def _below(rows: list[tuple[str, str]], path: str) -> list[tuple[str, str]]:
    return [(name.removeprefix(path), value) for name, value in rows if name.startswith(path)]


def _defaults(rows: list[tuple[str, str]]) -> list[str]:
    return ["| setting | default |", "|---|---|", *(f"| `{path}` | {value or '-'} |" for path, value in rows)]


PAGES: Mapping[Path, Callable[[], str]] = {
    HERE / "lifecycle.md": lifecycle,
    HERE / "configuration.md": configuration,
}


if __name__ == "__main__":
    for page, written in PAGES.items():
        page.write_text(written())
