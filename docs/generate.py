"""Writes the pages that are drawn from the code, so that a picture cannot disagree with it.

`make docs` writes them; `tests/layers/test_diagram.py` fails while one is out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.map import drawn
from rota.alerts.section import ALERTS_SECTION, AlertsConfig
from rota.app.settings import BUILT_IN_SECTIONS
from rota.config import Config
from rota.core.alert import ENGINE_KINDS, AlertRule, AlertSink, EngineKind
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

SERIES = """## The fires of a series

Every fire of every trigger that a series has had leaves a row, or lies in one range row, as long as the series lives:
until it is cancelled, expires, or has had its runs. What is done to it during a run changes nothing about that:

- **cancel**: the fires that passed until the run ends are one row, *cancelled*.
- **a new policy**: what a catch-up (`misfire: all`) still owes is accounted for by the policy of the next claim.
- **a new trigger**: what the old one still owes is one row, *updated*; the new one begins when the run ends, and owes
  nothing from before.
- **a due time set by hand** on a waiting series is a run that was asked for, at that time: it counts as no fire, and
  the series goes on as if it had not been. Fires that come until then wait for it, and are misfires after it. Where a
  retry waits, the retry is moved; a paused series goes on with its next fire; during a run a due time has no effect.
"""


def lifecycle() -> str:
    """The table, the picture, the questions, and what becomes of fires."""
    return "\n".join([OPENING, _table(), "", _diagram(), "", LEAVING, SERIES])


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

*The tables are written by `make docs` from `src/rota/config/settings.py`, the `section.py` of each part,
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

metrics:
  port: 9187                                 # `rota worker` shows metrics and health there; the service on its own port

alerts:
  sinks:
    ops: {webhook: "https://hooks.example.org/rota", secret: "${WEBHOOK_KEY:}"}
  rules:
    slow: {kind: oldest_pending, threshold: 10m, for: 2m, to: [log, ops]}
```

In the environment a path is written in capitals with two underscores between its parts:
`ROTA_STORE`, `ROTA_SCHEDULER__EXECUTOR__MAX_CONCURRENT=50`, `ROTA_SCHEDULER__TASKS__MEMORY_COMPRESSION__INTERVAL=10m`.
"""


OWN_SECTION = """## Settings of your own

A part that you write brings a section of its own. It is checked, listed and set by files, `ROTA_GREETER__PAUSE` and
flags like any other; its `type_options` may stand under `scheduler.tasks.<name>` too.

```python
from dataclasses import dataclass

import rota
from rota.config import Rule, Section, Setting
from rota.config.values import as_duration, as_text


@dataclass(frozen=True, kw_only=True)
class GreeterConfig:
    name: str = "world"
    pause_ms: int = 5_000


GREETER_SECTION = Section(
    name="greeter",
    values=GreeterConfig,
    settings=(Setting("name", "name", as_text), Setting("pause", "pause_ms", as_duration)),
    rules=(Rule("pause", lambda greeter: greeter.pause_ms <= 3_600_000, "Use 0s to 1h."),),
)

config = rota.load_config(sections=[GREETER_SECTION])
GREETER_SECTION.of(config).pause_ms
```
"""


ABOUT: Mapping[str, str] = {
    "store": "where tasks, schedules and runs are kept; on PostgreSQL in the schema `rota`, or `?schema=NAME`",
    "database": "where tokens, the audit log, alerts and memory are kept; the store's, if that is SQL",
    "bus": "how events travel: `local://` (in the database), `redis://...` in all its forms, `kafka://host:9092`",
    "spool": "the file that keeps activity while a shared store is away: `rota-spool.db` for those, or `off`",
    "timezone": "the zone of schedules that name none; else `TIMEZONE` or `TZ`",
    "lease": "how long a task stays with a worker that says nothing more",
    "sweep_interval": "how often lost leases are looked for",
    "call_timeout": "how long a call to the store or the database may take; then it counts as away",
    "scheduler.enabled": "false: this process runs nothing, and touches answer `disabled`",
    "scheduler.executor.check_interval": "the longest pause between two looks at the queue; events wake it earlier",
    "scheduler.executor.max_concurrent": "how many tasks run at once in this process; each type keeps one if it can;"
    " types with `slots: own` run beside them",
    "server.host": "the address to listen on; another than loopback needs access tokens",
    "server.port": "the port; 0 takes any that is free",
    "server.base_path": "the path under which a proxy shows the service, like `/rota`",
    "server.allowed_hosts": "the names that clients may call the service by",
    "server.token_file": "where the first token is written",
    "server.hide_payloads": "whether the dashboard shows no payloads, to anybody",
    "metrics.host": "the address on which `rota worker` shows metrics and health; another than loopback needs tokens",
    "metrics.port": "its port; 0 takes any that is free, and without one a worker shows nothing",
    "alerts.enabled": "whether the rules are looked at here",
    "alerts.check_interval": "how often",
    "alerts.defaults": "whether the rules that come with Rota hold beside yours",
    "webhooks.allow_private": "whether webhooks may call addresses of the own network",
    "webhooks.allow_http": "whether webhooks may do without TLS",
    "memory.anonymous": "what becomes of a push without a user: kept for `default`, or `reject`",
    "memory.settling": "what is younger than this is not compressed yet",
    "memory.embedder": "what turns text into vectors: `hashing` or `sentence-transformers`",
    "memory.model": "the model of `sentence-transformers`",
    "memory.merge": "who merges notes that say the same: `rules` or `llm`",
    "memory.llm_url": "the OpenAI-compatible server that is asked to merge",
    "memory.llm_model": "its model",
    "memory.llm_key": "its key",
    "agents.groups_dir": "the folder with a folder for each group",
    "agents.isolation": "`auto`: the strongest sandbox there is; or `container`, `bubblewrap`, `process` (none)",
    "agents.require": "whether `process` is refused even where it is written: a sandbox or nothing",
    "agents.timezone": "the zone of groups that name none",
    "agents.command": "the program that is the agent, with its arguments",
    "agents.input_format": "what it gets on stdin: all of it as `json`, or the prompt as `text`",
    "agents.output_format": "what it prints: `json`, or the answer as `text`",
    "agents.pass_on": "the variables of the environment that it may see",
    "agents.read_only": "the paths that it may read beside its folder",
    "agents.mcp_socket": "whether `rota up` and `rota worker` give each run a socket to the MCP server",
    "agents.mcp_url": "where a run reaches the MCP server; it then gets a token of its own",
    "agents.image": "the image for `container`",
    "agents.engine": "the program for `container`: docker, podman or container",
    "agents.engine_options": "options of that program itself, before its `run`",
    "agents.timeout": "how long a run may take",
    "agents.memory_mib": "how much memory a run may use",
    "agents.cpus": "how many processors a run may use",
    "agents.processes": "how many processes and threads a run may have",
    "agents.disk_mib": "how large a group's folder may grow before a run is ended",
    "agents.output_mib": "how much a run may print",
    "agents.concurrency": "how many agents run at once in this process",
    "agents.max_failures": "a schedule that fails so often in a row is paused; 0 for never",
    "agents.approval": "which schedules made by agents wait for a person: `all`, `untrusted`, `none`",
    "agents.max_schedules": "how many schedules a group's agents may have",
    "agents.min_interval": "how close together the fires of an agent's schedule may be",
    "agents.max_life": "how long an agent's schedule lives at most",
    "events.prefix": "what stands before the name of every topic",
    "events.partitions": "how many partitions a topic has: so many instances of a consumer share its work at most",
    "events.retention": "how long events are kept once all have read them, and what is done with them is remembered",
    "events.dead_retention": "how long dead letters are kept, and events that a consumer still has not read",
    "events.max_attempts": "how often an event is tried before it is a dead letter; a consumer may have its own",
    "events.retry.base": "how long an event waits after its first failure, at most",
    "events.retry.factor": "how much longer after each further one",
    "events.retry.max": "and never longer than this",
    "batches.generator": "who makes items: `offline` (no model), `openai` (a server of the chat protocol), `litellm`",
    "batches.llm_url": "the server of the chat protocol, like `https://host/v1`",
    "batches.llm_model": "which model to ask",
    "batches.llm_key": "its key",
    "batches.requests_per_minute": "calls over all instances, in any minute",
    "batches.tokens_per_minute": "tokens over all instances, in any minute, as estimated; what was more is owed",
    "batches.concurrency": "calls of one instance at a time",
    "batches.in_flight": "subtasks that one instance has claimed at a time",
    "batches.per_session": "subtasks of one session at a time, over all instances",
    "batches.call_timeout": "how long a call may take",
    "batches.first_size": "items of the first subtask, which is small so that something comes at once",
    "batches.top_up_rounds": "how often what is missing is asked for again",
    "batches.max_count": "items of one batch, at most",
    "batches.deadline": "when a batch ends that says nothing about it",
    "batches.owner_items_per_minute": "items that one owner may ask for in a minute",
    "batches.retention": "how long batches are kept after their end",
    "prefect.api_url": "the API of the Prefect whose flows wait for events, like `http://127.0.0.1:4200/api`",
    "prefect.api_key": "its key",
    "scheduler.user_key_config.use_user_id": "always true: upkeep is of somebody",
    "scheduler.user_key_config.use_device_id": "whether each device of a user has tasks of its own",
    "scheduler.user_key_config.use_agent_id": "whether each agent of a user has tasks of its own",
    "scheduler.user_key_config.default_device_id": "the device of activity that names none",
    "scheduler.user_key_config.default_agent_id": "the agent of activity that names none",
}
"""What each setting of the process is for."""

ABOUT_TYPE: Mapping[str, str] = {
    "enabled": "false: takes no work on and does none",
    "description": "a sentence for people",
    "trigger_mode": "what makes it due: `user_activity`, `periodic`, `cron`, `interval`, `once`, `after`",
    "interval": "from activity to the run, or from run to run",
    "cron": "five fields, or six with seconds in front",
    "timezone": "the zone of `cron`",
    "after": "the types that must have completed for the same key; the store makes it due also when no process serves"
    " it any more, one task for each key: set `enabled: false` before it leaves the code",
    "timeout": "a run is ended after this",
    "task_ttl": "how long a finished task is kept",
    "dead_ttl": "how long a dead letter is kept",
    "max_retries": "how often a failed run is tried again; so many failed tasks in a row open the breaker",
    "mode": "`delay`: from the first activity; `debounce`: from the last",
    "max_wait": "`debounce` waits no longer than this after the first",
    "cooldown": "activity within `interval` of the last run: `skip` it, or `defer` it to the end of the interval",
    "on_busy": "activity during a run: `rerun` once more, or `ignore`",
    "priority": "0 to 10; higher goes first, also before tasks of other types ([who goes first](guarantees.md))",
    "aging": "how much earlier one level of priority lets a task go",
    "max_pending": "beyond so many, touches answer `full`",
    "concurrency": "how many run at once in a process; fewer where other types keep their slots",
    "slots": "`shared`: its runs take slots of `max_concurrent`; `own`: it has `concurrency` slots beside those, which"
    " no other type takes ([slots of its own](guarantees.md))",
    "rate_limit": "`{rate, burst}`: starts a second over all instances; a task that costs 5 counts as five",
    "start_limit": "`{rate, burst}`: starts a second over all instances, whatever they cost; with both, both must"
    " allow it",
    "misfire": "of several due fires: the `latest` runs; `all` run, 24 at most; `skip`: the latest, the others skipped",
    "overlap": "a fire during a run: `skip` it or `queue` one",
    "jitter": "fires are spread over this, the same way every time",
    "grace": "a fire that is later than this is skipped, not run",
    "run_on_start": "whether a periodic type runs once when it is first known",
    "retry.base": "the pause before the first retry; a random share of it",
    "retry.factor": "how much longer each next one is",
    "retry.max": "and no longer than this",
    "version": "settings with a lower one never replace those of a higher one",
}
"""The same for those of a task type."""


def configuration() -> str:
    """Every setting with its default and its meaning."""
    alerts = AlertsConfig(
        rules={"<name>": AlertRule(name="<name>", kind=EngineKind.DEAD_LETTERS)},
        sinks={"<name>": AlertSink(name="<name>")},
    )
    sample = Config(
        tasks={"<name>": TaskType(name="<name>")},
        sections=BUILT_IN_SECTIONS,
        section_values={ALERTS_SECTION.name: alerts},
    )
    rows = [(row.path, row.value) for row in sample.rows()]
    process = [row for row in rows if "<name>" not in row[0]]
    kinds = ", ".join(ENGINE_KINDS)
    rules = [(path, kinds if path == "kind" else value) for path, value in _below(rows, "alerts.rules.<name>.")]
    return "\n".join(
        [
            CONFIGURATION,
            "## The process",
            "",
            *_defaults(process, ABOUT),
            "",
            "## A task type (`scheduler.tasks.<name>.*`)",
            "",
            *_defaults(_below(rows, "scheduler.tasks.<name>."), ABOUT_TYPE),
            "",
            "## An alert rule (`alerts.rules.<name>.*`) and a sink (`alerts.sinks.<name>.*`)",
            "",
            "What they mean is said in [alerts.md](alerts.md).",
            "",
            *_defaults(rules),
            "",
            *_defaults(_below(rows, "alerts.sinks.<name>.")),
            "",
            OWN_SECTION,
        ]
    )


def _below(rows: list[tuple[str, str]], path: str) -> list[tuple[str, str]]:
    return [(name.removeprefix(path), value) for name, value in rows if name.startswith(path)]


def _defaults(rows: list[tuple[str, str]], about: Mapping[str, str] | None = None) -> list[str]:
    """A table of settings. With `about` every one of them must be said something about."""
    if about is None:
        return ["| setting | default |", "|---|---|", *(f"| `{path}` | {value or '-'} |" for path, value in rows)]
    unsaid = [path for path, _ in rows if path not in about]
    assert not unsaid, f"Say in docs/generate.py what these are for: {', '.join(unsaid)}"
    lines = [f"| `{path}` | {value or '-'} | {about[path]} |" for path, value in rows]
    return ["| setting | default | what it is for |", "|---|---|---|", *lines]


ARCHITECTURE = """# The house

*Written by `make docs`: the map is drawn from the code, and who may use whom is held by `tests/layers`.*

One engine, on any of three stores; parts that plug into it; faces that collect the parts. Each row may use the rows
above it. A *part* ([parts.md](parts.md)) lies below the application and knows no other part; what it adds to the
faces lies in its own `faces`, which is built on them. A *host* (`app/host.py`) is what one process owns: connection,
database, spool, types and handlers, the worker in the background and the parts; `Rota` and the scheduler interface
(`rota.seeds`) are two faces in Python over it.
"""

WALKS = """## Four walks

**A touch over HTTP.** `api/guard.py` looks at host, origin and body; the route checks the role (`api/routing.py`,
`api/auth.py`); `app/host.py: touch` looks the type up, builds the key and offers the activity to the spool or the
store; the store validates it (`stores/limits.py`), joins it to a group (`group_commit.py`) and runs
the verb once for the group: `stores/verbs.py` with `core/activity.py` in a transaction on SQL, `lua/touch.lua` on
Redis. The answer is an outcome.

**A run, from due to settled.** The store pokes the `listener`, or the clock the `dispatcher`; it claims for its free
slots, those that types share (`fair_share`) and those of their own, the `executor` opens the run, resolves the handler,
runs it under its timeout (one timer has all `deadlines`), classifies how it ended and hands that to the `settler`: it
brings such ends to the store in groups while the next runs go on, one step that writes the status, the run's row and
the next due time. The `heartbeat` renews leases meanwhile, on a thread of its own; the `sweeper` reaps what
others left.

**A run of an agent.** The same, with `agents/runs/handler.py` as the handler: the schedule is looked at again
(switches, approval, digest), the folder prepared, the gate script asked, the snapshot written, the program started in
its isolation (`agents/isolation/`) with a socket to the MCP server (`agents/faces/mcp/runs.py`), its lines read, and
what came of it written in one transaction (`agents/runs/run_store.py`) before the engine settles.

**A bulk action.** `app/operator.py: confirm` lists what matches, once, and compares the number with the one that
somebody agreed to; `carry_out` applies the transition page by page to exactly those tasks, and the audit log gets
what changed and what was refused.

How far that is, in functions that a call enters and files that they lie in. `python -m bench hops` counts them
(`python -m bench.hops --list touch` names them); "before" is the same count when faces, parts and stores still knew
each other:

| walk | before | now |
|---|---|---|
| a touch over HTTP, on SQLite | 153 in 30 | 95 in 24 |
| a touch over HTTP, on Redis | 128 in 29 | 69 in 18 |
| a run from due to settled, on Redis | 107 in 25 | 62 in 17 |
| a run of an agent, on SQLite | 359 in 62 | 245 in 44 |
| a bulk action over HTTP, on SQLite | 167 in 30 | 134 in 30 |

Of a touch on Redis 31 functions in seven files are HTTP and who is asking: a token is looked up in the database at
every call, so that one that was revoked is refused at once.
"""


def architecture() -> str:
    return "\n".join((ARCHITECTURE, drawn(), "", WALKS))


PAGES: Mapping[Path, Callable[[], str]] = {
    HERE / "architecture.md": architecture,
    HERE / "lifecycle.md": lifecycle,
    HERE / "configuration.md": configuration,
}


if __name__ == "__main__":
    for page, written in PAGES.items():
        page.write_text(written())
