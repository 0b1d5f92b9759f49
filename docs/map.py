"""The map of the house, drawn from the code: packages, how large they are, and whom each one uses."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import rota
from docs.layers import LAYERS, layer_of

__all__ = ["drawn"]

ROOT = Path(rota.__file__).parent
ROUNDED_TO = 500
"""Lines: the map is to be redrawn when a room has grown, not at every line."""


def drawn() -> str:
    """One row a package, the foundation first."""
    size: defaultdict[str, int] = defaultdict(int)
    files: defaultdict[str, int] = defaultdict(int)
    uses: defaultdict[str, set[str]] = defaultdict(set)
    for path in ROOT.rglob("*.py"):
        if path == ROOT / "__init__.py" or "versions" in path.parts:
            continue
        here = layer_of(_name(path))
        text = path.read_text(encoding="utf-8")
        size[here] += text.count("\n")
        files[here] += 1
        uses[here] |= {layer_of(name) for name in _imports(text) if name.count(".")} - {here}
    for path in ROOT.rglob("*.lua"):
        size["stores"] += path.read_text(encoding="utf-8").count("\n")
    rows = ["| package | lines, about | what it is | uses |", "|---|---|---|---|"]
    for packages in LAYERS:
        for package in sorted(packages & size.keys(), key=lambda name: (size[name] <= ROUNDED_TO / 2, name)):
            used = ", ".join(sorted(uses[package] & size.keys())) or "-"
            rows.append(f"| `{package}` | {_rounded(size[package])} | {_what(package)} | {used} |")
    return "\n".join(rows)


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(text: str) -> Iterator[str]:
    for node in _running(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("rota."):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("rota."))


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but those that only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child
            yield from _running(child)


def _rounded(lines: int) -> str:
    return f"{max(1, round(lines / ROUNDED_TO)) * ROUNDED_TO:,}" if lines > ROUNDED_TO / 2 else "few"


def _what(package: str) -> str:
    """The first sentence of its docstring."""
    place = ROOT.joinpath(*package.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    words = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
    return " ".join(words.split()).replace("|", "\\|")
