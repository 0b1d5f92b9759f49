"""What a Redis URL names, and which one a client of somebody else stands for."""

from __future__ import annotations

import pytest
import redis as redis_py
import redis.asyncio as redis_loop

from rota.errors import InvalidConfig
from rota.stores import url_of_client
from rota.stores.redis.address import parse_address
from rota.stores.redis.keys import Keys


def test_a_server_with_a_user_and_a_prefix() -> None:
    address = parse_address("redis://app:s%40crt@db.example:6380/3?prefix=mine:&socket_keepalive=true")
    assert address.kind == "single"
    assert address.plain_url == "redis://app:s%40crt@db.example:6380/3?socket_keepalive=true"
    assert address.prefix == "mine:"
    assert "s%40crt" not in address.name


@pytest.mark.parametrize("url", ["unix:///run/redis.sock?db=2", "redis+unix:///run/redis.sock?db=2"])
def test_a_socket(url: str) -> None:
    assert parse_address(url).plain_url == "unix:///run/redis.sock?db=2"


def test_a_sentinel_group() -> None:
    address = parse_address("redis+sentinel://u:p@a:1,b:2,c/mymaster/4?sentinel_password=x&ssl=true")
    assert address.kind == "sentinel"
    assert address.hosts == [("a", 1), ("b", 2), ("c", 26_379)]
    assert (address.service, address.options["db"], address.options["ssl"]) == ("mymaster", 4, True)
    assert (address.options["username"], address.options["password"]) == ("u", "p")
    assert address.sentinel_options == {"password": "x"}


def test_a_cluster() -> None:
    address = parse_address("redis+cluster://:p%3Aw@a:7000,b")
    assert address.kind == "cluster"
    assert address.hosts == [("a", 7_000), ("b", 6_379)]
    assert address.options == {"password": "p:w"}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis+sentinel://a:1", "which service"),
        ("redis+cluster://", "is no host"),
        ("redis+cluster://a:port", "is no host"),
        ("http://a", "is no Redis"),
    ],
)
def test_what_cannot_be_read_is_said(url: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        parse_address(url)


@pytest.mark.parametrize("prefix", ["a{b}", "x" * 101])
def test_a_prefix_that_would_break_the_slots(prefix: str) -> None:
    with pytest.raises(InvalidConfig, match="prefix"):
        Keys(prefix)


CLIENTS = {
    "redis://localhost:6379/0": lambda: redis_py.Redis(),
    "redis://u:p%2Fw@host:7000/5": lambda: redis_loop.Redis(
        host="host", port=7_000, db=5, username="u", password="p/w"
    ),
    "rediss://host:6379/0": lambda: redis_py.Redis(host="host", ssl=True),
    "redis+unix:///run/redis.sock?db=1": lambda: redis_py.Redis(unix_socket_path="/run/redis.sock", db=1),
    "redis+sentinel://a:26379,b:1/mymaster/2": lambda: redis_py.Sentinel([("a", 26_379), ("b", 1)]).master_for(  # pyright: ignore[reportUnknownMemberType, reportUnknownLambdaType]  # redis-py leaves them untyped
        "mymaster", db=2
    ),
    "redis+cluster://:p@a:7000": lambda: redis_loop.RedisCluster(host="a", port=7_000, password="p"),
}


@pytest.mark.parametrize("url", CLIENTS)
def test_the_url_behind_a_client(url: str) -> None:
    assert url_of_client(CLIENTS[url]()).partition("?ssl")[0] == url  # pyright: ignore[reportOptionalMemberAccess]  # then the test fails


def test_what_is_no_client() -> None:
    assert url_of_client(object()) is None
    assert url_of_client("redis://localhost") is None
