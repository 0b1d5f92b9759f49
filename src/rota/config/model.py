"""The configuration of one process: checked, frozen, and able to say where each value came from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from rota.call_timeout import DEFAULT_MS
from rota.clock import DAY, HOUR, MINUTE, SECOND, Millis, format_duration
from rota.config.settings import ALL
from rota.config.urls import is_local, masked, scheme_of
from rota.core.alert import AlertRule, AlertSink
from rota.core.task_type import TaskType, setting_name
from rota.errors import InvalidConfig
from rota.keys import UserKeyConfig

__all__ = [
    "RULES",
    "SETTINGS",
    "SINKS",
    "SPOOL_FILE",
    "TASKS",
    "USER_KEY",
    "Config",
    "Row",
    "default_database",
    "default_spool",
    "warn_of_split",
]

USER_KEY: Final = "scheduler.user_key_config"
TASKS: Final = "scheduler.tasks"
RULES: Final = "alerts.rules"
SINKS: Final = "alerts.sinks"

SETTINGS: Final[Mapping[str, str]] = MappingProxyType({setting.path: setting.attribute for setting in ALL})
"""The path of every single setting, and the attribute of `Config` that holds it."""


SPOOL_FILE: Final = "rota-spool.db"
"""The spool unless another file is named: in the working directory."""


class Row(NamedTuple):
    """One line of `rota config show`."""

    path: str
    value: str
    source: str


def default_database(store_url: str) -> str:
    """Where records beside the tasks go: into the store if it is a database, else into a file of their own."""
    if scheme_of(store_url) in ("sqlite", "postgresql"):
        return store_url
    return "sqlite:///:memory:" if scheme_of(store_url) == "memory" else "sqlite:///rota.db"


def default_spool(store_url: str) -> str | None:
    """Where touches wait while the store is away: nowhere if the store is a file of this host, which never is."""
    return None if is_local(store_url) else SPOOL_FILE


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings. `load_config` makes one from a file, the environment and flags."""

    store_url: str = "sqlite:///rota.db"
    database_url: str = "sqlite:///rota.db"
    bus_url: str = "local://"
    spool_path: str | None = None
    timezone: str = "UTC"
    enabled: bool = True
    user_key: UserKeyConfig = field(default_factory=UserKeyConfig)
    check_interval_ms: Millis = 10 * SECOND
    max_concurrent: int = 5
    lease_ms: Millis = 10 * SECOND
    sweep_ms: Millis = 1 * SECOND
    call_timeout_ms: Millis = DEFAULT_MS
    server_host: str = "127.0.0.1"
    server_port: int = 8787
    server_base_path: str = ""
    """Where the service stands behind a proxy: "" or "/rota"."""
    server_allowed_hosts: tuple[str, ...] = ()
    """Names that clients may call it by, beside the address it is bound to and this host's own."""
    server_token_file: str | None = None
    """Where the first token is kept; None for beside the database."""
    hide_payloads: bool = False
    alerts_enabled: bool = True
    alerts_check_ms: Millis = 15 * SECOND
    alerts_defaults: bool = True
    """Whether the built-in rules stand beside the given ones. A given rule of the same name takes its place."""
    alert_rules: Mapping[str, AlertRule] = field(default_factory=lambda: MappingProxyType({}))
    alert_sinks: Mapping[str, AlertSink] = field(default_factory=lambda: MappingProxyType({}))
    webhooks_allow_private: bool = False
    webhooks_allow_http: bool = False
    memory_anonymous: str = "default"
    memory_settling_ms: Millis = 5 * MINUTE
    """How long a context is left alone before a compression looks at it."""
    memory_embedder: str = "hashing"
    memory_model: str | None = None
    """The embedder's; the one that merges has a name of its own."""
    memory_merge: str = "rules"
    memory_llm_url: str | None = None
    memory_llm_model: str | None = None
    memory_llm_key: str | None = None
    agents_groups_dir: str = "groups"
    agents_isolation: str = "auto"
    agents_require: bool = False
    agents_timezone: str | None = None
    agents_command: tuple[str | tuple[str, ...], ...] | None = None
    """The agent's program; None for the built-in echo agent."""
    agents_hears: str = "json"
    agents_speaks: str = "json"
    agents_pass_on: tuple[str, ...] = ()
    """Variables of this process that agents see too."""
    agents_read_only: tuple[str, ...] = ()
    """What else agents may read, if their isolation hides it."""
    agents_mcp_socket: bool = True
    """Whether each run has a socket to the MCP server."""
    agents_mcp_url: str | None = None
    """Where runs reach the MCP server; each then gets a token of its own."""
    agents_image: str | None = None
    agents_engine: str | None = None
    agents_engine_options: tuple[str, ...] = ()
    agents_timeout_ms: Millis = 30 * MINUTE
    agents_memory_mib: int = 2_048
    agents_cpus: float = 2.0
    agents_processes: int = 256
    agents_disk_mib: int = 5_120
    agents_output_mib: int = 10
    agents_concurrency: int = 5
    agents_max_failures: int = 5
    agents_approval: str = "all"
    agents_max_schedules: int = 20
    agents_min_interval_ms: Millis = 5 * MINUTE
    agents_max_life_ms: Millis = 30 * DAY
    tasks: Mapping[str, TaskType] = field(default_factory=lambda: MappingProxyType({}))
    warnings: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    def __repr__(self) -> str:
        # The generated one would print the passwords in the URLs.
        return f"Config(store_url={masked(self.store_url)!r}, tasks={list(self.tasks)})"

    def problems(self) -> list[str]:
        """Every impossible value among the settings of the process, one sentence each."""
        return [self._sentence(path, advice) for path, holds, advice in _RULES if not holds(self)]

    def validate(self) -> None:
        """Raise `InvalidConfig` with every problem, those of the task types included, if there is one."""
        found = self.problems()
        for name, task_type in self.tasks.items():
            found += task_type.problems(f"{TASKS}.{name}", self.sources)
        if found:
            raise InvalidConfig(" ".join(found))

    def rows(self) -> list[Row]:
        """Every setting with its value and its source; passwords are hidden."""
        return [Row(path, masked(value), self.sources.get(path, "default")) for path, value in self._values()]

    def _sentence(self, path: str, advice: str) -> str:
        attribute = SETTINGS[path]
        source = self.sources.get(path, "default")
        return f"{path} is {_shown(attribute, getattr(self, attribute))} ({source}). {advice}"

    def _values(self) -> Iterator[tuple[str, str]]:
        for path, attribute in SETTINGS.items():
            yield path, _shown(attribute, getattr(self, attribute))
        for item in fields(self.user_key):
            yield f"{USER_KEY}.{item.name}", _shown(item.name, getattr(self.user_key, item.name))
        for name, rule in self.alert_rules.items():
            yield from _struct_values(f"{RULES}.{name}", rule)
        for name, sink in self.alert_sinks.items():
            yield from _struct_values(f"{SINKS}.{name}", sink)
        for name, task_type in self.tasks.items():
            yield from _struct_values(f"{TASKS}.{name}", task_type)


_HOST: Final = re.compile(r"[A-Za-z0-9._:\[\]%-]{1,253}")
_BASE_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")

_RULES: Final[tuple[tuple[str, Callable[[Config], bool], str], ...]] = (
    (
        "lease",
        lambda c: 3 * SECOND <= c.lease_ms <= HOUR,
        "An instance lets go 2 s before its lease ends, so it needs 3s to 1h. Use '10s'.",
    ),
    (
        "sweep_interval",
        lambda c: SECOND // 10 <= c.sweep_ms <= c.lease_ms,
        "Use 100ms up to the lease; '1s' is usual.",
    ),
    (
        "call_timeout",
        lambda c: SECOND // 10 <= c.call_timeout_ms <= 10 * MINUTE,
        "Use 100ms to 10m; '5s' is usual.",
    ),
    (
        "scheduler.executor.check_interval",
        lambda c: SECOND // 10 <= c.check_interval_ms <= HOUR,
        "Use 100ms to 1h. It is only the safety net: due tasks start at once.",
    ),
    (
        "scheduler.executor.max_concurrent",
        lambda c: 1 <= c.max_concurrent <= 10_000,
        "Use 1 to 10000, or set scheduler.enabled: false to run nothing.",
    ),
    (
        "server.host",
        lambda c: bool(_HOST.fullmatch(c.server_host)),
        "Use a name or an address to bind to, like '127.0.0.1' or '0.0.0.0'.",
    ),
    ("server.port", lambda c: 0 <= c.server_port <= 65_535, "Use 1 to 65535, or 0 for any that is free."),
    (
        "server.base_path",
        lambda c: bool(_BASE_PATH.fullmatch(c.server_base_path)),
        "Use a path that begins with a slash and ends without one, like '/rota'.",
    ),
    (
        "server.allowed_hosts",
        lambda c: all(map(_HOST.fullmatch, c.server_allowed_hosts)),
        "Use host names without scheme and port, like 'rota.example.org'.",
    ),
    ("agents.timeout", lambda c: SECOND <= c.agents_timeout_ms <= DAY, "Use 1s to 24h; '30m' is usual."),
    ("agents.memory_mib", lambda c: 16 <= c.agents_memory_mib <= 1_048_576, "Use 16 to 1048576 (1 TiB)."),
    ("agents.cpus", lambda c: 0.01 <= c.agents_cpus <= 1_000, "Use 0.01 to 1000."),
    ("agents.processes", lambda c: 1 <= c.agents_processes <= 100_000, "Use 1 to 100000."),
    ("agents.disk_mib", lambda c: 1 <= c.agents_disk_mib <= 104_857_600, "Use 1 to 104857600 (100 TiB)."),
    ("agents.output_mib", lambda c: 1 <= c.agents_output_mib <= 1_024, "Use 1 to 1024."),
    ("agents.concurrency", lambda c: 1 <= c.agents_concurrency <= 1_000, "Use 1 to 1000."),
    ("agents.max_failures", lambda c: 0 <= c.agents_max_failures <= 1_000, "Use 1 to 1000, or 0 for never."),
    ("agents.max_schedules", lambda c: 0 <= c.agents_max_schedules <= 1_000, "Use 0 to 1000."),
    ("agents.min_interval", lambda c: SECOND <= c.agents_min_interval_ms <= DAY, "Use 1s to 24h."),
    ("agents.max_life", lambda c: SECOND <= c.agents_max_life_ms <= 3_650 * DAY, "Use 1s to 10 years."),
    ("alerts.check_interval", lambda c: SECOND <= c.alerts_check_ms <= HOUR, "Use 1s to 1h; '15s' is usual."),
)


def warn_of_split(config: Config) -> Iterator[str]:
    """A warning if instances share the tasks, but each would keep its own batches, outbox and tokens."""
    if is_local(config.store_url) or not is_local(config.database_url):
        return
    yield (
        f"The store {masked(config.store_url)} is shared, but the database {masked(config.database_url)} is a file of"
        " this host: other instances will not see its batches, events and tokens. Set `database` to postgresql://..."
    )


_UNSET: Final[Mapping[str, str]] = {
    "spool_path": "off",
    "max_wait_ms": "4 x interval",
    "concurrency": "max_concurrent",
    "server_token_file": "beside the database",
    "memory_llm_url": "OPENAI_BASE_URL",
    "memory_llm_key": "OPENAI_API_KEY",
    "agents_timezone": "the top-level timezone",
    "agents_command": "the built-in echo agent",
    "agents_engine": "the first that is installed",
    "type": "each",
    "threshold": "as is usual for the kind",
}


def _struct_values(path: str, struct: msgspec.Struct) -> Iterator[tuple[str, str]]:
    for name in struct.__struct_fields__:
        value: object = getattr(struct, name)
        below = f"{path}.{setting_name(name)}"
        if isinstance(value, msgspec.Struct):
            yield from _struct_values(below, value)
        elif isinstance(struct, TaskType) and name == "options":
            for option, setting in struct.options.items():
                yield f"{path}.{option}", _shown(option, setting)
        elif name != "name":
            yield below, _shown(name, value)


def _shown(name: str, value: object) -> str:
    if value is None:
        return _UNSET.get(name, "none")
    if name in ("secret", "memory_llm_key"):
        return "***"
    if name == "webhook":
        # Whoever knows the whole address may post to it.
        return f"{'/'.join(str(value).split('/', 3)[:3])}/***"
    if name.endswith("_ms") and isinstance(value, int):
        return format_duration(value)
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownArgumentType] -- only printed
