"""Types: what the configuration says, and what an operator has overridden."""

from __future__ import annotations

import pytest

from rota.clock import HOUR, MINUTE
from rota.core.outcome import ScheduleOutcome
from rota.core.task_type import RateLimit, RetryPolicy, TaskType, TriggerMode
from rota.errors import InvalidConfig, UnknownTaskType
from rota.stores.base import Overrides
from rota.testing.conformance.world import WORK, Suite, World

__all__ = ["TestTypes"]


class TestTypes(Suite):
    async def test_every_setting_is_kept(self, world: World) -> None:
        full = TaskType(
            name="full",
            description="Alles, was geht ✓",
            trigger_mode=TriggerMode.CRON,
            cron="0 9 * * 1-5",
            timezone="Europe/Rome",
            interval_ms=HOUR,
            timeout_ms=MINUTE,
            max_retries=7,
            max_wait_ms=2 * HOUR,
            slots="own",
            rate_limit=RateLimit(rate=0.5, burst=3),
            start_limit=RateLimit(rate=2.5, burst=1),
            retry=RetryPolicy(base_ms=1, factor=1.5, max_ms=100),
            grace_ms=5,
            jitter_ms=6,
            concurrency=2,
            version=3,
        )
        plain = TaskType(name="plain")
        put = await world.store.put_types([plain, full])
        assert [record.task_type for record in put] == [plain, full]
        listed = await world.store.list_types()
        assert [record.task_type for record in listed] == [full, plain]

    async def test_the_newer_settings_rule_at_once(self, world: World) -> None:
        await world.type(max_pending=1)
        await world.schedule("a")
        assert (await world.schedule("b")).outcome is ScheduleOutcome.FULL
        await world.type(max_pending=2)
        assert (await world.schedule("b")).outcome is ScheduleOutcome.CREATED

    async def test_an_older_version_never_overwrites_a_newer(self, world: World) -> None:
        newer = await world.type(version=5, priority=9)
        answer = await world.store.put_types([TaskType(name=WORK, version=4, priority=1)])
        assert answer[0].task_type == newer
        assert [record.task_type for record in await world.store.list_types()] == [newer]
        same = TaskType(name=WORK, version=5, priority=2)
        assert (await world.store.put_types([same]))[0].task_type == same

    async def test_an_override_survives_a_restart(self, world: World) -> None:
        await world.type()
        record = await world.store.override_type(WORK, {"enabled": False})
        assert not record.enabled
        again = await world.store.put_types([TaskType(name=WORK, version=1)])
        assert not again[0].enabled
        assert (await world.schedule("k")).outcome is ScheduleOutcome.DISABLED

    async def test_clearing_an_override(self, world: World) -> None:
        await world.type()
        await world.store.override_type(WORK, {"enabled": False})
        assert (await world.store.override_type(WORK, {"enabled": None})).overrides == Overrides()
        assert (await world.schedule("k")).outcome is ScheduleOutcome.CREATED

    async def test_an_override_cannot_switch_on_what_the_configuration_switches_off(self, world: World) -> None:
        await world.type(enabled=False)
        assert not (await world.store.override_type(WORK, {"enabled": True})).enabled

    async def test_an_unknown_type_is_an_error(self, world: World) -> None:
        with pytest.raises(UnknownTaskType, match="nothing_here"):
            await world.store.override_type("nothing_here", {"enabled": False})

    async def test_impossible_settings_are_refused(self, world: World) -> None:
        with pytest.raises(InvalidConfig, match="priority"):
            await world.store.put_types([TaskType(name=WORK), TaskType(name="bad", priority=99)])
        assert await world.store.list_types() == []
