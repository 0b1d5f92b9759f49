"""How much there is to do now for the consumers of one process, on the bus that lies in the database."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, and_, exists, func, or_, select

from rota.clock import Instant
from rota.database.tables.events import inbox, outbox
from rota.events.consumer import Consumer

__all__ = ["count_open"]

_i, _o = inbox.c, outbox.c
_IS_OPEN = _i.status.in_(["started", "retrying"])


def count_open(connection: Connection, consumers: Iterable[Consumer], now: Instant) -> int:
    """The events that nobody has handled and that are not to be handled later.

    What has failed waits for its time, and those of its key wait behind it. A consumer that picks among the events of
    its types, as agents do, is not asked: whoever asked it for something waits for the answer.
    """
    return sum(
        _unseen(connection, one) + _due(connection, one, now)
        for one in consumers
        if one.accepts is None and (one.gate is None or one.gate.is_open)
    )


def _unseen(connection: Connection, consumer: Consumer) -> int:
    is_seen = exists().where(_i.consumer == consumer.name, _i.event_id == _o.event_id)
    published = and_(_o.event_type.in_(consumer.event_types), _o.status != "dead")
    return connection.execute(select(func.count()).select_from(outbox).where(published, ~is_seen)).scalar_one()


def _due(connection: Connection, consumer: Consumer, now: Instant) -> int:
    """The first ones of their keys, if their time has come or their handler runs."""
    its = and_(_i.consumer == consumer.name, _IS_OPEN)
    first = select(func.min(_i.seq)).where(its).group_by(_i.topic, _i.key)
    is_now = or_(_i.status == "started", _i.next_at <= now)
    return connection.execute(select(func.count()).select_from(inbox).where(_i.seq.in_(first), is_now)).scalar_one()
