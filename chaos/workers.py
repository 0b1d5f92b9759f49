"""Real worker processes, started by the command line, ended by signals, never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["Workers"]

ROOT = Path(__file__).parent.parent


class Workers:
    """Worker processes on one store; whatever still runs at the end is killed."""

    def __init__(self, store: str, folder: Path, *, lease: str = "10s") -> None:
        self.log = folder / "oracle.log"
        self._folder = folder
        self._environment = {
            **os.environ,
            "CHAOS_STORE": store,
            "CHAOS_LOG": str(self.log),
            "CHAOS_LEASE": lease,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(self, *, concurrency: int) -> subprocess.Popen[bytes]:
        """One more worker. What it says goes to a file of its own."""
        output = (self._folder / f"worker-{len(self._processes)}.log").open("wb")
        worker = ["worker", "--app", "chaos.app:app", "--concurrency", str(concurrency)]
        with output:
            process = subprocess.Popen(
                [sys.executable, "-m", "rota.cli", *worker],
                env=self._environment,
                # Their spool and their database are files of the working directory: not of the project's.
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._processes.append(process)
        return process

    def said(self) -> str:
        """Everything that the workers have printed, for a failure's message."""
        logs = sorted(self._folder.glob("worker-*.log"))
        return "\n".join(log.read_text(errors="replace")[-2_000:] for log in logs)

    @staticmethod
    def kill(process: subprocess.Popen[bytes]) -> None:
        """SIGKILL: no handler, no goodbye."""
        process.kill()
        process.wait()

    @staticmethod
    def freeze(process: subprocess.Popen[bytes]) -> None:
        """SIGSTOP: as a suspended host or an endless garbage collection would."""
        process.send_signal(signal.SIGSTOP)

    @staticmethod
    def thaw(process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGCONT)
