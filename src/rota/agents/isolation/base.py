"""What a runner is asked, what it answers, and the limits that hold meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Literal, Protocol

import msgspec

from rota.clock import MINUTE, SECOND, Millis

__all__ = [
    "AgentInput",
    "Isolation",
    "IsolationName",
    "Limits",
    "OnProgress",
    "ProcessSpec",
    "RunEnvironment",
    "RunRequest",
    "Runner",
    "RunnerResult",
]

IsolationName = Literal["container", "bubblewrap", "process"]
OnProgress = Callable[[object], None]

MEBIBYTE: Final = 1_048_576


class AgentInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The one JSON object that an agent reads from its standard input."""

    prompt: str
    session_id: str | None = None
    group_folder: str
    chat_jid: str
    is_main: bool = False
    is_scheduled_task: bool = True
    timezone: str = "UTC"
    data: object = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one run may use. `processes` counts threads too, as the kernel does."""

    wall_ms: Millis = 30 * MINUTE
    grace_ms: Millis = 2 * SECOND
    """Between being asked to end and being ended."""
    linger_ms: Millis = 10 * SECOND
    """How long an agent that has answered may stay without a further word before it is ended. Its answer counts."""
    output_bytes: int = 10 * MEBIBYTE
    memory_bytes: int = 2_048 * MEBIBYTE
    cpus: float = 2.0
    processes: int = 256
    file_bytes: int = 1_024 * MEBIBYTE
    """The largest single file that it may write."""
    disk_bytes: int = 5_120 * MEBIBYTE
    """How large the group's folder may grow before the run is ended."""
    temporary_bytes: int = 256 * MEBIBYTE
    """Room in `/tmp` inside a sandbox, which is memory."""
    open_files: int = 1_024


@dataclass(frozen=True, kw_only=True)
class RunEnvironment:
    """Where a command runs: whose folder, as which user, with what around it."""

    folder: Path
    run_id: str
    """A name for this run that no other run has."""
    uid: int | None = None
    """The user to become; None stays who Rota is."""
    has_network: bool = False
    timezone: str = "UTC"
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    read_only: tuple[Path, ...] = ()
    """What else may be read, if the isolation hides the rest."""


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """What the supervisor is told: the exact command and everything that is set before it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    limits: Mapping[str, int]
    processes: int | None = None
    """How many more than its user has already it may start, if the user is not the run's own."""
    uid: int | None = None
    is_privileged: bool = False
    """Whether the command itself needs its privileges, to build a sandbox; it gives them up then."""
    wrapper: str = ""
    """The name of the process that holds the sandbox, which is not asked to end but ends with the agent."""
    cleanup: tuple[tuple[str, ...], ...] = ()


class Isolation(Protocol):
    """A way to run a command so that it can reach only what it is given."""

    name: ClassVar[IsolationName]

    def process_spec(self, command: tuple[str, ...], environment: RunEnvironment, limits: Limits) -> ProcessSpec:
        """The command as it is really started."""
        ...


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One run of an agent."""

    environment: RunEnvironment
    input: AgentInput
    limits: Limits = Limits()


class RunnerResult(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended. `reason` is the class that people and alerts group failures by."""

    status: Literal["success", "error"]
    result: str | None = None
    error: str | None = None
    reason: Literal["error", "timeout", "rate_limited", "output", "disk", "crashed"] | None = None
    new_session_id: str | None = None
    duration_ms: Millis = 0
    left_behind: int = 0
    """How many processes were still there when the agent itself had ended; they were ended too."""


class Runner(Protocol):
    """Runs an agent. Cancelling the call ends the agent and everything that it started."""

    async def run(self, request: RunRequest, on_progress: OnProgress | None = None) -> RunnerResult:
        """The agent's answer. A failure of the agent is an answer too, never an exception."""
        ...
