"""The servers that the other tests stand on."""

from __future__ import annotations

from pathlib import Path

from rota.testing.redis_servers import RedisCluster, RedisServer, redis_server


def test_a_killed_server_comes_back_with_everything_that_it_acknowledged(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis", appendonly=True, appendfsync="always") as server:
        server.ask("SET", "kept", "yes")
        first = server.pid
        server.kill()
        server.start()
        assert server.ask("GET", "kept") == "yes"
        assert server.pid != first


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis") as server:
        pid = server.pid
    assert not (tmp_path / "redis").exists()
    assert not Path(f"/proc/{pid}").exists()


def test_each_test_begins_with_an_empty_redis(redis_url: str, redis: RedisServer) -> None:
    assert redis.url == redis_url
    assert redis.ask("DBSIZE") == 0


def test_the_cluster_serves_every_slot_from_three_nodes(redis_three: RedisCluster) -> None:
    assert len(redis_three.nodes) == 3
    assert redis_three.keys() == []
    assert redis_three.url.startswith("redis+cluster://")
