"""Where the queues live: each group of peers in an environment of its own below `build/`, made once from its pins."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["ROOT", "EnvironmentAbsent", "node_program", "python_of"]

ROOT: Final = Path(__file__).parent.parent
_BUILD: Final = ROOT / "build" / "peers"
_PINS: Final = ROOT / "bench" / "peers"
OWN: Final = "rota"
"""The environment that this runs in."""


class EnvironmentAbsent(Exception):
    """The programs of a peer cannot be installed here; the message says why."""


def python_of(environment: str) -> Path:
    """The Python of an environment. Raises `EnvironmentAbsent`."""
    if environment == OWN:
        return Path(sys.executable)
    pins = _PINS / ("requirements.txt" if environment == "peers" else f"requirements-{environment}.txt")
    folder = _BUILD / environment
    python = folder / "bin" / "python"
    if not _is_installed(folder, pins):
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", str(pins)])
        _note_installed(folder, pins)
    return python


def node_program(name: str) -> Path:
    """A peer's program beside its packages: Node looks for them where the program lies. Raises `EnvironmentAbsent`."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise EnvironmentAbsent("there is no node here")
    source, folder = _PINS / name, _BUILD / name
    pins = source / "package.json"
    if not _is_installed(folder, pins):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(pins, folder)
        _run(["npm", "install", "--silent", "--no-package-lock", "--no-audit", "--no-fund", "--prefix", str(folder)])
        _note_installed(folder, pins)
    return Path(shutil.copy(source / "peer.mjs", folder))


def _is_installed(folder: Path, pins: Path) -> bool:
    stamp = folder / "installed"
    return stamp.exists() and stamp.read_text() == pins.read_text()


def _note_installed(folder: Path, pins: Path) -> None:
    (folder / "installed").write_text(pins.read_text())


def _run(command: list[str]) -> None:
    print(f"setting up: {' '.join(Path(word).name for word in command)}", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise EnvironmentAbsent(f"{Path(command[0]).name} failed: {said[:200]}")
