"""The page and its charts, written from a measurement."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from bench.charts import Bar, bar_chart
from bench.fires import FireRate
from bench.limits import Limit, share_of
from bench.page import page_of
from bench.recovery import Recovery
from bench.report import ratio_table, shortfalls
from bench.results import Results, read_results, write_results
from bench.side_by_side import Turn
from bench.summary import rows_of

_TURNS = [
    Turn("rota on Redis", "work", {"run": 20_000.0, "schedule": 30_000.0}, version="1", settings="as it comes"),
    Turn("rota on Redis", "work", {"run": 22_000.0, "schedule": 30_000.0}),
    Turn("arq", "work", {"run": 2_000.0}, cannot={"touch": "has no keys"}, version="2", recovery="310 s"),
    Turn("bullmq", "work", failed="there is no node here"),
]


def _results() -> Results:
    return Results(
        measured_on="1 January 2026",
        machine="2 cores",
        rounds={"work": 2},
        rows=rows_of(_TURNS),
        limits=[Limit("bare scripts", 42_000.0, "rota on Redis", "run")],
        recoveries=[Recovery("rota on Redis", 5, 9.0, 11.0)],
        fires=[FireRate("rota", 60_000.0)],
        not_measured={"recovery": "no store"},
    )


def test_a_chart_is_well_formed_and_escapes_names() -> None:
    drawn = bar_chart(
        "<run> & more", "a & b", [Bar("<script>&", 5.0, 4.0, 6.0, "5 < 6", is_own=True), Bar("b", 0.0, 0.0, 0.0, "0")]
    )

    texts = ["".join(one.itertext()) for one in ElementTree.fromstring(drawn).iter() if one.tag.endswith("text")]
    assert texts == ["<run> & more", "a & b", "<script>&", "5 < 6", "b", "0"]


def test_a_chart_of_nothing_is_well_formed() -> None:
    assert ElementTree.fromstring(bar_chart("nothing", "explained", [])).tag.endswith("svg")


def test_the_page_has_figures_ratios_limits_and_reasons() -> None:
    page = page_of(_results())

    assert "21,000 (20,000..22,000)" in page
    assert "| bare scripts | 42,000 | rota on Redis: run, 50% |" in page
    assert "- bullmq, work: there is no node here" in page
    assert "- arq, touch: has no keys." in page
    assert "1 January 2026: 2 cores" in page


def test_a_ratio_stands_for_what_both_have() -> None:
    assert ratio_table(_results()).splitlines()[2:] == ["| run/s | arq 2,000 | 10.5 | - |"]


def test_whatever_failed_is_told() -> None:
    assert shortfalls(_results()) == ["recovery: no store", "bullmq, work: there is no node here"]


def test_a_limit_without_a_figure_has_no_share() -> None:
    assert share_of(Limit("a yardstick", 1.0), {}) is None


def test_a_measurement_survives_its_file(tmp_path: Path) -> None:
    write_results(_results(), tmp_path / "results.json")

    assert read_results(tmp_path / "results.json") == _results()
