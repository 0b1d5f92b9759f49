"""Compiled templates: kept where compiled modules are, and never older than their text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from rota.dashboard.compiled import compiled_templates


@pytest.fixture(autouse=True)
def python_keeps_what_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)


def rendered(folder: Path, text: str) -> str:
    environment = Environment(
        loader=DictLoader({"page.html": text}), bytecode_cache=compiled_templates(folder), autoescape=True
    )
    return environment.get_template("page.html").render()


def test_a_template_is_compiled_once(tmp_path: Path) -> None:
    assert rendered(tmp_path, "{{ 1 + 1 }}") == "2"
    (kept,) = tmp_path.iterdir()
    made = kept.stat().st_mtime_ns

    assert rendered(tmp_path, "{{ 1 + 1 }}") == "2"
    assert kept.stat().st_mtime_ns == made


def test_a_template_that_has_changed_is_compiled_again(tmp_path: Path) -> None:
    assert rendered(tmp_path, "{{ 1 + 1 }}") == "2"
    assert rendered(tmp_path, "{{ 1 + 2 }}") == "3"


def test_nothing_is_kept_where_python_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled_templates(tmp_path / "missing") is None
    monkeypatch.setattr(sys, "pycache_prefix", "/elsewhere")
    assert compiled_templates(tmp_path) is None
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert compiled_templates(tmp_path) is None
