"""The leak check finds what it must find, and nothing else."""

from __future__ import annotations

import pytest

from rota.testing.leaks import assert_no_leaks, leaks
from rota.testing.redis_servers import RedisServer


@pytest.mark.usefixtures("redis_url")
def test_a_key_of_the_layout_may_stay_for_ever(redis: RedisServer) -> None:
    redis.ask("SET", "scheduler:task:{work}:u1:phone", "a record")
    redis.ask("ZADD", "scheduler:queue:{work}", 1, "u1")
    redis.ask("ZADD", "scheduler:queue:{work}:7", 1, "u1")
    redis.ask("SET", "scheduler:last_exec:{work}:u1", 1, "EX", 100)
    assert leaks([redis]) == []


@pytest.mark.usefixtures("redis_url")
@pytest.mark.parametrize(
    "key",
    [
        "scheduler:last_exec:{work}:u1",
        "scheduler:bucket:{api}",
        "scheduler:queue:{work}:high",
        "scheduler:queue:work",
        "scheduler:lock:{work}",
        "task:{work}:u1",
    ],
)
def test_any_other_key_needs_a_time_to_live(redis: RedisServer, key: str) -> None:
    redis.ask("SET", key, 1)
    with pytest.raises(AssertionError, match="1 keys have no TTL and no place in the layout"):
        assert_no_leaks(redis)
    redis.ask("EXPIRE", key, 100)
    assert_no_leaks(redis)
