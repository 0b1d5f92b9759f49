"""Whole programs on pages of the documentation do what their comments and the output below them say."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def programs() -> Iterator[tuple[str, str, str | None]]:
    """Each with the name that its first line gives it, and the output that is shown right behind it, if any is."""
    for page in ("handlers.md", "coming-from.md"):
        text = (DOCS / page).read_text()
        for code, shown in re.findall(r"```python\n(.*?)```\n(?:\n```\n(.*?)```)?", text, re.DOTALL):
            yield code.partition("\n")[0].removeprefix("# "), code, shown or None


@pytest.mark.parametrize(("name", "code", "shown"), [pytest.param(*each, id=each[0]) for each in programs()])
def test_a_program_says_what_the_page_says(name: str, code: str, shown: str | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text(code)
    done = subprocess.run(
        [sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert [said for said in re.findall(r"print\(.*\)  # (.+)", code) if said not in printed] == []
    assert shown is None or printed == shown.splitlines()
    assert printed
