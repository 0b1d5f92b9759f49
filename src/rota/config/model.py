"""The configuration of one process: checked, frozen, and able to say where each value came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rota.call_timeout import DEFAULT_MS
from rota.clock import HOUR, MINUTE, SECOND, Millis
from rota.config.metrics import METRICS_SECTION, MetricsConfig
from rota.config.section import Rule, Section, option_checks
from rota.config.server import SERVER_SECTION, ServerConfig
from rota.config.settings import BASE_SECTIONS, ENGINE_SETTINGS
from rota.config.shown import shown, struct_rows
from rota.config.urls import is_local, masked, scheme_of
from rota.config.webhooks import WEBHOOKS_SECTION, WebhooksConfig
from rota.core.task_type import TaskType
from rota.errors import InvalidConfig
from rota.keys import UserKeyConfig

__all__ = [
    "SETTINGS",
    "SPOOL_FILE",
    "TASKS",
    "USER_KEY",
    "Config",
    "SettingRow",
    "default_database",
    "default_spool",
    "warn_of_split",
]

USER_KEY: Final = "scheduler.user_key_config"
TASKS: Final = "scheduler.tasks"

SETTINGS: Final[Mapping[str, str]] = MappingProxyType({one.path: one.attribute for one in ENGINE_SETTINGS})
"""The path of every single setting of the engine, and the attribute of `Config` that holds it."""


SPOOL_FILE: Final = "rota-spool.db"
"""The spool unless another file is named: in the working directory."""


class SettingRow(NamedTuple):
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
    tasks: Mapping[str, TaskType] = field(default_factory=lambda: MappingProxyType({}))
    warnings: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    sections: tuple[Section[Any], ...] = field(default=BASE_SECTIONS, compare=False, repr=False)
    """The sections that this configuration was asked for, in the order in which they are shown."""
    section_values: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """What differs from the defaults of a section, by its name. Ask the section: `AGENTS_SECTION.of(config)`."""

    @property
    def server(self) -> ServerConfig:
        """What is said under `server`."""
        return SERVER_SECTION.of(self)

    @property
    def metrics(self) -> MetricsConfig:
        """What is said under `metrics`."""
        return METRICS_SECTION.of(self)

    @property
    def webhooks(self) -> WebhooksConfig:
        """What is said under `webhooks`."""
        return WEBHOOKS_SECTION.of(self)

    if not TYPE_CHECKING:
        # For people: `config.agents.timeout_ms`. Code asks the section, which knows the type of its values; seen by
        # a type checker, this would make every misspelt setting a fine one.
        def __getattr__(self, name: str) -> object:
            for section in self.__dict__.get("sections", ()):
                if section.name == name:
                    return section.of(self)
            raise AttributeError(f"A Config has no setting or section {name!r}.")

    def __repr__(self) -> str:
        # The generated one would print the passwords in the URLs.
        return f"Config(store_url={masked(self.store_url)!r}, tasks={list(self.tasks)})"

    def problems(self) -> list[str]:
        """Every impossible value among the settings of the process and of its parts, one sentence each."""
        broken = [(rule.path, rule.advice) for rule in _RULES if not rule.holds(self)]
        for section in self.sections:
            broken += section.broken_rules(self)
        values = dict(self._values()) if broken else {}
        return [f"{path} is {values[path]} ({self.sources.get(path, 'default')}). {advice}" for path, advice in broken]

    def validate(self) -> None:
        """Raise `InvalidConfig` with every problem, those of the task types included, if there is one."""
        found = self.problems()
        # Where no part is known, nobody can say which options there are.
        options = option_checks(self.sections) or None
        for name, task_type in self.tasks.items():
            found += task_type.problems(f"{TASKS}.{name}", self.sources, options)
        if found:
            raise InvalidConfig(" ".join(found))

    def rows(self) -> list[SettingRow]:
        """Every setting with its value and its source; passwords are hidden."""
        return [SettingRow(path, masked(value), self.sources.get(path, "default")) for path, value in self._values()]

    def _values(self) -> Iterator[tuple[str, str]]:
        for path, attribute in SETTINGS.items():
            yield path, shown(attribute, getattr(self, attribute), _UNSET)
        for section in self.sections:
            yield from section.rows(self)
        for item in fields(self.user_key):
            yield f"{USER_KEY}.{item.name}", shown(item.name, getattr(self.user_key, item.name), {})
        for section in self.sections:
            yield from section.entry_rows(self)
        for name, task_type in self.tasks.items():
            yield from struct_rows(f"{TASKS}.{name}", task_type, _UNSET_OF_TYPE)


_RULES: Final[tuple[Rule[Config], ...]] = (
    Rule(
        "lease",
        lambda c: 3 * SECOND <= c.lease_ms <= HOUR,
        "An instance lets go 2 s before its lease ends, so it needs 3s to 1h. Use '10s'.",
    ),
    Rule(
        "sweep_interval",
        lambda c: SECOND // 10 <= c.sweep_ms <= c.lease_ms,
        "Use 100ms up to the lease; '1s' is usual.",
    ),
    Rule(
        "call_timeout",
        lambda c: SECOND // 10 <= c.call_timeout_ms <= 10 * MINUTE,
        "Use 100ms to 10m; '5s' is usual.",
    ),
    Rule(
        "scheduler.executor.check_interval",
        lambda c: SECOND // 10 <= c.check_interval_ms <= HOUR,
        "Use 100ms to 1h. It is only the safety net: due tasks start at once.",
    ),
    Rule(
        "scheduler.executor.max_concurrent",
        lambda c: 1 <= c.max_concurrent <= 10_000,
        "Use 1 to 10000, or set scheduler.enabled: false to run nothing.",
    ),
)


def warn_of_split(config: Config) -> Iterator[str]:
    """A warning if instances share the tasks, but each would keep its own batches, outbox and tokens."""
    if is_local(config.store_url) or not is_local(config.database_url):
        return
    yield (
        f"The store {masked(config.store_url)} is shared, but the database {masked(config.database_url)} is a file of"
        " this host: other instances will not see its batches, events and tokens. Set `database` to postgresql://..."
    )


_UNSET: Final[Mapping[str, str]] = {"spool_path": "off"}
_UNSET_OF_TYPE: Final[Mapping[str, str]] = {"max_wait_ms": "4 x interval", "concurrency": "max_concurrent"}
