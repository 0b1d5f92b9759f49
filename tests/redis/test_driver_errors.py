"""Every row of the table of the driver's errors, and nothing that the driver raises gets past it."""

from __future__ import annotations

import inspect
import ssl
from socket import gaierror

import pytest
from redis import exceptions as redis

from rota.errors import StoreError, StoreUnavailable
from rota.stores import open_store
from rota.stores.redis.driver_errors import TABLE, Meaning, may_be_half_done, meaning_of, translated
from rota.testing.redis_servers import HOST, RedisServer

HALF_WAY = "Error running script (call to f_1): @user_script:9: "

EXAMPLES: list[tuple[Exception, Meaning]] = [
    (redis.AuthenticationError("invalid username-password pair or user is disabled."), Meaning.LOGIN),
    (redis.AuthorizationError("no"), Meaning.LOGIN),
    (redis.AuthenticationWrongNumberOfArgsError("wrong number of arguments for 'auth' command"), Meaning.LOGIN),
    (redis.ExternalAuthProviderError("no token"), Meaning.LOGIN),
    (redis.NoPermissionError("this user has no permissions to run the 'evalsha' command"), Meaning.LOGIN),
    (redis.ResponseError("NOAUTH Authentication required."), Meaning.LOGIN),
    (redis.TryAgainError("Multiple keys request during rehashing of slot"), Meaning.MOVING),
    (redis.ClusterError("TTL exhausted."), Meaning.MOVING),
    (redis.ClusterCrossSlotError("Keys in request don't hash to the same slot"), Meaning.MISTAKE),
    (redis.CrossSlotTransactionError("one slot at a time"), Meaning.MISTAKE),
    (redis.InvalidPipelineStack("no"), Meaning.MISTAKE),
    (redis.DataError("Invalid input of type: 'dict'"), Meaning.MISTAKE),
    (redis.ResponseError(f"{HALF_WAY}-OOM command not allowed when used memory > 'maxmemory'."), Meaning.PASSES),
    (redis.ResponseError("MISCONF Redis is configured to save RDB snapshots"), Meaning.PASSES),
    (redis.ResponseError("NOREPLICAS Not enough good replicas to write."), Meaning.PASSES),
    (redis.ResponseError(f"{HALF_WAY}Script attempted to access a non local key in a cluster node"), Meaning.PASSES),
    (redis.ResponseError(f"{HALF_WAY}WRONGTYPE Operation against a key holding the wrong kind"), Meaning.FOREIGN),
    (redis.ResponseError("unknown command 'HELLO'"), Meaning.TOO_OLD),
    (redis.ReadOnlyError("You can't write against a read only replica."), Meaning.PASSES),
    (redis.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), Meaning.PASSES),
    (redis.BusyLoadingError("Redis is loading the dataset in memory"), Meaning.PASSES),
    (redis.ClusterDownError("The cluster is down"), Meaning.PASSES),
    (redis.MovedError("1234 127.0.0.1:7001"), Meaning.PASSES),
    (redis.NoScriptError("No matching script."), Meaning.PASSES),
    (redis.ResponseError(f"{HALF_WAY}attempt to index a nil value"), Meaning.MISTAKE),
    (ssl.SSLCertVerificationError("certificate verify failed"), Meaning.CERTIFICATE),
    (gaierror(-2, "Name or service not known"), Meaning.NAME),
    (redis.ConnectionError("Error -2 connecting to nowhere:6379. Name or service not known."), Meaning.NAME),
    (redis.ConnectionError("Error 1 connecting to a:6379. [SSL: WRONG_VERSION_NUMBER]."), Meaning.CERTIFICATE),
    (redis.ConnectionError("Connection closed by server."), Meaning.AWAY),
    (redis.MaxConnectionsError("Too many connections"), Meaning.AWAY),
    (redis.TimeoutError("Timeout reading from a:6379"), Meaning.AWAY),
    (redis.RedisClusterException("Redis Cluster cannot be connected."), Meaning.AWAY),
    (redis.SlotNotCoveredError("Slot 5 is not covered by the cluster."), Meaning.AWAY),
    (ConnectionResetError(104, "Connection reset by peer"), Meaning.AWAY),
    # Nothing in the table speaks of these: what the driver stumbles over while nodes come and go, and what is to come.
    (AttributeError("'NoneType' object has no attribute 'execute_command'"), Meaning.AWAY),
    (redis.ResponseError("SOMETHING new"), Meaning.AWAY),
    (RuntimeError("Event loop is closed"), Meaning.AWAY),
]


@pytest.mark.parametrize(("error", "meaning"), EXAMPLES, ids=[f"{type(e).__name__}-{m.name}" for e, m in EXAMPLES])
def test_each_error_has_its_meaning(error: Exception, meaning: Meaning) -> None:
    assert meaning_of(error) is meaning
    told = translated("redis://here", error)
    assert isinstance(told, StoreUnavailable) is meaning.is_outage
    assert "redis://here" in str(told)
    assert str(told).endswith(meaning.value)


def test_every_row_of_the_table_has_an_example() -> None:
    used = {next((at for at, row in enumerate(TABLE) if row.fits(error)), None) for error, _ in EXAMPLES}
    assert used >= set(range(len(TABLE))), [TABLE[at] for at in set(range(len(TABLE))) - used]


def test_every_error_of_the_driver_becomes_one_of_ours() -> None:
    kinds = [kind for kind in vars(redis).values() if inspect.isclass(kind) and issubclass(kind, Exception)]
    assert len(kinds) > 20
    for kind in kinds:
        error = kind("1 a:1") if issubclass(kind, redis.AskError) else kind("trouble")
        assert isinstance(translated("redis://here", error), StoreError)


@pytest.mark.parametrize(
    ("error", "is_half_done"),
    [
        (redis.ResponseError(f"{HALF_WAY}WRONGTYPE Operation"), True),
        (redis.OutOfMemoryError("command not allowed script: 3b8a, on @user_script:1."), True),
        (redis.TryAgainError("Multiple keys request during rehashing of slot"), False),
        (redis.ConnectionError("Connection closed by server."), False),
    ],
)
def test_only_a_script_that_has_begun_may_be_half_done(error: Exception, is_half_done: bool) -> None:
    assert may_be_half_done(error) is is_half_done


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://{host}:1/0", "cannot be used right now"),
        ("redis://nowhere.invalid:6379/0", "has no address"),
        ("redis://:secret@{host}:{port}/0", "refuses the login"),
        ("redis+sentinel://{host}:1/mymaster/0", "cannot be used right now"),
        ("redis+cluster://{host}:1", "cannot be used right now"),
        ("redis+cluster://{host}:{port}", "Cluster mode is not enabled"),
    ],
)
async def test_whatever_keeps_it_from_connecting_is_said(url: str, words: str, redis: RedisServer) -> None:
    store = open_store(url.format(host=HOST, port=redis.port))
    with pytest.raises(StoreUnavailable, match=words):
        await store.open()
