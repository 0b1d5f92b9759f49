"""Rota: the background scheduler for AI applications. Upkeep, scheduled agents and batches on one engine.

A name is imported when it is first used, so that `import rota` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.lazy import lazy

if TYPE_CHECKING:
    from rota.app.results import Receipt, RunInfo, ScheduleInfo, TaskDetails, Touch
    from rota.app.rota import Rota, TaskHandle
    from rota.app.scheduler import (
        RedisTaskScheduler,
        TaskScheduler,
        get_scheduler,
        init_scheduler,
        set_scheduler,
    )
    from rota.app.seeds import ITaskScheduler, TaskHandler
    from rota.app.settings import load_config
    from rota.app.task_info import TaskInfo
    from rota.config import Config
    from rota.core.outcome import TouchOutcome
    from rota.core.task import TaskStatus
    from rota.core.task_type import RateLimit, RetryPolicy, TaskConfig, TaskType, TriggerMode
    from rota.errors import (
        IllegalTransition,
        InvalidConfig,
        InvalidInput,
        InvalidTrigger,
        LeaseLost,
        LimitExceeded,
        RotaError,
        StoreError,
        StoreUnavailable,
        UnknownTask,
        UnknownTaskType,
    )
    from rota.keys import IUserKeyBuilder, UserKeyBuilder, UserKeyConfig
    from rota.runtime import Discard, Health, Retry, Run, Snooze
    from rota.triggers import Explanation

__version__ = "0.1.0"

__all__ = [
    "Config",
    "Discard",
    "Explanation",
    "Health",
    "ITaskScheduler",
    "IUserKeyBuilder",
    "IllegalTransition",
    "InvalidConfig",
    "InvalidInput",
    "InvalidTrigger",
    "LeaseLost",
    "LimitExceeded",
    "RateLimit",
    "Receipt",
    "RedisTaskScheduler",
    "Retry",
    "RetryPolicy",
    "Rota",
    "RotaError",
    "Run",
    "RunInfo",
    "ScheduleInfo",
    "Snooze",
    "StoreError",
    "StoreUnavailable",
    "TaskConfig",
    "TaskDetails",
    "TaskHandle",
    "TaskHandler",
    "TaskInfo",
    "TaskScheduler",
    "TaskStatus",
    "TaskType",
    "Touch",
    "TouchOutcome",
    "TriggerMode",
    "UnknownTask",
    "UnknownTaskType",
    "UserKeyBuilder",
    "UserKeyConfig",
    "get_scheduler",
    "init_scheduler",
    "load_config",
    "set_scheduler",
]

_HOMES = {
    "rota.app.results": (
        "Receipt",
        "RunInfo",
        "ScheduleInfo",
        "TaskDetails",
        "Touch",
    ),
    "rota.app.rota": (
        "Rota",
        "TaskHandle",
    ),
    "rota.app.settings": ("load_config",),
    "rota.config": ("Config",),
    "rota.core.outcome": ("TouchOutcome",),
    "rota.core.task": ("TaskStatus",),
    "rota.core.task_type": (
        "RateLimit",
        "RetryPolicy",
        "TaskConfig",
        "TaskType",
        "TriggerMode",
    ),
    "rota.errors": (
        "IllegalTransition",
        "InvalidConfig",
        "InvalidInput",
        "InvalidTrigger",
        "LeaseLost",
        "LimitExceeded",
        "RotaError",
        "StoreError",
        "StoreUnavailable",
        "UnknownTask",
        "UnknownTaskType",
    ),
    "rota.keys": (
        "IUserKeyBuilder",
        "UserKeyBuilder",
        "UserKeyConfig",
    ),
    "rota.runtime": (
        "Discard",
        "Health",
        "Retry",
        "Run",
        "Snooze",
    ),
    "rota.app.scheduler": (
        "RedisTaskScheduler",
        "TaskScheduler",
        "get_scheduler",
        "init_scheduler",
        "set_scheduler",
    ),
    "rota.app.seeds": (
        "ITaskScheduler",
        "TaskHandler",
    ),
    "rota.app.task_info": ("TaskInfo",),
    "rota.triggers": ("Explanation",),
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
