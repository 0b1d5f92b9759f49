"""Without the extra `mcp` the door is there, and says what is missing."""

from __future__ import annotations

import importlib.util

import pytest
from starlette.testclient import TestClient

from rota import Rota
from rota.api import Service, create_api


def test_the_address_says_which_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", dict[str, object]().get)
    api = create_api(Service(Rota("memory://")), dashboard=False)
    monkeypatch.undo()

    with TestClient(api, base_url="http://localhost") as client:
        answer = client.post("/mcp", json={})

    assert answer.status_code == 501
    assert answer.json()["code"] == "not_installed"
    assert "rota[mcp]" in answer.json()["detail"]
