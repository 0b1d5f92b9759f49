"""`process`: a session of its own, kernel limits, a bare environment, its own working directory.

It keeps an agent from taking the machine down and from leaving anything behind. It does not hide files: what the user
that it runs as may read, it may read. When Rota runs as root that is a user of the group's own, who owns nothing but
the group's folder; otherwise it is Rota's own user.

The sandboxes start their commands with the same environment of named variables only, and the same limits of the kernel.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import ClassVar, Final

from rota.agents.isolation.base import IsolationName, Limits, ProcessSpec, RunEnvironment
from rota.clock import SECOND
from rota.errors import RunnerUnavailable

__all__ = [
    "MARKER",
    "MCP_CONFIG",
    "MCP_SOCKET",
    "PASSED_ON",
    "ProcessIsolation",
    "kernel_limits",
    "program_of",
    "variables_of",
]

PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE")
"""The variables of Rota's own environment that an agent sees. Everything else, keys and passwords above all, stays."""
MARKER: Final = "ROTA_RUN"
"""Names the run in the environment of every process that belongs to it: for people who look at them, and for what an
agent starts, `rota mcp` above all, which must know that it is in a run."""
MCP_SOCKET: Final = "ROTA_MCP_SOCKET"
"""Names the socket over which a run speaks MCP with Rota."""
MCP_CONFIG: Final = "ROTA_MCP_CONFIG"
"""Names a file in the form that command-line agents read their MCP servers from, with Rota's in it."""
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


class ProcessIsolation:
    """The weakest isolation, present everywhere."""

    name: ClassVar[IsolationName] = "process"

    def process_spec(self, command: tuple[str, ...], environment: RunEnvironment, limits: Limits) -> ProcessSpec:
        """The command itself, with everything set before it is loaded."""
        folder = str(environment.folder)
        env = variables_of(environment, home=folder, temporary=folder)
        return ProcessSpec(
            argv=(program_of(command, env["PATH"]), *command[1:]),
            env=env,
            cwd=folder,
            limits=kernel_limits(limits, with_processes=environment.uid is not None),
            processes=limits.processes if environment.uid is None else None,
            uid=environment.uid,
        )


def program_of(command: tuple[str, ...], path: str) -> str:
    """The program's file, looked for in the agent's own PATH."""
    if not command:
        raise RunnerUnavailable("The agent's command is empty. Set agents.command to a list like ['my-agent', '-p'].")
    found = shutil.which(command[0], mode=os.F_OK | os.X_OK, path=path)
    if found is None:
        raise RunnerUnavailable(
            f"The program {command[0]!r} of the agent's command was not found. Install it, or set agents.command."
        )
    # Not what a link leads to: programs of many names, and the Python of a virtual environment, go by the link's own.
    return os.path.abspath(found)  # noqa: PTH100  # `resolve` would follow it


def variables_of(environment: RunEnvironment, *, home: str, temporary: str) -> dict[str, str]:
    """The whole environment of a command. What is configured wins, but not over the names that Rota itself sets."""
    own: Mapping[str, str] = os.environ
    passed = {name: own[name] for name in PASSED_ON if name in own}
    return {
        "PATH": _PATH,
        **passed,
        **environment.variables,
        "HOME": home,
        "TMPDIR": temporary,
        "TZ": environment.timezone,
        MARKER: environment.run_id,
    }


def kernel_limits(limits: Limits, *, with_processes: bool) -> dict[str, int]:
    """`setrlimit` by name.

    Memory is RLIMIT_DATA: RLIMIT_AS also counts address space that is only reserved, of which JavaScript engines take
    many gigabytes. The number of processes binds per user, so it is set here only if the user is the run's own.
    """
    found = {
        "RLIMIT_CORE": 0,
        "RLIMIT_DATA": limits.memory_bytes,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_CPU": max(1, round(limits.wall_ms * limits.cpus) // SECOND + 1),
    }
    return {**found, "RLIMIT_NPROC": limits.processes} if with_processes else found
