"""`rota doctor` on a real Redis, and on servers that are described to it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from command_line import CallRota

from rota.cli import doctor_redis
from rota.cli.doctor_redis import examine
from rota.part import CheckResult
from rota.testing.redis_servers import RedisServer, redis_server

SOUND: dict[str, object] = {
    "redis_version": "8.2.2",
    "redis_mode": "standalone",
    "role": "master",
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "rdb_last_bgsave_status": "ok",
    "maxmemory_policy": "noeviction",
    "maxmemory": 0,
    "used_memory": 1_048_576,
}


class Described:
    """A server that says what it is told to say."""

    def __init__(self, facts: dict[str, object], appendfsync: str | None = "everysec") -> None:
        self._facts, self._appendfsync = facts, appendfsync

    def execute_command(self, *args: Any) -> Any:
        from redis.exceptions import ResponseError

        match args[0]:
            case "INFO":
                return self._facts
            case "CONFIG GET" if self._appendfsync is None:
                raise ResponseError("unknown command 'CONFIG'")
            case "CONFIG GET":
                return {"appendfsync": self._appendfsync}
            case _:
                return "ok"

    def close(self) -> None:
        """There is nothing to close."""


def of(check: str, facts: dict[str, object], appendfsync: str | None = "everysec") -> CheckResult:
    found = doctor_redis.of_server("", Described({**SOUND, **facts}, appendfsync), "scheduler:")
    return {finding.check: finding for finding in found}[check]


@pytest.fixture
def durable(tmp_path: Path) -> Generator[RedisServer]:
    with redis_server(tmp_path / "redis", appendonly=True, appendfsync="always") as server:
        yield server


def by_check(url: str) -> dict[str, CheckResult]:
    return {finding.check: finding for finding in examine(url)}


# --- a real one -----------------------------------------------------------------------------------------------------


def test_a_durable_server(durable: RedisServer) -> None:
    found = by_check(durable.url)

    assert list(found) == ["redis", "security", "persistence", "eviction", "memory", "acl"]
    assert {name for name, finding in found.items() if finding.status != "ok"} <= {"security"}
    assert "nothing that was accepted is lost" in found["persistence"].detail
    assert durable.ask("KEYS", "*") == []


def test_a_server_that_forgets(redis_url: str) -> None:
    found = by_check(redis_url)["persistence"]

    assert found.status == "warning"
    assert "appendonly yes" in found.advice


def test_a_server_that_throws_tasks_away(durable: RedisServer) -> None:
    durable.ask("CONFIG SET", "maxmemory-policy", "allkeys-lru")
    assert by_check(durable.url)["eviction"].status == "warning"

    durable.ask("CONFIG SET", "maxmemory", "100mb")
    found = by_check(durable.url)["eviction"]
    assert (found.status, found.detail) == ("error", "allkeys-lru")
    assert "maxmemory-policy noeviction" in found.advice


def test_a_server_that_is_full(durable: RedisServer) -> None:
    durable.ask("CONFIG SET", "maxmemory", "1mb")

    found = by_check(durable.url)

    assert found["memory"].status == "warning"
    assert "Raise maxmemory" in found["memory"].advice


def login(server: RedisServer, *rules: str) -> str:
    server.ask("ACL SETUSER", "app", "reset", "on", ">secret", "resetchannels", *rules)
    return server.url.replace("://", "://app:secret@")


def test_a_user_who_may_do_what_is_needed(durable: RedisServer) -> None:
    url = login(durable, "~scheduler:*", "&scheduler:*", "+@all", "-@admin")

    assert by_check(url)["acl"] == CheckResult("acl", "ok", "the user 'app' may do all that Rota needs")


def test_a_user_who_lacks_a_command(durable: RedisServer) -> None:
    url = login(durable, "~*", "&*", "+@all", "-publish", "-eval")

    found = by_check(url)["acl"]

    assert (found.status, found.detail) == ("error", "the user 'app' may not: EVAL, PUBLISH")
    assert found.advice == "Allow it: ACL SETUSER app +eval +publish"


def test_a_user_who_may_not_touch_the_keys(durable: RedisServer) -> None:
    url = login(durable, "~other:*", "&other:*", "+@all")

    found = by_check(url)["acl"]

    assert found.status == "error"
    assert "~scheduler:* resetchannels &scheduler:*" in found.advice
    assert by_check(f"{url}?prefix=other:")["acl"].status == "ok"


def test_a_user_who_may_not_ask(durable: RedisServer) -> None:
    found = by_check(login(durable, "~*", "&*", "+@all", "-info"))

    assert list(found) == ["redis", "acl"]
    assert "Allow INFO" in found["redis"].advice


def test_every_primary_of_a_cluster_is_asked(redis_cluster_url: str) -> None:
    found = by_check(redis_cluster_url)

    assert ", cluster, master" in found["redis"].detail
    assert found["redis"].detail.startswith("127.0.0.1:")
    assert found["acl"].status == "ok"


def test_nobody_there_is_left_to_the_store() -> None:
    assert examine("redis://127.0.0.1:1/0") == []
    assert examine("redis+sentinel://127.0.0.1:1") == []


def test_the_whole_command(rota: CallRota, redis_url: str) -> None:
    said = rota("doctor", "--json", "--store", redis_url)

    found = {check["check"]: check["status"] for check in said.json["checks"]}
    assert found["eviction"] == "ok"
    assert found["acl"] == "ok"


# --- described ones -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({}, "ok"),
        ({"redis_version": "6.2.0"}, "ok"),
        ({"redis_version": "6.0.20"}, "error"),
        ({"role": "slave"}, "error"),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.4", "server_name": "valkey"}, "ok"),
    ],
)
def test_versions_and_roles(facts: dict[str, object], status: str) -> None:
    assert of("redis", facts).status == status


@pytest.mark.parametrize(
    ("version", "status"),
    [
        *[("6.2.19", "warning"), ("6.2.20", "ok"), ("7.0.15", "warning"), ("7.2.10", "warning"), ("7.2.11", "ok")],
        *[("7.4.5", "warning"), ("7.4.6", "ok"), ("8.0.3", "warning"), ("8.0.4", "ok"), ("8.2.1", "warning")],
        *[("8.2.2", "ok"), ("8.4.0", "ok"), ("9.0.0", "ok"), ("6.2.12-rc1", "warning")],
    ],
)
def test_the_hole_in_the_script_engine(version: str, status: str) -> None:
    found = of("security", {"redis_version": version})
    assert found.status == status
    assert ("CVE-2025-49844" in found.detail) == (status == "warning")


@pytest.mark.parametrize(
    ("version", "status"), [("7.2.10", "warning"), ("8.1.3", "warning"), ("8.1.4", "ok"), ("9.0.0", "ok")]
)
def test_the_same_hole_in_valkey(version: str, status: str) -> None:
    assert of("security", {"redis_version": "7.2.4", "valkey_version": version}).status == status


def test_the_upgrade_that_is_nearest_is_named() -> None:
    assert "7.2.11 or 7.4.6" in of("security", {"redis_version": "7.2.4"}).advice


@pytest.mark.parametrize(
    ("appendfsync", "facts", "status", "words"),
    [
        ("always", {}, "ok", "nothing that was accepted is lost"),
        ("everysec", {}, "ok", "a power cut may lose the last second"),
        ("no", {}, "warning", "appendfsync no"),
        (None, {}, "ok", "unknown"),
        ("always", {"aof_enabled": 0}, "warning", "off"),
        ("always", {"aof_last_write_status": "err"}, "error", "aof_last_write_status"),
        ("always", {"rdb_last_bgsave_status": "err"}, "error", "rdb_last_bgsave_status"),
    ],
)
def test_persistence(appendfsync: str | None, facts: dict[str, object], status: str, words: str) -> None:
    found = of("persistence", facts, appendfsync)
    assert found.status == status
    assert words in found.detail


def test_the_gravest_node_is_shown() -> None:
    sound = [CheckResult("memory", "ok", "a: fine")]
    grave = [CheckResult("memory", "warning", "b: full", "Raise it.")]
    assert doctor_redis.worst([sound, grave, sound]) == grave
