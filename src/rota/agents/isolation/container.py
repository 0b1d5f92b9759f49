"""`container`: docker, podman or Apple's `container`, with every limit that they know."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

from rota.agents.isolation.base import IsolationName, Limits, ProcessSpec, RunEnvironment
from rota.agents.isolation.process import PASSED_ON, variables_of
from rota.errors import InvalidConfig, RunnerUnavailable

__all__ = ["HOME", "ContainerIsolation", "Engine", "container_name"]

Engine = Literal["docker", "podman", "container"]

HOME: Final = "/workspace/group"
"""Where the group's folder is inside."""
_IMAGE: Final = re.compile(r"[a-z0-9][a-z0-9._/:@-]{0,254}")
_NAME: Final = re.compile(r"[^a-zA-Z0-9_.-]")
_CLIENTS: Final = ("HOME", "PATH", "TMPDIR", "USER", "LOGNAME", "DBUS_SESSION_BUS_ADDRESS")
_CLIENTS_PREFIXES: Final = ("DOCKER_", "CONTAINER_", "CONTAINERS_", "PODMAN_", "XDG_", "LD_")
"""The variables that mean something to the engine's client; what is meant for the agent must not become its own."""


@dataclass(frozen=True, kw_only=True)
class ContainerIsolation:
    """The agent in a container that exists for this run alone."""

    name: ClassVar[IsolationName] = "container"

    engine: Engine
    image: str
    options: tuple[str, ...] = ()
    """Options of the engine itself, before `run`: ("--runtime", "runc"), for example."""

    def __post_init__(self) -> None:
        if not _IMAGE.fullmatch(self.image):
            raise InvalidConfig(f"agents.image is {self.image!r}, which names no image. Use something like 'my-agent'.")

    def process_spec(self, command: tuple[str, ...], environment: RunEnvironment, limits: Limits) -> ProcessSpec:
        """`run --rm -i` with the limits, then the image, then the command inside it."""
        program = shutil.which(self.engine)
        if program is None:
            raise RunnerUnavailable(
                f"The isolation 'container' needs the program {self.engine!r}. Install it, or set agents.isolation."
            )
        name = container_name(environment.run_id)
        argv = [program, *self.options, "run", "--rm", "-i", "--name", name, *self._limits(environment, limits)]
        handed_over = {key: value for key, value in environment.variables.items() if not _is_clients(key)}
        for key, value in self._environment(environment).items():
            # A value that was configured, a key perhaps, is no argument: arguments are there for everybody to see.
            # Apple's engine is not known to take a name alone.
            is_named = key in handed_over and self.engine != "container"
            argv += ["--env", key if is_named else f"{key}={value}"]
        argv += ["--volume", f"{_mountable(environment.folder)}:{HOME}:rw", "--workdir", HOME]
        for path in environment.read_only:
            argv += ["--volume", f"{_mountable(path)}:{path}:ro"]
        return ProcessSpec(
            argv=(*argv, self.image, *command),
            env={**handed_over, **_clients_environment()},
            cwd="/",
            limits={"RLIMIT_CORE": 0},
            is_privileged=True,
            cleanup=((program, *self.options, "rm", "--force", name),),
        )

    def trial(self) -> tuple[str, ...]:
        """A command that shows whether such a container can run here: 0, or 127 if the image has no program `true`."""
        limits = self._limits(RunEnvironment(folder=Path(HOME), run_id="trial"), Limits())
        return (self.engine, *self.options, "run", "--rm", *limits, "--entrypoint", "true", self.image)

    def _limits(self, environment: RunEnvironment, limits: Limits) -> Iterator[str]:
        yield from ("--memory", f"{limits.memory_bytes}", "--cpus", f"{limits.cpus:g}")
        if self.engine == "container":
            # Apple's engine gives each container a virtual machine of its own and knows none of the switches below.
            return
        yield from ("--network", "bridge" if environment.has_network else "none")
        yield from ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only")
        yield from ("--pids-limit", str(limits.processes), "--memory-swap", str(limits.memory_bytes))
        yield from ("--tmpfs", f"/tmp:rw,nosuid,nodev,size={limits.temporary_bytes}")  # noqa: S108
        # Each named: what is left out the engine raises as far as it can, and fails where it may not.
        for name, most in (("fsize", limits.file_bytes), ("nofile", limits.open_files), ("nproc", limits.processes)):
            yield from ("--ulimit", f"{name}={most}:{most}")
        yield from ("--ulimit", "core=0:0", "--pull", "never", "--log-driver", "none")
        if environment.uid is not None:
            yield from ("--user", f"{environment.uid}:{environment.uid}")

    def _environment(self, environment: RunEnvironment) -> dict[str, str]:
        """Inside, the image's own PATH and locale count."""
        found = variables_of(environment, home=HOME, temporary="/tmp")  # noqa: S108
        return {key: value for key, value in found.items() if key not in PASSED_ON or key in environment.variables}


def _clients_environment() -> dict[str, str]:
    """What the engine's own client needs, from Rota's environment: where its settings and its images are.

    Never the group's folder as its home. It would read settings there that the agent has written, and they name
    programs that the client starts with Rota's rights.
    """
    own: Mapping[str, str] = os.environ
    return {key: value for key, value in own.items() if _is_clients(key)}


def _is_clients(name: str) -> bool:
    return name in _CLIENTS or name.startswith(_CLIENTS_PREFIXES)


def _mountable(path: Path) -> Path:
    if ":" in str(path):
        raise RunnerUnavailable(f"{path} cannot be shown to a container: its path has a ':'. Use another folder.")
    return path


def container_name(run_id: str) -> str:
    """The name of a run's container: letters, digits, dots, dashes and underscores."""
    return f"rota-{_NAME.sub('-', run_id)[:100]}"
