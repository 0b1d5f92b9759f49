"""What batches count and keep: metrics, alerts, and what a user is told and rid of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from tests.batches.scene import Scene, World, names, opened_scene

from rota import Rota
from rota.alerts import kinds_of, rules_of
from rota.batches import Generated, GenerationRequest
from rota.batches.alert_kinds import ALERT_KINDS
from rota.batches.figures import quantile
from rota.clock import DAY, HOUR, MINUTE
from rota.core.alert import AlertRule
from rota.llm import LlmUnavailable, Usage
from rota.part import AlertContext


async def _sampled(scene: Scene) -> dict[tuple[str, tuple[str, ...]], float]:
    found: dict[tuple[str, tuple[str, ...]], float] = {}
    for family in await scene.part.metrics():
        for sample in family.samples:
            found[sample.name, tuple(sample.labels.values())] = sample.value
    return found


async def test_metrics_say_what_was_made(file_world: World) -> None:
    """D54, D55: every figure has somebody who counts it, and two apps count apart."""

    async def fails_once(request: GenerationRequest) -> Generated:
        if len(scene.maker.calls) == 1:
            raise LlmUnavailable("It answered 500.")
        return Generated(names(request.count), Usage(10, 20))

    async with opened_scene(file_world, fails_once) as scene:
        waiting = await scene.start(5, priority=7)
        assert (await _sampled(scene))["batch_queue_size", ("7",)] == 1
        scene.run()
        await scene.until_over(waiting)
        found = await _sampled(scene)
        assert found["batch_tasks_total", ("location_name", "success")] == 1
        assert found["batch_tasks_total", ("location_name", "error")] == 1
        assert found["batch_task_duration_seconds_count", ("location_name",)] == 2
        assert found["batch_first_response_seconds_count", ("location_name",)] == 1
        assert found["rota_batch_complete_seconds_count", ("location_name", "completed")] == 1
        assert found["rota_batch_items_total", ("kept",)] == 5
        assert (found["rota_batch_tokens_total", ("in",)], found["rota_batch_tokens_total", ("out",)]) == (10, 20)
        assert found["rota_provider_concurrency", ()] == 32
        assert found["rota_provider_throttled_total", ()] == 0
        assert not any(name == "batch_queue_size" for name, _ in found)


async def _measured(scene: Scene, kind: str, **rule: Any) -> float:
    (wanted,) = [one for one in ALERT_KINDS if one.name == kind]
    rules = [AlertRule(name="r", kind=kind, window_ms=HOUR, at_least=rule.get("at_least", 1))]
    context = AlertContext(await scene.app.store(), await scene.app.database(), rules)
    (measured,) = await wanted.measure(context)
    assert measured.rule == "r"
    return measured.amount


async def test_alerts_look_at_what_batches_promise(file_world: World) -> None:
    async def first_never(request: GenerationRequest) -> Generated:
        if request.index == 0 or len(scene.maker.calls) < 4:
            raise LlmUnavailable("It answered 500.")
        return Generated(names(request.count))

    async with opened_scene(file_world, first_never, tasks={"max_retries": 3}) as scene:
        assert await _measured(scene, "batch_failures") == 0
        assert await _measured(scene, "batch_retry_success") == 1
        handle = await scene.start(20)
        scene.run()
        await scene.until_over(handle)
        assert await _measured(scene, "batch_failures") == 0.5
        assert await _measured(scene, "batch_failures", at_least=3) == 0
        assert 0 < await _measured(scene, "batch_retry_success") < 1 or len(scene.maker.calls) > 4
        assert await _measured(scene, "batch_first_response") > 0


async def test_a_user_is_told_all_and_rid_of_all(world: World) -> None:
    async with opened_scene(world) as scene:
        mine, other = await scene.start(5, user_id="u1"), await scene.start(5, user_id="u2")
        scene.run()
        await scene.until_over(mine, other)
        told = [kept async for kept in scene.part.export_user("u1")]
        assert [one["kind"] for one in told] == ["batch", *["batch_item"] * 5]
        assert told[0]["id"] == mine.id
        assert await scene.part.erase_user("u1") == {"batches": 1}
        assert await scene.part.erase_user("u1") == {}
        assert [batch.id for batch in (await scene.batches.list()).items] == [other.id]


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile([], 0.95) == 0
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([float(n) for n in range(100)], 0.95) == 95.0


def test_the_rules_of_the_manual_can_be_used() -> None:
    """Success, retries, dead letters in a day, first responses: one rule each."""
    manual = (Path(__file__).parents[2] / "docs" / "batches.md").read_text(encoding="utf-8")
    (told,) = [block for block in manual.split("```yaml\n") if block.startswith("alerts:")]
    app = Rota({"store": "memory://", **yaml.safe_load(told.partition("```")[0])})
    assert app.config.problems() == []
    rules = rules_of(app.config, kinds_of(app.host.parts.values()))
    found = {
        name: (rule.kind, rule.limit, rule.window_ms) for name, rule in rules.items() if name.startswith("batches_")
    }
    assert found == {
        "batches_succeed": ("batch_failures", 0.01, HOUR),
        "batches_recover": ("batch_retry_success", 0.95, HOUR),
        "batches_leave_nothing": ("batch_failures", 0.001, DAY),
        "batches_begin_at_once": ("batch_first_response", 2.0, 15 * MINUTE),
    }
