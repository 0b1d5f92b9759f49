"""What the alerts' tests are played on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rota import Config, load_config
from rota.alerts import AlertDuty, Alerts, rules_of
from rota.alerts.alert_store import AlertNotice
from rota.alerts.rule_states import RuleState
from rota.alerts.sinks import Sink
from rota.clock import Instant
from rota.core.alert import ENGINE_KINDS
from rota.core.task import NewTask, Settlement, TaskStatus
from rota.core.task import Transition as TaskEvent
from rota.core.task_type import RetryPolicy, TaskType
from rota.database import Database
from rota.stores.base import ClaimRequest, Store, TaskQuery
from rota.testing import FakeClock

__all__ = ["Recorded", "Scene"]


@dataclass
class Recorded:
    """A sink that remembers, and fails for as long as it is told to."""

    seen: list[AlertNotice] = field(default_factory=list[AlertNotice])
    failures: list[Exception] = field(default_factory=list[Exception])

    async def send(self, notice: AlertNotice, now: Instant) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.seen.append(notice)

    @property
    def told(self) -> list[tuple[str, str, str]]:
        return [(one.rule, one.subject, one.change.value) for one in self.seen]


class Scene:
    """A store, a database, a clock, and the alerts over them."""

    def __init__(self, store: Store, database: Database, clock: FakeClock) -> None:
        self.store = store
        self.database = database
        self.clock = clock
        self.alerts = Alerts(database)
        self.sink = Recorded()

    def config(self, rules: Mapping[str, object]) -> Config:
        """Rules that go to the sink `there`, without the built-in ones."""
        section = {"defaults": False, "rules": rules, "sinks": {"there": {"command": ["true"]}}}
        return load_config({"store": "memory://", "alerts": section}, environ={})

    def duty(self, rules: Mapping[str, object], instance: str | None = None, sink: Sink | None = None) -> AlertDuty:
        duty = AlertDuty(self.store, self.database, self.config(rules), clock=self.clock, instance=instance)
        duty.courier.sinks["there"] = sink or self.sink
        return duty

    async def rules(self, rules: Mapping[str, object]) -> list[RuleState]:
        """How the rules stand."""
        return await self.alerts.rules(rules_of(self.config(rules)), ENGINE_KINDS)

    async def purge(self, name: str = "work") -> None:
        """Forget the dead letters."""
        page = await self.store.find(TaskQuery(task_type=name, status=TaskStatus.FAILED))
        await self.store.apply(TaskEvent.PURGE, [task.identity for task in page.items])

    async def add_type(self, name: str = "work", **settings: object) -> None:
        task_type = TaskType(name=name, retry=RetryPolicy(base_ms=0, max_ms=0), **settings)  # pyright: ignore[reportArgumentType] -- tests name real settings
        await self.store.put_types([task_type])

    async def fail(self, *keys: str, name: str = "work") -> None:
        """Dead letters of these keys."""
        await self.store.schedule([NewTask(task_type=name, key=key, user_id=key) for key in keys])
        claim = ClaimRequest(wants=[(name, len(keys))], instance="x", claim_id="c", lease_ms=10_000)
        claimed = await self.store.claim(claim)
        assert len(claimed.tasks) == len(keys)
        await self.store.settle(
            [
                Settlement(task_type=name, key=task.key, token=task.token, transition=TaskEvent.FAIL, reason="error")
                for task in claimed.tasks
            ]
        )
