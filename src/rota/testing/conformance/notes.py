"""Notes: what all instances on one store must agree on, whoever says it first."""

from __future__ import annotations

import asyncio

import pytest

from rota.errors import InvalidInput
from rota.testing.conformance.world import Suite, World

__all__ = ["TestNotes"]


class TestNotes(Suite):
    async def test_the_first_one_counts(self, world: World) -> None:
        assert await world.store.noted("home") is None
        assert await world.store.note("home", "a") == "a"
        assert await world.store.note("home", "b") == "a"
        assert await world.store.noted("home") == "a"

    async def test_one_of_many_at_once_is_the_first_for_all(self, world: World) -> None:
        answers = await asyncio.gather(*(world.store.note("home", f"from {number}") for number in range(8)))
        assert set(answers) == {await world.store.noted("home")}

    async def test_replacing(self, world: World) -> None:
        assert await world.store.note("home", "a", replace=True) == "a"
        assert await world.store.note("home", "b", replace=True) == "b"
        assert await world.store.note("home", "c") == "b"

    async def test_each_name_by_itself(self, world: World) -> None:
        await world.store.note("home", "a")
        await world.store.note("swept_at", "Köln ✓")
        await world.tick()
        assert (await world.store.noted("home"), await world.store.noted("swept_at")) == ("a", "Köln ✓")

    @pytest.mark.parametrize(("name", "value"), [("", "a"), ("home", ""), ("home", "\x00")])
    async def test_what_cannot_be_kept_is_refused(self, world: World, name: str, value: str) -> None:
        with pytest.raises(InvalidInput):
            await world.store.note(name, value)
