"""The workers of `rota demo`: real processes, one of which is really killed, and none of which outlives the demo."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final

__all__ = ["Crew"]

_PATIENCE: Final = 5.0
"""Seconds that a worker has to stop in by itself."""


class Crew:
    """Worker processes on one store. Leaving the `with` block ends every one of them."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            self._end(worker)

    def start(self) -> None:
        """One more worker. What it logs is kept until the end, for the case that the story breaks."""
        with (self._folder / f"worker-{len(self._workers) + 1}.log").open("wb") as log:
            worker = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", "rota.demo.worker", self._url],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                # Ctrl-C is for the demo, which then ends its workers in good order.
                start_new_session=True,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )
        self._workers.append(worker)

    def kill(self, pid: int) -> None:
        """SIGKILL: no goodbye, no clean-up, as when a machine loses its power."""
        worker = next(worker for worker in self._workers if worker.pid == pid)
        worker.kill()
        worker.wait()

    @property
    def pids(self) -> set[int]:
        """The workers that are alive."""
        return {worker.pid for worker in self._workers if worker.poll() is None}

    def log(self) -> str:
        """The last words of each worker."""
        return "\n".join(
            path.read_text(errors="replace")[-1_000:].strip() for path in sorted(self._folder.glob("worker-*.log"))
        ).strip()

    @staticmethod
    def _end(worker: subprocess.Popen[bytes]) -> None:
        try:
            worker.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        if worker.stdin is not None:
            worker.stdin.close()
