"""Silence for a time: no sink is told, everybody sees it, and nothing that still fires at its end is forgotten."""

from __future__ import annotations

import pytest
from scene import Scene

from rota import Rota
from rota.access import AuditLog, AuditQuery, Principal, Role
from rota.alerts import AlertOperator
from rota.alerts.silences import LONGEST_MS, Silences
from rota.clock import HOUR, MINUTE
from rota.errors import IllegalTransition, InvalidInput, NotAllowed
from rota.testing import FakeClock

LETTERS = {"letters": {"kind": "dead_letters", "for": "0s", "to": ["there"]}}


async def test_what_fires_in_silence_tells_no_sink_and_is_seen(scene: Scene) -> None:
    await scene.add_type()
    silence = await Silences(scene.database).add("letters", "", HOUR, "ann", "known")
    await scene.fail("u1")
    await scene.duty(LETTERS).run_once()

    assert scene.sink.told == []
    (firing,) = await scene.alerts.firing()
    assert (firing.subject, firing.silenced_until) == ("work", silence.until_at)
    assert await scene.alerts.count() == 0, "it waits for nobody"
    (event,) = (await scene.alerts.history()).items
    assert (event.silenced, event.delivered) == (True, {})


async def test_what_still_fires_when_the_silence_is_over_is_told_then_and_once(scene: Scene) -> None:
    await scene.add_type()
    await Silences(scene.database).add("letters", "work", 10 * MINUTE, "ann")
    await scene.fail("u1")
    duty = scene.duty(LETTERS)
    await duty.run_once()
    await scene.fail("u2", "u3")
    scene.clock.advance("11m")
    for instance in ("one", "other", "third"):
        await scene.duty(LETTERS, instance).run_once()
        scene.clock.advance("1m")

    assert scene.sink.told == [("letters", "work", "firing")]
    assert "3 tasks" in scene.sink.seen[0].summary, "it is told as it is by now"
    assert len((await scene.alerts.history()).items) == 1, "firing and resolved still alternate"


async def test_an_end_to_the_silence_comes_at_the_next_look(scene: Scene) -> None:
    await scene.add_type()
    silences, duty = Silences(scene.database), scene.duty(LETTERS)
    await silences.add("letters", "", HOUR, "ann")
    await scene.fail("u1")
    await duty.run_once()
    assert await silences.remove("letters")
    assert not await silences.remove("letters"), "there is none any more"
    await duty.run_once()
    assert scene.sink.told == [("letters", "work", "firing")]


async def test_of_what_nobody_was_told_nobody_is_told_the_end(scene: Scene) -> None:
    await scene.add_type()
    duty = scene.duty(LETTERS)
    await Silences(scene.database).add("letters", "", HOUR, "ann")
    await scene.fail("u1")
    await duty.run_once()
    await scene.purge()
    await duty.run_once()
    assert [event.state.value for event in (await scene.alerts.history()).items] == ["resolved", "firing"]
    assert scene.sink.told == []


async def test_who_was_told_before_the_silence_is_told_the_end(scene: Scene) -> None:
    """Somebody waits for it: a pager that was never called off would ring for ever."""
    await scene.add_type()
    duty = scene.duty(LETTERS)
    await scene.fail("u1")
    await duty.run_once()
    await Silences(scene.database).add("letters", "", HOUR, "ann")
    await scene.purge()
    await duty.run_once()
    assert scene.sink.told == [("letters", "work", "firing"), ("letters", "work", "resolved")]


async def test_a_silence_of_one_type_is_none_of_the_others(scene: Scene) -> None:
    await scene.add_type()
    await scene.add_type("other")
    await Silences(scene.database).add("letters", "work", HOUR, "ann")
    await scene.fail("u1")
    await scene.fail("u1", name="other")
    await scene.duty(LETTERS).run_once()
    assert scene.sink.told == [("letters", "other", "firing")]
    assert await scene.alerts.count() == 1


async def test_it_is_replaced_and_has_limits(scene: Scene) -> None:
    silences = Silences(scene.database)
    await silences.add("letters", "", HOUR, "ann")
    longer = await silences.add("letters", "", 2 * HOUR, "bob", "still at it")
    assert await silences.find("letters") == longer
    for duration_ms in (0, LONGEST_MS + 1):
        with pytest.raises(InvalidInput, match="1m to 30d is possible"):
            await silences.add("letters", "", duration_ms, "ann")
    with pytest.raises(InvalidInput, match="500 are possible"):
        await silences.add("letters", "", HOUR, "ann", "x" * 501)
    scene.clock.advance("3h")
    assert await silences.find("letters") is None


# --- every rule as it stands -----------------------------------------------------------------------------------------


async def test_every_rule_is_listed_with_its_value_also_one_that_does_not_fire(scene: Scene) -> None:
    await scene.add_type()
    await scene.add_type("other")
    rules = {
        "letters": {"kind": "dead_letters", "threshold": 2, "for": "0s", "to": ["there"]},
        "late": {"kind": "oldest_pending", "threshold": "10m", "type": "other"},
    }
    await scene.fail("u1", "u2", name="other")
    duty = scene.duty(rules)
    before = await scene.rules(rules)
    assert [(one.rule, one.state, one.threshold) for one in before] == [("letters", None, "2"), ("late", None, "10m")]
    await duty.run_once()
    await Silences(scene.database).add("late", "", HOUR, "ann")
    late, letters = await scene.rules(rules)
    assert (late.state, late.value, late.subject, late.type, late.firing) == ("ok", "0s", "other", "other", 0)
    assert late.silenced_until == scene.clock.now() + HOUR
    assert (letters.state, letters.value, letters.subject, letters.firing) == ("firing", "2", "other", 1)
    assert letters.since_at == letters.seen_at == scene.clock.now()
    scene.clock.advance("1m")
    await scene.fail("u1")
    await duty.run_once()
    _, letters = await scene.rules(rules)
    assert (letters.value, letters.subject) == ("2", "other"), "the one that is nearest to its limit"
    assert letters.since_at == scene.clock.now() - MINUTE


async def test_the_value_that_is_shown_is_that_of_now(scene: Scene) -> None:
    await scene.add_type()
    duty = scene.duty(LETTERS)
    await scene.fail("u1")
    await duty.run_once()
    await scene.fail("u2", "u3", "u4")
    await duty.run_once()
    (firing,) = await scene.alerts.firing()
    assert (firing.value, "4 tasks" in firing.summary) == ("4", True)
    (event,) = (await scene.alerts.history()).items
    assert event.value == "1", "the history has that of the moment"


async def test_a_rule_that_nobody_has_any_more_is_not_listed(scene: Scene) -> None:
    await scene.add_type()
    await scene.duty(LETTERS).run_once()
    scene.clock.advance("11m")
    other = {"late": {"kind": "oldest_pending"}}
    await scene.duty(other).run_once()
    assert [one.rule for one in await scene.rules(other)] == ["late"]


# --- by people -------------------------------------------------------------------------------------------------------


async def test_people_silence_by_their_role_and_it_is_written_down(sqlite_url: str, clock: FakeClock) -> None:
    app = Rota(sqlite_url, clock=clock)

    @app.task
    async def work() -> None: ...

    async with app:
        await app.store()
        viewer, ann = (
            AlertOperator(app, Principal(f"test:{role}", "ann", role, "code")) for role in (Role.VIEWER, Role.OPERATOR)
        )
        with pytest.raises(NotAllowed, match="operator"):
            await viewer.silence("late", "", HOUR)
        with pytest.raises(InvalidInput, match=r"There is no rule 'lat'. Did you mean 'late'\?"):
            await ann.silence("lat", "", HOUR)
        with pytest.raises(InvalidInput, match=r"there is none 'wrok'. Did you mean 'work'\?"):
            await ann.silence("late", "wrok", HOUR)
        made = await ann.silence("late", "work", HOUR, "being worked on")
        assert (made.made_by, made.reason) == ("ann", "being worked on")
        await ann.unsilence("late", "work")
        with pytest.raises(IllegalTransition, match="late/work is not silenced"):
            await ann.unsilence("late", "work")
        entries, _ = await AuditLog(await app.database()).page(AuditQuery())
    assert [(one.action, one.target, (one.outcome or "")[:11]) for one in reversed(entries)] == [
        ("alert.silence", "late/work", "ok"),
        ("alert.unsilence", "late/work", "ok"),
        ("alert.unsilence", "late/work", "illegal_tra"),
    ]
