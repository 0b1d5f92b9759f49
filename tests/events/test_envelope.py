"""What an event may be called and carry, and that it comes out of its envelope as it went in."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.events.envelope import (
    MAX_PAYLOAD_BYTES,
    VERBS,
    Event,
    check_type,
    decode,
    encode,
    partition_of,
    payload_json,
    topic_of,
    uuid7,
)

_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_ids = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(
    payload=_json,
    aggregate=_ids,
    correlation=st.none() | _ids,
    version=st.integers(1, 1000),
    at=st.integers(0, 4_102_444_800_000),
)
def test_what_goes_in_comes_out(
    payload: object, aggregate: str, correlation: str | None, version: int, at: int
) -> None:
    event = Event(
        event_type="Genesis.Session.NameCreated",
        aggregate_id=aggregate,
        aggregate_type="GenesisSession",
        payload=payload,
        event_id="e1",
        event_version=version,
        key="k",
        topic="t",
        correlation_id=correlation,
        occurred_at=at,
    ).checked()
    assert decode(encode(event, payload_json(payload)), topic="t", key="k", headers={}) == event


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_of_the_list_ends_a_name(verb: str) -> None:
    assert check_type(f"Genesis.Session.DetailBatch{verb}")
    assert check_type(f"Genesis.Session.Stage.{verb}")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "Domain.Aggregate"),
        ("Created", "Domain.Aggregate"),
        ("Session.Created", "Domain.Aggregate"),
        ("A.B.C.D.Created", "Domain.Aggregate"),
        ("genesis.Session.Created", "Domain.Aggregate"),
        ("Genesis.Session.Create", "does not say what has happened"),
        ("Genesis.Session.CreatedV2", "use event_version"),
        ("Genesis.Session.Created_v2", "Domain.Aggregate"),
        ("Genesis..Created", "Domain.Aggregate"),
        ("Genesis.Session.Created\n", "Domain.Aggregate"),
        ("A." + "B" * 300 + ".Created", "Domain.Aggregate"),
    ],
)
def test_a_name_that_is_none_is_refused_with_the_reason(name: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        check_type(name)


@pytest.mark.parametrize(
    "changed",
    [
        {"aggregate_id": ""},
        {"aggregate_id": "a\0b"},
        {"aggregate_id": "a" * 300},
        {"event_version": 0},
        {"key": ""},
        {"correlation_id": "x" * 300},
        {"topic": "with space"},
        {"topic": "t" * 300},
        {"headers": {"bad header": "x"}},
        {"headers": {"h": "x" * 2_000}},
    ],
)
def test_what_no_bus_carries_is_refused(changed: dict[str, object]) -> None:
    given: dict[str, object] = {"event_type": "A.B.Created", "aggregate_id": "a", **changed}
    with pytest.raises(InvalidInput):
        Event(**given).checked()  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("payload", [math.nan, {"a": math.inf}, {1, 2}.__iter__(), object(), b"\xff" * 0 or object])
def test_what_is_no_json_is_refused(payload: object) -> None:
    with pytest.raises(InvalidInput, match="must be JSON"):
        payload_json(payload)


def test_a_payload_has_a_limit() -> None:
    assert payload_json("x" * (MAX_PAYLOAD_BYTES - 2))
    with pytest.raises(InvalidInput, match="262,144"):
        payload_json("x" * (MAX_PAYLOAD_BYTES - 1))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"event_id":"e"}',
        b'{"event_id":1,"event_type":"A.B.Created","aggregate_id":"a"}',
        b'{"event_id":"","event_type":"A.B.Created","aggregate_id":"a"}',
        b'{"event_id":"e","event_type":"A.B.Create","aggregate_id":"a"}',
        b'{"event_id":"e","event_type":"A.B.Created","aggregate_id":"a","occurred_at":"yesterday"}',
        b'{"event_id":"e","event_type":"A.B.Created","aggregate_id":"a","occurred_at":"2026-01-01T00:00:00"}',
        b"[" * 100_000,
    ],
)
def test_a_message_that_is_no_envelope_says_why(value: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode(value, topic="t", key="k", headers={})


def test_what_others_add_to_an_envelope_is_passed_over() -> None:
    value = b'{"event_id":"e","event_type":"A.B.Created","aggregate_id":"a","more":[1],"payload":{"n":1}}'
    assert decode(value, topic="t", key="k", headers={}).payload == {"n": 1}


@given(at=st.integers(0, 2**48 - 1), chance=st.binary(min_size=10, max_size=10))
def test_an_id_is_a_uuid_of_version_7_that_sorts_by_time(at: int, chance: bytes) -> None:
    import uuid

    made = uuid.UUID(uuid7(at, chance))
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert made.int >> 80 == at
    assert uuid7(at, chance) < uuid7(at + 1, b"\0" * 10) or at == 2**48 - 1


@given(key=_ids, partitions=st.integers(1, 256))
def test_a_key_has_one_partition(key: str, partitions: int) -> None:
    assert partition_of(key, partitions) == partition_of(key, partitions)
    assert 0 <= partition_of(key, partitions) < partitions


def test_one_topic_for_all_events_of_an_aggregate() -> None:
    assert topic_of("Genesis.Session.Stage.NameCreated", "rota.") == "rota.genesis.session"
    assert topic_of("Genesis.Session.NameFailed", "rota.") == "rota.genesis.session"


def test_what_an_event_leads_to_says_so() -> None:
    first = Event("A.B.Requested", aggregate_id="a", event_id="e1", correlation_id="c", user_id="u")
    then = first.then("A.B.Created", {"n": 1}, key="other")
    assert (then.aggregate_id, then.causation_id, then.correlation_id, then.user_id) == ("a", "e1", "c", "u")
    assert (then.key, then.event_id) == ("other", None)
