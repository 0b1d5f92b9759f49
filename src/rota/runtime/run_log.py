"""What the log says of runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from rota.core.task import Settlement, Task, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.errors import StoreUnavailable
from rota.logs import get_logger
from rota.runtime.running import Running
from rota.runtime.signals import Signal

__all__ = ["RunLog"]

_FAILURES = (Transition.RETRY, Transition.FAIL)


class RunLog:
    """A line for whatever goes wrong; with debugging on, one for each claim and each end, too."""

    def __init__(self, types: Mapping[str, TaskType]) -> None:
        self._types = types
        self._log = get_logger("rota.executor")
        self._is_verbose = self._log.is_enabled_for(logging.DEBUG)

    def claimed(self, task: Task) -> None:
        if self._is_verbose:
            self._log.debug("claim", **_known(task), attempt=task.attempt)

    def lost(self, task: Task) -> None:
        self._log.warning("lease lost", **_known(task), reason="lost")

    def abandoned(self, running: Running) -> None:
        assert running.cause is not None
        assert running.handler is not None
        self._log.error(
            "handler abandoned", **_known(running.task), reason=running.cause.value, kind=running.handler.kind
        )

    def ended_after_all(self, task: Task) -> None:
        self._log.info("abandoned handler ended", task_type=task.task_type, key=task.key)

    def waits(self, running: Running, error: Exception) -> None:
        """Its outcome was not taken by the store."""
        failures = running.failures
        if failures & (failures - 1) == 0:
            # An outage of hours is worth a line now and then, not two a second for each run.
            raised = {} if isinstance(error, StoreUnavailable) else {"exc_info": error}
            self._log.warning("outcome waits", **_known(running.task), failures=failures, error=str(error), **raised)

    def settled(self, running: Running, status: TaskStatus | None) -> None:
        """What was asked for is not what came of it: a retry with none left is a dead letter."""
        settlement = running.settlement
        assert settlement is not None
        has_failed = settlement.transition in _FAILURES
        if not has_failed and not self._is_verbose:
            return
        write, message = (self._log.warning, "run failed") if has_failed else (self._log.debug, "settle")
        known: dict[str, object] = {
            **_known(running.task),
            "outcome": self._outcome(running.task, settlement, status).value,
            **({} if status is None else {"status": status.value}),
            "reason": settlement.reason,
            "error": settlement.error,
            "duration_ms": settlement.duration_ms,
        }
        if running.error is None or isinstance(running.error, Signal):
            write(message, **known)
            return
        try:
            write(message, **known, exc_info=running.error)
        except BaseException:  # an application's own log may stumble over an exception that cannot be shown
            write(message, **known)

    def _outcome(self, task: Task, settlement: Settlement, status: TaskStatus | None) -> Transition:
        """A retry that nobody makes is a failure: none is left, or somebody wants the task cancelled."""
        if settlement.transition is not Transition.RETRY:
            return settlement.transition
        task_type = self._types.get(task.task_type)
        # Of a series the status does not tell: without a retry it waits as well, for its next fire.
        is_last = task_type is not None and task.errors >= task_type.max_retries
        is_over = status is not None and not status.is_live
        return Transition.FAIL if is_over or (task.is_recurring and is_last) else Transition.RETRY


def _known(task: Task) -> dict[str, object]:
    return {"task_type": task.task_type, "key": task.key, "token": task.token}
