"""Names and ids: what is accepted, what a key looks like, and what is refused in words."""

from __future__ import annotations

import pytest

from rota.errors import InvalidConfig, InvalidInput, LimitExceeded
from rota.keys import (
    GLOBAL_KEY,
    MAX_ID_LENGTH,
    MAX_KEY_BYTES,
    IUserKeyBuilder,
    UserKeyBuilder,
    UserKeyConfig,
    check_id,
    check_task_type,
    shown_key,
)


def test_plain_ids_stay_readable() -> None:
    assert UserKeyBuilder().build_key("u1", "phone", "helper") == "u1:phone:helper"


@pytest.mark.parametrize("missing", [None, ""])
def test_a_missing_id_is_the_default(missing: str | None) -> None:
    assert UserKeyBuilder().build_key("u1", missing, missing) == "u1:default:default"


def test_the_defaults_can_be_renamed() -> None:
    builder = UserKeyBuilder({"default_device_id": "web", "default_agent_id": "main"})
    assert builder.build_key("u1") == "u1:web:main"
    assert (builder.default_device_id, builder.default_agent_id) == ("web", "main")


@pytest.mark.parametrize(
    ("device", "agent", "key", "dimensions"),
    [
        (True, True, "u:d:a", ["user_id", "device_id", "agent_id"]),
        (True, False, "u:d", ["user_id", "device_id"]),
        (False, True, "u:a", ["user_id", "agent_id"]),
        (False, False, "u", ["user_id"]),
    ],
)
def test_one_to_three_parts(device: bool, agent: bool, key: str, dimensions: list[str]) -> None:
    builder = UserKeyBuilder(UserKeyConfig(use_device_id=device, use_agent_id=agent))
    assert builder.build_key("u", "d", "a") == key
    assert builder.get_key_dimensions() == dimensions
    assert builder.get_key_count() == len(dimensions)
    assert (builder.use_device_id, builder.use_agent_id) == (device, agent)


def test_parsing_gives_all_three_names() -> None:
    builder = UserKeyBuilder(UserKeyConfig(use_agent_id=False))
    assert builder.parse_key("u%3A1:100%25") == {"user_id": "u:1", "device_id": "100%", "agent_id": None}


@pytest.mark.parametrize("key", ["u", "u:d:a:x", "u::a", "u%:d:a", "u%2:d:a", "u%3a:d:a", "", GLOBAL_KEY])
def test_a_key_of_another_shape_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match="was not built from user_id, device_id, agent_id"):
        UserKeyBuilder().parse_key(key)


def test_the_builder_is_that_of_the_scheduler_interface() -> None:
    assert isinstance(UserKeyBuilder.from_dict({"use_agent_id": False}), IUserKeyBuilder)
    assert UserKeyBuilder.from_dict({"use_agent_id": False}).get_key_count() == 2


def test_changing_the_answer_does_not_change_the_builder() -> None:
    builder = UserKeyBuilder()
    builder.get_key_dimensions().clear()
    assert builder.get_key_count() == 3


def test_an_empty_user_is_refused() -> None:
    with pytest.raises(InvalidInput, match="user_id is empty"):
        UserKeyBuilder().build_key("")


def test_an_id_outside_the_key_is_checked_too() -> None:
    builder = UserKeyBuilder(UserKeyConfig(use_device_id=False, use_agent_id=False))
    with pytest.raises(InvalidInput, match="device_id"):
        builder.build_key("u", "a\0b")


@pytest.mark.parametrize(
    ("value", "says"),
    [(7, "no text"), (None, "no text"), ("a\0b", "NUL"), ("\ud800", "lone surrogate"), ("x" * 256, "limit is 255")],
)
def test_ids_that_no_store_can_keep(value: object, says: str) -> None:
    with pytest.raises(InvalidInput, match=f"user_id.*{says}"):
        check_id(value, "user_id")


def test_the_longest_id_is_fine() -> None:
    assert check_id("ß" * MAX_ID_LENGTH) == "ß" * MAX_ID_LENGTH
    key = UserKeyBuilder().build_key(":" * MAX_ID_LENGTH, ":" * MAX_ID_LENGTH, ":" * MAX_ID_LENGTH)
    assert len(key) < MAX_KEY_BYTES


def test_a_key_that_no_index_can_hold_is_refused() -> None:
    huge = "\N{SLOTH}" * MAX_ID_LENGTH
    with pytest.raises(LimitExceeded, match="limit is 2400"):
        UserKeyBuilder().build_key(huge, huge, huge)


@pytest.mark.parametrize("name", ["a", "memory_compression", "a1_2", "x" * 64])
def test_names_of_types(name: str) -> None:
    assert check_task_type(name) == name


@pytest.mark.parametrize("name", ["", "A", "1a", "_a", "a:b", "a-b", "a b", "a\n", "é", 5, None])
def test_names_that_are_none(name: object) -> None:
    with pytest.raises(InvalidInput, match=r"Use .*'memory_compression'"):
        check_task_type(name)


def test_a_long_name_is_refused_by_its_limit() -> None:
    with pytest.raises(LimitExceeded, match="limit is 64"):
        check_task_type("x" * 65)


def test_the_global_key_is_shown_as_global() -> None:
    assert shown_key(GLOBAL_KEY) == "global"
    assert shown_key("u1:phone") == "u1:phone"


def test_texts_are_read_as_what_they_say() -> None:
    config = UserKeyConfig.from_dict({"use_user_id": "true", "use_device_id": "false", "default_agent_id": "main"})
    assert config == UserKeyConfig(use_device_id=False, default_agent_id="main")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"use_devise_id": True}, "no setting 'use_devise_id'. Use one of: use_user_id"),
        ({"use_device_id": "maybe"}, "use_device_id is 'maybe'. Use true or false"),
        ({"default_device_id": 5}, "default_device_id is 5. Use text"),
        ({"default_device_id": ""}, "default_device_id is empty"),
        ({"default_agent_id": "x" * 256}, "limit is 255"),
        ({"use_user_id": False}, "use_user_id is false"),
    ],
)
def test_impossible_key_settings(data: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        UserKeyConfig.from_dict(data)


def test_a_text_is_no_flag_when_it_is_handed_in_directly() -> None:
    with pytest.raises(InvalidConfig, match=r"use_device_id is 'false'. Use true or false"):
        UserKeyConfig(use_device_id="false")  # pyright: ignore[reportArgumentType] -- the mistake under test
