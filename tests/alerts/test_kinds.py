"""Kinds are an open set: a part brings its own, and rules, faces and refusals follow from what there is."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from letterbox import Letterbox, empty, kind, post
from scene import Scene
from tests.dashboard.stage import staged

from rota import Config, Rota, load_config
from rota.access import Role
from rota.alerts import AlertDuty, Alerts, kinds_of, rules_of
from rota.alerts.section import AlertsConfig
from rota.batches.alert_kinds import ALERT_KINDS
from rota.core.alert import BUILT_IN, ENGINE_KINDS, AlertRule, AlertUnit
from rota.errors import InvalidConfig
from rota.part import AlertContext, Measured, MeasuredKind, Part
from rota.testing import until

REPOSITORY = Path(__file__).parents[2]
OLD = {"old": {"kind": "letter_age", "for": "0s", "to": ["there"]}}


def duty_of(scene: Scene, rules: Mapping[str, object], *parts: Part) -> AlertDuty:
    section = {"defaults": False, "rules": rules, "sinks": {"there": {"command": ["true"]}}}
    own = [one for part in parts for one in part.alert_kinds()]
    config = load_config({"store": "memory://", "alerts": section}, environ={}, alert_kinds=own)
    duty = AlertDuty(scene.store, scene.database, config, clock=scene.clock, kinds=kinds_of(parts))
    duty.courier.sinks["there"] = scene.sink
    return duty


# --- measured --------------------------------------------------------------------------------------------------------


async def test_a_rule_of_a_parts_kind_fires_and_is_resolved_like_any_other(scene: Scene) -> None:
    await post(scene.database, scene.clock.now())
    duty = duty_of(scene, OLD, Letterbox())
    await duty.run_once()
    assert scene.sink.told == []
    scene.clock.advance("90s")
    await duty.run_once()
    (firing,) = await scene.alerts.firing()
    assert (firing.rule, firing.subject, firing.value) == ("old", "letterbox", "1m30s")
    assert firing.summary == "The oldest letter in the letterbox has waited for 1m30s; the limit is 1m."
    await empty(scene.database)
    await duty.run_once()
    assert scene.sink.told == [("old", "letterbox", "firing"), ("old", "letterbox", "resolved")]


async def test_its_own_threshold_counts_and_the_engines_rules_stand_beside_it(scene: Scene) -> None:
    await scene.add_type()
    await scene.fail("u1")
    await post(scene.database, scene.clock.now() - 90_000)
    rules = {
        "patient": {"kind": "letter_age", "threshold": "2m", "for": "0s", "to": ["there"]},
        "hasty": {"kind": "letter_age", "threshold": "30s", "for": "0s", "to": ["there"]},
        "dead": {"kind": "dead_letters", "for": "0s", "to": ["there"]},
    }
    await duty_of(scene, rules, Letterbox()).run_once()
    assert sorted(scene.sink.told) == [("dead", "work", "firing"), ("hasty", "letterbox", "firing")]


async def test_a_kind_may_be_about_types_about_rules_and_about_too_little(scene: Scene) -> None:
    async def by_type(context: AlertContext) -> list[Measured]:
        return [Measured("work", 3), Measured("other", 3), Measured("work", 4)]

    async def by_rule(context: AlertContext) -> list[Measured]:
        return [Measured("all", rule.window_ms / 60_000, rule.name) for rule in context.rules]

    kinds = (
        kind("typed", by_type, takes_type=True),
        kind("windowed", by_rule, usual=10, words="{subject}: {value} within {window}."),
        kind("scarce", by_type, usual=4, fires_below=True),
    )
    rules: dict[str, dict[str, object]] = {
        "one_type": {"kind": "typed", "type": "work"},
        "short": {"kind": "windowed", "window": "5m"},
        "long": {"kind": "windowed", "window": "15m"},
        "little": {"kind": "scarce"},
    }
    for rule in rules.values():
        rule.update({"for": "0s", "to": ["there"]})
    await duty_of(scene, rules, Letterbox(*kinds)).run_once()
    assert {(one.rule, one.subject): one.summary for one in await scene.alerts.firing()} == {
        ("one_type", "work"): "4 of work.",
        ("long", "all"): "all: 15 within 15m.",
        ("little", "other"): "3 of other.",
    }


async def hang(context: AlertContext) -> list[Measured]:
    await asyncio.sleep(600)
    return []


async def fail(context: AlertContext) -> list[Measured]:
    raise OSError("the letterbox is locked")


async def say_nonsense(context: AlertContext) -> list[Measured]:
    return [Measured("x", float("nan"))]


@pytest.mark.parametrize(
    ("broken", "says"), [(fail, "locked"), (hang, "'letter_age' took over 0.02 s"), (say_nonsense, "NaN")]
)
async def test_one_that_cannot_be_measured_stays_as_it_is_and_stops_nobody_else(
    scene: Scene, broken: Any, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.add_type()
    await post(scene.database, scene.clock.now() - 90_000)
    rules = {**OLD, "dead": {"kind": "dead_letters", "for": "0s", "to": ["there"]}}
    duty = duty_of(scene, rules, Letterbox())
    await duty.run_once()
    assert scene.sink.told == [("old", "letterbox", "firing")]

    unwell = kind("letter_age", broken, unit=AlertUnit.SECONDS)
    duty.watch._kinds = {**ENGINE_KINDS, "letter_age": unwell}  # pyright: ignore[reportPrivateUsage]
    if broken is hang:
        duty.watch._check_ms = 10  # pyright: ignore[reportPrivateUsage]
    await scene.fail("u1")
    for _ in range(3):
        scene.clock.advance("10m")
        await duty.run_once()
    assert scene.sink.told[1:] == [("dead", "work", "firing")]
    assert len(await scene.alerts.firing()) == 2, "nobody knows that it is over"
    (reason,) = duty.pulse.reasons()
    assert reason.startswith("The alert kind letter_age fails.")
    assert says in reason
    assert caplog.text.count("alert kind not measured") == 2, "after one and after two, and more rarely from then on"

    duty.watch._kinds, duty.watch._check_ms = kinds_of([Letterbox()]), 15_000  # pyright: ignore[reportPrivateUsage]
    await empty(scene.database)
    await duty.run_once()
    assert scene.sink.told[2:] == [("old", "letterbox", "resolved")]
    assert duty.pulse.reasons() == []


# --- at work, on every face ------------------------------------------------------------------------------------------

EVENT_KINDS = ("outbox_lag", "event_dead_letters")
BATCH_KINDS = tuple(one.name for one in ALERT_KINDS)
RULES = """
alerts:
  check_interval: 1s
  defaults: false
  rules:
    old: {kind: letter_age, threshold: 5s, for: 0s}
"""


async def test_it_fires_beside_a_worker_and_is_shown(tmp_path: Path, sqlite_url: str) -> None:
    (tmp_path / "rota.yaml").write_text(RULES)
    app = Rota(tmp_path / "rota.yaml", store=sqlite_url, parts=[Letterbox()])
    async with app:
        database = await app.database()
        await post(database, await (await app.store()).now() - 90_000)
        async with staged(app) as stage:
            await until(Alerts(database).count, "it fires")
            assert app.health().ok, app.health().reasons
            async with stage.client(Role.VIEWER) as client:
                (firing,) = (await client.get(f"{stage.url}/api/alerts")).json()["firing"]
                kinds = (await client.get(f"{stage.url}/api/alerts/kinds")).json()["items"]
                await client.get(stage.login(Role.VIEWER), follow_redirects=True)
                page = (await client.get(f"{stage.url}/alerts")).text
    assert (firing["rule"], firing["subject"]) == ("old", "letterbox")
    assert [one["kind"] for one in kinds] == [*ENGINE_KINDS, *EVENT_KINDS, *BATCH_KINDS, "letter_age"]
    assert kinds[-1] == {
        "kind": "letter_age",
        "about": "how long the oldest letter has been waiting",
        "threshold": "1m",
        "unit": "seconds",
        "takes_type": False,
    }
    assert "The oldest letter in the letterbox has waited for" in page
    assert "how long the oldest letter has been waiting" in page


def rota(folder: Path, *arguments: str, app: str = "project:app") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(REPOSITORY / "src"), str(REPOSITORY / "tests" / "alerts")))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    environ = {**environ, "PYTHONPATH": path, "ROTA_APP": app, "COLUMNS": "200"}
    command = [sys.executable, "-m", "rota.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environ, cwd=folder)


async def fires_once(folder: Path) -> None:
    app = Rota(folder / "rota.yaml", store=f"sqlite:///{folder}/rota.db", parts=[Letterbox()])
    async with app:
        database = await app.database()
        await post(database, await (await app.store()).now() - 90_000)
        duty = AlertDuty(
            await app.store(), database, app.config, clock=app.host.clock, kinds=kinds_of(app.host.parts.values())
        )
        await duty.watch.run_once()


def test_the_command_line_knows_it_through_the_app(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text(RULES)
    (tmp_path / "project.py").write_text(
        "from letterbox import Letterbox\nfrom rota import Rota\napp = Rota(parts=[Letterbox()])\n"
    )
    asyncio.run(fires_once(tmp_path))
    listed = rota(tmp_path, "alert", "ls", "--json")
    assert listed.returncode == 0, listed.stderr
    assert [one["rule"] for one in json.loads(listed.stdout)["items"]] == ["old"]
    assert "how long the oldest letter has been waiting" in rota(tmp_path, "alert", "kinds").stdout

    (tmp_path / "plain.py").write_text("from rota import Rota\napp = Rota()\n")
    commands = ("alert ls", "up --port 0", "worker --app plain:app", "config show")
    for command in map(str.split, commands):
        without = rota(tmp_path, *command, app="")
        assert without.returncode == 2, without.stderr
        assert "alerts.rules.old.kind is 'letter_age' (file rota.yaml:6). " in without.stderr
        assert "ROTA_APP" in without.stderr
    assert rota(tmp_path, "alert", "kinds", app="").returncode == 0, "what there is can be asked for at any time"


# --- refused ---------------------------------------------------------------------------------------------------------


def refusal(rule: Mapping[str, object], *parts: Part) -> str:
    with pytest.raises(InvalidConfig) as caught:
        Rota({"store": "memory://", "alerts": {"rules": {"r": rule}}}, parts=parts)
    return str(caught.value)


def test_an_unknown_kind_is_refused_with_those_that_are_known() -> None:
    said = refusal({"kind": "letter_ages"}, Letterbox())
    assert "alerts.rules.r.kind is 'letter_ages' (argument). Did you mean 'letter_age'?" in said
    assert ", ".join([*ENGINE_KINDS, "letter_age", *EVENT_KINDS]) in said
    assert "Rota(..., parts=[...])" in said
    known = sorted([*ENGINE_KINDS, *EVENT_KINDS, *BATCH_KINDS])
    assert f"Use one of: {', '.join(known)}." in refusal({"kind": "zzz"})
    assert "alerts.rules.r.kind is ['x'] (argument). Use one of: " in refusal({"kind": ["x"]})


def test_what_a_kind_does_not_take_is_refused() -> None:
    share = kind("lost_share", fail, unit=AlertUnit.SHARE, usual=0.5)
    told = refusal({"kind": "letter_age", "type": "work"}, Letterbox())
    assert "alerts.rules.r.type (argument): A rule of the kind 'letter_age' is about no task type." in told
    assert "A lost share is a share" in refusal({"kind": "lost_share", "threshold": 20}, Letterbox(share))
    assert "Use a number above 0." in refusal({"kind": "letter_age", "threshold": 0}, Letterbox())


def test_the_kinds_of_events_are_known_without_a_part_of_ones_own() -> None:
    rules = {"r": {"kind": "outbox_lag", "threshold": "2m"}, "s": {"kind": "event_dead_letters"}}
    app = Rota({"store": "memory://", "alerts": {"rules": rules}})
    assert app.config.problems() == []
    counted = rules_of(app.config, kinds_of(app.host.parts.values()))
    assert (counted["r"].threshold, counted["s"].threshold) == (120.0, 1.0)


async def test_a_configuration_made_by_hand_is_refused_before_a_worker_runs() -> None:
    rules = {"r": AlertRule(name="r", kind="letter_age")}
    config = Config(store_url="memory://", section_values={"alerts": AlertsConfig(rules=rules)})
    async with Rota(config) as app:
        with pytest.raises(InvalidConfig, match=r"alerts\.rules\.r\.kind is 'letter_age'\. Use one of: "):
            app.host.make_worker(await app.store())
    async with Rota(config, parts=[Letterbox()]) as app:
        app.host.make_worker(await app.store())


def test_a_part_cannot_bring_what_cannot_be() -> None:
    for name in ("dead_letters", "letter_age"):
        with pytest.raises(InvalidConfig, match=f"Two kinds of alerts are called '{name}'"):
            Rota("memory://", parts=[Letterbox(kind(name, fail))])
    with pytest.raises(InvalidConfig, match="cannot be called 'Letter Age'"):
        kind("Letter Age", fail)
    for words in ("{amount} of it", "{}", "{"):
        with pytest.raises(InvalidConfig, match="cannot be filled in"):
            kind("odd", fail, words=words)


# --- described once --------------------------------------------------------------------------------------------------


def test_the_manual_says_of_each_kind_what_the_faces_say() -> None:
    manual = (REPOSITORY / "docs" / "alerts.md").read_text()
    rows = [f"| `{one.name}` | {one.about} | {one.unit.shown(one.usual)} |" for one in ENGINE_KINDS.values()]
    assert [row for row in rows if row not in manual] == []


@pytest.mark.parametrize(
    ("unit", "amount", "shown"),
    [
        (AlertUnit.NUMBER, 1_234_567, "1,234,567"),
        (AlertUnit.NUMBER, 0.25, "0.25"),
        (AlertUnit.SHARE, 0.215, "22%"),
        (AlertUnit.SECONDS, 90.4, "1m30s"),
        (AlertUnit.SHARE_OR_NUMBER, 0.8, "80%"),
        (AlertUnit.SHARE_OR_NUMBER, 8, "8"),
    ],
)
def test_an_amount_is_shown_in_its_unit(unit: AlertUnit, amount: float, shown: str) -> None:
    assert unit.shown(amount) == shown


def test_what_a_part_brings_has_a_default_that_brings_nothing() -> None:
    kinds: list[MeasuredKind] = list(Part().alert_kinds())
    assert kinds == []


# --- the built-in rules and one's own --------------------------------------------------------------------------------


async def both_rules(scene: Scene, **own: object) -> list[tuple[str, str]]:
    """What fires with the built-in rules and one more, for two types with a dead letter each."""
    for name in ("work", "other"):
        await scene.add_type(name)
        await scene.fail("u1", name=name)
    section = {"rules": {"mine": {"kind": "dead_letters", "for": "0s", "to": ["log"], **own}}}
    config = load_config({"store": "memory://", "alerts": section}, environ={})
    await AlertDuty(scene.store, scene.database, config, clock=scene.clock).run_once()
    return sorted((one.rule, one.subject) for one in await scene.alerts.firing())


async def test_a_rule_of_ones_own_takes_the_place_of_the_built_in_one_of_its_kind(scene: Scene) -> None:
    assert await both_rules(scene) == [("mine", "other"), ("mine", "work")]


async def test_one_that_wants_more_keeps_the_built_in_one_from_firing(scene: Scene) -> None:
    assert await both_rules(scene, threshold=5) == []


async def test_a_rule_for_one_type_takes_its_place_there_and_nowhere_else(scene: Scene) -> None:
    assert await both_rules(scene, type="work") == [("dead_letters", "other"), ("mine", "work")]


def test_the_built_in_rules_of_other_kinds_stay() -> None:
    section = {"rules": {"mine": {"kind": "dead_letters"}}}
    names = set(rules_of(load_config({"alerts": section}, environ={})))
    assert names == {"mine", *BUILT_IN} - {"dead_letters"}
