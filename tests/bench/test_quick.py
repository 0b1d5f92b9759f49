"""The object that `python -m bench --quick --json` prints, from figures that are given."""

from __future__ import annotations

import pytest

from bench.__main__ import main
from bench.quick import is_whole, quick_json, quick_lines
from bench.side_by_side import Turn
from bench.summary import Row, rows_of

_FIGURES = {
    "rota on Redis": (80_000.0, 40_000.0, 2.0),
    "rota on SQLite": (20_000.0, 10_000.0, 3.0),
    "taskiq": (4_000.0, 3_000.0, 500.0),
    "dramatiq": (8_000.0, 2_000.0, 400.0),
    "bullmq": (20_000.0, 10_000.0, 50.0),
}


def _rows(*, without: str = "") -> list[Row]:
    turns: list[Turn] = []
    for queue, (schedule, run, late) in _FIGURES.items():
        if queue == without:
            turns += [Turn(queue, case, failed="there is no node here") for case in ("work", "latency")]
        else:
            turns.append(Turn(queue, "work", {"schedule": schedule, "run": run}))
            turns.append(Turn(queue, "latency", {"latency_p50_ms": late}))
    return rows_of(turns)


def test_rota_is_compared_with_the_best_peer_of_each_figure() -> None:
    printed = quick_json(_rows())

    assert list(printed) == ["schedule", "run", "latency_ms"]
    assert printed["schedule"] == {
        "rota": 80_000.0,
        "rota_sqlite": 20_000.0,
        "best_peer": 8_000.0,
        "peer": "dramatiq",
        "among": ["taskiq", "dramatiq"],
        "bullmq": 20_000.0,
        "ratio": 10.0,
        "ratio_bullmq": 4.0,
    }
    assert printed["run"]["peer"] == "taskiq"
    assert is_whole(printed)


def test_less_lateness_is_a_higher_ratio() -> None:
    latency = quick_json(_rows())["latency_ms"]

    assert (latency["ratio"], latency["ratio_bullmq"]) == (200.0, 25.0)


def test_what_was_not_measured_is_null_with_its_reason_and_the_rest_is_there() -> None:
    printed = quick_json(_rows(without="bullmq"))

    assert printed["run"]["bullmq"] is None
    assert printed["run"]["ratio_bullmq"] is None
    assert printed["run"]["ratio"] == pytest.approx(40 / 3)
    assert printed["run"]["not_measured"] == {"bullmq": "there is no node here"}
    assert not is_whole(printed)


def test_people_get_lines() -> None:
    assert quick_lines(quick_json(_rows())).startswith("schedule: rota 80,000.0, ")


@pytest.mark.parametrize("arguments", [["nonsense"], ["--quick", "peers"], ["--json"], ["--slow"]], ids=" ".join)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err
