"""Asking a model over a real connection: what an answer is, what each failure means, and what no message says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer
from tests.batches.chat_server import ChatServer, Reply, fails, never, says, throttled

from rota.errors import InvalidConfig, RotaError
from rota.llm import (
    LONGEST_PAUSE,
    MAX_ANSWER_BYTES,
    MAX_COMPLAINT,
    PAUSE,
    Answer,
    BadAnswer,
    ChatClient,
    LlmFailed,
    LlmRefused,
    LlmTimeout,
    LlmUnavailable,
    Message,
    Schema,
    Throttled,
    Usage,
    retry_after,
)
from rota.testing import FakeClock
from rota.testing.waiting import until

KEY = "sk-proj-A1b2C3d4E5f6G7h8"
HELLO = [Message("system", "Be brief."), Message("user", "Hello.")]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] -- pytest uses it
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture
def server() -> Generator[ChatServer]:
    with ChatServer() as running:
        running.usual = says("Hello.", tokens_in=12, tokens_out=3)
        yield running


@pytest.fixture
async def client(server: ChatServer, clock: FakeClock) -> AsyncGenerator[ChatClient]:
    made = ChatClient(server.url, "small", KEY, clock=clock)
    yield made
    await made.close()


async def failure_of(client: ChatClient) -> LlmFailed:
    with pytest.raises(LlmFailed) as failed:
        await client.ask(HELLO)
    return failed.value


async def test_an_answer_comes_with_what_it_cost(server: ChatServer, client: ChatClient) -> None:
    assert await client.ask(HELLO) == Answer("Hello.", Usage(12, 3), "stop")
    (call,) = server.calls
    assert call.path == "/v1/chat/completions"
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.body == {
        "model": "small",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."}],
    }


async def test_what_is_wanted_of_an_answer_is_said(server: ChatServer, client: ChatClient) -> None:
    await client.ask(HELLO, schema=Schema("reply", {"type": "object"}), temperature=0.0, max_tokens=9, seed=4)
    body = server.calls[0].body
    assert (body["temperature"], body["max_tokens"], body["seed"]) == (0.0, 9, 4)
    wanted = {"name": "reply", "strict": True, "schema": {"type": "object"}}
    assert body["response_format"] == {"type": "json_schema", "json_schema": wanted}


@pytest.mark.parametrize(
    ("counted", "usage"),
    [
        ("null", Usage()),
        ("{}", Usage()),
        ('{"prompt_tokens":null}', Usage()),
        ('{"prompt_tokens":-4,"completion_tokens":2}', Usage(0, 2)),
    ],
)
async def test_a_server_that_counts_nothing_has_spent_nothing(
    server: ChatServer, client: ChatClient, counted: str, usage: Usage
) -> None:
    server.then(Reply(body=f'{{"choices":[{{"message":{{"content":"x"}}}}],"usage":{counted}}}'.encode()))
    assert await client.ask(HELLO) == Answer("x", usage, "")


async def test_calls_share_connections(server: ChatServer, client: ChatClient) -> None:
    for _ in range(5):
        await client.ask(HELLO)
    assert server.connections == 1
    await client.close()
    await client.ask(HELLO)
    assert server.connections == 2


def test_each_event_loop_has_its_own_connections(server: ChatServer) -> None:
    client = ChatClient(server.url, "small")

    async def ask_and_close() -> None:
        assert (await client.ask(HELLO)).content == "Hello."
        await client.close()

    asyncio.run(ask_and_close())
    asyncio.run(ask_and_close())
    assert server.connections == 2


async def test_what_a_parent_had_open_is_not_touched(server: ChatServer, client: ChatClient) -> None:
    await client.ask(HELLO)
    client.forget_parent()
    await client.ask(HELLO)
    assert server.connections == 2


# --- what went wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "kind", "pause"),
    [
        (throttled(), Throttled, PAUSE),
        (throttled(7), Throttled, 7),
        (throttled("Mon, 05 Jan 2026 09:00:30 GMT"), Throttled, 30),
        (fails(503, "Busy.", "Retry-After: 2"), Throttled, 2),
        (fails(503), LlmUnavailable, PAUSE),
        (fails(500), LlmUnavailable, PAUSE),
        (fails(502, "Oh.", "Retry-After: 5"), LlmUnavailable, 5),
        (fails(408), LlmUnavailable, PAUSE),
        (fails(400), LlmRefused, 0),
        (fails(401), LlmRefused, PAUSE),
        (fails(403), LlmRefused, PAUSE),
        (fails(404), LlmRefused, PAUSE),
        (fails(413), LlmRefused, 0),
        (fails(422), LlmRefused, 0),
        (fails(418), LlmRefused, PAUSE),
        (fails(307, "There.", "Location: http://127.0.0.1:1/"), LlmRefused, PAUSE),
        (Reply(body=b'{"choices": []}'), BadAnswer, 0),
        (Reply(body=b'{"choices": [{"message": {"content": null}}]}'), BadAnswer, 0),
        (Reply(body=b"[" * 100_000), BadAnswer, 0),
        (Reply(body=b" " * (MAX_ANSWER_BYTES + 1)), BadAnswer, 0),
    ],
)
async def test_each_failure_says_what_it_means_for_the_next_call(
    server: ChatServer, client: ChatClient, reply: Reply, kind: type[LlmFailed], pause: float
) -> None:
    server.then(reply)
    failure = await failure_of(client)
    assert (type(failure), failure.pause, failure.usage) == (kind, pause, Usage())
    assert "'small'" in str(failure)
    assert server.url in str(failure)
    assert len(server.calls) == 1
    assert (await client.ask(HELLO)).content == "Hello."


async def test_a_refusal_has_its_status_and_the_servers_words(server: ChatServer, client: ChatClient) -> None:
    server.then(fails(404, "The model  `small`\ndoes not\x07 exist."))
    failure = await failure_of(client)
    assert isinstance(failure, LlmRefused)
    assert failure.answered == 404
    assert "answered 404: The model `small` does not\\x07 exist. Check the address" in str(failure)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"error": "no such model"}', ": no such model."),
        (b'{"detail": "Not Found"}', ": Not Found."),
        (b'{"error": {"detail": [1]}}', "answered 404. "),
        (b"<h1>nginx</h1>", ": <h1>nginx</h1>."),
        (b"\xff\xfe", "answered 404: "),
        (b"", "answered 404. "),
        (b"[" * 50_000, "answered 404: [["),
    ],
)
async def test_whatever_shape_an_error_has_it_is_told(
    server: ChatServer, client: ChatClient, body: bytes, shown: str
) -> None:
    server.then(Reply(404, body))
    failure = await failure_of(client)
    assert shown in str(failure)
    assert len(str(failure)) < MAX_COMPLAINT + 300


async def test_a_server_that_never_answers_is_not_waited_for(server: ChatServer) -> None:
    server.usual = never()
    client = ChatClient(server.url, "small", timeout=0.05)
    failure = await failure_of(client)
    assert type(failure) is LlmTimeout
    assert isinstance(failure, LlmUnavailable)
    assert "within 0.05 s" in str(failure)
    await until(lambda: server.parallel == 0, "the server sees that nobody waits")
    await client.close()


async def test_a_server_that_is_away(clock: FakeClock) -> None:
    with ChatServer() as gone:
        client = ChatClient(gone.url, "small", clock=clock)
    failure = await failure_of(client)
    assert type(failure) is LlmUnavailable
    assert "cannot be reached" in str(failure)
    await client.close()


@pytest.mark.parametrize(
    "words",
    [
        f"Incorrect API key provided: {KEY}.",
        f"You sent 'Bearer {KEY}'",
        f"Incorrect API key provided: {KEY[:12]}****{KEY[-4:]}.",
        "see https://admin:hunter2@models/ for help",
    ],
)
async def test_the_key_is_in_no_message(server: ChatServer, client: ChatClient, words: str) -> None:
    server.then(fails(401, words))
    failure = await failure_of(client)
    assert "***" in str(failure)
    for secret in (KEY, KEY[:12], "hunter2"):
        assert secret not in str(failure)
        assert secret not in repr(failure)


async def test_an_address_is_shown_without_its_password(clock: FakeClock) -> None:
    client = ChatClient("http://me:hunter2@127.0.0.1:1/v1", "small", clock=clock)
    assert "hunter2" not in str(await failure_of(client))
    await client.close()


@pytest.mark.parametrize("url", ["", "models", "ftp://models/v1", "http://", "http://[::1", "http://a:pass word@b\n"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfig, match=r"batches\.llm_url is no address") as refused:
        ChatClient(url, "small", setting="batches.llm_url")
    assert "pass word" not in str(refused.value)


@pytest.mark.parametrize("key", ["two words", "schlüssel", "line\nbreak"])
def test_a_key_that_no_header_carries_is_refused_unseen(key: str) -> None:
    with pytest.raises(InvalidConfig, match="Copy it again") as refused:
        ChatClient("http://models/v1", "small", key)
    assert key not in str(refused.value)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("0", 0.0),
        ("120", 120.0),
        ("999999999", LONGEST_PAUSE),
        ("1e3", None),
        ("-5", None),
        ("\u00b2", None),
        ("Mon, 05 Jan 2026 09:00:45 GMT", 45.0),
        ("Sun, 04 Jan 2026 09:00:00 GMT", 0.0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", LONGEST_PAUSE),
        ("Mon, 05 Jan 2026 09:00:45 -0000", None),
        ("Mon, 99 Jan 2026 09:00:45 GMT", None),
    ],
)
def test_how_long_to_wait_is_a_number_or_a_date(clock: FakeClock, header: str | None, seconds: float | None) -> None:
    assert retry_after(header, now=clock.now()) == seconds


@given(st.text(max_size=60))
def test_no_header_is_too_odd(header: str) -> None:
    seconds = retry_after(header, now=1_767_603_600_000)
    assert seconds is None or 0 <= seconds <= LONGEST_PAUSE


def test_every_failure_is_one_of_rotas() -> None:
    codes = {kind.code for kind in (LlmFailed, Throttled, LlmUnavailable, LlmTimeout, LlmRefused, BadAnswer)}
    assert len(codes) == 6
    assert issubclass(LlmFailed, RotaError)


# --- spans -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(spans: InMemorySpanExporter) -> Tracer:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider.get_tracer("test")


async def the_span(server: ChatServer, tracer: Tracer, spans: InMemorySpanExporter, **options: Any) -> ReadableSpan:
    client = ChatClient(server.url, "small", KEY, tracer=tracer)
    try:
        await client.ask(HELLO, **options)
    except LlmFailed:
        pass
    finally:
        await client.close()
    (span,) = spans.get_finished_spans()
    return span


async def test_a_call_is_a_span(server: ChatServer, tracer: Tracer, spans: InMemorySpanExporter) -> None:
    span = await the_span(server, tracer, spans, temperature=0.5, max_tokens=9)
    assert span.name == "chat small"
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.system": "openai",
        "gen_ai.request.model": "small",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.response.finish_reasons": ("stop",),
        "server.address": "127.0.0.1",
    }


async def test_a_call_that_failed_says_so_without_a_word_of_it(
    server: ChatServer, tracer: Tracer, spans: InMemorySpanExporter
) -> None:
    server.then(throttled())
    span = await the_span(server, tracer, spans)
    assert (span.attributes or {})["error.type"] == "llm_throttled"
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "llm_throttled")
    assert span.events == ()
    assert "Hello" not in span.to_json()
    assert KEY not in span.to_json()
