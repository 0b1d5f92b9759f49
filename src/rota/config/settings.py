"""The table of single settings: where each stands, which attribute of `Config` holds it, and how it is read.

A new setting is one row here and one attribute with its default in `Config`. Everything else follows from the table:
files, environment and flags know it, misspellings of it are refused with a suggestion, `rota config show` prints it.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from rota.config.urls import BUS_SCHEMES, DATABASE_SCHEMES, STORE_SCHEMES, check_url
from rota.config.values import (
    Convert,
    as_bool,
    as_choice,
    as_duration,
    as_float,
    as_int,
    as_names,
    as_path,
    as_spool,
    as_template,
    as_text,
    as_zone,
)

__all__ = ["ALL", "Setting"]


class Setting(NamedTuple):
    """One setting with one value."""

    path: str
    attribute: str
    read: Convert


def _url(value: object, schemes: tuple[str, ...]) -> str:
    return check_url(as_text(value), schemes)


ALL: Final[tuple[Setting, ...]] = (
    Setting("store", "store_url", partial(_url, schemes=STORE_SCHEMES)),
    Setting("database", "database_url", partial(_url, schemes=DATABASE_SCHEMES)),
    Setting("bus", "bus_url", partial(_url, schemes=BUS_SCHEMES)),
    Setting("spool", "spool_path", as_spool),
    Setting("timezone", "timezone", as_zone),
    Setting("lease", "lease_ms", as_duration),
    Setting("sweep_interval", "sweep_ms", as_duration),
    Setting("call_timeout", "call_timeout_ms", as_duration),
    Setting("scheduler.enabled", "enabled", as_bool),
    Setting("scheduler.executor.check_interval", "check_interval_ms", as_duration),
    Setting("scheduler.executor.max_concurrent", "max_concurrent", as_int),
    Setting("server.host", "server_host", as_text),
    Setting("server.port", "server_port", as_int),
    Setting("server.base_path", "server_base_path", as_text),
    Setting("server.allowed_hosts", "server_allowed_hosts", as_names),
    Setting("server.token_file", "server_token_file", as_path),
    Setting("server.hide_payloads", "hide_payloads", as_bool),
    Setting("alerts.enabled", "alerts_enabled", as_bool),
    Setting("alerts.check_interval", "alerts_check_ms", as_duration),
    Setting("alerts.defaults", "alerts_defaults", as_bool),
    Setting("webhooks.allow_private", "webhooks_allow_private", as_bool),
    Setting("webhooks.allow_http", "webhooks_allow_http", as_bool),
    Setting("memory.anonymous", "memory_anonymous", as_choice("default", "reject")),
    Setting("memory.settling", "memory_settling_ms", as_duration),
    Setting("memory.embedder", "memory_embedder", as_choice("hashing", "sentence-transformers")),
    Setting("memory.model", "memory_model", as_text),
    Setting("memory.merge", "memory_merge", as_choice("rules", "llm")),
    Setting("memory.llm_url", "memory_llm_url", as_text),
    Setting("memory.llm_model", "memory_llm_model", as_text),
    Setting("memory.llm_key", "memory_llm_key", as_text),
    Setting("agents.groups_dir", "agents_groups_dir", as_path),
    Setting("agents.isolation", "agents_isolation", as_choice("auto", "container", "bubblewrap", "process")),
    Setting("agents.require", "agents_require", as_bool),
    Setting("agents.timezone", "agents_timezone", as_zone),
    Setting("agents.command", "agents_command", as_template),
    Setting("agents.hears", "agents_hears", as_choice("json", "text")),
    Setting("agents.speaks", "agents_speaks", as_choice("json", "text")),
    Setting("agents.pass_on", "agents_pass_on", as_names),
    Setting("agents.read_only", "agents_read_only", as_names),
    Setting("agents.mcp_socket", "agents_mcp_socket", as_bool),
    Setting("agents.mcp_url", "agents_mcp_url", as_text),
    Setting("agents.image", "agents_image", as_text),
    Setting("agents.engine", "agents_engine", as_choice("docker", "podman", "container")),
    Setting("agents.engine_options", "agents_engine_options", as_names),
    Setting("agents.timeout", "agents_timeout_ms", as_duration),
    Setting("agents.memory_mib", "agents_memory_mib", as_int),
    Setting("agents.cpus", "agents_cpus", as_float),
    Setting("agents.processes", "agents_processes", as_int),
    Setting("agents.disk_mib", "agents_disk_mib", as_int),
    Setting("agents.output_mib", "agents_output_mib", as_int),
    Setting("agents.concurrency", "agents_concurrency", as_int),
    Setting("agents.max_failures", "agents_max_failures", as_int),
    Setting("agents.approval", "agents_approval", as_choice("all", "untrusted", "none")),
    Setting("agents.max_schedules", "agents_max_schedules", as_int),
    Setting("agents.min_interval", "agents_min_interval_ms", as_duration),
    Setting("agents.max_life", "agents_max_life_ms", as_duration),
)
"""Every single setting, in the order in which it is shown. A short flag means the first one of its last name."""
