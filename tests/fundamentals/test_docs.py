"""What the pages say exists: links, commands with their options, imports. The front page is run by `test_readme`."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.cli import main

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{page.name} links to {link}, which is not there"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {link}: there is no such heading"


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()

    assert [page.name for page in DOCS if page.name != "README.md" and f"({page.name})" not in index] == []


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in (*blocks(page, "sh"), *blocks(page, "console")):
            for line in block.splitlines():
                if line.removeprefix("$ ").startswith("rota "):
                    yield page.name, line.removeprefix("$ ")


def test_every_command_is_known_with_all_of_its_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked of each command's own help: what a page shows must not wait for a store to be tried."""
    # So wide that no option is broken over two lines.
    monkeypatch.setenv("COLUMNS", "200")
    tried = 0
    for page, line in commands():
        words = shlex.split(line, comments=True)[1:]
        assert words, f"{page}: {line}"
        shown = _help_of(words, capsys)
        for option in (word.partition("=")[0] for word in words if word.startswith("--")):
            assert re.search(rf"{re.escape(option)}\b", shown), f"{page}: {line!r} uses {option}, which is not there"
        tried += 1
    assert tried > 30


def _help_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The help of the longest command that the words begin with: groups have commands, and commands arguments."""
    names = [word for word in words[:3] if re.fullmatch(r"[a-z][a-z-]*", word)]
    while names:
        capsys.readouterr()
        if main([*names, "--help"]) == 0:
            shown = capsys.readouterr().out
            # A group takes a command: that it shows its help for an unknown one would hide a misspelling.
            if "COMMAND [ARGS]" not in shown or len(names) == len(words):
                return shown
        names.pop()
    raise AssertionError(f"There is no command in: rota {shlex.join(words)}")


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_programs_can_be_read_and_find_what_they_import(page: Path) -> None:
    programs = blocks(page, "python")
    own = {line.removeprefix("# ").removesuffix(".py") for line in (block.partition("\n")[0] for block in programs)}
    for block in programs:
        tree = ast.parse(block)
        compile(block, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in tree.body:
            # A program of the same page is there for whoever follows it.
            if isinstance(node, ast.Import | ast.ImportFrom) and not {name.name for name in node.names} & own:
                exec(compile(ast.Module([node], []), page.name, "exec"), {})
