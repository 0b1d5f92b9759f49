"""The settings of scheduled agents: one table of defaults."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from rota.agents.group_folders import UID_BASE
from rota.agents.isolation.base import MEBIBYTE, IsolationName, Limits
from rota.agents.isolation.choose import Chosen, choose_isolation
from rota.agents.isolation.command import CommandRunner, MessageFormat, Template, check_template
from rota.agents.isolation.container import Engine
from rota.agents.policy import Approval, Rules
from rota.agents.section import AGENTS_SECTION, AgentsConfig
from rota.clock import SECOND, Millis
from rota.config import Config

__all__ = ["ECHO", "AgentSettings", "echo_command"]

ECHO: Final = Path(__file__).with_name("echo.py")


def echo_command(interpreter: Path, program: Path = ECHO) -> Template:
    """The built-in agent, so that the user of any group can run it.

    When Rota is root, its interpreter or its own files may lie where nobody else may look (in root's home, say). The
    agent needs nothing but the standard library: any Python will do, and its source can be handed over.
    """
    if os.geteuid() != 0 or (_is_for_all(interpreter) and _is_for_all(program)):
        return (str(interpreter), "-I", "-S", str(program))
    others = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    python = str(interpreter) if _is_for_all(interpreter) or others is None else others
    return (python, "-I", "-S", "-c", program.read_text(encoding="utf-8"))


def _is_for_all(path: Path) -> bool:
    """Whether any user may reach a file and read it."""
    real = path.resolve()
    return bool(real.stat().st_mode & 0o004) and all(folder.stat().st_mode & 0o001 for folder in real.parents)


_ECHO_COMMAND: Final[Template] = echo_command(Path(sys.executable))


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """Everything that is configured for agents. The defaults run the built-in echo agent."""

    groups_dir: Path = Path("groups")
    timezone: str = "UTC"
    isolation: IsolationName | None = None
    """The one to insist on; None takes the strongest sandbox that works, and never the plain process."""
    needs_walls: bool = False
    """Whether the plain process is refused even if it is named."""
    engine: Engine | None = None
    image: str | None = None
    engine_options: tuple[str, ...] = ()
    command: Template = _ECHO_COMMAND
    output_format: MessageFormat = "json"
    input_format: MessageFormat = "json"
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    pass_on: tuple[str, ...] = ()
    """Further variables of Rota's own environment that agents see."""
    read_only: tuple[Path, ...] = ()
    mcp_url: str | None = None
    """Where runs reach the MCP server over HTTP; each gets a token of its own with it. None: they are told nothing."""
    limits: Limits = field(default_factory=Limits)
    gate_ms: Millis = 30 * SECOND
    gate_bytes: int = 1_048_576
    uid_base: int | None = UID_BASE
    """When Rota runs as root: group n runs as user `uid_base + n`. None keeps root, which no process limit binds."""
    rules: Rules = field(default_factory=Rules)
    max_failures: int = 5
    """Failed runs in a row after which a schedule is paused and its owner told; 0 never."""
    concurrency: int = 5

    def __post_init__(self) -> None:
        check_template(self.command)

    @classmethod
    def of(cls, config: Config) -> AgentSettings:
        """The settings that a configuration has under `agents`."""
        given = AGENTS_SECTION.of(config)
        return cls(
            groups_dir=Path(given.groups_dir),
            timezone=given.timezone or config.timezone,
            isolation=None if given.isolation == "auto" else cast("IsolationName", given.isolation),
            needs_walls=given.require,
            engine=cast("Engine | None", given.engine),
            image=given.image,
            engine_options=given.engine_options,
            command=cls.command if given.command is None else given.command,
            output_format=cast("MessageFormat", given.output_format),
            input_format=cast("MessageFormat", given.input_format),
            pass_on=given.pass_on,
            read_only=tuple(map(Path, given.read_only)),
            mcp_url=given.mcp_url,
            limits=_limits_of(given),
            max_failures=given.max_failures,
            concurrency=given.concurrency,
            rules=Rules(
                approval=cast("Approval", given.approval),
                max_schedules=given.max_schedules,
                min_interval_ms=given.min_interval_ms,
                max_life_ms=given.max_life_ms,
            ),
        )

    def visible(self) -> tuple[Path, ...]:
        """What a sandbox shows beside the system and the group's folder."""
        return (*self.read_only, ECHO) if str(ECHO) in self.command else self.read_only

    def choose(self) -> Chosen:
        """The isolation that runs will have."""
        return choose_isolation(
            require=self.isolation,
            needs_walls=self.needs_walls,
            image=self.image,
            engine=self.engine,
            options=self.engine_options,
        )

    def runner(self, chosen: Chosen) -> CommandRunner:
        """What runs agents in it."""
        return CommandRunner(
            isolation=chosen.isolation,
            command=self.command,
            output_format=self.output_format,
            input_format=self.input_format,
        )

    def type_settings(self) -> dict[str, object]:
        """The settings of the task type `agent`.

        The run's own limit lies below the type's timeout, so that an agent that takes too long is ended by its
        runner, which says more.
        """
        whole = self.limits.wall_ms + self.gate_ms + 2 * self.limits.grace_ms + 60 * SECOND
        return {
            "description": "Scheduled agents: a prompt, run in isolation for a group.",
            "timeout": whole / SECOND,
            "max_retries": 1,
            "retry": {"base": "60s", "factor": 2.0, "max": "1h"},
            "concurrency": self.concurrency,
        }

    def notice_settings(self) -> dict[str, object]:
        """The settings of the task type `agent_notice`: ten tries within at most half an hour."""
        return {
            "description": "Notices of scheduled agents, on their way to a webhook.",
            "timeout": 30,
            "max_retries": 9,
            "retry": {"base": "5s", "factor": 2.0, "max": "10m"},
            "concurrency": 2,
        }


def _limits_of(given: AgentsConfig) -> Limits:
    return Limits(
        wall_ms=given.timeout_ms,
        memory_bytes=given.memory_mib * MEBIBYTE,
        cpus=given.cpus,
        processes=given.processes,
        disk_bytes=given.disk_mib * MEBIBYTE,
        output_bytes=given.output_mib * MEBIBYTE,
    )
