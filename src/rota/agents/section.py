"""What a configuration may say about scheduled agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from rota.clock import DAY, MINUTE, SECOND, Millis
from rota.config.section import Rule, Section, Setting
from rota.config.values import (
    as_bool,
    as_choice,
    as_duration,
    as_float,
    as_int,
    as_names,
    as_path,
    as_text,
    as_zone,
)
from rota.errors import InvalidConfig

__all__ = ["AGENTS_SECTION", "AgentsConfig"]


@dataclass(frozen=True, kw_only=True)
class AgentsConfig:
    """What a configuration says under `agents`. `AgentSettings` is what is made of it."""

    groups_dir: str = "groups"
    isolation: str = "auto"
    require: bool = False
    timezone: str | None = None
    command: tuple[str | tuple[str, ...], ...] | None = None
    """The agent's program; None for the built-in echo agent."""
    input_format: str = "json"
    output_format: str = "json"
    pass_on: tuple[str, ...] = ()
    """Variables of this process that agents see too."""
    read_only: tuple[str, ...] = ()
    """What else agents may read, if their isolation hides it."""
    mcp_socket: bool = True
    """Whether each run has a socket to the MCP server."""
    mcp_url: str | None = None
    """Where runs reach the MCP server; each then gets a token of its own."""
    image: str | None = None
    engine: str | None = None
    engine_options: tuple[str, ...] = ()
    timeout_ms: Millis = 30 * MINUTE
    memory_mib: int = 2_048
    cpus: float = 2.0
    processes: int = 256
    disk_mib: int = 5_120
    output_mib: int = 10
    concurrency: int = 5
    max_failures: int = 5
    approval: str = "all"
    max_schedules: int = 20
    min_interval_ms: Millis = 5 * MINUTE
    max_life_ms: Millis = 30 * DAY


def _as_template(value: object) -> tuple[str | tuple[str, ...], ...]:
    """A program and its arguments, where an inner list is left out if its placeholder has no value.

    The environment has it as JSON: a list still, never a line for a shell.
    """
    try:
        given: object = msgspec.json.decode(value) if isinstance(value, str) else value
        template = msgspec.convert(given, tuple[str | tuple[str, ...], ...])
    except (msgspec.MsgspecError, UnicodeError):
        template = ()
    first = template[0] if template else ""
    if not isinstance(first, str) or not first.strip() or "\0" in str(template):
        raise InvalidConfig(
            "Use a list: the program, then its arguments, like [my-agent, --print, [--resume, '{sessionId}']]."
        )
    return template


AGENTS_SECTION: Final = Section(
    name="agents",
    values=AgentsConfig,
    settings=(
        Setting("groups_dir", "groups_dir", as_path),
        Setting("isolation", "isolation", as_choice("auto", "container", "bubblewrap", "process")),
        Setting("require", "require", as_bool),
        Setting("timezone", "timezone", as_zone),
        Setting("command", "command", _as_template),
        Setting("input_format", "input_format", as_choice("json", "text")),
        Setting("output_format", "output_format", as_choice("json", "text")),
        Setting("pass_on", "pass_on", as_names),
        Setting("read_only", "read_only", as_names),
        Setting("mcp_socket", "mcp_socket", as_bool),
        Setting("mcp_url", "mcp_url", as_text),
        Setting("image", "image", as_text),
        Setting("engine", "engine", as_choice("docker", "podman", "container")),
        Setting("engine_options", "engine_options", as_names),
        Setting("timeout", "timeout_ms", as_duration),
        Setting("memory_mib", "memory_mib", as_int),
        Setting("cpus", "cpus", as_float),
        Setting("processes", "processes", as_int),
        Setting("disk_mib", "disk_mib", as_int),
        Setting("output_mib", "output_mib", as_int),
        Setting("concurrency", "concurrency", as_int),
        Setting("max_failures", "max_failures", as_int),
        Setting("approval", "approval", as_choice("all", "untrusted", "none")),
        Setting("max_schedules", "max_schedules", as_int),
        Setting("min_interval", "min_interval_ms", as_duration),
        Setting("max_life", "max_life_ms", as_duration),
    ),
    rules=(
        Rule("timeout", lambda agents: SECOND <= agents.timeout_ms <= DAY, "Use 1s to 24h; '30m' is usual."),
        Rule("memory_mib", lambda agents: 16 <= agents.memory_mib <= 1_048_576, "Use 16 to 1048576 (1 TiB)."),
        Rule("cpus", lambda agents: 0.01 <= agents.cpus <= 1_000, "Use 0.01 to 1000."),
        Rule("processes", lambda agents: 1 <= agents.processes <= 100_000, "Use 1 to 100000."),
        Rule("disk_mib", lambda agents: 1 <= agents.disk_mib <= 104_857_600, "Use 1 to 104857600 (100 TiB)."),
        Rule("output_mib", lambda agents: 1 <= agents.output_mib <= 1_024, "Use 1 to 1024."),
        Rule("concurrency", lambda agents: 1 <= agents.concurrency <= 1_000, "Use 1 to 1000."),
        Rule("max_failures", lambda agents: 0 <= agents.max_failures <= 1_000, "Use 1 to 1000, or 0 for never."),
        Rule("max_schedules", lambda agents: 0 <= agents.max_schedules <= 1_000, "Use 0 to 1000."),
        Rule("min_interval", lambda agents: SECOND <= agents.min_interval_ms <= DAY, "Use 1s to 24h."),
        Rule("max_life", lambda agents: SECOND <= agents.max_life_ms <= 3_650 * DAY, "Use 1s to 10 years."),
    ),
    renamed={"hears": "input_format", "speaks": "output_format"},
    unset={
        "timezone": "the top-level timezone",
        "command": "the built-in echo agent",
        "engine": "the first that is installed",
    },
)
