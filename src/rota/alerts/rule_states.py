"""Every rule as it stands over all its subjects: also one that does not fire has a value, and that one is told of.

Whoever looks at the rules writes them down, so every face shows what is really looked at, in whatever process it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import Connection, Row, select

from rota.alerts.reading import Reading
from rota.alerts.silences import Silence
from rota.clock import MINUTE, Instant, Millis, isoformat
from rota.codec import warmed
from rota.core.alert import AlertKind, AlertRule, AlertState
from rota.database.tables.alerts import rules as table
from rota.database.upsert import upsert

__all__ = ["RuleState", "note_rules", "rule_states"]

GONE_MS: Final[Millis] = 10 * MINUTE
"""After so long without a look a rule is not configured any more: it is not shown."""

_names = warmed(msgspec.json.Decoder(tuple[str, ...]), "[]").decode
_ORDER: Final = (AlertState.OK, AlertState.PENDING, AlertState.CLEARING, AlertState.FIRING)


class RuleState(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: what it looks at, and how that is."""

    rule: str
    kind: str
    type: str | None
    """The one task type that it is about; None: each."""
    threshold: str
    for_ms: Millis
    sinks: tuple[str, ...]
    state: AlertState | None
    """The worst of its subjects; None if nobody has looked at it yet."""
    since_at: Instant | None
    """Since when the first of them is like that."""
    firing: int
    """How many subjects fire."""
    subject: str
    """The one that is nearest to the threshold."""
    value: str
    """And how much that is, as it was last measured."""
    seen_at: Instant | None
    silences: tuple[Silence, ...]

    @property
    def silenced_until(self) -> Instant | None:
        """Until when nobody is told of it at all; a silence of one subject is none of the rule."""
        return max((each.until_at for each in self.silences if not each.subject), default=None)

    def to_dict(self) -> dict[str, object]:
        return {
            **msgspec.structs.asdict(self),
            "sinks": list(self.sinks),
            "state": None if self.state is None else self.state.value,
            "since_at": isoformat(self.since_at),
            "seen_at": isoformat(self.seen_at),
            "silenced_until": isoformat(self.silenced_until),
            "silences": [each.to_dict() for each in self.silences],
        }


class Standing(msgspec.Struct, frozen=True):
    """How one subject of a rule is, if it is not well."""

    state: AlertState
    since_at: Instant


# --- writing, by whoever looks ---------------------------------------------------------------------------------------


def note_rules(
    connection: Connection,
    rules: Mapping[str, AlertRule],
    limits: Mapping[str, str],
    readings: Iterable[Reading],
    now: Instant,
) -> None:
    """Write down what was looked at: nothing but the time, where nothing has changed."""
    nearest: dict[str, Reading] = {}
    for each in readings:
        best = nearest.get(each.rule)
        if best is None or (each.holds, each.share) > (best.holds, best.share):
            nearest[each.rule] = each
    known = {str(row.rule): row for row in connection.execute(select(table))}
    for name, rule in rules.items():
        row = _row_of(rule, limits.get(name, ""), nearest.get(name))
        if name not in known or row != {column: getattr(known[name], column) for column in row}:
            _put(connection, {"rule": name, **row, "seen_at": now})
    connection.execute(table.update().where(table.c.rule.in_(list(rules))).values(seen_at=now))
    connection.execute(table.delete().where(table.c.seen_at < now - GONE_MS))


def _row_of(rule: AlertRule, limit: str, nearest: Reading | None) -> dict[str, object]:
    return {
        "kind": rule.kind,
        "type": rule.type,
        "threshold": limit,
        "for_ms": rule.for_ms,
        "sinks": msgspec.json.encode(rule.to).decode(),
        "subject": "" if nearest is None else nearest.subject,
        "value": "" if nearest is None else nearest.value,
    }


def _put(connection: Connection, row: Mapping[str, object]) -> None:
    statement = upsert(connection.dialect.name, table).values(**row)
    changed = {name: statement.excluded[name] for name in row if name != "rule"}
    connection.execute(statement.on_conflict_do_update(index_elements=["rule"], set_=changed))


# --- reading ---------------------------------------------------------------------------------------------------------


def rule_states(
    connection: Connection,
    standings: Mapping[str, Sequence[Standing]],
    silences: Sequence[Silence],
    configured: Mapping[str, AlertRule],
    kinds: Mapping[str, AlertKind],
) -> list[RuleState]:
    """What is looked at, by its names; then what is configured here and was not looked at yet."""
    rows = connection.execute(select(table).order_by(table.c.rule)).all()
    seen = {str(row.rule) for row in rows}
    found = [_seen(row, standings.get(str(row.rule), ()), silences) for row in rows]
    return found + [_unseen(rule, kinds[rule.kind], silences) for name, rule in configured.items() if name not in seen]


def _seen(row: Row[tuple[object, ...]], standings: Sequence[Standing], silences: Sequence[Silence]) -> RuleState:
    state = max((each.state for each in standings), key=_ORDER.index, default=AlertState.OK)
    return RuleState(
        rule=row.rule,
        kind=row.kind,
        type=row.type,
        threshold=row.threshold,
        for_ms=row.for_ms,
        sinks=_names(row.sinks),
        state=state,
        since_at=min((each.since_at for each in standings if each.state is state), default=None),
        firing=sum(each.state.is_firing for each in standings),
        subject=row.subject,
        value=row.value,
        seen_at=row.seen_at,
        silences=tuple(each for each in silences if each.rule == row.rule),
    )


def _unseen(rule: AlertRule, kind: AlertKind, silences: Sequence[Silence]) -> RuleState:
    return RuleState(
        rule=rule.name,
        kind=rule.kind,
        type=rule.type,
        threshold=kind.shown_limit(rule),
        for_ms=rule.for_ms,
        sinks=rule.to,
        state=None,
        since_at=None,
        firing=0,
        subject="",
        value="",
        seen_at=None,
        silences=tuple(each for each in silences if each.rule == rule.name),
    )
