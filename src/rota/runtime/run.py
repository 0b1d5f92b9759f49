"""What a handler can know and say about the run that it is in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Final

import msgspec

from rota.clock import Millis, to_datetime
from rota.codec import to_json
from rota.core.task import Task, Want
from rota.errors import InvalidInput, LimitExceeded
from rota.stores.base import MAX_PROGRESS_BYTES

__all__ = ["Run", "decode_payload"]


class Run:
    """One attempt. A handler gets it by declaring a parameter that is annotated `Run`.

    `progress` may be called and `cancelled` read from any thread.
    """

    __slots__ = ("_report", "_step", "_timeout_ms", "cancelled", "latest_progress", "task")

    def __init__(
        self,
        task: Task,
        timeout_ms: Millis,
        report: Callable[[str], None] | None = None,
        step: Callable[[str], AbstractContextManager[None]] | None = None,
    ) -> None:
        self.task: Final = task
        """The record of the task as it was claimed. It may have been changed since: ask the store."""
        self._timeout_ms = timeout_ms
        self._report = report
        self._step = step
        self.cancelled = False
        """Whether the run was told to stop. A handler in a thread cannot be interrupted: it looks here now and then."""
        self.latest_progress: str | None = None
        """The progress as JSON, as the next renewal of the lease carries it."""

    @property
    def task_type(self) -> str:
        return self.task.task_type

    @property
    def key(self) -> str:
        return self.task.key

    @property
    def user_id(self) -> str | None:
        return self.task.user_id

    @property
    def device_id(self) -> str | None:
        return self.task.device_id

    @property
    def agent_id(self) -> str | None:
        return self.task.agent_id

    @property
    def payload(self) -> object:
        """The payload as plain Python values, decoded anew with every look."""
        return decode_payload(self.task)

    @property
    def attempt(self) -> int:
        """1 for the first try."""
        return self.task.attempt

    @property
    def is_of_paused(self) -> bool:
        """Whether somebody asked for this run of a paused schedule; when it ends, it is paused again."""
        return self.task.want is Want.PAUSE

    @property
    def token(self) -> int:
        """The fence: grows with every claim. Pass it on to whatever must refuse a run that was taken over."""
        return self.task.token

    @property
    def fire_at(self) -> datetime | None:
        """The nominal time that this run stands for, kept by late runs and retries; if asked for, when it was due."""
        return None if self.task.fire_at is None else to_datetime(self.task.fire_at)

    @property
    def scheduled_at(self) -> datetime:
        """When it was due."""
        return to_datetime(self.task.scheduled_at)

    @property
    def timeout_ms(self) -> Millis:
        """How long the run may take. Measured from its start, it needs no clock that agrees with the store's."""
        return self._timeout_ms

    @property
    def deadline(self) -> datetime | None:
        """When the type's timeout ends the run."""
        started_at = self.task.claimed_at
        return None if started_at is None else to_datetime(started_at + self._timeout_ms)

    def progress(self, value: object) -> None:
        """Say how far the run has come: any JSON of at most 4 KiB. Shown from the next renewal on."""
        try:
            encoded = to_json(value)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise InvalidInput(f"The progress of {self.key!r} cannot be written as JSON: {error}.") from None
        if len(encoded) > MAX_PROGRESS_BYTES:
            raise LimitExceeded(
                f"The progress of {self.key!r} has {len(encoded):,} bytes; {MAX_PROGRESS_BYTES:,} is the limit."
            )
        self.latest_progress = encoded.decode()
        if self._report is not None:
            self._report(self.latest_progress)

    def step(self, name: str) -> AbstractContextManager[None]:
        """A named part of the run, as its page shows it: `with run.step("download"): ...`."""
        return nullcontext() if self._step is None else self._step(name)


def decode_payload(task: Task) -> object:
    """The payload as plain Python values; None if there is none."""
    if task.payload is None:
        return None
    try:
        value: object = msgspec.json.decode(task.payload)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"The payload of {task.identity} is no JSON: {error}. Schedule it again.") from None
    return value
