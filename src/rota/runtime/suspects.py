"""Tasks that may have killed their process, one at a time.

A process that dies takes everything with it that runs in it, and all of it is charged with the crash: nobody knows who
was guilty. A task with one crash left is a suspect, and an instance runs one suspect at a time. So the crash that makes
a task poison has one suspect to charge, and the innocent ones get their turn after it, or elsewhere.

Only a claim tells that a task is a suspect. If one runs here already, the others that a claim brings are released, and
not claimed here again while one runs: other instances may take them meanwhile. When it has ended they come back one by
one, so that a hundred of them are not claimed and released a hundred times each.
"""

from __future__ import annotations

from rota.core.lifecycle import SUSPECT_CRASHES
from rota.core.task import Identity, Task
from rota.runtime.executor import Executor

__all__ = ["Suspects"]


class Suspects:
    """The suspects of one instance: whether one runs, and which wait for it to end."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.waiting: dict[Identity, None] = {}
        """What must not be claimed here now, in the order in which it was put back."""

    def let_next_come(self) -> None:
        """Before a claim: the one that has waited longest may be claimed, if none runs."""
        if self.waiting and not self.one_runs():
            del self.waiting[next(iter(self.waiting))]

    def must_wait(self, suspect: Task) -> bool:
        """Whether one that was claimed has to be put back. It is not claimed here again until it is its turn."""
        if not self.one_runs():
            return False
        self.waiting[suspect.identity] = None
        return True

    def one_runs(self) -> bool:
        return any(one.handler is not None and one.task.crashes >= SUSPECT_CRASHES for one in self._executor.running)
