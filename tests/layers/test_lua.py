"""What holds for the scripts: they decide by words that are handed in, and read what their headers name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import cast

import pytest

import rota
from rota.core import lifecycle
from rota.core.lifecycle import Special
from rota.core.outcome import Answer, ScheduleOutcome, TouchOutcome
from rota.core.task import RunRecord, RunStatus, Task, TaskStatus, Transition, Want
from rota.stores.redis.source import HANDED_IN, RARE, script
from rota.stores.work import TOTALS

LUA = Path(rota.__file__).parent / "stores" / "redis" / "lua"
FILES = sorted(LUA.glob("*.lua"))
WORDS: tuple[type[StrEnum], ...] = (
    TaskStatus,
    Special,
    Transition,
    RunStatus,
    Want,
    Answer,
    ScheduleOutcome,
    TouchOutcome,
)
KNOWN = frozenset(
    {word.value for words in WORDS for word in words}
    | {RARE, lifecycle.LOST, lifecycle.POISON, *lifecycle.REASON_OF.values(), *TOTALS.values()}
)
FIELDS = frozenset((*Task.__struct_fields__, *RunRecord.__struct_fields__))

_QUOTED = re.compile(r"'([^'\n]*)'")
_DECIDES = re.compile(r"(=|\band|\bor|\breturn|\breturn \{|\bnot)\s*$")


def code_of(path: Path) -> str:
    """The script without its comments."""
    return re.sub(r"--.*", "", path.read_text(encoding="utf-8"))


def spelled(code: str) -> Iterator[str]:
    """Words of the lifecycle that a script spells itself, other than as part of a key's or a field's name."""
    for found in _QUOTED.finditer(code):
        word, before = found[1], code[: found.start()].rpartition("\n")[2]
        if word not in KNOWN or before.endswith("named("):
            continue
        if word not in FIELDS or _DECIDES.search(before):
            yield f"{code.count(chr(10), 0, found.start()) + 1}: '{word}'"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_status_transition_or_reason_is_spelled_in_a_script(path: Path) -> None:
    assert list(spelled(code_of(path))) == [], "use STATUS.pending, TRANSITION.retry, ...: see redis/source.py"


@pytest.mark.parametrize(
    "line",
    [
        "put(task, 'status', 'pending')",
        "if task.status == 'running' then",
        "if transition ~= 'retry' then",
        "reason = 'poison',",
        "return { 'coalesced', 0 }",
        "count('succeeded_total', 1)",
        "put(task, 'status', failed and 'failed' or 'completed')",
        "add(row, 'status', ok or 'error')",
    ],
)
def test_what_would_be_found(line: str) -> None:
    assert list(spelled(line)) != []


def test_a_field_and_a_key_may_have_the_name_of_a_status() -> None:
    assert list(spelled("put(task, 'error', settled.error)\ninto(named('running'), 0, key)")) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_whatever_a_script_names_is_handed_in(path: Path) -> None:
    """A word that there is not would be nil in Lua, and equal to nothing."""
    missing = [
        f"{table}.{word}"
        for table, word in re.findall(r"\b([A-Z_]+)\.(\w+)", code_of(path))
        if word not in cast("Mapping[str, object]", HANDED_IN[table])
    ]
    assert missing == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_is_handed_in_is_not_defined_again(path: Path) -> None:
    assert sorted(set(re.findall(r"\blocal ([A-Z_]+)\b", code_of(path))) & HANDED_IN.keys()) == []


def test_everything_that_is_handed_in_is_used() -> None:
    used = {name for path in FILES for name in re.findall(r"\b[A-Z_]+\b", code_of(path))}
    assert sorted(HANDED_IN.keys() - used) == []


def test_a_script_has_the_same_text_in_every_process() -> None:
    """Its digest is its name: the order of a set must not show."""
    told = script("settle").text.partition("\n-- ")[0]
    live = next(line for line in told.splitlines() if line.startswith("local LIVE"))
    assert live == "local LIVE = { ['paused'] = true, ['pending'] = true, ['running'] = true }"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_header_names_what_the_script_reads(path: Path) -> None:
    header = path.read_text(encoding="utf-8").partition("\n\n")[0]
    read = set(re.findall(r"\binput\.(\w+)", code_of(path)))
    assert sorted(read - set(re.findall(r"\w+", header))) == []
