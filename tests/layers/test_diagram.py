"""The published picture of the lifecycle is the one that the code draws."""

from __future__ import annotations

from docs import generate


def test_the_lifecycle_page_is_current() -> None:
    assert generate.PAGE.read_text() == generate.page(), "docs/lifecycle.md is out of date: run `make docs`"
