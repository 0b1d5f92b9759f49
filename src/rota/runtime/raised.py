"""What was raised, as people read it: the class, the place in their own program, and the traceback.

Nothing here may fail: what a handler raises is of its own making, and may be as broken as the handler.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from rota.masking import masker

__all__ = ["Raised", "raised_by", "where_it_is"]

MAX_TRACEBACK: Final = 12_000
"""Characters of a traceback that are kept: of a longer one the beginning and, which says more, the end."""
_HEAD: Final = 3_000
_OURS: Final = f"{Path(__file__).parent.parent}{os.sep}"
_RUNTIME: Final = f"{Path(__file__).parent}{os.sep}"


class Raised(msgspec.Struct, frozen=True):
    """An exception, or the stop of a run, taken down."""

    kind: str
    place: str
    message: str
    traceback: str


def raised_by(error: BaseException) -> Raised:
    """What an exception says, with secrets hidden."""
    kind = type(error).__name__
    try:
        told = traceback.TracebackException.from_exception(error, capture_locals=False, compact=True)
        for each in _all_of(told):
            each.stack = _without_runtime(each.stack)
        place = _place_of(_innermost(told).stack)
        for each in _all_of(told):
            each.stack = _shortened(each.stack)
        text = "".join(told.format())
    except BaseException:  # its own attributes may raise whatever they like
        return Raised(kind, "", "", f"{kind} (its traceback cannot be shown)")
    return Raised(kind, place, _message_of(error), _kept(text))


def where_it_is(frames: FrameType | None, error: BaseException | None, kind: str) -> Raised:
    """Where a run was when it was stopped: in a frame of its thread, or where its cancellation has met it."""
    if frames is not None:
        stack = traceback.StackSummary.extract(traceback.walk_stack(frames), limit=100)
        stack.reverse()
    elif error is not None:
        stack = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), limit=100)
    else:
        return Raised(kind, "", "", "")
    shown = _without_runtime(stack)
    text = "".join(["It was here when it was stopped:\n", *_shortened(shown).format()]) if shown else ""
    return Raised(kind, _place_of(shown), "", _kept(text))


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # as broken as what raised it
        return ""


def _kept(text: str) -> str:
    text = masker().text(text.rstrip())
    if len(text) <= MAX_TRACEBACK:
        return text
    left_out = len(text) - MAX_TRACEBACK
    return f"{text[:_HEAD]}\n  [... {left_out:,} characters left out ...]\n{text[_HEAD + left_out :]}"


# --- places -----------------------------------------------------------------------------------------------------------


def _innermost(told: traceback.TracebackException) -> traceback.TracebackException:
    """Of a group the first one within it: that is what went wrong."""
    while told.exceptions:
        told = told.exceptions[0]
    return told


def _place_of(stack: Iterable[traceback.FrameSummary]) -> str:
    """The last place in the program's own files; where there is none, the last one of all. Without line numbers, which
    change when something else in the file does."""
    frames = list(stack)
    if not frames:
        return ""
    home = _package_of(frames[0].filename)
    own = [frame for frame in frames if _is_own(frame.filename) or (home and frame.filename.startswith(home))]
    last = (own or frames)[-1]
    return f"{_short(last.filename)} in {last.name}"


def _is_own(path: str) -> bool:
    return not path.startswith(("<", *_foreign()))


def _package_of(path: str) -> str:
    """The package that a handler was installed with; "" if it was not: then its files are nobody else's."""
    for base in _foreign():
        if path.startswith(base):
            first, slash, _ = path.removeprefix(base).partition(os.sep)
            return f"{base}{first}{slash}"
    return ""


@cache
def _foreign() -> tuple[str, ...]:
    """Where the files of others lie: the standard library's and what was installed; and ours."""
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (*sorted((f"{path}{os.sep}" for path in found), key=len, reverse=True), _OURS)


@cache
def _short(path: str) -> str:
    """The path as its reader knows it: below the project, below what was installed, else whole."""
    for base in sorted({*sys.path, str(Path.cwd()), *_foreign()}, key=len, reverse=True):
        stem = base if base.endswith(os.sep) else f"{base}{os.sep}"
        if len(stem) > 1 and path.startswith(stem):
            return path.removeprefix(stem)
    return path


def _all_of(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """An exception with its causes, its contexts and what is within it."""
    left = [told]
    seen: set[int] = set()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        left += [more for more in (each.__cause__, each.__context__, *(each.exceptions or ())) if more is not None]


def _without_runtime(stack: traceback.StackSummary) -> traceback.StackSummary:
    """How Rota calls a handler, and what it does when it stops one, is nobody's question."""
    frames = list(stack)
    while frames and frames[0].filename.startswith((_RUNTIME, "<frozen")):
        frames.pop(0)
    while frames and _is_bootstrap(frames[0]):
        frames.pop(0)
    while frames and frames[0].filename.startswith(_RUNTIME):
        frames.pop(0)
    return traceback.StackSummary.from_list(frames)


def _is_bootstrap(frame: traceback.FrameSummary) -> bool:
    return frame.filename.endswith((f"{os.sep}threading.py", f"{os.sep}runpy.py")) or (
        frame.filename.endswith(f"{os.sep}asyncio{os.sep}runners.py")
    )


def _shortened(stack: traceback.StackSummary) -> traceback.StackSummary:
    """The same frames with the paths that their reader knows; their lines are read before the path is gone."""
    short: list[traceback.FrameSummary] = []
    for frame in stack:
        line = frame.line
        short.append(
            traceback.FrameSummary(_short(frame.filename), frame.lineno, frame.name, lookup_line=False, line=line)
        )
    return traceback.StackSummary.from_list(short)
