"""Which isolation an agent gets: the strongest wall that is present and works, and why not a stronger one.

A plain process is no wall: it can reach whatever Rota itself reaches, its token, its database, the store on the
loopback. So nobody gets it but who has written down that it is wanted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast, get_args

from rota.agents.isolation.base import Isolation, IsolationName
from rota.agents.isolation.bubblewrap import NEEDED, BubblewrapIsolation
from rota.agents.isolation.container import ContainerIsolation, Engine
from rota.agents.isolation.process import ProcessIsolation
from rota.errors import RunnerUnavailable

__all__ = ["Chosen", "Finding", "choose_isolation"]

WALLS: Final[tuple[IsolationName, ...]] = ("container", "bubblewrap")
"""What keeps an agent from Rota, the strongest first."""
NO_SUCH_PROGRAM: Final = 127
"""How engines say that the image has no such program: they got as far as starting it."""
_PATIENCE: Final = 30.0
_IMAGE_REMEDY: Final = "set agents.image to an image that docker or podman can run"


@dataclass(frozen=True)
class Finding:
    """What looking for one isolation found: it works, or the reason why not and what would help."""

    name: IsolationName
    isolation: Isolation | None
    reason: str
    remedy: str = ""


@dataclass(frozen=True)
class Chosen:
    """The isolation that runs will have, and what was found on the way to it."""

    isolation: Isolation
    findings: tuple[Finding, ...]

    @property
    def words(self) -> str:
        """For the log at start: what walls agents have, and why not higher ones."""
        if self.isolation.name == "process":
            return "Agents run in the isolation 'process', as it was asked for. It is no wall between them and Rota."
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
    """The strongest wall that works here; with `require` that isolation, or `RunnerUnavailable` with the reason.

    `needs_walls` refuses the plain process also to who requires it. It really tries: a program that is installed but
    not allowed to do its work is not present.
    """
    looks: dict[IsolationName, Callable[[], Finding]] = {
        "container": lambda: _look_for_container(image, engine, options),
        "bubblewrap": _look_for_bubblewrap,
        "process": lambda: _look_for_process(needs_walls),
    }
    if require is not None and require not in looks:
        raise RunnerUnavailable(f"The isolation {require!r} is unknown. Use one of: {', '.join(looks)}.")
    findings: list[Finding] = []
    for name in WALLS if require is None else (require,):
        finding = looks[name]()
        findings.append(finding)
        if finding.isolation is not None:
            return Chosen(finding.isolation, tuple(findings))
    raise RunnerUnavailable(_refusal(require, findings))


def _refusal(require: IsolationName | None, findings: Sequence[Finding]) -> str:
    """What to do comes before what was found, which may be long."""
    reasons = " ".join(f"{finding.name}: {finding.reason}" for finding in findings)
    if require is not None:
        return (
            f"The isolation {require!r} was asked for and is not to be had: {reasons}"
            f" {findings[0].remedy.capitalize()}, or set agents.isolation to another one."
        )
    remedies = ", or ".join(finding.remedy for finding in reversed(findings))
    return (
        f"No agent runs here, because there is no sandbox to keep it from Rota. {remedies.capitalize()}."
        " Or write `agents.isolation: process`: agents may then read and do whatever their user may."
        f" Found: {reasons}"
    )


def _look_for_container(image: str | None, engine: Engine | None, options: tuple[str, ...]) -> Finding:
    if image is None:
        return Finding("container", None, "no agents.image is set, and a container needs one.", _IMAGE_REMEDY)
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
    return Finding("container", None, " ".join(reasons), _IMAGE_REMEDY)


def _look_for_bubblewrap() -> Finding:
    if sys.platform != "linux":
        return Finding("bubblewrap", None, "it exists on Linux only.", "run Rota on Linux with bubblewrap")
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        remedy = "install bubblewrap and util-linux (`apt install bubblewrap`, `dnf install bubblewrap`)"
        return Finding("bubblewrap", None, f"{', '.join(missing)} is not installed.", remedy)
    user = () if os.geteuid() == 0 else ("--unshare-user",)
    failed = _failure(
        ["bwrap", *user, "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "--", "true"]
    )
    if failed is not None:
        remedy = "let bwrap make namespaces (they may be switched off by sysctl, AppArmor or the container around)"
        return Finding("bubblewrap", None, f"bwrap may not build a sandbox here: {failed}", remedy)
    return Finding("bubblewrap", BubblewrapIsolation(), "it works")


def _look_for_process(needs_walls: bool) -> Finding:
    if needs_walls:
        return Finding(
            "process", None, "agents.require is set, and a plain process is no wall.", "unset agents.require"
        )
    return Finding("process", ProcessIsolation(), "always present")


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
