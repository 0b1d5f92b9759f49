"""Secrets in what people read: hidden in tracebacks, log lines, payloads and whatever else is shown.

Three signs tell a secret: the name before it (`password=...`, `"api_key": ...`), its own shape (a bearer token, a key
that begins with `sk-`, the password in a URL), and that the environment holds it under a name that says so. It is a
net, not a wall: what none of the signs tells stays readable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast

__all__ = ["HIDDEN", "Masker", "is_secret_name", "masker", "unmasked"]

HIDDEN: Final = "***"

_WORDS: Final = (
    r"pass(?:word|wd|phrase)|secret|credentials?|authorization|api[_-]?key|access[_-]?key|private[_-]?key|signing[_-]?key"
    r"|(?:access|refresh|auth|bearer|session|id|csrf|api|bot)[_-]?token"
)
_NAME: Final = re.compile(rf"(?:{_WORDS}|(?:^|[_-])(?:token|pwd))(?:[_-]?(?:value|hash|header|key))?$", re.IGNORECASE)
_SAID: Final = re.compile(
    # The end of the name, what stands between, and the value: quoted to its quote, bare to where a value ends. All but
    # the value is bounded: a hostile text must not take the time of its length squared.
    rf"""(?P<name>(?:{_WORDS})[\w.-]{{0,40}}|\btoken)"""
    r"""(?P<between>["']?\s{0,8}(?::\s{0,8}[\w.\[\]| ]{1,60}?(?==))?(?:=>|:=|[:=])\s{0,8})"""
    r"""(?:(?P<scheme>Bearer|Basic)\s{1,8})?"""
    r"""(?:[bfru]{0,2}(?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\\n])*)(?P=quote)?|(?P<bare>[^\s"',;)\]}&]+))""",
    re.IGNORECASE,
)
_SHAPES: Final = re.compile(
    r"(?P<before>://[^/\s:@]*:)[^/\s@]+(?=@)"
    r"|(?P<bearer>\b(?:Bearer|Basic)\s{1,8})[A-Za-z0-9._~+/=-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?<![\w-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r"|\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}"
    r"|\b(?:rota|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs])[-_][A-Za-z0-9_-]{16,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}",
    re.DOTALL,
)
_FOLDERS: Final = frozenset({"PWD", "OLDPWD"})
"""What shells call the folder that they are in."""
_SHORTEST: Final = 8
"""A value of the environment that is shorter is no secret: hiding it would hide words."""
_LONGEST: Final = 100_000
"""Characters that are looked through: what is longer is cut before it is kept anyway."""


def is_secret_name(name: str) -> bool:
    """Whether a field, a header or a variable of this name holds a secret."""
    return _NAME.search(name.strip()) is not None


class Masker:
    """Hides what is secret by its name or its shape, and these values wherever they stand."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        # The longest first: one may be the beginning of another.
        known = sorted({value for value in values if len(value) >= _SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        """A text of any kind: a message, a line of a log, a traceback, a JSON document."""
        text = text[:_LONGEST]
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = _SHAPES.sub(_hide_shape, text)
        return _SAID.sub(_hide_said, text)

    def value(self, value: object, name: str = "") -> object:
        """Plain Python values, as JSON has them: a secret's whole value is hidden, whatever it is."""
        if name and value is not None and not isinstance(value, bool) and is_secret_name(name) and not _is_empty(value):
            return HIDDEN
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            items = cast("Mapping[object, object]", value).items()
            return {key: self.value(inner, str(key)) for key, inner in items}
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
            return [self.value(inner) for inner in cast("Sequence[object]", value)]
        return value


@lru_cache(1)
def masker() -> Masker:
    """The one of this process, which knows the secrets of its environment."""
    return Masker(value for name, value in os.environ.items() if is_secret_name(name) and name not in _FOLDERS)


def unmasked(edited: object, original: object) -> object:
    """What somebody has made of a value that was shown with its secrets hidden: where the hidden ones were left as they
    were shown, they are as they were before."""
    if edited == masker().value(original):
        return original
    match edited, original:
        case dict(), dict():
            items, before = cast("dict[str, object]", edited).items(), cast("dict[str, object]", original)
            return {key: _unmasked_field(key, inner, before[key]) if key in before else inner for key, inner in items}
        case list(), list():
            parts, old = cast("list[object]", edited), cast("list[object]", original)
            return [unmasked(inner, old[at]) if at < len(old) else inner for at, inner in enumerate(parts)]
        case _:
            return edited


def _unmasked_field(name: str, edited: object, original: object) -> object:
    return original if edited == masker().value(original, name) else unmasked(edited, original)


def _is_empty(value: object) -> bool:
    return isinstance(value, str | Mapping | Sequence) and len(value) == 0  # pyright: ignore[reportUnknownArgumentType]  # of whatever


def _hide_shape(found: re.Match[str]) -> str:
    return f"{found['before'] or found['bearer'] or ''}{HIDDEN}"


def _hide_said(found: re.Match[str]) -> str:
    value = found["quoted"] if found["bare"] is None else found["bare"]
    if not value or value == HIDDEN or value in ("None", "null", "True", "False", "true", "false"):
        return found[0]
    if found["name"].lower() == "token" and value.isdigit():
        return found[0]  # a lease's token, or a count
    scheme = f"{found['scheme']} " if found["scheme"] else ""
    quote = found["quote"] or ""
    return f"{found['name']}{found['between']}{scheme}{quote}{HIDDEN}{quote}"
