"""Every kind that a rule can be of, and one look at all rules: the engine's are read together, a part's by its measure.

A part that fails to measure keeps nobody else's alerts from being told: what it would have said is left out, and stays
as it is.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from rota.alerts.reading import Reading, measure
from rota.alerts.section import ALERTS_SECTION, refuse_kind
from rota.clock import format_duration
from rota.config import Config
from rota.core.alert import BUILT_IN, ENGINE_KINDS, AlertKind, AlertRule, EngineKind, all_kinds
from rota.database import Database
from rota.errors import InvalidConfig
from rota.part import AlertContext, Measured, MeasuredKind, Part
from rota.stores.base import Store

__all__ = ["Look", "kinds_of", "look_at", "rules_of", "shown_at", "shown_kinds"]

_ABOUT_FAILURES = frozenset(
    {EngineKind.FAILURE_RATE.value, EngineKind.DEAD_LETTERS.value, EngineKind.BREAKER_OPEN.value}
)


def kinds_of(parts: Iterable[Part]) -> dict[str, AlertKind]:
    """The engine's kinds, and those of the parts."""
    return all_kinds(kind for part in parts for kind in part.alert_kinds())


def shown_kinds(parts: Iterable[Part]) -> list[dict[str, object]]:
    """The same for people, in all faces."""
    return [
        {
            "kind": kind.name,
            "about": kind.about,
            "threshold": kind.shown_limit(AlertRule(name=kind.name, kind=kind.name, threshold=kind.usual)),
            "unit": kind.unit.value,
            "takes_type": kind.takes_type,
        }
        for kind in kinds_of(parts).values()
    ]


def rules_of(config: Config, kinds: Mapping[str, AlertKind] = ENGINE_KINDS) -> dict[str, AlertRule]:
    """The rules that count: those of the configuration, and the built-in ones of whose kind it has none for all; each
    with its threshold.

    Who loaded the configuration knew the parts, as a rule. A rule whose kind none of these is, is refused here.
    """
    alerts = ALERTS_SECTION.of(config)
    replaced = {rule.kind for rule in alerts.rules.values() if rule.type is None}
    usual = {name: rule for name, rule in BUILT_IN.items() if rule.kind not in replaced} if alerts.defaults else {}
    rules = {**usual, **alerts.rules}
    for name, rule in rules.items():
        if rule.kind not in kinds:
            raise InvalidConfig(f"alerts.rules.{name}.kind is {rule.kind!r}. {refuse_kind(rule.kind, kinds)}")
    return {name: kinds[rule.kind].completed(rule) for name, rule in rules.items()}


def shown_at(rule: AlertRule | None, subject: str) -> str:
    """The page of what a rule has found about a type: what failed there, by groups. "" where there is none."""
    if rule is None or rule.kind not in _ABOUT_FAILURES:
        return ""
    return f"/failures?{urlencode({'type': subject})}" if subject else "/failures"


class Look(NamedTuple):
    """What one look at the rules has found; and of each kind that could not be measured, why."""

    readings: list[Reading]
    failures: Mapping[str, Exception]
    unmeasured: frozenset[str]
    """The rules of those kinds, by their names."""


async def look_at(
    rules: Iterable[AlertRule], kinds: Mapping[str, AlertKind], store: Store, database: Database, *, seconds: float
) -> Look:
    """Every rule, for each of its subjects; a built-in one says nothing of what a rule of its kind that somebody has
    written looks at. A part has so many seconds to measure one of its kinds."""
    by_name = {rule.name: rule for rule in rules}
    of_engine: list[AlertRule] = []
    of_parts: defaultdict[str, list[AlertRule]] = defaultdict(list)
    for rule in by_name.values():
        (of_engine if rule.kind in ENGINE_KINDS else of_parts[rule.kind]).append(rule)
    readings = await measure(store, of_engine) if of_engine else []
    answers = await asyncio.gather(
        *(_measure(kinds[name], AlertContext(store, database, some), seconds) for name, some in of_parts.items())
    )
    failures: dict[str, Exception] = {}
    for name, answer in zip(of_parts, answers, strict=True):
        if isinstance(answer, Exception):
            failures[name] = answer
        else:
            readings += answer
    own = [each for each in readings if not _is_built_in(by_name[each.rule])]
    taken = {(by_name[each.rule].kind, each.subject) for each in own}
    left = [each for each in readings if (by_name[each.rule].kind, each.subject) not in taken]
    return Look([*own, *left], failures, frozenset(rule.name for name in failures for rule in of_parts[name]))


def _is_built_in(rule: AlertRule) -> bool:
    """Whether it is one of those that say nothing where somebody has a rule of that kind of their own."""
    usual = BUILT_IN.get(rule.name)
    return usual is not None and rule == ENGINE_KINDS[usual.kind].completed(usual)


async def _measure(kind: AlertKind, context: AlertContext, seconds: float) -> list[Reading] | Exception:
    assert isinstance(kind, MeasuredKind), "a kind that is not the engine's says how it is measured"
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return _judged(kind, context.rules, list(await kind.measure(context)))
    except Exception as error:
        return TimeoutError(f"The alert kind {kind.name!r} took over {seconds:g} s.") if limit.expired() else error


def _judged(kind: MeasuredKind, rules: Sequence[AlertRule], found: Sequence[Measured]) -> list[Reading]:
    """What was measured, held against each rule that it is for; of each subject once, as a table of states wants it."""
    readings = {
        (rule.name, one.subject): _reading(kind, rule, one)
        for rule in rules
        for one in found
        if one.rule in (None, rule.name) and (not kind.takes_type or rule.type in (None, one.subject))
    }
    return list(readings.values())


def _reading(kind: MeasuredKind, rule: AlertRule, one: Measured) -> Reading:
    holds = one.amount < rule.limit if kind.fires_below else one.amount >= rule.limit
    value, limit = kind.unit.shown(one.amount), kind.unit.shown(rule.limit)
    words = kind.words.format(value=value, limit=limit, subject=one.subject, window=format_duration(rule.window_ms))
    share = rule.limit / max(one.amount, 1e-9) if kind.fires_below else one.amount / rule.limit
    return Reading(rule.name, one.subject, holds, value, words, share)
