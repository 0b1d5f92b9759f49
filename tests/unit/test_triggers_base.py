"""The two spellings of a trigger: stored, and as people write it."""

from __future__ import annotations

import json

import pytest

import rota.triggers
from rota.errors import InvalidTrigger
from rota.triggers import AnyTrigger, Cron, Interval, Once, Trigger, decode_trigger, encode_trigger, parse_trigger

EVERY_KIND: list[AnyTrigger] = [Cron("0 9 * * 1-5", "Europe/Berlin"), Cron("* * * * *"), Interval(60_000, 5), Once(7)]


@pytest.mark.parametrize("trigger", EVERY_KIND)
def test_a_trigger_survives_storage(trigger: AnyTrigger) -> None:
    text = encode_trigger(trigger)
    assert json.loads(text)["kind"] == trigger.kind
    assert decode_trigger(text) == trigger
    assert decode_trigger(text) is decode_trigger(text), "the same text is decoded once"


@pytest.mark.parametrize("trigger", EVERY_KIND)
def test_every_kind_is_a_trigger(trigger: Trigger) -> None:
    assert trigger.kind in {"cron", "interval", "once"}
    assert trigger.next_after(0) is not None


def test_a_field_of_a_newer_version_is_passed_over() -> None:
    assert decode_trigger('{"kind":"once","at":5,"shade":"blue"}') == Once(5)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "{",
            "null",
            "[]",
            '{"kind":"never"}',
            '{"at":5}',
            '{"kind":"once","at":"5"}',
            '{"kind":"once","at":1.5}',
        ),
        '{"kind":"cron","expression":"0 0 30 2 *"}',
        '{"kind":"cron","expression":"* * * * *","timezone":"Mars"}',
        '{"kind":"interval","every_ms":1,"anchor_at":0}',
        '{"kind":"once","at":5}' + " " * 10_000,
        '{"kind":"once","at":\ud800}',
    ],
)
def test_what_cannot_be_read_says_so(text: str) -> None:
    with pytest.raises(InvalidTrigger, match="Give the schedule its trigger again"):
        decode_trigger(text)


def test_the_pair_of_nanoclaw() -> None:
    assert parse_trigger("cron", "0 9 * * *", timezone="Asia/Tokyo", now=0) == Cron("0 9 * * *", "Asia/Tokyo")
    assert parse_trigger("interval", "60000", now=9) == Interval(60_000, 9)
    assert parse_trigger("once", "1970-01-01T00:00:01Z", now=9) == Once(1_000)


@pytest.mark.parametrize(
    ("kind", "hint"), [("corn", "Did you mean 'cron'"), ("CRON", "Did you mean 'cron'"), ("x" * 9_999, "Use 'cron'")]
)
def test_an_unknown_type_gets_a_suggestion(kind: str, hint: str) -> None:
    with pytest.raises(InvalidTrigger, match=hint):
        parse_trigger(kind, "0 9 * * *", now=0)


@pytest.mark.parametrize("kind", ["cron", "once"])
def test_a_number_is_only_an_interval(kind: str) -> None:
    with pytest.raises(InvalidTrigger, match="is no text"):
        parse_trigger(kind, 5, now=0)


def test_the_public_names_are_complete() -> None:
    names = rota.triggers.__all__
    assert all(hasattr(rota.triggers, name) for name in names)
    assert len(names) == len(set(names))
