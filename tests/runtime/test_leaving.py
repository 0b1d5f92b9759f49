"""What a run leaves: its traceback, its lines, its progress and its steps; and the group its failure belongs to."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import process_handlers
import pytest
import structlog
from stage import Stage

from rota.core.run_details import RunDetails, decode_details
from rota.masking import masker
from rota.runtime import Discard, Retry, Run, WorkerSettings, capture
from rota.runtime.handler import HandlerFunction
from rota.stores.base import MAX_DETAILS_BYTES, RunRef
from rota.testing.waiting import until

log = logging.getLogger("shop.cart")
SECRET = "sk-very-secret-0123456789"


async def left(stage: Stage, name: str = "work") -> list[RunDetails | None]:
    """What the runs have left, oldest first."""
    runs = await stage.runs(name)
    found = await stage.store.details([RunRef(run.task_type, run.key, run.token) for run in runs])
    return [None if text is None else decode_details(text) for text in found]


async def left_by(
    stage: Stage, function: HandlerFunction, payload: object = None, *, process: bool = False
) -> RunDetails:
    await stage.add(function, process=process)
    await stage.schedule("u1", payload=None if payload is None else json.dumps(payload))
    await stage.worker().run_until_idle()
    (details,) = await left(stage)
    assert details is not None, "it has left nothing"
    return details


def charge(amount: int) -> None:
    raise ConnectionError(f"gateway 10.0.0.{amount} refused order {amount}, token={SECRET}")


async def test_an_exception_leaves_its_traceback(stage: Stage) -> None:
    async def handle() -> None:
        charge(7)

    details = await left_by(stage, handle, {"amount": 7, "password": "hunter22"})
    assert details.exception == "ConnectionError"
    assert details.place == "test_leaving.py in charge" or (details.place or "").endswith("test_leaving.py in charge")
    assert details.traceback is not None
    assert "in handle" in details.traceback
    assert "charge(7)" in details.traceback
    assert "rota/runtime" not in details.traceback, "how the handler was called is nobody's question"
    assert str(Path.cwd()) not in details.traceback, "paths are those of the project"
    assert (details.pid, details.host != "") == (os.getpid(), True)
    assert details.payload == '{"amount":7,"password":"***"}'
    everything = repr(details)
    assert SECRET not in everything
    assert "hunter22" not in everything
    (run,) = await stage.runs()
    assert SECRET not in (run.error or "")


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_lines_are_kept_with_their_level_and_the_run_they_came_from(memory_stage: Stage, kind: str) -> None:
    both_began = threading.Barrier(2)

    def say(user_id: str) -> None:
        log.warning("charging %s", user_id)
        print("paid by", user_id)  # noqa: T201  # that is what is tried

    async def handle(user_id: str) -> None:
        say(user_id)
        await asyncio.to_thread(say, f"{user_id} in a thread")

    def threaded(user_id: str) -> None:
        both_began.wait(30)
        say(user_id)

    await memory_stage.add(handle if kind == "async" else threaded)
    await memory_stage.schedule("u1", "u2")
    await memory_stage.worker(WorkerSettings(max_concurrent=2)).run_until_idle()
    runs = {run.key: details for run, details in zip(await memory_stage.runs(), await left(memory_stage), strict=True)}
    for key in ("u1", "u2"):
        details = runs[key]
        assert details is not None
        said = [(line.level, line.logger, line.text) for line in details.lines]
        assert said[:2] == [("warning", "shop.cart", f"charging {key}"), ("print", "", f"paid by {key}")]
        assert all(key in line.text for line in details.lines), "no line of the other one"
        assert len(said) == (4 if kind == "async" else 2)


async def test_what_says_nothing_leaves_nothing(stage: Stage) -> None:
    async def handle() -> str:
        return "done"

    await stage.add(handle)
    await stage.schedule("u1")
    await stage.worker().run_until_idle()
    assert await left(stage) == [None]


async def test_a_success_keeps_lines_progress_and_steps(stage: Stage) -> None:
    async def handle(run: Run) -> None:
        with run.step("download"):
            run.progress({"files": 3})
        log.error("one file was odd")

    details = await left_by(stage, handle)
    assert [(step.name, step.to_ms is not None, step.error) for step in details.steps] == [("download", True, None)]
    assert [json.loads(each.value) for each in details.progress] == [{"files": 3}]
    assert [line.text for line in details.lines] == ["one file was odd"]
    assert (details.traceback, details.payload) == (None, None)


async def test_a_step_that_fails_says_so(memory_stage: Stage) -> None:
    async def handle(run: Run) -> None:
        with run.step("charge"):
            raise KeyError("amount")

    details = await left_by(memory_stage, handle)
    assert [(step.name, step.error) for step in details.steps] == [("charge", "KeyError")]


async def test_an_exception_in_a_logged_line_comes_along(memory_stage: Stage) -> None:
    async def handle() -> None:
        try:
            charge(1)
        except ConnectionError:
            log.exception("could not charge")

    details = await left_by(memory_stage, handle)
    (line,) = details.lines
    assert line.text.startswith("could not charge\nTraceback")
    assert SECRET not in line.text


async def test_of_very_many_lines_the_first_and_the_last_are_kept(memory_stage: Stage) -> None:
    async def handle() -> None:
        for number in range(5_000):
            print(number, "x" * 2_000)  # noqa: T201  # that is what is tried
        raise ValueError("y" * 100_000)

    details = await left_by(memory_stage, handle)
    numbers = [int(line.text.split()[0]) for line in details.lines]
    assert numbers[-1] == 4_999
    assert details.lines_left_out == 5_000 - len(numbers)
    (run,) = await memory_stage.runs()
    (text,) = await memory_stage.store.details([RunRef(run.task_type, run.key, run.token)])
    assert len((text or "").encode()) <= MAX_DETAILS_BYTES
    assert details.traceback is not None
    assert "characters left out" in details.traceback


async def test_what_was_written_without_a_line_end_is_kept(memory_stage: Stage) -> None:
    async def handle() -> None:
        sys.stdout.write("50 %\r100 %")

    details = await left_by(memory_stage, handle)
    assert [line.text for line in details.lines] == ["50 %", "100 %"]


async def test_a_timeout_says_where_the_handler_was(memory_stage: Stage) -> None:
    async def read_for_ever() -> None:
        await asyncio.Event().wait()

    async def handle() -> None:
        await read_for_ever()

    await memory_stage.add(handle, timeout_ms=50)
    await memory_stage.schedule("u1")
    await memory_stage.worker().run_until_idle()
    (details,) = await left(memory_stage)
    assert details is not None
    assert (details.exception, details.place) == ("timeout", details.place)
    assert "read_for_ever" in (details.place or "")
    assert "await read_for_ever()" in (details.traceback or "")


async def test_a_thread_that_is_over_its_time_says_where_it_is(memory_stage: Stage) -> None:
    may_go = threading.Event()

    def wait_for_ever() -> None:
        may_go.wait(60)

    await memory_stage.add(wait_for_ever, timeout_ms=50)
    await memory_stage.schedule("u1")
    try:
        async with memory_stage.at_work():
            await until(lambda: left(memory_stage))
            (details,) = await left(memory_stage)
    finally:
        may_go.set()
    assert details is not None
    assert "wait_for_ever" in (details.place or "")


async def test_a_signal_says_what_stood_behind_it(memory_stage: Stage) -> None:
    async def handle() -> None:
        try:
            charge(3)
        except ConnectionError as error:
            raise Retry(after="1h", reason="busy") from error

    await memory_stage.add(handle, max_retries=3)
    await memory_stage.schedule("u1")
    await memory_stage.worker().run_until_idle()
    (details,) = await left(memory_stage)
    assert details is not None
    assert details.exception == "ConnectionError"


async def test_a_discard_leaves_no_failure(memory_stage: Stage) -> None:
    async def handle() -> None:
        raise Discard("not needed")

    await memory_stage.add(handle)
    await memory_stage.schedule("u1")
    await memory_stage.worker().run_until_idle()
    assert await left(memory_stage) == [None]
    assert await memory_stage.store.failures() == []


class Broken(Exception):
    """As broken as an exception can be."""

    def __str__(self) -> str:
        raise RuntimeError("not even a text")


async def test_an_exception_that_cannot_be_shown_is_still_a_failure(memory_stage: Stage) -> None:
    async def handle() -> None:
        raise Broken

    details = await left_by(memory_stage, handle)
    assert details.exception == "Broken"
    assert await memory_stage.status("u1") == "failed"


# --- groups ---


async def test_the_same_failure_of_many_is_one_group(stage: Stage) -> None:
    async def handle(user_id: str) -> None:
        if user_id == "other":
            raise KeyError("amount")
        charge(int(user_id.removeprefix("u")))

    await stage.add(handle)
    await stage.schedule(*(f"u{number}" for number in range(23)), "other")
    async with stage.at_work():

        async def counted() -> bool:
            return sum(each.group.count for each in await stage.store.failures()) == 24

        await until(counted)
    groups = {each.group.kind: each for each in await stage.store.failures()}
    assert {kind: (each.group.count, each.group.user_count, each.dead) for kind, each in groups.items()} == {
        "ConnectionError": (23, 23, 23),
        "KeyError": (1, 1, 1),
    }
    group = groups["ConnectionError"].group
    assert SECRET not in group.message
    assert "<n>" in group.message
    assert {run.failure for run in await stage.runs()} == {each.group.id for each in groups.values()}


# --- a process of its own ---


async def test_a_child_tells_what_it_leaves(memory_stage: Stage) -> None:
    details = await left_by(memory_stage, process_handlers.leaves, {"user": "u1"}, process=True)
    assert [(line.level, line.text) for line in details.lines] == [
        ("info", "charging u1"),
        ("print", "api_key=***"),
        ("print", "no line end"),
    ]
    assert [step.name for step in details.steps] == ["charge"]
    assert [each.value for each in details.progress] == ['{"done":1}']
    assert (details.exception, (details.place or "").endswith("process_handlers.py in leaves")) == (
        "ConnectionError",
        True,
    )
    assert "the gateway hung up" in (details.traceback or "")


async def test_the_lines_of_a_child_that_dies_are_kept(memory_stage: Stage) -> None:
    details = await left_by(memory_stage, process_handlers.leaves_and_dies, process=True)
    assert [line.text for line in details.lines] == ["last words"]


# --- while it runs, and after a crash ---


async def test_a_run_under_way_can_be_watched(stage: Stage) -> None:
    may_end = asyncio.Event()

    async def handle() -> None:
        log.warning("first")
        await may_end.wait()

    await stage.add(handle)
    await stage.schedule("u1")
    async with stage.at_work():
        task = await stage.reached("u1", "running")
        ref = RunRef(task.task_type, task.key, task.token)

        async def seen() -> str | None:
            return (await stage.store.details([ref]))[0]

        await until(seen, "the line is there while it runs")
        may_end.set()
        await stage.reached("u1", "completed")
    assert [line.text for line in decode_details(str(await seen())).lines] == ["first"]


# --- how lines are heard ---


@contextmanager
def listening() -> Generator[list[tuple[str, str]]]:
    """What a run is given, with nothing but this in the way."""
    kept: list[tuple[str, str]] = []

    class Keeps:
        def keep_line(self, text: str, level: str, logger: str = "") -> None:
            kept.append((level, text))

        def keep_print(self, text: str, level: str) -> None:
            kept.extend((level, line) for line in text.splitlines() if line.strip())

    capture.listen()
    capture.entered(Keeps())
    try:
        yield kept
    finally:
        capture.stop_listening()


def test_nobodys_logging_is_changed() -> None:
    with listening() as kept:
        assert not any(type(handler).__module__.startswith("rota") for handler in logging.root.handlers)
        log.warning("said once")
        with pytest.raises(TypeError):
            raise TypeError(log.name)
        assert kept == [("warning", "said once")]


def test_a_line_that_is_printed_by_its_logger_is_kept_once() -> None:
    with listening() as kept:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        log.addHandler(handler)
        try:
            log.warning("to the terminal, too")
        finally:
            log.removeHandler(handler)
        print("another")  # noqa: T201  # that is what is tried
        assert kept == [("warning", "to the terminal, too"), ("print", "another")]


def test_an_event_of_structlog_is_kept_once_wherever_it_goes() -> None:
    with listening() as kept:
        before = structlog.get_config()
        try:
            structlog.configure(
                processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()],
                logger_factory=structlog.stdlib.LoggerFactory(),
                cache_logger_on_first_use=False,
            )
            capture.keep_listening()
            structlog.get_logger("shop").warning("charged", amount=7)
            structlog.configure(
                processors=[structlog.dev.ConsoleRenderer()], logger_factory=structlog.PrintLoggerFactory()
            )
            capture.keep_listening()
            structlog.get_logger("shop").error("refused")
        finally:
            structlog.configure(**before)
        assert kept == [("warning", "charged amount=7"), ("error", "refused")]


def test_a_record_that_does_not_fit_its_arguments_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as kept:
        monkeypatch.setattr(logging, "raiseExceptions", False)
        log.warning("%d items", "many")
        assert kept == [("warning", "%d items ('many',)")]


def test_streams_stay_what_they_are() -> None:
    with listening() as kept:
        assert sys.stdout.writable()
        assert isinstance(sys.stdout.encoding, str)
        sys.stdout.writelines(["one\n", "two\n"])
        assert kept == [("print", "one"), ("print", "two")]


def test_everything_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = StringIO()
    monkeypatch.setattr(sys, "stdout", mine)
    factory = logging.getLogRecordFactory()
    capture.listen()
    capture.listen()
    capture.stop_listening()
    assert sys.stdout is not mine, "another worker still listens"
    capture.stop_listening()
    assert sys.stdout is mine
    assert logging.getLogRecordFactory() is factory


def test_the_environments_secrets_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "plain-words-as-a-key")
    masker.cache_clear()
    try:
        assert masker().text("sent plain-words-as-a-key to them") == "sent *** to them"
    finally:
        masker.cache_clear()
