"""Failures that are the same one, and how they are counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.clock import HOUR
from rota.core.distinct import KEPT, distinct_count, number_of, smallest
from rota.core.failure import HOURS_KEPT, Failure, FailureGroup, FailureReport, add_reports, grown, normalised


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 of user 5 refused", "order 4,711 of user 12 refused"),
        ("no such file: /srv/app/a.txt", "no such file: /home/x/b.txt"),
        ("KeyError: 'amount'", 'KeyError: "price"'),
        ("timeout at 2026-01-02T03:04:05Z", "timeout at 2027-11-12 13:14:15"),
        ("gone: 3f2b8c1e-0000-4a4a-8b8b-0123456789ab", "gone: 00000000-1111-4a4a-8b8b-0123456789ab"),
        ("<Order object at 0x7f00>", "<Order object at 0xdeadbeef>"),
        ("GET https://a.example/x?y=1 failed", "GET http://b.example/ failed"),
        ("mail to ann@example.com bounced", "mail to bob@mail.example.org bounced"),
        ("user u17 is gone", "user abc-9 is gone"),
    ],
)
def test_messages_that_are_the_same(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


def test_messages_that_differ() -> None:
    assert normalised("order refused") != normalised("order lost")
    assert normalised("don't") == "don't", "an apostrophe is no quote"


def test_a_group_has_the_same_id_everywhere() -> None:
    assert Failure("ValueError", "app.py in pay", "no <n>").id == "ed57ed262f7d", "also in the next version"
    ids = {Failure(*parts).id for parts in [("a", "b", "c"), ("a", "bc", ""), ("ab", "", "c")]}
    assert len(ids) == 3


@pytest.mark.parametrize("part", ["x", "a@", "1-", "/a", "'", "\\", "a.", "-1"])
def test_a_hostile_message_takes_no_time_to_speak_of(part: str) -> None:
    assert len(normalised(part * 100_000)) <= 200
    assert len(normalised("'" + part * 100_000)) <= 200


reports = st.lists(
    st.builds(
        FailureReport,
        task_type=st.just("work"),
        id=st.sampled_from(["a", "b"]),
        kind=st.just("ValueError"),
        count=st.integers(1, 5),
        users=st.lists(st.integers(0, 300), max_size=3).map(tuple),
        at=st.integers(0, 3 * HOUR),
    ),
    max_size=12,
)


def total(told: list[FailureReport]) -> dict[str, FailureGroup]:
    groups: dict[str, FailureGroup] = {}
    for report in told:
        groups[report.id] = grown(groups.get(report.id), report)
    return groups


@given(reports)
def test_reports_add_up_whoever_adds_them(told: list[FailureReport]) -> None:
    one_by_one, together = total(told), total(add_reports(told))
    assert one_by_one == together or {
        name: (group.count, group.users, group.hours, group.first_at // HOUR, group.last_at)
        for name, group in one_by_one.items()
    } == {
        name: (group.count, group.users, group.hours, group.first_at // HOUR, group.last_at)
        for name, group in together.items()
    }
    assert sum(group.count for group in together.values()) == sum(report.count for report in told)


def test_hours_are_kept_for_a_while() -> None:
    group = None
    for hour in range(100):
        group = grown(group, FailureReport(task_type="work", id="a", kind="E", at=hour * HOUR))
    assert group is not None
    assert len(group.hours) == HOURS_KEPT
    assert group.count_since(99 * HOUR) == 1
    assert [count for _, count in group.chart(99 * HOUR)] == [1] * HOURS_KEPT


def test_few_users_are_counted_exactly_and_many_nearly() -> None:
    few = smallest(number_of(f"u{n}") for n in range(KEPT - 1))
    assert distinct_count(few) == KEPT - 1
    many = smallest(number_of(f"u{n}") for n in range(20_000))
    assert abs(distinct_count(many) - 20_000) < 6_000
