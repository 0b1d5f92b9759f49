"""As much of PromQL as it takes to say which metrics an expression reads, and by which labels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["read_by"]

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
    |(?P<range>\[[^\]]*\])
    |(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:ms|[smhdwy])?)
    |(?P<variable>\$\{?\w+\}?)
    |(?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^(){},<>=@])""",
    re.VERBOSE,
)
_OPERATORS: Final = frozenset({"and", "or", "unless", "bool", "offset"})
_GROUPING: Final = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})


class _Token(NamedTuple):
    kind: str
    text: str


def read_by(expression: str) -> dict[str, set[str]]:
    """The metrics that an expression reads, each with the labels that are asked of it: those that select, and those
    by which any part of the expression groups."""
    tokens = list(_tokens(expression))
    found: defaultdict[str, set[str]] = defaultdict(set)
    grouped: set[str] = set()
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        follows = tokens[at + 1].text if at + 1 < len(tokens) else ""
        at += 1
        if kind != "word" or text in _OPERATORS:
            continue
        if text in _GROUPING:
            if follows == "(":
                labels, at = _until(tokens, at + 1, ")")
                grouped |= {token.text for token in labels if token.kind == "word"}
        elif follows == "(" or follows in _GROUPING:
            continue  # a function, or an aggregation
        else:
            found[text] |= set()
            if follows == "{":
                matchers, at = _until(tokens, at + 1, "}")
                found[text] |= {token.text for token in matchers if token.kind == "word"}
    return {name: labels | grouped for name, labels in found.items()}


def _tokens(expression: str) -> Iterator[_Token]:
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        assert match is not None, f"not PromQL: {expression[at : at + 20]!r} in {expression!r}"
        at = match.end()
        if match.lastgroup != "space":
            assert match.lastgroup is not None
            yield _Token(match.lastgroup, match.group())


def _until(tokens: list[_Token], at: int, end: str) -> tuple[list[_Token], int]:
    stop = next(number for number in range(at, len(tokens)) if tokens[number].text == end)
    return tokens[at:stop], stop + 1
