"""`bubblewrap`: the agent sees a read-only system, its own folder, and nothing else of the machine.

Its own mounts, process ids, host name and, unless the network was asked for, no network. When Rota runs as root the
sandbox is built with root's rights (so that it can show the agent its program wherever that lies) and entered as the
group's own user; RLIMIT_NPROC binds everybody but root, in a user namespace of root too. Otherwise the sandbox is a
user namespace, in which the number of processes counts for this run alone.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

from rota.agents.isolation.base import IsolationName, Limits, ProcessSpec, RunEnvironment
from rota.agents.isolation.process import kernel_limits, program_of, variables_of
from rota.errors import RunnerUnavailable

__all__ = ["BubblewrapIsolation"]

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS: Final = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
"""What programs look up in `/etc`, piece by piece: private keys lie beside certificates."""
NETWORK_SETTINGS: Final = (
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
)
NEEDED: Final = ("bwrap", "prlimit", "setpriv")
"""The programs that build the sandbox; the last two belong to util-linux."""
# Enough to become another user inside, which gives them up.
_TO_CHANGE_USER: Final = ("CAP_SETUID", "CAP_SETGID")


class BubblewrapIsolation:
    """A sandbox without a daemon and without an image."""

    name: ClassVar[IsolationName] = "bubblewrap"

    def process_spec(self, command: tuple[str, ...], environment: RunEnvironment, limits: Limits) -> ProcessSpec:
        """bwrap, its mounts, then the limits inside, then the command."""
        bwrap, prlimit, setpriv = (_tool(name) for name in NEEDED)
        folder = str(environment.folder)
        env = variables_of(environment, home=folder, temporary="/tmp")  # noqa: S108  # inside, /tmp is the run's own
        program = program_of(command, env["PATH"])
        argv = [
            bwrap,
            *_namespaces(environment),
            *_mounts(environment, limits, program),
            "--chdir",
            folder,
            "--",
            *(() if environment.uid is None else _as_user(setpriv, environment.uid)),
            prlimit,
            f"--nproc={limits.processes}:{limits.processes}",
            program,
            *command[1:],
        ]
        return ProcessSpec(
            argv=tuple(argv),
            env=env,
            cwd="/",
            limits=kernel_limits(limits, with_processes=False),
            is_privileged=environment.uid is not None,
            wrapper="bwrap",
        )


def _namespaces(environment: RunEnvironment) -> Iterator[str]:
    yield from ("--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--hostname", "agent")
    if environment.uid is None:
        yield "--unshare-user"
    else:
        for capability in _TO_CHANGE_USER:
            yield from ("--cap-add", capability)
    if not environment.has_network:
        yield "--unshare-net"


def _mounts(environment: RunEnvironment, limits: Limits, program: str) -> Iterator[str]:
    for path in SYSTEM:
        if Path(path).is_symlink():
            yield from ("--symlink", str(Path(path).readlink()), path)
        elif Path(path).exists():
            yield from ("--ro-bind", path, path)
    yield from _settings(environment)
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from ("--size", str(limits.temporary_bytes), "--perms", "1777", "--tmpfs", "/tmp")  # noqa: S108
    shown = tuple(dict.fromkeys((*_program_folders(program), *map(str, environment.read_only))))
    yield from _ways_to(*shown, str(environment.folder))
    for path in shown:
        yield from ("--ro-bind", path, path)
    yield from ("--bind", str(environment.folder), str(environment.folder))
    # What bwrap itself has made, to hang all this up in, is memory without a limit, and the agent's own without root.
    yield from ("--size", str(limits.temporary_bytes), "--perms", "1777", "--tmpfs", "/dev/shm")  # noqa: S108
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")


def _settings(environment: RunEnvironment) -> Iterator[str]:
    wanted = (*SETTINGS, *(NETWORK_SETTINGS if environment.has_network else ()))
    found = [path for path in wanted if os.access(path, os.R_OK)]
    yield from _ways_to(*found)
    for path in found:
        yield from ("--ro-bind-try", path, path)


def _ways_to(*paths: str) -> Iterator[str]:
    """The empty folders that lead to what is shown, which bwrap would make passable for nobody but its own user."""
    parents = {parent for path in paths for parent in Path(path).parents if parent != Path("/")}
    for parent in sorted(parents):
        if not any(parent.is_relative_to(folder) for folder in (*SYSTEM, *paths)) and parent != Path("/tmp"):  # noqa: S108
            yield from ("--perms", "0755", "--dir", str(parent))


def _program_folders(program: str) -> Iterator[str]:
    """Where the program lies, if the system's folders do not show it already."""
    shown: list[Path] = [Path(folder) for folder in SYSTEM]
    own = (sys.base_prefix, sys.prefix) if program == sys.executable else ()
    for path in map(Path, (*own, program, str(Path(program).resolve()))):
        # What lies below a folder that is shown is shown with it, and cannot be mounted again.
        if not any(path.is_relative_to(folder) for folder in shown):
            shown.append(path)
            yield str(path)


def _as_user(setpriv: str, uid: int) -> tuple[str, ...]:
    return (setpriv, f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", "--")


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise RunnerUnavailable(f"The isolation 'bubblewrap' needs the program {name!r}. Install bubblewrap.")
    return found
