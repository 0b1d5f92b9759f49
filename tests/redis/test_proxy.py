"""The proxy misbehaves as it says; a plain client is the witness."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as Cut
from redis.exceptions import TimeoutError as NoAnswer
from redis.retry import Retry

from rota.testing.proxy import Proxy
from rota.testing.redis_servers import HOST, RedisServer


@pytest.fixture
def proxy(redis: RedisServer, redis_url: str) -> Iterator[Proxy]:
    assert redis_url
    with Proxy(HOST, redis.port) as made:
        yield made
    redis.ask("FLUSHALL")


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Redis]:
    with Redis(host=HOST, port=proxy.port, socket_timeout=0.3, retry=Retry(NoBackoff(), 0)) as made:
        yield made


def test_it_passes_everything_on(proxy: Proxy, client: Redis) -> None:
    client.set("a", "x" * 300_000)
    assert client.get("a") == b"x" * 300_000
    assert proxy.accepted == proxy.open_connections == 1


def test_a_cut_breaks_connections_old_and_new(proxy: Proxy, client: Redis) -> None:
    client.set("a", 1)
    proxy.cut()
    for _ in range(2):
        with pytest.raises(Cut):
            client.get("a")
    proxy.normal()
    assert client.get("a") == b"1"


def test_a_half_open_connection_never_answers(proxy: Proxy, client: Redis, redis: RedisServer) -> None:
    client.set("a", 1)
    proxy.half_open()
    for _ in range(2):
        with pytest.raises(NoAnswer):
            client.set("a", 2)
    proxy.normal()
    assert client.get("a") == b"1", "what was sent into a half-open connection must not arrive"
    assert redis.ask("GET", "a") == "1"


def test_a_reset_in_mid_reply_comes_after_the_work_was_done(proxy: Proxy, client: Redis, redis: RedisServer) -> None:
    client.set("a", 1)
    proxy.reset_mid_reply()
    with pytest.raises(Cut):
        client.set("a", 2)
    assert redis.ask("GET", "a") == "2"


def test_a_trickle_outlives_a_timeout_that_is_counted_per_read(proxy: Proxy, client: Redis) -> None:
    client.set("a", "0123456789")
    proxy.trickle(bytes_per_second=16)
    started = time.monotonic()
    assert client.get("a") == b"0123456789"
    assert time.monotonic() - started > 0.6, "the client's timeout is 0.3 s, yet it waited: a call needs a deadline"
    proxy.normal()
    assert client.get("a") == b"0123456789"


def test_latency_is_added_to_every_reply(proxy: Proxy, client: Redis) -> None:
    client.set("a", 1)
    proxy.latency(0.1)
    started = time.monotonic()
    assert client.get("a") == b"1"
    assert time.monotonic() - started >= 0.1
