"""Work on files: together on one thread, in order, and each answer to whoever asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from rota.agents.runs.file_work import FileWork
from rota.testing.waiting import until


async def test_what_is_asked_for_meanwhile_is_done_together_and_in_order() -> None:
    files, may_go_on = FileWork(), threading.Event()
    done: list[tuple[int, int]] = []

    def note(number: int) -> Callable[[], int]:
        def work() -> int:
            done.append((number, threading.get_ident()))
            return number

        return work

    first = files.begin(may_go_on.wait)
    others = [files.begin(note(number)) for number in range(20)]
    may_go_on.set()
    assert await asyncio.gather(first, *others) == [True, *range(20)]
    assert [number for number, _ in done] == list(range(20))
    assert threading.get_ident() not in {thread for _, thread in done}


async def test_what_fails_fails_for_whoever_asked_for_it() -> None:
    files = FileWork()

    def fail() -> None:
        raise PermissionError("not yours")

    answers = await asyncio.gather(
        files.begin(lambda: 1), files.begin(fail), files.begin(lambda: 2), return_exceptions=True
    )
    assert [answers[0], answers[2]] == [1, 2]
    assert isinstance(answers[1], PermissionError)


async def test_what_somebody_asked_for_who_was_cancelled_is_done_all_the_same() -> None:
    files, may_go_on = FileWork(), threading.Event()
    done: list[str] = []
    first = files.begin(may_go_on.wait)
    second = files.begin(lambda: done.append("second"))
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    may_go_on.set()
    assert await first
    await until(lambda: done == ["second"])


def test_it_goes_on_in_another_loop() -> None:
    files = FileWork()

    async def ask() -> int:
        return await files.begin(lambda: 7)

    async def leave() -> None:
        files.begin(lambda: 1)

    asyncio.run(leave())
    assert asyncio.run(ask()) == 7
