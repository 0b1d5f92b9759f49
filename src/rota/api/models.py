"""What goes in and out over HTTP, as models: they check requests and make the description of the API precise.

The answers mirror the values of `rota.app.results`; a test holds them to it. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from rota.access import Role
from rota.core.alert import AlertChange
from rota.core.outcome import ScheduleOutcome, TouchOutcome
from rota.core.task import RunStatus, TaskStatus, Want

__all__ = [
    "NO_NUL",
    "AlertEventModel",
    "AlertsModel",
    "AliveModel",
    "AuditModel",
    "BulkAnswer",
    "BulkRequest",
    "CountsModel",
    "DeadLettersRequest",
    "DepthModel",
    "ErasedModel",
    "ErasureModel",
    "FailureModel",
    "FailureShareModel",
    "FailuresAnswer",
    "FailuresModel",
    "FiresModel",
    "FiringModel",
    "IdentityModel",
    "InstanceModel",
    "InstanceViewModel",
    "InstancesModel",
    "LimitsModel",
    "MeModel",
    "MinuteModel",
    "ModeTallyModel",
    "Moment",
    "MonitoringAnswer",
    "MonitoringModel",
    "NewTokenModel",
    "NewTokenRequest",
    "OverviewModel",
    "PageModel",
    "PreviewRequest",
    "ProblemModel",
    "QueueDepthsAnswer",
    "QueueDepthsModel",
    "QueueModel",
    "QueuesModel",
    "RateLimitModel",
    "ReadyModel",
    "ReasonModel",
    "ReceiptModel",
    "RunModel",
    "ScheduleModel",
    "ScheduleRequest",
    "SelectionModel",
    "SwitchesRequest",
    "TaskModel",
    "TaskRequest",
    "TokenModel",
    "TokensModel",
    "TouchAnswer",
    "TouchModel",
    "TouchRequest",
    "TypeModel",
    "TypeTallyModel",
    "TypeViewModel",
    "TypesModel",
    "WaitReasonModel",
    "WaitingModel",
]

T = TypeVar("T")

Moment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""ISO 8601, UTC."""
Json = Annotated[Any, WithJsonSchema({"description": "Any JSON."})]
NO_NUL = r"^[^\x00]*$"
"""No store keeps a NUL character."""
Text = Annotated[str, Field(min_length=1, max_length=255, pattern=NO_NUL)]
TypeName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$", max_length=64)]
Key = Annotated[str, Field(min_length=1, max_length=2_400, pattern=NO_NUL)]
Duration = Annotated[
    str | int | float,
    Field(description='Seconds, or a text like "30m" or "1h30m".', examples=["30m"]),
]
When = Annotated[
    str, Field(max_length=64, description="ISO 8601; without an offset, wall clock in the zone.", examples=["09:30"])
]
Priority = Annotated[int, Field(ge=0, le=10)]
Positive = Annotated[int, Field(ge=1, le=1_000_000)]


class _Answer(BaseModel):
    """What goes out. Fields that are not described are a mistake."""

    model_config = ConfigDict(extra="forbid")


class _Request(BaseModel):
    """What comes in. Unknown names are refused, and so is text where a number belongs."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ReasonModel(_Answer):
    """One thing that is wrong with a request."""

    at: list[str]
    detail: str


class ProblemModel(_Answer):
    """Problem details (RFC 9457). `code` is stable; programs may switch on it."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    instance: str
    errors: list[ReasonModel] | None = None
    matched: int | None = None


class PageModel(_Answer, Generic[T]):
    """One page of a list. A page may hold few items or none and yet have a cursor; only one without is the last."""

    items: list[T]
    cursor: str | None


# --- tasks and runs --------------------------------------------------------------------------------------------------


class IdentityModel(_Request):
    """Which task."""

    type: TypeName
    key: Key


class TaskModel(_Answer):
    """One task as it stands."""

    task_type: str
    key: str
    status: TaskStatus
    scheduled_at: Moment
    created_at: Moment
    updated_at: Moment
    user_id: str | None
    device_id: str | None
    agent_id: str | None
    owner: str | None
    payload: Json
    priority: int
    serial: str | None
    coalesced: int
    last_activity_at: Moment | None
    fire_at: Moment | None
    next_fire: Moment | None
    want: Want
    attempt: int
    errors: int
    crashes: int
    instance: str | None
    lease_until: Moment | None
    finished_at: Moment | None
    reason: str | None
    error: str | None
    result: str | None
    progress: Json


class RunModel(_Answer):
    """One run, or one range of fires that were not run one by one."""

    run_id: str
    task_type: str
    key: str
    user_key: str
    status: RunStatus
    trigger_mode: str
    started_at: Moment
    duration_ms: int
    fire_at: Moment | None
    last_fire_at: Moment | None
    fires: int
    attempt: int
    token: int
    instance: str | None
    user_id: str | None
    reason: str | None
    result: str | None
    error: str | None


class TaskRequest(_Request):
    """A task to be made. Without a key it gets a new one; a `user_id` without a key means the user's own task."""

    type: TypeName
    key: Text | None = None
    payload: Json = None
    at: When | None = None
    delay: Duration | None = None
    priority: Priority | None = None
    serial: Text | None = None
    permits: Positive = 1
    cost: Positive = 1
    user_id: Text | None = None
    device_id: Text | None = None
    agent_id: Text | None = None
    expires: When | None = None
    replace: bool = False
    allow_past: bool = False


class ReceiptModel(_Answer):
    """What asking for a task led to."""

    outcome: ScheduleOutcome
    task_type: str
    key: str
    scheduled_at: Moment


class WaitReasonModel(_Answer):
    """One thing that a task waits for."""

    code: str
    text: str


class WaitingModel(_Answer):
    """Why a task does not run yet."""

    task: TaskModel | None
    state: str
    reasons: list[WaitReasonModel]
    position: int | None
    position_is_more: bool
    estimate_ms: int | None
    due_at: Moment | None
    summary: str


class SelectionModel(_Request):
    """Which tasks. At least one of them narrows the choice."""

    type: TypeName | None = None
    status: TaskStatus | None = Field(default=None, strict=False)
    without: TaskStatus | None = Field(default=None, strict=False)
    user: Text | None = None
    owner: Text | None = None
    search: Text | None = None
    schedules: bool = False


class _Confirmed(_Request):
    dry_run: bool = False
    """Only count."""
    expected: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None
    """How many tasks somebody agreed to. If it is another number now, nothing is changed."""


class BulkRequest(_Confirmed):
    """One event on many tasks: those that are named, or all that match."""

    event: Literal["pause", "resume", "cancel", "run-now", "redrive", "purge"]
    query: SelectionModel | None = None
    identities: Annotated[list[IdentityModel], Field(min_length=1, max_length=1_000)] | None = None


class DeadLettersRequest(_Confirmed):
    """Which dead letters: those that are named, or all that match (`all: true` for every one)."""

    identities: Annotated[list[IdentityModel], Field(min_length=1, max_length=1_000)] | None = None
    type: TypeName | None = None
    user: Text | None = None
    search: Text | None = None
    all: bool = False


class BulkAnswer(_Answer):
    """How many tasks were meant, and what became of them."""

    matched: int
    matched_is_all: bool
    """False: there are more than were counted."""
    changed: int
    refused: int


# --- schedules -------------------------------------------------------------------------------------------------------

Misfire = Literal["latest", "all", "skip"]
Overlap = Literal["skip", "queue"]


class ScheduleModel(_Answer):
    """One schedule."""

    id: str
    task_type: str
    status: TaskStatus
    kind: str
    value: str
    timezone: str
    words: str
    next_fire: Moment | None
    payload: Json
    owner: str | None
    priority: int
    serial: str | None
    misfire: Misfire
    overlap: Overlap
    jitter_ms: int
    grace_ms: int | None
    runs: int
    max_runs: int | None
    expires_at: Moment | None
    created_at: Moment
    updated_at: Moment
    version: int
    reason: str | None
    result: str | None
    error: str | None


class _Trigger(_Request):
    cron: Annotated[str, Field(min_length=1, max_length=256, examples=["0 9 * * 1-5"])] | None = None
    every: Duration | None = None
    at: When | None = None
    tz: Annotated[str, Field(min_length=1, max_length=64, examples=["Europe/Berlin"])] | None = None
    jitter: Duration = 0


class ScheduleRequest(_Trigger):
    """A schedule as it is to be: exactly one of cron, every and at says when."""

    payload: Json = None
    owner: Text | None = None
    misfire: Misfire = "latest"
    overlap: Overlap = "skip"
    grace: Duration | None = None
    max_runs: Positive | None = None
    expires: When | None = None
    priority: Priority | None = None
    serial: Text | None = None


class PreviewRequest(_Trigger):
    """A trigger to be looked at."""

    n: Annotated[int, Field(ge=0, le=100)] = 5


class FiresModel(_Answer):
    """A trigger in words, its next fires in its own zone, and notes on what is not obvious."""

    words: str
    fires: list[Moment]
    notes: list[str]


# --- types and queues ------------------------------------------------------------------------------------------------


class RateLimitModel(_Request):
    """`rate` starts a second over all instances, at most `burst` at once."""

    rate: Annotated[float, Field(gt=0, le=1_000_000, strict=False)]
    burst: Annotated[int, Field(ge=1, le=1_000_000)] = 1


class SwitchesRequest(_Request):
    """An operator's overrides. What is not named stays; null takes one back."""

    enabled: bool | None = None
    frozen: bool | None = None
    draining: bool | None = None
    concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = None
    max_pending: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    rate_limit: RateLimitModel | None = None


class CountsModel(_Answer):
    """How many tasks are in each state, and running totals."""

    pending: int
    running: int
    paused: int
    completed: int
    failed: int
    cancelled: int
    created_total: int
    coalesced_total: int
    succeeded_total: int
    errored_total: int
    lost_total: int


class TypeModel(_Answer):
    """A task type: what is configured, what an operator has overridden, what counts, and who runs it."""

    name: str
    description: str
    trigger_mode: str
    trigger: str
    enabled: bool
    accepts: bool
    runs: bool
    config: dict[str, Json]
    overrides: dict[str, Json]
    effective: dict[str, Json]
    counts: CountsModel
    instances: list[str]
    """The instances that have a handler for it."""


class TypesModel(_Answer):
    """Every type that the store knows."""

    items: list[TypeModel]


class LimitsModel(_Answer):
    """What bounds a queue."""

    max_pending: int
    concurrency: int | None
    rate_limit: dict[str, float] | None


class QueueModel(_Answer):
    """The queue of one type."""

    type: str
    depth: int
    running: int
    oldest_due_at: Moment | None
    late_ms: int
    """For how long the first one has been due; 0 if none is."""
    state: Literal["on", "off", "frozen", "draining"]
    limits: LimitsModel
    handlers: int
    """How many instances can run it."""


class QueuesModel(_Answer):
    """Every queue."""

    items: list[QueueModel]


class InstanceModel(_Answer):
    """One process at work on the store."""

    instance: str
    host: str
    pid: int
    started_at: Moment
    seen_at: Moment
    is_alive: bool
    running: int
    types: list[str]
    lease_ms: int


class InstancesModel(_Answer):
    """Every instance that has ticked and not said goodbye."""

    items: list[InstanceModel]


# --- activity --------------------------------------------------------------------------------------------------------


class TouchRequest(_Request):
    """A user was active. `type` or `types` says which upkeep that concerns."""

    user_id: Text
    device_id: Text | None = None
    agent_id: Text | None = None
    type: TypeName | None = None
    types: Annotated[list[TypeName], Field(min_length=1, max_length=50)] | None = None


class TouchModel(_Answer):
    """What an activity led to."""

    outcome: TouchOutcome
    scheduled_at: Moment | None
    coalesced: int


class TouchAnswer(_Answer):
    """What an activity led to, per type."""

    types: dict[str, TouchModel]


# --- people ----------------------------------------------------------------------------------------------------------


class ErasureModel(_Answer):
    """The removal of what is known of a user."""

    user_id: str
    asked_at: Moment
    tasks: int
    runs: int
    running: int
    done_at: Moment | None


class ErasedModel(ErasureModel):
    """The same, and how many contexts of the user's memory are gone: that goes at once."""

    contexts: int


class TokenModel(_Answer):
    """An access token without its secret."""

    id: str
    name: str
    role: Role
    scope: dict[str, Json]
    created_at: Moment
    created_by: str
    expires_at: Moment | None
    last_used_at: Moment | None
    revoked_at: Moment | None


class TokensModel(_Answer):
    """Every token, revoked ones too."""

    items: list[TokenModel]


class NewTokenRequest(_Request):
    """A token to be made."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]
    role: Role = Field(strict=False)
    expires: When | None = None


class NewTokenModel(_Answer):
    """A token that was just made. The secret is shown now and never again."""

    token: TokenModel
    secret: str


class AuditModel(_Answer):
    """One action: who did what to what."""

    id: int
    at: Moment
    actor: str
    role: str
    via: str
    action: str
    target: str
    outcome: str | None
    before: str | None
    after: str | None


class MeModel(_Answer):
    """Whoever asks."""

    id: str
    name: str
    role: Role
    via: str


class FiringModel(_Answer):
    """A rule that fires now, for a type or an instance."""

    rule: str
    subject: str
    since_at: Moment
    seen_at: Moment
    value: str
    summary: str
    is_clearing: bool


class AlertEventModel(_Answer):
    """A rule began to fire, or was resolved; and what became of telling so."""

    id: int
    at: Moment
    rule: str
    subject: str
    state: AlertChange
    value: str
    summary: str
    delivered: dict[str, dict[str, Json]]


class AlertsModel(_Answer):
    """What fires now, and a page of what fired before."""

    firing: list[FiringModel]
    history: list[AlertEventModel]
    cursor: str | None


class AliveModel(_Answer):
    """The process answers."""

    status: Literal["ok"]


class ReadyModel(_Answer):
    """Whether this process can do its work, and if not, why."""

    status: Literal["ok", "not_ready"]
    store: Literal["ok", "away"]
    can_claim: bool | None
    """None: this process serves, and runs no worker."""
    reasons: list[str]
    seconds_since_good: dict[str, float | None]
    running: int
    spooled: int


# --- at one look -----------------------------------------------------------------------------------------------------


class MinuteModel(_Answer):
    """What ran in one minute."""

    start_at: Moment
    success: int
    failed: int
    set_aside: int
    late_p50_ms: int | None
    late_p99_ms: int | None


class TypeViewModel(_Answer):
    """One type: how it stands, and how it did."""

    task_type: str
    description: str
    trigger_mode: str
    state: str
    pending: int
    running: int
    paused: int
    failed: int
    max_pending: int
    next_due_at: Moment | None
    oldest_pending_ms: int
    runs: int
    failures: int
    failure_rate: float
    late_p50_ms: int | None
    late_p99_ms: int | None
    took_average_ms: int | None


class InstanceViewModel(_Answer):
    """One instance at work."""

    instance: str
    host: str
    pid: int
    types: list[str]
    running: int
    started_at: Moment
    seen_at: Moment
    silent_ms: int
    is_silent: bool


class OverviewModel(_Answer):
    """Everything at one moment, with the last minutes."""

    now: Moment
    minutes: int
    runs: int
    failures: int
    runs_per_second: float
    late_p50_ms: int | None
    late_p99_ms: int | None
    counts: dict[str, int]
    reasons: dict[str, int]
    per_minute: list[MinuteModel]
    types: list[TypeViewModel]
    instances: list[InstanceViewModel]


# --- the seeds' monitoring -------------------------------------------------------------------------------------------


class FailureModel(_Answer):
    """One run that failed."""

    task_type: str
    user_key: str
    error_message: str | None
    duration_ms: int
    timestamp: Moment


class ModeTallyModel(_Answer):
    """How runs ended."""

    count: int
    success_count: int
    failure_count: int


class TypeTallyModel(ModeTallyModel):
    """How runs of a type ended, and how long they took."""

    avg_duration_ms: float | None
    max_duration_ms: int | None
    min_duration_ms: int | None


class MonitoringModel(_Answer):
    """What ran."""

    total_executions: int
    by_task_type: dict[str, TypeTallyModel]
    by_trigger_mode: dict[str, ModeTallyModel]
    recent_failures: list[FailureModel]


class MonitoringAnswer(_Answer):
    """What ran, as the seeds answer."""

    success: Literal[True]
    data: MonitoringModel


class DepthModel(_Answer):
    """How many wait, and whether the type is on."""

    depth: int
    enabled: bool


class QueueDepthsModel(_Answer):
    """Every queue."""

    queues: dict[str, DepthModel]


class QueueDepthsAnswer(_Answer):
    """Every queue, as the seeds answer."""

    success: Literal[True]
    data: QueueDepthsModel


class FailureShareModel(_Answer):
    """How much of a type failed."""

    total: int
    failures: int
    failure_rate: float


class FailuresModel(_Answer):
    """How much failed."""

    time_range_hours: int
    total_executions: int
    by_task_type: dict[str, FailureShareModel]
    recent_failures: list[FailureModel]


class FailuresAnswer(_Answer):
    """How much failed, as the seeds answer."""

    success: Literal[True]
    data: FailuresModel
