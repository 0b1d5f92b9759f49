"""The published pages that are drawn from the code are the ones that it draws today."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import generate


@pytest.mark.parametrize("page", generate.PAGES, ids=lambda page: page.name)
def test_the_generated_page_is_current(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == generate.PAGES[page](), f"{page.name} is out of date: run `make docs`"
