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


TIMEOUT = 4.0
"""Seconds that the impatient client waits for the next byte: far more than a busy machine takes to bring one."""


def _client(proxy: Proxy, timeout: float) -> Redis:
    return Redis(host=HOST, port=proxy.port, socket_timeout=timeout, retry=Retry(NoBackoff(), 0))


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Redis]:
    """A client that waits for as long as it takes."""
    with _client(proxy, 60) as made:
        yield made


@pytest.fixture
def impatient(proxy: Proxy) -> Iterator[Redis]:
    with _client(proxy, TIMEOUT) as made:
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


def test_a_half_open_connection_never_answers(
    proxy: Proxy, client: Redis, impatient: Redis, redis: RedisServer
) -> None:
    impatient.set("a", 1)
    proxy.half_open()
    for _ in range(2):
        with pytest.raises(NoAnswer):
            impatient.set("a", 2)
    proxy.normal()
    assert client.get("a") == b"1", "what was sent into a half-open connection must not arrive"
    assert redis.ask("GET", "a") == "1"


def test_a_reset_in_mid_reply_comes_after_the_work_was_done(proxy: Proxy, client: Redis, redis: RedisServer) -> None:
    client.set("a", 1)
    proxy.reset_mid_reply()
    with pytest.raises(Cut):
        client.set("a", 2)
    assert redis.ask("GET", "a") == "2"


def test_a_trickle_outlives_a_timeout_that_is_counted_per_read(proxy: Proxy, impatient: Redis) -> None:
    impatient.set("a", "0123456789" * 10)
    proxy.trickle(bytes_per_second=100 / (1.1 * TIMEOUT))
    started = time.monotonic()
    assert impatient.get("a") == b"0123456789" * 10
    assert time.monotonic() - started > TIMEOUT, "it waited for longer than its timeout: a call needs a deadline"
    proxy.normal()
    assert impatient.get("a") == b"0123456789" * 10


def test_latency_is_added_to_every_reply(proxy: Proxy, client: Redis) -> None:
    client.set("a", 1)
    proxy.latency(0.1)
    started = time.monotonic()
    assert client.get("a") == b"1"
    assert time.monotonic() - started >= 0.1
