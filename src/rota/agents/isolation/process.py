"""`process`: a session of its own, kernel limits, a bare environment, its own working directory.

It keeps an agent from taking the machine down and from leaving anything behind. It does not hide files: what the user
that it runs as may read, it may read. When Rota runs as root that is a user of the group's own, who owns nothing but
the group's folder; otherwise it is Rota's own user.
"""

from __future__ import annotations

import os
import shutil
from typing import ClassVar

from rota.agents.isolation.base import IsolationName, Limits, ProcessSpec, RunEnvironment
from rota.agents.isolation.environment import kernel_limits, variables_of
from rota.errors import RunnerUnavailable

__all__ = ["ProcessIsolation", "program_of"]


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
