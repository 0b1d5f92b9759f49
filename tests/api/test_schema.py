"""The whole API against its own description, by generated requests: whatever comes in, the answer is as described."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Generator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from tests.api.stage import an_app, serving, staged

from rota.access import Role
from rota.api import Service, create_api
from rota.testing.waiting import PATIENCE

EXAMPLES = 8


class Served:
    """A service on a thread of its own: the generated requests come from a program without an event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self.port = 0
        self.secret = ""

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with staged(self._url) as stage, serving(stage) as port:
            await stage.app.schedules.upsert("morning", type="job", cron="0 9 * * *")
            await stage.service.feed.close()  # so that the stream ends
            self.port, self.secret = port, stage.secrets[Role.ADMIN]
            self._is_up.set()
            await self._end.wait()

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._is_up.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._end is not None
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    folder: Path = tmp_path_factory.mktemp("schema")
    with Served(f"sqlite:///{folder}/rota.db?synchronous=OFF") as made:
        yield made


def described() -> Any:
    """The description, made without a store: making it needs none."""
    api = create_api(Service(an_app("memory://")), dashboard=False)
    made = schemathesis.openapi.from_dict(deepcopy(api.openapi()))  # it is everybody's, and may be changed there
    # What a schema cannot say (a cron expression, a time that lies ahead) is refused as 422.
    made.config.checks.positive_data_acceptance.expected_statuses = ["2xx", "401", "403", "404", "409", "422", "5xx"]
    return made


def test_the_description_is_whole() -> None:
    """Every reference leads somewhere: else whoever makes a client from it is stuck."""
    schema = create_api(Service(an_app("memory://")), dashboard=False).openapi()
    named = set(re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(schema)))
    assert len(named) > 20
    assert named == set(schema["components"]["schemas"])


def test_no_text_in_an_address_is_said_to_take_a_nul() -> None:
    """None gets further than the door, so whoever keeps to the description must not be able to send one."""
    schema = create_api(Service(an_app("memory://")), dashboard=False).openapi()
    lax: list[str] = []
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", ()):
                kinds = parameter["schema"].get("anyOf", [parameter["schema"]])
                is_lax = any(kind.get("type") == "string" and not kind.keys() & {"pattern", "enum"} for kind in kinds)
                if is_lax and parameter["in"] != "header":
                    lax.append(f"{method} {path} {parameter['name']}")
    assert lax == []


OPERATIONS: list[Any] = [each.ok() for each in described().get_all_operations()]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_the_api_is_as_it_says(operation: Any, served: Served) -> None:
    """Requests that the description allows, and requests that it does not."""
    cases = st.one_of(
        *(operation.as_strategy(generation_mode=mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE))
    )

    @given(case=cases)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    def check(case: Any) -> None:
        # A list in an address is sent as its values, one by one, and an empty one not at all: what is wrong with the
        # request is gone on the way.
        is_wrong = case.meta.generation.mode is GenerationMode.NEGATIVE
        assume(not (is_wrong and any(isinstance(value, list) for value in dict(case.query or {}).values())))
        case.call_and_validate(
            base_url=f"http://localhost:{served.port}",
            headers={"Authorization": f"Bearer {served.secret}"},
            timeout=PATIENCE,
        )

    check()
