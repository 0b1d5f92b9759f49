"""Memory in an app: the built-in types, the configuration over them, and the factories of the scheduler interface."""

from __future__ import annotations

import gc
import weakref

import pytest
from tests.memory.stage import capture

from rota import Rota
from rota.access import Principal
from rota.errors import InvalidConfig
from rota.memory import (
    MEMORY_TYPES,
    ChatPush,
    Contexts,
    Message,
    Owner,
    Scope,
    create_cleanup_handler,
    create_compression_handler,
    install_memory,
    memory_of,
    periodic_memory_compression_for_user,
)
from rota.memory.operator import MemoryOperator
from rota.memory.setup import touched_types
from rota.testing import FakeClock

SAME = ["I love hiking in the mountains.", "I really love hiking in the mountains!"]


def say(user_id: str, *texts: str) -> ChatPush:
    return ChatPush(messages=[Message(content=text) for text in texts], user_id=user_id)


async def test_the_built_in_types_are_the_documented_ones(sqlite_url: str, clock: FakeClock) -> None:
    app = Rota(sqlite_url, clock=clock)
    install_memory(app)
    async with app:
        known = {record.task_type.name: record.task_type for record in await app.types()}
    rows = [(one.name, str(one.trigger_mode), one.enabled, one.interval_ms, one.timeout_ms) for one in MEMORY_TYPES]
    assert rows == [
        ("memory_compression", "user_activity", True, 1_800_000, 300_000),
        ("embedding_refresh", "user_activity", False, 3_600_000, 120_000),
        ("data_cleanup", "periodic", True, 86_400_000, 600_000),
        ("statistics_update", "periodic", True, 3_600_000, 120_000),
        ("hierarchy_summary", "user_activity", False, 86_400_000, 600_000),
    ]
    for task_type in MEMORY_TYPES:
        assert known[task_type.name] == task_type


async def test_a_configuration_wins(sqlite_url: str, clock: FakeClock) -> None:
    tasks = {
        "memory_compression": {"interval": "5m", "similarity_threshold": 0.99, "batch_size": 7},
        "embedding_refresh": {"enabled": True},
        "data_cleanup": {"retention_days": 3},
        "profile_update": {"trigger_mode": "user_activity"},
    }
    app = Rota({"store": sqlite_url, "scheduler": {"tasks": tasks}, "memory": {"anonymous": "reject"}}, clock=clock)
    memory = install_memory(app)
    settings = memory.settings
    assert (settings.threshold, settings.batch_size, settings.retention_days) == (0.99, 7, 3)
    assert settings.anonymous == "reject"
    assert touched_types(app.host) == ["memory_compression", "embedding_refresh", "profile_update"]
    async with app:
        await memory.push(say("u1", *SAME))
        await memory.drain()
        counts = await app.counts()
        assert {name: one.pending for name, one in counts.items() if one.pending} == {
            "memory_compression": 1,
            "embedding_refresh": 1,
            "profile_update": 1,
            "data_cleanup": 1,
            "statistics_update": 1,
        }


async def test_whoever_falls_silent_is_compressed_too(sqlite_url: str, clock: FakeClock) -> None:
    """The last words came within the settling lag of the only task that there was."""
    app = Rota(sqlite_url, clock=clock)
    memory = install_memory(app)
    async with app:
        await memory.push(say("u1", SAME[0]))
        await memory.drain()
        clock.advance("28m")
        await memory.push(say("u1", SAME[1]))
        await memory.drain()
        clock.advance("2m")
        await app.run_until_idle()
        assert (await memory.figures("u1")).fresh == 1
        clock.advance("30m")
        await app.run_until_idle()
        figures = await memory.figures("u1")
        assert (figures.fresh, figures.merged, figures.results) == (0, 2, 1)
        clock.advance("2h")
        await app.run_until_idle()
        assert (await app.counts())["memory_compression"].created_total == 1
        assert (await memory.figures("u1")).compressions == 2


async def test_whoever_was_forgotten_is_found(sqlite_url: str, clock: FakeClock) -> None:
    """A process died between keeping a context and touching: the hourly count asks for the upkeep."""
    app = Rota(sqlite_url, clock=clock)
    memory = install_memory(app)
    async with app:
        await capture(Contexts(await app.database()), Owner("u1", "phone"), SAME)
        for _ in range(6):
            clock.advance("1h")
            await app.run_until_idle()
        assert (await memory.figures("u1")).fresh == 0


async def test_a_key_without_devices_stands_for_all_of_them(sqlite_url: str, clock: FakeClock) -> None:
    keys = {"use_device_id": False, "use_agent_id": False}
    app = Rota({"store": sqlite_url, "scheduler": {"user_key_config": keys}}, clock=clock)
    memory = install_memory(app)
    async with app:
        for device in ("phone", "laptop"):
            push = ChatPush(messages=[Message(content=text) for text in SAME], user_id="u1", device_id=device)
            await memory.push(push)
        await memory.drain()
        clock.advance("31m")
        await app.run_until_idle()
        assert (await memory.figures("u1")).results == 2


async def test_the_handlers_of_the_scheduler_interface(sqlite_url: str, clock: FakeClock) -> None:
    tasks = {"data_cleanup": {"trigger_mode": "periodic"}}
    app = Rota({"store": sqlite_url, "scheduler": {"tasks": tasks}}, clock=clock)
    memory = memory_of(app)
    app.register_handler("data_cleanup", create_cleanup_handler(memory))
    async with app:
        contexts = Contexts(await app.database())
        await capture(contexts, Owner("u1"), SAME)
        clock.advance("6m")
        handler = create_compression_handler(memory)
        assert await handler("u1", None, None) is True
        assert (await memory.figures("u1")).results == 1
        assert (await periodic_memory_compression_for_user(memory, "u1"))["looked_at"] == 0
        with pytest.raises(ValueError, match="interval_seconds"):
            await periodic_memory_compression_for_user(memory, "u1", interval_seconds=0)
        clock.advance("31d")
        await app.run_until_idle()
        assert (await memory.figures("u1")).merged == 0


async def test_an_error_is_never_a_success(sqlite_url: str, clock: FakeClock) -> None:
    class Broken:
        async def periodic_memory_compression_for_user(
            self, user_id: str, device_id: str | None = None, agent_id: str | None = None, interval_seconds: int = 1800
        ) -> None:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await create_compression_handler(Broken())("u1", None, None)


async def test_an_app_without_the_type_compresses_all_the_same(sqlite_url: str, clock: FakeClock) -> None:
    app = Rota(sqlite_url, clock=clock)
    memory = memory_of(app)
    async with app:
        contexts = Contexts(await app.database())
        await capture(contexts, Owner("u1"), SAME)
        clock.advance("6m")
        await capture(contexts, Owner("u1"), ["Too young."])
        done = await memory.periodic_memory_compression_for_user("u1")
        assert (done.merged, done.has_unsettled) == (2, True)


async def test_search_and_lineage(sqlite_url: str, clock: FakeClock) -> None:
    app = Rota(sqlite_url, clock=clock)
    memory = install_memory(app)
    async with app:
        await memory.push(say("u1", *SAME, "The invoice number is 2024-118."))
        await memory.drain()
        clock.advance("31m")
        await app.run_until_idle()
        first, *rest = await memory.search("u1", "hiking mountains")
        assert first.context.merge_count == 2
        assert first.similarity > 0.7
        assert all(one.similarity < 0.3 for one in rest)
        lineage = await memory.lineage("u1", first.context.id)
        assert lineage is not None
        assert [source.text for source in lineage.sources] == SAME
        assert await memory.lineage("u2", first.context.id) is None
        assert (await Contexts(await app.database()).page(Scope("u2"))).contexts == []
        assert (await memory.statistics())["users"] == 1


def test_a_model_needs_an_address(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InvalidConfig, match="OPENAI_BASE_URL"):
        install_memory(Rota({"store": sqlite_url, "memory": {"merge": "llm", "llm_model": "small"}}))


def test_a_model_is_configured_and_its_key_is_not_shown(sqlite_url: str) -> None:
    settings = {"merge": "llm", "llm_url": "http://models.test/v1", "llm_model": "small", "llm_key": "hush-hush"}
    app = Rota({"store": sqlite_url, "memory": {**settings, "settling": "2m"}})
    memory = install_memory(app)
    assert memory_of(app) is memory
    assert memory.settings.settling_ms == 120_000
    shown = {row.path: row.value for row in app.config.rows()}
    assert (shown["memory.merge"], shown["memory.llm_key"]) == ("llm", "***")
    assert "hush-hush" not in repr(app.config) + str(app.config.rows())


def test_a_misspelt_key_is_not_shown_either(sqlite_url: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        Rota({"store": sqlite_url, "memory": {"llm_keys": "hush-hush"}})
    assert "hush-hush" not in str(refused.value)


async def test_a_memory_does_not_hold_its_app(sqlite_url: str, clock: FakeClock) -> None:
    """Whoever makes many apps, as tests do, gets rid of them."""
    app = Rota(sqlite_url, clock=clock)
    install_memory(app)
    gone = weakref.ref(app)
    del app
    gc.collect()
    assert gone() is None


async def test_a_missing_device_is_the_one_that_tasks_take_it_for(sqlite_url: str, clock: FakeClock) -> None:
    """Else what was pushed without a device would be looked for elsewhere by a call without one."""
    keys = {"default_device_id": "main", "default_agent_id": "coach"}
    app = Rota({"store": sqlite_url, "scheduler": {"user_key_config": keys}}, clock=clock)
    memory = install_memory(app)
    async with app:
        await memory.push(say("u1", *SAME))
        await memory.drain()
        clock.advance("6m")
        assert (await memory.periodic_memory_compression_for_user("u1")).merged == 2
        assert {one.owner for one in (await (await memory.contexts()).page(Scope("u1"))).contexts} == {
            Owner("u1", "main", "coach")
        }


async def test_an_operator_compresses_all_devices_of_a_user(sqlite_url: str, clock: FakeClock) -> None:
    app = Rota(sqlite_url, clock=clock)
    install_memory(app)
    async with app:
        for device in ("phone", "laptop"):
            await capture(Contexts(await app.database()), Owner("u1", device), SAME)
        clock.advance("6m")
        operator = MemoryOperator(app, Principal.at_the_command_line())
        assert (await operator.compress("u1", "phone")).groups == 1
        assert (await operator.compress("u1")).groups == 1


async def test_all_who_were_forgotten_are_found(
    sqlite_url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page after page: those on the first one may be blocked for long."""
    monkeypatch.setattr("rota.memory.memory.OVERDUE_OWNERS", 2)
    app = Rota(sqlite_url, clock=clock)
    memory = install_memory(app)
    async with app:
        for number in range(5):
            await capture(Contexts(await app.database()), Owner(f"u{number % 3}", f"d{number}"), SAME)
        clock.advance("2h")
        assert await memory.remind(0) == 5
        assert (await app.counts())["memory_compression"].pending == 5


async def test_what_has_nothing_in_common_is_not_found(sqlite_url: str, clock: FakeClock) -> None:
    app = Rota(sqlite_url, clock=clock)
    memory = install_memory(app)
    async with app:
        await memory.push(say("u1", *SAME))
        assert await memory.search("u1", "???") == []
        assert len(await memory.search("u1", "hiking")) == 2
