"""The scheduler interface of the documents that Rota was built from, for programs that were written for it.

`rota` itself offers these names, too. What the seeds are, and what they got wrong, is in docs/flaws.md.
"""

from __future__ import annotations

from rota.app.scheduler import (
    RedisClient,
    RedisTaskScheduler,
    TaskScheduler,
    get_scheduler,
    init_scheduler,
    set_scheduler,
)
from rota.app.seeds import ITaskScheduler, TaskHandler
from rota.app.task_info import TaskInfo
from rota.core.task import TaskStatus
from rota.core.task_type import TaskConfig, TriggerMode
from rota.keys import IUserKeyBuilder, UserKeyBuilder, UserKeyConfig

__all__ = [
    "ITaskScheduler",
    "IUserKeyBuilder",
    "RedisClient",
    "RedisTaskScheduler",
    "TaskConfig",
    "TaskHandler",
    "TaskInfo",
    "TaskScheduler",
    "TaskStatus",
    "TriggerMode",
    "UserKeyBuilder",
    "UserKeyConfig",
    "get_scheduler",
    "init_scheduler",
    "set_scheduler",
]
