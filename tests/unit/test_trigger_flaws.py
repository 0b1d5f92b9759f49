"""What triggers must not do, by its number in docs/flaws.md."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rota.clock import DAY, HOUR, Instant, from_datetime
from rota.errors import InvalidTrigger
from rota.triggers import Claim, Cron, Interval, Once, Policy, Span, at_claim, at_resume, at_settle, parse_trigger


def utc(text: str) -> Instant:
    return from_datetime(datetime.fromisoformat(text).replace(tzinfo=UTC))


def test_flaw_19_periodic_keeps_its_grid() -> None:
    """A thousand late and slow runs, and the thousandth fire is still on the grid."""
    hourly, policy = Interval(HOUR, 17), Policy()
    fire_at: Instant | None = hourly.next_after(17)
    for _ in range(1_000):
        assert fire_at is not None
        claimed_at = fire_at + 9_000
        claim = at_claim(hourly, policy, fire_at, claimed_at)
        assert claim.fire_at is not None
        fire_at = at_settle(hourly, policy, claim.fire_at, claimed_at, claimed_at + 600_000).next_fire
    assert fire_at == 17 + 1_001 * HOUR


def test_flaw_21_cron_has_zone_and_dst_rule() -> None:
    gap, fold = Cron("30 2 * * *", "Europe/Berlin"), Cron("30 2 * * *", "Europe/Berlin")
    assert gap.next_after(utc("2026-03-28T12:00")) == utc("2026-03-29T01:00"), "02:30 does not exist: 03:00 CEST"
    assert fold.next_after(utc("2026-10-24T12:00")) == utc("2026-10-25T00:30"), "the first 02:30"
    assert fold.next_after(utc("2026-10-25T00:30")) == utc("2026-10-26T01:30"), "and only that"


@pytest.mark.parametrize(
    ("kind", "value"),
    [("cron", "abc"), ("cron", "61 * * * *"), ("interval", "abc"), ("once", "soon"), ("weekly", "1"), ("cron", "")],
)
def test_flaw_30_invalid_values_are_refused_at_creation(kind: str, value: str) -> None:
    with pytest.raises(InvalidTrigger, match=r"Use |Did you mean"):
        parse_trigger(kind, value, now=0)


def test_flaw_32_past_once_is_refused() -> None:
    now = utc("2026-05-01T00:00")
    with pytest.raises(InvalidTrigger, match="not in the future"):
        parse_trigger("once", "2026-04-30T23:59:59Z", now=now)
    assert parse_trigger("once", "2026-04-30T23:59:59Z", now=now, allow_past=True) == Once(now - 1_000)


@pytest.mark.parametrize("value", ["10abc", "1e9", "-5", "", "999", "1.5", "0x10", str(400 * 366 * DAY)])
def test_flaw_35_strict_interval(value: str) -> None:
    with pytest.raises(InvalidTrigger, match="Use"):
        parse_trigger("interval", value, now=0)


def test_flaw_36_cron_dialect() -> None:
    """Both day fields restricted: either matches. Six fields: the first is the second. Five: on the full minute."""
    either = Cron("0 0 13 * FRI")
    assert either.next_after(utc("2026-02-01")) == utc("2026-02-06")
    assert either.next_after(utc("2026-04-11")) == utc("2026-04-13")
    assert Cron("5 4 3 * * *").next_after(utc("2026-02-01")) == utc("2026-02-01T03:04:05")
    assert Cron("4 3 * * *").next_after(utc("2026-02-01")) == utc("2026-02-01T03:04:00")


def test_flaw_37_resume_recomputes() -> None:
    daily, paused_at = Interval(DAY, 0), 3 * DAY
    resumed = at_resume(daily, Policy(), paused_at, 40 * DAY + 5)
    assert resumed == Claim(None, None, Span(3 * DAY, 40 * DAY, 38), 41 * DAY)
