"""User keys: whatever the ids are, a key gives them back, and no two users share one."""

from __future__ import annotations

from hypothesis import assume, example, given
from hypothesis import strategies as st

from rota.errors import LimitExceeded
from rota.keys import GLOBAL_KEY, MAX_ID_LENGTH, UserKeyBuilder, UserKeyConfig

_PLAIN = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
# Ids from the few characters that could confuse a key collide far more often than random ones.
_HOSTILE = st.text(st.sampled_from([":", "%", "2", "5", "3", "A", "a", "é", "\N{SLOTH}"]), min_size=1, max_size=12)
_LONG = st.text(st.sampled_from([":", "%", "x"]), min_size=MAX_ID_LENGTH, max_size=MAX_ID_LENGTH)
ids = st.one_of(_HOSTILE, st.text(_PLAIN, min_size=1, max_size=40), _LONG, st.just("global"))
triples = st.tuples(ids, ids, ids)
configs = st.builds(UserKeyConfig, use_device_id=st.booleans(), use_agent_id=st.booleans())


def part(config: UserKeyConfig, triple: tuple[str, str, str]) -> tuple[str, ...]:
    """The ids that count under this configuration."""
    used = (True, config.use_device_id, config.use_agent_id)
    return tuple(value for value, use in zip(triple, used, strict=True) if use)


@given(configs, triples)
def test_a_key_gives_its_ids_back(config: UserKeyConfig, triple: tuple[str, str, str]) -> None:
    builder = UserKeyBuilder(config)
    parsed = builder.parse_key(builder.build_key(*triple))
    assert tuple(parsed[name] for name in builder.get_key_dimensions()) == part(config, triple)
    assert set(parsed) == {"user_id", "device_id", "agent_id"}


@given(configs, triples, triples)
@example(UserKeyConfig(), ("a:b", "c", "d"), ("a", "b:c", "d"))
@example(UserKeyConfig(), ("a%3A", "b", "c"), ("a:", "b", "c"))
def test_keys_are_equal_exactly_when_the_ids_are(
    config: UserKeyConfig, one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    builder = UserKeyBuilder(config)
    same = part(config, one) == part(config, other)
    assert (builder.build_key(*one) == builder.build_key(*other)) == same


@given(configs, triples)
def test_no_user_owns_the_global_key(config: UserKeyConfig, triple: tuple[str, str, str]) -> None:
    assert UserKeyBuilder(config).build_key(*triple) != GLOBAL_KEY


@given(ids.filter(lambda text: not set(text) & {":", "%"}))
def test_plain_ids_are_not_changed(user_id: str) -> None:
    assert UserKeyBuilder().build_key(user_id, "d", "a") == f"{user_id}:d:a"


@given(st.lists(st.text(_PLAIN, max_size=MAX_ID_LENGTH), min_size=1, max_size=3))
def test_any_accepted_key_fits_an_index(parts: list[str]) -> None:
    assume(parts[0])
    try:
        key = UserKeyBuilder().build_key(*parts)
    except LimitExceeded:
        return
    assert len(key.encode()) <= 2_400
