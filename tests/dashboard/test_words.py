"""The words, the charts and the forms, without a browser."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.main import get_command

import rota.dashboard
from rota.app.waterfall import Phase, Row, Stretch, Waterfall
from rota.cli.later import loaded
from rota.cli.root import root
from rota.clock import DAY, HOUR, MINUTE, SECOND
from rota.core.task import Identity, Task, TaskStatus, Transition, Want
from rota.core.task_type import TaskType
from rota.dashboard import actions, words
from rota.dashboard.charts import Bar, Stack, bars, lines, log_height, nice_top, powers_up_to, spark
from rota.dashboard.forms import read_identity, written
from rota.dashboard.navigation import PAGES
from rota.dashboard.pages.system import COMMANDS
from rota.dashboard.pages.tasks import BULK
from rota.dashboard.preferences import Preferences
from rota.dashboard.view import View, safe_back
from rota.dashboard.waterfall import drawn as laid_out
from rota.errors import InvalidInput
from rota.stores.base import Overrides, TaskQuery, TypeRecord

FOLDER = Path(rota.dashboard.__file__).parent
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=80)


# --- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, words.NOTHING),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (1_250, "1.2 s"),
        (59_999, "59 s"),
        (3 * MINUTE + 5 * SECOND, "3 min 5 s"),
        (2 * HOUR, "2 h"),
        (2 * DAY + 4 * HOUR + 30 * MINUTE, "2 d 4 h"),
    ],
)
def test_a_span_is_said_in_its_two_greatest_units(value: int | None, said: str) -> None:
    assert words.span(value) == said


@given(st.integers(0, 10**13), st.integers(0, 10**13))
def test_a_moment_is_said_from_where_one_stands(at: int, now: int) -> None:
    said = words.relative(at, now)
    assert said == "now" if abs(at - now) < SECOND else said.startswith("in ") == (at > now)


@given(st.integers(0, 10**13))
def test_a_longer_time_is_never_said_with_a_smaller_unit(value: int) -> None:
    order = ["ms", "s", "min", "h", "d"]
    shorter, longer = words.span(value).split()[1], words.span(value * 2).split()[1]
    assert order.index(longer) >= order.index(shorter)


@given(st.integers(0, 10**15))
def test_a_compact_number_is_short_and_close(value: int) -> None:
    said = words.compact(value)
    unit = {"k": 1e3, "M": 1e6, "G": 1e9}.get(said[-1], 1.0)
    assert abs(float(said.rstrip("kMG").replace(",", "")) * unit - value) <= max(0.006 * value, 0)
    assert len(said) <= 10


def test_counting_words() -> None:
    assert [words.count(n, "task") for n in (0, 1, 2_000)] == ["0 tasks", "1 task", "2,000 tasks"]
    assert words.count(2, "crash", "crashes") == "2 crashes"


@given(TEXTS)
def test_what_is_no_json_is_shown_as_it_is(text: str) -> None:
    assert words.pretty("{" + text) == "{" + text or words.pretty("{" + text).startswith("{")
    assert words.pretty(None) == ""


def test_json_too_deep_to_read_is_still_shown() -> None:
    deep = "[" * 100_000
    assert words.pretty(deep) == deep


# --- charts ----------------------------------------------------------------------------------------------------------


def _shapes(drawn: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(drawn).iter())


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=70), TEXTS)
def test_bars_stay_inside_their_box(values: list[tuple[int, int]], label: str) -> None:
    top = nice_top(max([1, *(a + b for a, b in values)]))
    label = "".join(each for each in label if each.isprintable())
    stacks = [Stack((("success", a), ("error", b)), label) for a, b in values]
    for shape in _shapes(bars(stacks, top, label)):
        if shape.tag == "rect":
            x, y, width, height = (float(shape.get(name, "")) for name in ("x", "y", "width", "height"))
            assert -0.2 <= x <= x + width <= 600.2
            assert -0.2 <= y <= y + height <= 120.2


@given(st.floats(1, 1e12))
def test_an_axis_ends_at_a_round_number_close_above(value: float) -> None:
    top = nice_top(value)
    assert value <= top <= max(2, 2.01 * value)
    assert len(str(top).rstrip("0")) <= 2


@given(st.integers(0, 10**9))
def test_a_log_axis_holds_what_it_shows(value: int) -> None:
    assert 0.0 <= log_height(value, powers_up_to(value)) <= 1.0


@given(st.lists(st.none() | st.floats(0, 1), max_size=40))
def test_a_line_has_a_gap_where_nothing_is_known(values: list[float | None]) -> None:
    drawn = _shapes(lines([("p50", values)], ["" for _ in values], "x"))
    known = "".join("x" if value is not None else " " for value in values).split()
    assert len([shape for shape in drawn if shape.tag == "polyline"]) == len(known)


def test_what_a_chart_says_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    for drawn in (
        bars([Stack((("success", 1),), evil)], 1, evil),
        spark([Bar("success", 0.5, evil)], 30, evil),
        lines([("p50", [0.5])], [evil], evil),
    ):
        assert "<script>" not in drawn
        assert any(shape.text == evil for shape in _shapes(drawn))


class Eyes:
    """As much of a view as a waterfall needs."""

    def url(self, path: str) -> str:
        return path

    def clock(self, at: int) -> str:
        return f"at {at}"


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=30), st.integers(0, 10**7)
)
def test_every_stretch_is_seen_in_the_waterfall(spans: list[tuple[int, int]], now: int) -> None:
    evil = "<script>alert(1)</script>"
    rows = tuple(
        Row("attempt", evil, "success", (Stretch(Phase.WORKING, start, start + length),), reason=evil)
        for start, length in spans
    )
    from_at, to_at = min(start for start, _ in spans), max(start + length for start, length in spans) + 1
    fall = laid_out(cast("View", Eyes()), Waterfall(from_at, to_at, now, False, rows))
    for each in fall.rows:
        (bar,) = [shape for shape in _shapes(each.chart) if shape.get("class") == "success"]
        left, wide = (float(bar.get(name, "-1").rstrip("%")) for name in ("x", "width"))
        assert wide >= 0.4
        assert 0 <= left <= left + wide <= 100.01
        assert each.said.endswith(evil)  # the template escapes it
    assert "<text" in fall.ticks


# --- forms, addresses, cookies ---------------------------------------------------------------------------------------


@given(TEXTS)
def test_a_task_named_in_a_form_comes_back_as_it_went(key: str) -> None:
    identity = Identity("agent", key)
    assert read_identity(written(identity)) == identity
    assert written(identity).isprintable(), "a browser would rewrite a line break"


def test_a_task_named_without_a_type_is_refused() -> None:
    with pytest.raises(InvalidInput, match="which is none"):
        read_identity("agent")


@given(TEXTS | st.sampled_from(["//evil.example", "/\\evil.example", "https://evil.example", "/rota//x", "/tasks?a=b"]))
@example("\\")
@example("\\tasks")
@example("/rota\\tasks")
def test_nobody_is_led_to_another_site(path: str) -> None:
    for base in ("", "/rota"):
        to = safe_back(path, base)
        assert to.startswith(base + "/")
        assert not to.replace("\\", "/").startswith("//")
        assert to.isprintable()


@given(st.dictionaries(st.sampled_from(["rota_theme", "rota_zone", "rota_payloads", "rota_browser_zone"]), TEXTS))
def test_a_cookie_may_say_anything(cookies: dict[str, str]) -> None:
    preferences = Preferences.of(cookies)
    assert preferences.theme in ("auto", "light", "dark")
    words.absolute(0, preferences.zone())


def test_the_zone_that_times_are_shown_in() -> None:
    chosen = Preferences.of({"rota_zone": "schedule", "rota_browser_zone": "Asia/Tokyo"})
    assert (chosen.zone("Europe/Berlin"), chosen.zone()) == ("Europe/Berlin", "UTC")
    assert Preferences.of({"rota_browser_zone": "Asia/Tokyo"}).zone("Europe/Berlin") == "Asia/Tokyo"
    assert Preferences.of({"rota_zone": "utc", "rota_browser_zone": "Asia/Tokyo"}).zone() == "UTC"


# --- actions ---------------------------------------------------------------------------------------------------------


def _task(status: TaskStatus, key: str = "k", want: Want = Want.NONE) -> Task:
    return Task(task_type="agent", key=key, status=status, scheduled_at=0, created_at=0, updated_at=0, want=want)


@pytest.mark.parametrize(
    ("status", "offered"),
    [
        (TaskStatus.PENDING, ["Run now", "Pause", "Cancel"]),
        (TaskStatus.RUNNING, ["Pause", "Cancel"]),
        (TaskStatus.PAUSED, ["Run now", "Resume", "Cancel"]),
        (TaskStatus.COMPLETED, ["Run now", "Purge"]),
        (TaskStatus.FAILED, ["Redrive", "Purge"]),
        (TaskStatus.CANCELLED, ["Purge"]),
    ],
)
def test_only_what_leads_somewhere_is_offered(status: TaskStatus, offered: list[str]) -> None:
    assert [action.label for action in actions.of_task(_task(status))] == offered


def test_what_was_asked_of_a_running_task_is_not_offered_again() -> None:
    assert [each.label for each in actions.of_task(_task(TaskStatus.RUNNING, want=Want.PAUSE))] == ["Resume", "Cancel"]
    assert [each.label for each in actions.of_task(_task(TaskStatus.RUNNING, want=Want.CANCEL))] == []


@given(TEXTS.filter(bool))
def test_a_command_can_be_pasted_into_a_shell(key: str) -> None:
    for action in actions.of_task(_task(TaskStatus.FAILED, key)) + actions.of_schedule(_task(TaskStatus.PENDING, key)):
        said = shlex.split(action.command)
        assert said[0] == "rota"
        assert key in (said[-1], said[-1].partition("/")[2], *said)
        assert shlex.split(action.curl("http://127.0.0.1:8787"))[-1].startswith("http://127.0.0.1:8787/api/")


def test_what_can_be_done_to_a_type() -> None:
    plain = TypeRecord(TaskType(name="agent"))
    assert [each.label for each in actions.of_type(plain)] == ["Freeze", "Drain", "Disable"]
    held = TypeRecord(TaskType(name="agent"), Overrides(frozen=True, enabled=False))
    assert [each.label for each in actions.of_type(held)] == ["Thaw", "Drain", "Enable"]
    off = TypeRecord(TaskType(name="agent", enabled=False))
    assert [each.label for each in actions.of_type(off)] == ["Freeze", "Drain"], "the configuration cannot be overruled"


def test_the_command_for_all_that_match_names_the_filter() -> None:
    query = TaskQuery(task_type="agent", status=TaskStatus.FAILED, search="a b")
    assert actions.bulk_command(Transition.REDRIVE, query) == (
        "rota task redrive --all --type agent --status failed --search 'a b'"
    )


def _refuse_unknown(command: str) -> None:
    """A command that the command line does not know is no help to anybody."""
    place: Any = get_command(root)
    for word in shlex.split(command)[1:]:
        if hasattr(place, "commands"):
            assert word in place.commands, f"{command}: there is no {word!r}"
            place = loaded(place.commands[word])
        elif word.startswith("--"):
            options = {name for parameter in place.params for name in parameter.opts}
            assert word in options, f"{command}: there is no {word}"


def test_every_command_that_is_shown_exists() -> None:
    shown = [action.command for status in TaskStatus for action in actions.of_task(_task(status))]
    shown += [action.command for status in TaskStatus for action in actions.of_schedule(_task(status))]
    for overrides in (Overrides(), Overrides(frozen=True, enabled=False)):
        shown += [action.command for action in actions.of_type(TypeRecord(TaskType(name="agent"), overrides))]
    every = TaskQuery(
        task_type="agent", status=TaskStatus.FAILED, user_id="u", owner="o", search="s", without=TaskStatus.PAUSED
    )
    shown += [actions.bulk_command(event, every) for event, _ in BULK]
    shown += [actions.revoke_token("1a2b", "x").command, *(command for command, _ in COMMANDS)]
    for template in (FOLDER / "templates").glob("*.html"):
        text = template.read_text(encoding="utf-8").replace('\\"', "")
        shown += list(re.findall(r'["\[](rota (?!up prints)[a-z][^"]*?)"', text))
    assert len(shown) > 60
    for command in shown:
        _refuse_unknown(re.sub(r"--payload '[^']*'?", "--payload x", command))


# --- what is shipped -------------------------------------------------------------------------------------------------


def test_no_template_needs_an_inline_script_or_style() -> None:
    for template in (FOLDER / "templates").glob("*.html"):
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:|\|\s*safe\b", text), template.name
        assert re.findall(r"<script[^>]*>", text) in ([], ["<script src=\"{{ view.asset('rota.js') }}\" defer>"])


def test_nothing_comes_from_elsewhere() -> None:
    for file in [*(FOLDER / "templates").iterdir(), *(FOLDER / "static").iterdir()]:
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|[\s:]url\(", text), file.name


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("text", ["text", "quiet", "accent", "good", "bad", "warn", "info", "still"])
def test_whatever_is_read_stands_out_enough(scheme: int, text: str) -> None:
    """WCAG AA: 4.5 to 1, on every ground that texts of this colour stand on."""
    sheet = (FOLDER / "static" / "rota.css").read_text(encoding="utf-8")
    colours = {name: values for name, *values in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", sheet)}
    for ground in ("panel", "ground"):
        one, other = sorted((_luminance(colours[name][scheme]) for name in (text, ground)), reverse=True)
        assert (one + 0.05) / (other + 0.05) >= 4.5, f"{text} on {ground}"


def test_every_page_of_the_menu_has_its_own_key() -> None:
    letters = [entry.letter for entry in PAGES]
    assert len(set(letters)) == len(letters)
    assert len({entry.path for entry in PAGES}) == len(PAGES)
