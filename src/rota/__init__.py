"""Rota: the background scheduler for AI applications. Upkeep, scheduled agents and batches on one engine.

A name is imported when it is first used, so that `import rota` costs next to nothing.
"""

from __future__ import annotations

from rota.lazy import lazy

__version__ = "0.1.0"

# Type checkers read the same names in `__init__.pyi`.
_HOMES = {
    "rota.api.service": ("Service",),
    "rota.app.failures": ("FailureInfo",),
    "rota.app.results": (
        "Receipt",
        "RunInfo",
        "ScheduleInfo",
        "TaskDetails",
        "Touch",
        "Waiting",
    ),
    "rota.app.rota": (
        "Rota",
        "ScheduleOptions",
        "TaskHandle",
        "TypeSettings",
    ),
    "rota.app.scheduler": (
        "RedisClient",
        "RedisTaskScheduler",
        "TaskScheduler",
        "get_scheduler",
        "init_scheduler",
        "set_scheduler",
    ),
    "rota.app.schedules": (
        "ScheduleSettings",
        "Schedules",
    ),
    "rota.app.seeds": (
        "ITaskScheduler",
        "TaskHandler",
    ),
    "rota.app.settings": ("load_config",),
    "rota.app.sync": (
        "SyncRota",
        "SyncTask",
    ),
    "rota.app.task_info": ("TaskInfo",),
    "rota.app.tasks": (
        "Tasks",
        "UserIds",
    ),
    "rota.batches.batch": (
        "Batch",
        "BatchStatus",
    ),
    "rota.batches.generators.base": (
        "Generated",
        "GenerationRequest",
        "Item",
    ),
    "rota.batches.service": (
        "BatchHandle",
        "BatchResult",
        "Batches",
    ),
    "rota.batches.sync": (
        "SyncBatch",
        "SyncBatches",
    ),
    "rota.clock": ("Clock",),
    "rota.config": (
        "Config",
        "Section",
    ),
    "rota.core.alert": (
        "AlertKind",
        "AlertRule",
        "AlertSink",
        "AlertUnit",
    ),
    "rota.core.outcome": (
        "ScheduleOutcome",
        "TouchOutcome",
    ),
    "rota.core.run_details": ("RunDetails",),
    "rota.core.task": (
        "RunStatus",
        "TaskStatus",
        "Want",
    ),
    "rota.core.task_type": (
        "RateLimit",
        "RetryPolicy",
        "TaskConfig",
        "TaskType",
        "TriggerMode",
    ),
    "rota.core.waiting": ("Reason",),
    "rota.dashboard.part": ("Pages",),
    "rota.database": ("Database",),
    "rota.errors": (
        "BusAway",
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
    "rota.events.consumer": ("Effect",),
    "rota.events.delivery": (
        "Later",
        "NonRetriable",
    ),
    "rota.events.envelope": ("Event",),
    "rota.events.events": ("Events",),
    "rota.events.handles": ("Handles",),
    "rota.events.outbox": ("Outbox",),
    "rota.keys": (
        "IUserKeyBuilder",
        "UserKeyBuilder",
        "UserKeyConfig",
    ),
    "rota.part": (
        "AgentTool",
        "AlertContext",
        "Attention",
        "CheckResult",
        "HasHost",
        "Measured",
        "MeasuredKind",
        "Part",
        "PartHost",
        "Related",
    ),
    "rota.runtime": (
        "Discard",
        "Fail",
        "Health",
        "Retry",
        "Run",
        "Snooze",
    ),
    "rota.runtime.database_owner": ("DatabaseOwnership",),
    "rota.runtime.duty": (
        "Duty",
        "DutyContext",
    ),
    "rota.stores.base": (
        "Counts",
        "Instance",
        "Page",
        "RunSort",
        "Store",
        "TaskSort",
        "TypeRecord",
    ),
    "rota.triggers": ("Explanation",),
}

__all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
