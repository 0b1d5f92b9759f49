"""Every legal key survives its way through a URL."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.api.stage import Stage

from rota.api.paths import key_of, marked_path, quote_key
from rota.api.problems import Refused
from rota.keys import GLOBAL_KEY, UserKeyBuilder

KEYS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=50)
HOSTILE = st.text("/%:.~?#&+ \\%2Fé\U0001f600global", min_size=1, max_size=12)


@given(KEYS | HOSTILE)
@example(".")
@example("..")
@example("~.")
@example("~~..")
@example("~")
@example("%2F")
@example("a/runs")
@example(GLOBAL_KEY)
def test_a_key_comes_out_as_it_went_in(key: str) -> None:
    segment = quote_key(key)
    assert "/" not in segment
    assert segment not in (".", "..", "")
    marked = marked_path(b"/" + segment.encode() + b"/runs")
    first, rest = marked[1:].split("/")
    assert (key_of(first), rest) == (key, "runs")


@given(user=KEYS, device=KEYS)
def test_so_does_a_user_key(user: str, device: str) -> None:
    key = UserKeyBuilder().build_key(user, device)
    assert key_of(marked_path(quote_key(key).encode())) == key


@given(st.binary(max_size=30))
def test_no_bytes_break_it(raw: bytes) -> None:
    with suppress(Refused):
        assert marked_path(raw).count("/") == raw.count(b"/")


@given(key=HOSTILE)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
async def test_a_task_is_found_by_its_key(stage: Stage, key: str) -> None:
    await stage.app.schedule("job", key=key, delay="1h")
    address = f"/api/tasks/job/{quote_key(key)}"
    assert (await stage.viewer.get(address)).json()["key"] == key
    assert (await stage.viewer.get(f"{address}/runs")).json() == {"items": [], "cursor": None}
    assert (await stage.operator.post(f"{address}/cancel")).json()["status"] == "cancelled"
    assert (await stage.operator.post(f"{address}/purge")).status_code == 204
    assert (await stage.viewer.get(address)).status_code == 404


async def test_the_global_key_goes_by_the_name_that_people_see(stage: Stage) -> None:
    for word in ("global", "%25global"):
        task = (await stage.viewer.get(f"/api/tasks/nightly/{word}")).json()
        assert task["key"] == GLOBAL_KEY
    assert (await stage.operator.post("/api/tasks/nightly/global/pause")).json()["status"] == "paused"


async def test_a_task_whose_key_is_global_goes_first(stage: Stage) -> None:
    await stage.app.schedule("nightly", key="global", delay="1h")
    assert (await stage.viewer.get("/api/tasks/nightly/global")).json()["key"] == "global"
    assert (await stage.viewer.get("/api/tasks/nightly/%25global")).json()["key"] == GLOBAL_KEY


@pytest.mark.parametrize("path", ["/api/tasks/job/a%00b", "/api/tasks/job/%FF", "/api/tasks/job/%C3"])
async def test_what_no_key_can_be_is_refused(stage: Stage, path: str) -> None:
    answer = await stage.viewer.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_path")
