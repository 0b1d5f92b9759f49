"""The text of each script: one file per verb, called by its digest.

What Python knows is written there and nowhere else: the lifecycle's table, the names of statuses, transitions, reasons
and answers, limits. A script begins with those of them that it names, then come `lua/common.lua` and the files that it
includes; a script that it calls is a function there, which takes KEYS and ARGV. `tests/layers` sees to it that no
script spells such a word itself. The typed calls are in `scripts.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from enum import StrEnum
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Final, NamedTuple, cast

from rota.clock import DAY
from rota.core import lifecycle, token
from rota.core.lifecycle import TABLE, Special
from rota.core.outcome import Answer, ScheduleOutcome, TouchOutcome
from rota.core.task import LIVE, Task, TaskStatus, Transition, Want
from rota.stores import verbs
from rota.stores.base import DETAILED_RUNS
from rota.stores.redis import codec
from rota.stores.redis.keys import NEED_TTL_MS, NORMAL_LANE, SEEN
from rota.stores.work import SOON_MS, TOTALS

__all__ = ["HANDED_IN", "RARE", "Script", "assembled", "script"]

RARE: Final = "rare"
"""What a script answers where it has written nothing: a unit of work decides."""


def _names(words: type[StrEnum]) -> Mapping[str, str]:
    return {word.value: word.value for word in words}


HANDED_IN: Final[Mapping[str, object]] = {
    "TABLE": TABLE,
    "TASK": frozenset(Task.__struct_fields__),
    "STATUS": _names(TaskStatus),
    "SPECIAL": _names(Special),
    "TRANSITION": _names(Transition),
    "WANT": _names(Want),
    "ANSWER": _names(Answer),
    "SCHEDULED": _names(ScheduleOutcome),
    "TOUCHED": _names(TouchOutcome),
    "LIVE": LIVE,
    "RUN_STATUS_OF": lifecycle.RUN_STATUS_OF,
    "REASON_OF": lifecycle.REASON_OF,
    "ERRED": lifecycle.ERRED,
    "FAILED": lifecycle.FAILED,
    "PUT_OFF": lifecycle.PUT_OFF,
    "LOST": lifecycle.LOST,
    "LOST_ERROR": lifecycle.LOST_ERROR,
    "POISON": lifecycle.POISON,
    "MAX_CRASHES": lifecycle.MAX_CRASHES,
    "MAX_SNOOZES": lifecycle.MAX_SNOOZES,
    "TOTALS": TOTALS,
    "DETAILED_RUNS": DETAILED_RUNS,
    "SOON_MS": SOON_MS,
    "CLAIM_ROUNDS": verbs.CLAIM_ROUNDS,
    "REAP_PAGE": verbs.REAP_PAGE,
    "TOKEN_EPOCH": token.EPOCH,
    "TOKEN_ROOM": token.ROOM,
    "TOKEN_LONGEST": token.LONGEST,
    "DAY": DAY,
    "NORMAL_LANE": NORMAL_LANE,
    "NEED_TTL_MS": NEED_TTL_MS,
    "SEEN": SEEN,
    "RARE": RARE,
    "ROW": codec.ROW,
    "ROW_HEAD": codec.ROW_HEAD,
    "WAITING": codec.WAITING,
    "CLAIMED": codec.CLAIMED,
    "WAITING_HEAD": codec.WAITING_HEAD,
    "CLAIMED_HEAD": codec.CLAIMED_HEAD,
    "WAITING_SIZE": codec.WAITING_SIZE,
    "CLAIMED_SIZE": codec.CLAIMED_SIZE,
    "IN_HEAD": frozenset(codec.CLAIMED_FIELDS),
    "NONE": codec.NONE,
    "STATUS_CODE": codec.STATUS_CODE,
    "RUN_STATUS_CODE": codec.RUN_STATUS_CODE,
    "OUTCOME_CODE": codec.OUTCOME_CODE,
}
"""What scripts are told, by its name there: STATUS.pending is 'pending', TABLE.claim.pending is 'running', LIVE.pending
is true."""

_INCLUDE = re.compile(r"^--- include (\w+)$", re.MULTILINE)
_CALL = re.compile(r"^--- call (\w+)$", re.MULTILINE)


class Script(NamedTuple):
    """The text of a script and the name under which the server keeps it."""

    text: str
    digest: str


@cache
def script(name: str) -> Script:
    """The script of a verb."""
    return assembled(_source(name))


def assembled(source: str) -> Script:
    """A script with all that stands before it."""
    own = "\n".join([_source("common"), *(_source(included) for included in _INCLUDE.findall(source)), source])
    named = set(re.findall(r"\b[A-Z_]+\b", own))
    told = [f"local {known} = {_lua(value)}" for known, value in HANDED_IN.items() if known in named]
    called = [f"local function {name}(KEYS, ARGV)\n{script(name).text}\nend" for name in _CALL.findall(source)]
    text = "\n".join([*called, *told, own])
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def _source(name: str) -> str:
    return files("rota.stores.redis").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


def _lua(value: object) -> str:
    """A value as Lua spells it; the same text in every process, since its digest is the script's name."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, Mapping):
        pairs = [(str(key), _lua(each)) for key, each in cast("Mapping[object, object]", value).items()]
    else:
        pairs = [(str(key), "true") for key in sorted(cast("Set[str]", value))]
    spelled = ", ".join(f"['{key}'] = {each}" for key, each in pairs)
    return f"{{ {spelled} }}"
