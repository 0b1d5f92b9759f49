"""What lies in `deploy/` for those who watch Rota: the board and the rules ask for nothing that no process tells."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.telemetry.promql import read_by
from tests.telemetry.worker_process import WorkerProcess, worker

from rota import Rota
from rota.batches import Generated, GenerationRequest, install_batches
from rota.events import Event
from rota.testing.waiting import until

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
RULES: Final = DEPLOY / "prometheus" / "rules.yml"
BOARD: Final = DEPLOY / "grafana" / "rota.json"
OF_THE_TARGET: Final = frozenset({"job", "instance"})
"""The labels that Prometheus itself gives whatever it scrapes."""
SEVERITIES: Final = ("critical", "warning", "info")

PROJECT: Final = """
from rota import Rota
from rota.batches import Generated, GenerationRequest, Item, install_batches
from rota.events import Event, NonRetriable
from rota.llm import Usage

app = Rota()
install_batches(app)

@app.on_activity(after="0s", max_retries=0)
async def greet(user_id: str) -> None:
    if user_id == "bad":
        raise ValueError(user_id)

@app.generator("place")
async def places(request: GenerationRequest) -> Generated:
    return Generated([Item(f"place {number}") for number in range(request.count)], Usage(10, 20))

@app.consumer("Shop.Order.Created", name="billing")
async def bill(event: Event) -> None:
    if event.aggregate_id == "bad":
        raise NonRetriable("no such customer")
"""


def rules() -> list[dict[str, Any]]:
    read: Any = yaml.safe_load(RULES.read_text())
    assert set(read) == {"groups"}
    return [rule for group in read["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    board: Any = json.loads(BOARD.read_text())
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def as_prometheus_reads(expression: str) -> str:
    """Grafana fills in its variables before it asks."""
    return expression.replace("$__rate_interval", "5m").replace('"$job"', '".*"')


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from (as_prometheus_reads(target["expr"]) for panel in panels() for target in panel["targets"])


def asked_for() -> dict[str, set[str]]:
    """Every metric that the board and the rules read, with the labels that they ask of it."""
    own = {rule["record"] for rule in rules() if "record" in rule}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for expression in expressions():
        for name, labels in read_by(expression).items():
            if name not in own:
                found[name] |= labels - OF_THE_TARGET
    return dict(found)


def missing(told: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """What is asked for and not told."""
    return {
        name: labels - told.get(name, set())
        for name, labels in asked_for().items()
        if name not in told or not labels <= told[name]
    }


def told_by(one: WorkerProcess, told: defaultdict[str, set[str]]) -> defaultdict[str, set[str]]:
    """With what one scrape tells: some figures are there for a while only."""
    for name, labels in one.samples():
        told[name] |= {label for label, _ in labels}
    return told


async def made_elsewhere(request: GenerationRequest) -> Generated:
    raise AssertionError(f"the worker makes the items of {request}")


def test_what_an_expression_reads() -> None:
    read = read_by(
        'sum by (le, type) (rate(a_bucket{job=~"by (x)", status!="ok"}[5m])) / on (type) group_left max(b) > 0.1 and c'
    )
    assert read == {
        "a_bucket": {"job", "status", "le", "type"},
        "b": {"le", "type"},
        "c": {"le", "type"},
    }
    with pytest.raises(AssertionError, match="not PromQL"):
        read_by("sum(a) ; drop")


async def test_a_process_tells_all_that_the_board_and_the_rules_ask_for(tmp_path: Path, sqlite_url: str) -> None:
    assert len(asked_for()) > 30
    told: defaultdict[str, set[str]] = defaultdict(set)
    with worker(tmp_path, sqlite_url, project=PROJECT) as one:
        async with Rota(sqlite_url) as app:
            install_batches(app)
            app.generator("place")(made_elsewhere)
            await until(one.is_ready, "it is ready")
            for user in ("good", "bad"):
                await app.touch("greet", user_id=user)
            outbox = (await app.events()).outbox
            for number in ("good", "bad"):
                await outbox.publish(Event("Shop.Order.Created", aggregate_id=number, user_id="ada"))
            store = await app.store()
            await store.override_type("detail_batch", {"frozen": True})
            await app.batches.start("place", 20)
            await until(lambda: "batch_queue_size" in told_by(one, told), "its parts wait")
            await store.override_type("detail_batch", {"frozen": None})
            await until(lambda: not missing(told_by(one, told)), f"nothing is missing: {missing(told)}")
            text = one.get("/metrics").text
    check_metrics(text)


def check_metrics(text: str) -> None:
    """By Prometheus' own parser in Python, and by Prometheus itself where it is installed."""
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families) > 30
    assert all(family.documentation and family.type != "unknown" for family in families)
    if (promtool := shutil.which("promtool")) is not None:
        said = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stdout + said.stderr


def test_the_test_would_find_what_is_not_told() -> None:
    assert missing({}) == asked_for()


def test_rules_are_whole() -> None:
    groups: Any = yaml.safe_load(RULES.read_text())["groups"]
    assert all(set(group) == {"name", "rules"} for group in groups)
    names = [rule.get("alert") or rule["record"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        if "record" in rule:
            assert set(rule) == {"record", "expr"}
            continue
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"Rota[A-Za-z]+", rule["alert"])
        assert rule["labels"]["severity"] in SEVERITIES
        assert rule["annotations"]["summary"].endswith(".")
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))


def test_the_totals_of_the_store_are_never_added_up_over_instances() -> None:
    """Every process tells them: a sum of them counts each run once for every process that is scraped."""
    of_the_store = ("rota_store_", "rota_queue_depth", "rota_oldest_pending", "rota_failures_recent", "rota_instances")
    for expression in expressions():
        if any(name in expression for name in of_the_store):
            innermost = re.findall(
                r"(sum|max|min|avg|count)(?: by \([^)]*\))? \(?(?:rate|increase|delta)?\(?rota_", expression
            )
            assert "sum" not in innermost, expression


def test_the_board_can_be_loaded() -> None:
    board: Any = json.loads(BOARD.read_text())
    assert (board["uid"], board["title"]) == ("rota", "Rota")
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    rows = [panel["title"] for panel in board["panels"] if panel["type"] == "row"]
    assert rows == ["Overview", "Lateness", "Failures", "Batches", "Events", "Agents"]
    taken = {(x, y) for panel in board["panels"] for x, y in squares(panel["gridPos"])}
    assert len(taken) == sum(panel["gridPos"]["w"] * panel["gridPos"]["h"] for panel in board["panels"]), "two overlap"
    for panel in panels():
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["datasource"]["uid"] == "${datasource}"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def squares(at: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    for x in range(at["x"], at["x"] + at["w"]):
        assert x < 24
        for y in range(at["y"], at["y"] + at["h"]):
            yield x, y


def test_prometheus_reads_rules_settings_and_every_expression(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    asked = [{"record": f"asked:{number}", "expr": expression} for number, expression in enumerate(expressions())]
    (tmp_path / "asked.yml").write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": asked}]}))
    for command in (
        ("check", "rules", str(RULES)),
        ("check", "rules", str(tmp_path / "asked.yml")),
        ("check", "config", "--syntax-only", str(DEPLOY / "prometheus" / "prometheus.yml")),
    ):
        said = subprocess.run([promtool, *command], capture_output=True, text=True, check=False, timeout=60)
        assert said.returncode == 0, said.stdout + said.stderr


def test_what_starts_processes_names_options_that_there_are() -> None:
    unit = (DEPLOY / "systemd" / "rota-worker@.service").read_text()
    assert "ExecStart=/opt/rota/bin/rota worker --metrics-port 919%i" in unit
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            assert document["kind"] in ("Deployment", "Service")
            if document["kind"] == "Deployment":
                (container,) = document["spec"]["template"]["spec"]["containers"]
                assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
                assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
                ports = {port["name"] for port in container["ports"]}
                assert {container[f"{probe}Probe"]["httpGet"]["port"] for probe in ("liveness", "readiness")} <= ports
