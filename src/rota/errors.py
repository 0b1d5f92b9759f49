"""Every error that Rota raises, as one tree.

    RotaError
    ├── InvalidInput            what a caller handed in cannot be used
    │   ├── InvalidTrigger      a cron expression, an interval or a time that makes no sense
    │   ├── InvalidConfig       a setting that is unknown, impossible or contradicts another
    │   └── LimitExceeded       a limit was passed; the message names it
    ├── UnknownTaskType         no such type is registered with the store
    ├── UnknownTask             no task has this identity
    ├── IllegalTransition       the task is in a state from which this event leads nowhere
    ├── LeaseLost               the token is stale: somebody else owns the task now
    └── StoreError
        ├── StoreUnavailable    the store did not answer; nothing is known about the outcome
        └── SchemaMismatch      the store was written by another major version

Every message says what happened, where, and what to do. `code` is stable: the API and the CLI print it, and
programs may switch on it.
"""

from __future__ import annotations

__all__ = [
    "IllegalTransition",
    "InvalidConfig",
    "InvalidInput",
    "InvalidTrigger",
    "LeaseLost",
    "LimitExceeded",
    "RotaError",
    "SchemaMismatch",
    "StoreError",
    "StoreUnavailable",
    "UnknownTask",
    "UnknownTaskType",
]


class RotaError(Exception):
    """Anything that Rota refuses or fails to do."""

    code = "error"


class InvalidInput(RotaError, ValueError):
    """What a caller handed in cannot be used; nothing was changed."""

    code = "invalid_input"


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


class IllegalTransition(RotaError):
    """The task is in a state from which this event leads nowhere; nothing was changed."""

    code = "illegal_transition"


class LeaseLost(RotaError):
    """The token is stale: the task was reaped, released or taken over. Nothing was written."""

    code = "lease_lost"


class StoreError(RotaError):
    """The store could not do what it was asked."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The store did not answer in time. Whether the call took effect is not known."""

    code = "store_unavailable"


class SchemaMismatch(StoreError):
    """The store was written by a version that this one does not understand."""

    code = "schema_mismatch"
