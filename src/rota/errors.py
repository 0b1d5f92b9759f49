"""Every error that Rota raises, as one tree.

    RotaError
    ├── InvalidInput            what a caller handed in cannot be used
    │   ├── InvalidTrigger      a cron expression, an interval or a time that makes no sense
    │   ├── InvalidConfig       a setting that is unknown, impossible or contradicts another
    │   ├── WebhookRefused      a webhook's address is one that Rota does not call
    │   └── LimitExceeded       a limit was passed; the message names it
    ├── UnknownTaskType         no such type is registered with the store
    ├── UnknownTask             no task has this identity
    ├── UnknownRun              no run has this id, or its record is gone
    ├── UnknownFailure          no group of failures has this id, or it is gone
    ├── UnknownToken            no access token has this id
    ├── UnknownGroup            no agent group has this folder
    ├── RunnerUnavailable       an agent cannot be run here, or not in the isolation that was asked for
    ├── NotAllowed              whoever asks may not do this
    ├── CountChanged            not as many tasks match as somebody agreed to
    ├── IllegalTransition       the task is in a state from which this event leads nowhere
    ├── LeaseLost               the token is stale: somebody else owns the task now
    ├── WebhookFailed           a webhook was called and did not take it
    └── StoreError
        ├── StoreUnavailable    the store did not answer; nothing is known about the outcome
        │   └── BusAway         the bus of events did not answer; what was to be sent waits
        ├── DatabaseElsewhere   what is in the store belongs to another database than this instance's
        └── SchemaMismatch      the store was written by another major version

Every message says what happened, where, and what to do. `code` is stable: the API and the CLI print it, and
programs may switch on it.
"""

from __future__ import annotations

__all__ = [
    "BusAway",
    "CountChanged",
    "DatabaseElsewhere",
    "IllegalTransition",
    "InvalidConfig",
    "InvalidInput",
    "InvalidTrigger",
    "LeaseLost",
    "LimitExceeded",
    "NotAllowed",
    "RotaError",
    "RunnerUnavailable",
    "SchemaMismatch",
    "StoreError",
    "StoreUnavailable",
    "UnknownFailure",
    "UnknownGroup",
    "UnknownRun",
    "UnknownTask",
    "UnknownTaskType",
    "UnknownToken",
    "WebhookFailed",
    "WebhookRefused",
]


class RotaError(Exception):
    """Anything that Rota refuses or fails to do."""

    code = "error"
    status: int | None = None
    """The status over HTTP of an error that a part brings; None: `rota.api.problems` knows it by its kind."""
    retry_after: float | None = None
    """Seconds after which another try may have better luck, if anybody knows."""


class InvalidInput(RotaError, ValueError):
    """What a caller handed in cannot be used; nothing was changed. `field` is what of it is wrong, if one thing is."""

    code = "invalid_input"

    def __init__(self, message: str = "", *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidTrigger(InvalidInput):
    """A cron expression, an interval or a time that makes no sense."""

    code = "invalid_trigger"


class InvalidConfig(InvalidInput):
    """A setting that is unknown, impossible or contradicts another."""

    code = "invalid_config"


class LimitExceeded(InvalidInput):
    """A limit was passed; the message names it and its value."""

    code = "limit_exceeded"


class UnknownTaskType(RotaError, LookupError):
    """No type of this name is registered with the store."""

    code = "unknown_task_type"


class UnknownTask(RotaError, LookupError):
    """No task has this identity."""

    code = "unknown_task"


class UnknownRun(RotaError, LookupError):
    """No run has this id, or its record has been pruned."""

    code = "unknown_run"


class UnknownFailure(RotaError, LookupError):
    """No group of failures has this id, or nothing of it was seen for so long that it is gone."""

    code = "unknown_failure"


class UnknownToken(RotaError, LookupError):
    """No access token has this id."""

    code = "unknown_token"


class UnknownGroup(RotaError, LookupError):
    """No agent group has this folder."""

    code = "unknown_group"


class RunnerUnavailable(RotaError):
    """An agent cannot be run here, or not in the isolation that was asked for."""

    code = "runner_unavailable"


class NotAllowed(RotaError):
    """Whoever asks may not do this; the message names the role that may."""

    code = "not_allowed"


class CountChanged(RotaError):
    """Not as many tasks match as somebody agreed to; nothing was changed. `count` is how many do now."""

    code = "count_changed"

    def __init__(self, message: str, count: int) -> None:
        super().__init__(message)
        self.count = count


class IllegalTransition(RotaError):
    """The task is in a state from which this event leads nowhere; nothing was changed."""

    code = "illegal_transition"


class LeaseLost(RotaError):
    """The token is stale: the task was reaped, released or taken over. Nothing was written."""

    code = "lease_lost"


class WebhookRefused(InvalidInput):
    """A webhook's address is one that Rota does not call; nothing was sent."""

    code = "webhook_refused"


class WebhookFailed(RotaError):
    """A webhook was called and did not take it. `is_final`: trying again would lead to the same."""

    code = "webhook_failed"

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class StoreError(RotaError):
    """The store could not do what it was asked."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The store did not answer in time. Whether the call took effect is not known."""

    code = "store_unavailable"


class BusAway(StoreUnavailable):
    """The bus of events cannot be reached, or takes nothing now. What was to be sent waits, however long that takes."""

    code = "bus_away"


class DatabaseElsewhere(StoreError):
    """The tasks of a part in the store belong to another database than this instance's; nothing was changed."""

    code = "database_elsewhere"


class SchemaMismatch(StoreError):
    """The store was written by a version that this one does not understand."""

    code = "schema_mismatch"
