"""What keys and configuration must not do, by its number in docs/flaws.md."""

from __future__ import annotations

import pytest

from rota import load_config
from rota.clock import DAY, HOUR
from rota.errors import InvalidConfig, InvalidInput
from rota.keys import GLOBAL_KEY, UserKeyBuilder, UserKeyConfig, check_task_type


def test_flaw_09_ids_with_colon_never_collide() -> None:
    builder = UserKeyBuilder(UserKeyConfig(use_agent_id=False))
    one, other = builder.build_key("a:b", "c"), builder.build_key("a", "b:c")
    assert one != other
    assert builder.parse_key(one) == {"user_id": "a:b", "device_id": "c", "agent_id": None}
    assert builder.parse_key(other) == {"user_id": "a", "device_id": "b:c", "agent_id": None}


def test_flaw_10_user_named_global_is_no_global_task() -> None:
    one_key = UserKeyBuilder(UserKeyConfig(use_device_id=False, use_agent_id=False))
    assert {one_key.build_key("global"), one_key.build_key("%global"), GLOBAL_KEY} == {"global", "%25global", "%global"}
    with pytest.raises(InvalidInput, match="'a:b' is no valid name"):
        check_task_type("a:b")


def test_flaw_11_ids_live_in_the_record() -> None:
    """A key from before a change of user_key_config is refused, not read as somebody else's ids."""
    old_key = UserKeyBuilder().build_key("u", "d", "a")
    for config in (UserKeyConfig(use_agent_id=False), UserKeyConfig(use_device_id=False, use_agent_id=False)):
        with pytest.raises(InvalidInput, match="Read the ids from the task's record"):
            UserKeyBuilder(config).parse_key(old_key)
    with pytest.raises(InvalidInput, match="Read the ids from the task's record"):
        UserKeyBuilder().parse_key("u")


def test_flaw_12_impossible_key_config_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="use_user_id is false"):
        UserKeyConfig(use_user_id=False)
    with pytest.raises(InvalidConfig, match=r"scheduler\.user_key_config\.use_user_id is false"):
        load_config({"scheduler": {"user_key_config": {"use_user_id": "false"}}}, environ={})
    only_device_off = UserKeyBuilder(UserKeyConfig(use_device_id=False))
    assert only_device_off.get_key_dimensions() == ["user_id", "agent_id"], "one key needs both off, and it says so"


def test_flaw_16_task_ttl_does_not_touch_live_tasks() -> None:
    """task_ttl keeps finished records. Live ones have no TTL, so one below the interval is a fair choice."""
    settings = {"scheduler": {"tasks": {"agent_profile_update": {"interval": 86400, "task_ttl": 14400}}}}
    task_type = load_config(settings, environ={}).tasks["agent_profile_update"]
    assert (task_type.interval_ms, task_type.task_ttl_ms) == (DAY, 4 * HOUR)
