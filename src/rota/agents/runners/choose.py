"""Which isolation an agent gets: the strongest one that is present and works, and why not a stronger one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast, get_args

from rota.agents.runners.base import Isolation, IsolationName
from rota.agents.runners.bubblewrap import NEEDED, BubblewrapIsolation
from rota.agents.runners.container import ContainerIsolation, Engine
from rota.agents.runners.process import ProcessIsolation
from rota.errors import RunnerUnavailable

__all__ = ["Chosen", "Finding", "choose_isolation"]

STRENGTH: Final[tuple[IsolationName, ...]] = ("container", "bubblewrap", "process")
NO_SUCH_PROGRAM: Final = 127
"""How engines say that the image has no such program: they got as far as starting it."""
_PATIENCE: Final = 30.0


@dataclass(frozen=True)
class Finding:
    """What looking for one isolation found: it works, or the reason why not."""

    name: IsolationName
    isolation: Isolation | None
    reason: str


@dataclass(frozen=True)
class Chosen:
    """The isolation that runs will have, and what was found on the way to it."""

    isolation: Isolation
    findings: tuple[Finding, ...]

    @property
    def words(self) -> str:
        """For the log at start: what walls agents have, and why not higher ones."""
        passed = [
            f"{finding.name} ({finding.reason.rstrip('.')})" for finding in self.findings if finding.isolation is None
        ]
        because = f" Stronger, but not usable here: {'; '.join(passed)}." if passed else ""
        return f"Agents run in the isolation {self.isolation.name!r}.{because}"


def choose_isolation(
    *,
    require: IsolationName | None = None,
    needs_walls: bool = False,
    image: str | None = None,
    engine: Engine | None = None,
    options: tuple[str, ...] = (),
) -> Chosen:
    """The strongest isolation that works here; with `require` that one or `RunnerUnavailable` with the reason.

    `needs_walls` never takes the plain process, which is no wall. It really tries: a program that is installed but not
    allowed to do its work is not present.
    """
    looks: dict[IsolationName, Callable[[], Finding]] = {
        "container": lambda: _look_for_container(image, engine, options),
        "bubblewrap": _look_for_bubblewrap,
        "process": lambda: Finding("process", ProcessIsolation(), "always present"),
    }
    if require is not None and require not in looks:
        raise RunnerUnavailable(f"The isolation {require!r} is unknown. Use one of: {', '.join(STRENGTH)}.")
    findings: list[Finding] = []
    for name in _candidates(require, needs_walls):
        finding = looks[name]()
        findings.append(finding)
        if finding.isolation is not None:
            return Chosen(finding.isolation, tuple(findings))
    wanted = f"The isolation {require!r} was asked for" if require is not None else "A sandbox was asked for"
    reasons = " ".join(f"{finding.name}: {finding.reason}" for finding in findings)
    raise RunnerUnavailable(
        f"{wanted} and is not to be had: {reasons} Install it, or set agents.isolation to another one."
    )


def _candidates(require: IsolationName | None, needs_walls: bool) -> tuple[IsolationName, ...]:
    if require is not None:
        return (require,)
    return tuple(name for name in STRENGTH if name != "process" or not needs_walls)


def _look_for_container(image: str | None, engine: Engine | None, options: tuple[str, ...]) -> Finding:
    if image is None:
        return Finding("container", None, "no agents.image is set, and a container needs one.")
    engines = (engine,) if engine is not None else cast("tuple[Engine, ...]", get_args(Engine))
    reasons: list[str] = []
    for name in engines:
        program = shutil.which(name)
        if program is None:
            reasons.append(f"{name} is not installed.")
            continue
        isolation = ContainerIsolation(engine=name, image=image, options=options)
        failed = _failure([program, *options, "image", "inspect", image])
        # To have the image is not to be able to run it: the kernel or the engine's own settings may not allow it.
        failed = failed or _failure(isolation.trial(), fine=(0, NO_SUCH_PROGRAM))
        if failed is None:
            return Finding("container", isolation, f"{name} runs it")
        reasons.append(f"{name}: {failed}")
    return Finding("container", None, " ".join(reasons))


def _look_for_bubblewrap() -> Finding:
    if sys.platform != "linux":
        return Finding("bubblewrap", None, "it exists on Linux only.")
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return Finding("bubblewrap", None, f"{', '.join(missing)} is not installed.")
    user = () if os.geteuid() == 0 else ("--unshare-user",)
    failed = _failure(
        ["bwrap", *user, "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "--", "true"]
    )
    if failed is not None:
        return Finding("bubblewrap", None, f"bwrap may not build a sandbox here: {failed}")
    return Finding("bubblewrap", BubblewrapIsolation(), "it works")


def _failure(argv: Sequence[str], fine: tuple[int, ...] = (0,)) -> str | None:
    """Why a command failed; None if it did not."""
    try:
        done = subprocess.run(  # noqa: S603  # argv is built above, from the configuration alone
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    if done.returncode in fine:
        return None
    lines = done.stderr.strip().splitlines()
    return lines[-1][:300] if lines else f"exit code {done.returncode}"
