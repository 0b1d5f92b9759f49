"""The page about the API lists what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.api.stage import an_app

from rota import api, errors
from rota.api import Service, create_api
from rota.api.problems import STATUS

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")


def test_every_operation_is_on_the_page_with_its_role() -> None:
    schema = create_api(Service(an_app("memory://")), dashboard=False).openapi()
    described = {
        (f"{method.upper()} {path}", operation["x-rota-role"])
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }
    listed = set(re.findall(r"^\| `([A-Z]+ /\S+)` \|.*\| (\w+) \|$", PAGE, re.MULTILINE))
    assert listed == described


def test_every_code_on_the_page_exists() -> None:
    root = Path(api.__file__).parents[1]
    files = [
        *root.glob("api/**/*.py"),
        *root.glob("*/faces/**/*.py"),
        *root.glob("events/*.py"),
        *root.glob("batches/*.py"),
    ]
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    known = {getattr(errors, name).code for name in errors.__all__}
    table = PAGE.partition("| status | codes |")[2].partition("##")[0]
    listed = set(re.findall(r"`([a-z_]+)`", table)) - {"errors"}
    assert [code for code in listed if code not in known and f'"{code}"' not in source] == []


@pytest.mark.parametrize("kind", [kind for kind, _ in STATUS if kind is not errors.SchemaMismatch])
def test_every_error_that_has_a_status_of_its_own_is_on_the_page(kind: type[errors.RotaError]) -> None:
    assert f"`{kind.code}`" in PAGE or kind is errors.StoreError
