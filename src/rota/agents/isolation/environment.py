"""What an agent's program finds around it: an environment of named variables only, and the limits of the kernel."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from rota.agents.isolation.base import Limits, RunEnvironment
from rota.clock import SECOND

__all__ = ["MARKER", "MCP_CONFIG", "MCP_SOCKET", "PASSED_ON", "kernel_limits", "variables_of"]

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
