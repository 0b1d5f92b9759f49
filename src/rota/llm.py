"""Asking a language model: any server that speaks the OpenAI chat protocol, over one pool of connections.

What a model says is data to be checked by whoever asked. Here it is only fetched, within limits: the whole call has a
deadline, an answer is read up to a size, redirects are not followed. Whatever goes wrong is named by what it means for
the next call: too many at once (`Throttled`), nobody there (`LlmUnavailable`), no use in asking this again
(`LlmRefused`), an answer that is none (`BadAnswer`). No message holds the key, also not where the server repeats it.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec

from rota.clock import SECOND, Clock, Instant, SystemClock, from_datetime
from rota.codec import to_json, warmed
from rota.config.urls import masked
from rota.errors import InvalidConfig, RotaError
from rota.forking import forget_in_children, keep_for_ever
from rota.lazy import lazy_module
from rota.printable import printable

if TYPE_CHECKING:
    import httpx
    from opentelemetry.trace import Span, Tracer
else:
    httpx = lazy_module("httpx")

__all__ = [
    "LONGEST_PAUSE",
    "MAX_ANSWER_BYTES",
    "PAUSE",
    "TIMEOUT",
    "Answer",
    "BadAnswer",
    "ChatClient",
    "LlmFailed",
    "LlmRefused",
    "LlmTimeout",
    "LlmUnavailable",
    "Message",
    "Schema",
    "Throttled",
    "Usage",
    "retry_after",
]

TIMEOUT: Final = 60.0
"""Seconds for the whole call, from the first byte sent to the last one read."""
CONNECT_TIMEOUT: Final = 10.0
"""Seconds after which a server is not there; one that is may think for longer."""
PAUSE: Final = 60.0
"""Seconds for which a server in trouble is left alone, unless it says for how long itself."""
LONGEST_PAUSE: Final = 3_600.0
MAX_ANSWER_BYTES: Final = 4 * 2**20
MAX_COMPLAINT: Final = 200
"""Characters of a server's own message that are passed on."""

_ABOUT_THIS_QUESTION: Final = frozenset({400, 413, 422})
"""Another question may well be answered; anything else will be the same for the next one."""
_WHAT_TO_DO: Final[Mapping[int, str]] = {
    400: "Check that the model can do what it is asked for.",
    401: "Set the key that it wants.",
    403: "The key may not do this: use another one, or allow it there.",
    404: "Check the address and the name of the model.",
    413: "Ask for less at once.",
    422: "Check that the model can do what it is asked for.",
}
_LATER: Final = frozenset({408, 425})
_PIECE_OF_KEY: Final = 8
"""A word with so many characters of the key in a row is hidden: some servers show half of it."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens, as the server counts them; 0 if it does not."""

    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out)


class LlmFailed(RotaError):
    """A model could not be asked, or its answer could not be used."""

    code = "llm_failed"

    def __init__(self, message: str, *, pause: float = 0.0) -> None:
        super().__init__(message)
        self.pause = pause
        """Seconds for which there is no use in asking again."""
        self.usage = Usage()
        """What was spent all the same, where an answer came and could not be used."""


class Throttled(LlmFailed):
    """The server is there and has too much to do: ask less at once, and later."""

    code = "llm_throttled"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message, pause=PAUSE if retry_after is None else retry_after)
        self.retry_after = retry_after
        """Seconds after which the server wants to be asked again, if it says so; an hour at most."""


class LlmUnavailable(LlmFailed):
    """The server is not there, or in trouble itself."""

    code = "llm_unavailable"


class LlmTimeout(LlmUnavailable):
    """The server did not answer in time."""

    code = "llm_timeout"


class LlmRefused(LlmFailed):
    """The server will not answer this, however often it is asked."""

    code = "llm_refused"

    def __init__(self, message: str, *, pause: float = 0.0, answered: int | None = None) -> None:
        super().__init__(message, pause=pause)
        self.answered = answered


class BadAnswer(LlmFailed):
    """The answer is not of the shape that was asked for."""

    code = "llm_bad_answer"


class Message(msgspec.Struct, frozen=True):
    """What somebody said in a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


class Schema(msgspec.Struct, frozen=True):
    """The shape that an answer is to have, as a JSON schema with a name."""

    name: str
    definition: Mapping[str, Any]


class Answer(msgspec.Struct, frozen=True):
    """What the model said, and why it stopped: "stop", or "length" where it was cut off."""

    content: str
    usage: Usage = Usage()
    finish_reason: str = ""


class _Said(msgspec.Struct):
    content: str


class _Choice(msgspec.Struct):
    message: _Said
    finish_reason: str | None = None


class _Counted(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: _Counted | None = None


_decode_completion = warmed(
    msgspec.json.Decoder(_Completion), '{"choices":[{"message":{"content":""}}],"usage":{"prompt_tokens":1}}'
).decode


class ChatClient:
    """Asks one model at one server. `setting` says what the address is called where it is set.

    The connections belong to the event loop that made them, and to the process: in another one there are others.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        *,
        timeout: float = TIMEOUT,
        clock: Clock | None = None,
        tracer: Tracer | None = None,
        provider: str = "openai",
        setting: str = "base_url",
    ) -> None:
        self.model = model
        self._url = f"{_checked(base_url, setting).rstrip('/')}/chat/completions"
        self._shown = masked(self._url)
        self._api_key = _checked_key(api_key)
        self._timeout = timeout
        self._clock: Clock = clock or SystemClock()
        self._tracer = tracer
        self._provider = provider
        self._trust: ssl.SSLContext | None = None
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        forget_in_children(self)

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
    ) -> Answer:
        """The model's answer. Raises a `LlmFailed` that says what became of it."""
        options = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        given = {name: value for name, value in options.items() if value is not None}
        body: dict[str, Any] = {"model": self.model, "messages": messages, **given}
        if schema is not None:
            wanted = {"name": schema.name, "strict": True, "schema": schema.definition}
            body["response_format"] = {"type": "json_schema", "json_schema": wanted}
        with self._span(given) as span:
            answer = self._read(await self._call(to_json(body)))
            _note_answer(span, answer)
            return answer

    async def close(self) -> None:
        """Let go of the connections; whoever asks again makes new ones."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    def forget_parent(self) -> None:
        keep_for_ever(self._client, self._loop)
        self._client = self._loop = None

    # --- the call ----------------------------------------------------------------------------------------------------

    async def _call(self, body: bytes) -> bytes:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._post(body)
        except TimeoutError:
            raise LlmTimeout(
                self._problem(f"did not answer within {self._timeout:g} s", "Ask for less at once, or wait longer."),
                pause=PAUSE,
            ) from None
        except httpx.HTTPError as error:
            cause = self._hidden(str(error) or type(error).__name__)
            raise LlmUnavailable(
                self._problem(f"cannot be reached: {cause.rstrip('.')}", "Check that it runs."), pause=PAUSE
            ) from None

    async def _post(self, body: bytes) -> bytes:
        """The body of the answer, if it is one and no larger than any answer should be."""
        headers = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "rota"}
        if self._api_key:
            headers["authorization"] = f"Bearer {self._api_key}"
        client = await self._opened()
        async with client.stream("POST", self._url, content=body, headers=headers) as response:
            if not response.is_success:
                raise self._failure(response, await _begin_of(response))
            content = bytearray()
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > MAX_ANSWER_BYTES:
                    raise BadAnswer(
                        self._problem(f"answered with more than {MAX_ANSWER_BYTES:,} bytes", "Ask for less.")
                    )
            return bytes(content)

    async def _opened(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._trust is None:
            # Reading all the authorities takes a while, and others want to use the loop.
            self._trust = await asyncio.to_thread(httpx.create_ssl_context)
        if self._client is None or self._loop is not loop:
            self._client, self._loop = self._made(self._trust), loop
        return self._client

    def _made(self, trust: ssl.SSLContext) -> httpx.AsyncClient:
        # How many ask at once is decided above: whoever waited here for a connection would lose its own time.
        return httpx.AsyncClient(
            verify=trust,
            follow_redirects=False,
            timeout=httpx.Timeout(None, connect=min(CONNECT_TIMEOUT, self._timeout)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    def _read(self, content: bytes) -> Answer:
        try:
            completion = _decode_completion(content)
            choice = completion.choices[0]
        except (msgspec.MsgspecError, ValueError, IndexError, RecursionError):
            what_to_do = "Check that the address is one of the OpenAI chat protocol."
            raise BadAnswer(self._problem("answered in no shape that the chat protocol knows", what_to_do)) from None
        counted = completion.usage or _Counted()
        usage = Usage(max(counted.prompt_tokens or 0, 0), max(counted.completion_tokens or 0, 0))
        return Answer(choice.message.content, usage, choice.finish_reason or "")

    # --- what went wrong ---------------------------------------------------------------------------------------------

    def _failure(self, response: httpx.Response, begin: bytes) -> LlmFailed:
        """What an answer that is none means for the next question."""
        status = response.status_code
        wait = retry_after(response.headers.get("retry-after"), now=self._clock.now())
        pause = PAUSE if wait is None else wait
        what = f"answered {status}{self._complaint(begin)}"
        if status == 429 or (status == 503 and wait is not None):
            return Throttled(self._problem(what, "Ask less at once, or later."), retry_after=wait)
        if status >= 500 or status in _LATER:
            return LlmUnavailable(self._problem(what, "Ask again later."), pause=pause)
        if response.is_redirect:
            what_to_do = "Redirects are not followed: set the address that it leads to, if you trust it."
        else:
            what_to_do = _WHAT_TO_DO.get(status, "Asking again will not help.")
        about_this = status in _ABOUT_THIS_QUESTION
        return LlmRefused(self._problem(what, what_to_do), pause=0.0 if about_this else pause, answered=status)

    def _problem(self, what: str, what_to_do: str) -> str:
        return f"The model {self.model!r} at {self._shown} {what}. {what_to_do}"

    def _complaint(self, begin: bytes) -> str:
        """The server's own words, short and without secrets; they are shown, and nothing more."""
        text = self._hidden(" ".join(_message_in(begin).split()))
        shown = printable(text[:MAX_COMPLAINT]).rstrip(". ")
        return f": {shown}" if shown else ""

    def _hidden(self, text: str) -> str:
        """The text without passwords, without the key, and without what looks like a part of it."""
        text, key = masked(text), self._api_key
        if not key:
            return text
        pieces = {key[at : at + _PIECE_OF_KEY] for at in range(len(key) - _PIECE_OF_KEY + 1)}
        return re.sub(
            r"\S+",
            lambda word: "***" if any(piece in word[0] for piece in pieces) else word[0],
            text.replace(key, "***"),
        )

    # --- spans -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _span(self, given: Mapping[str, Any]) -> Generator[Span | None]:
        """A span by the conventions for generative AI, as Langfuse and others read them: figures, and not a word of
        what was said."""
        if self._tracer is None:
            yield None
            return
        from opentelemetry.trace import SpanKind, Status, StatusCode

        with self._tracer.start_as_current_span(
            f"chat {self.model}",
            kind=SpanKind.CLIENT,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": self._provider,
                "gen_ai.system": self._provider,
                "gen_ai.request.model": self.model,
                "server.address": httpx.URL(self._url).host,
                **{f"gen_ai.request.{name}": value for name, value in given.items()},
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                code = error.code if isinstance(error, RotaError) else type(error).__name__
                span.set_attribute("error.type", code)
                span.set_status(Status(StatusCode.ERROR, code))
                raise


def retry_after(header: str | None, *, now: Instant) -> float | None:
    """The seconds that a Retry-After asks for, as a number or as a date, within reason; None if it says nothing."""
    if header is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", header):
        return min(float(header), LONGEST_PAUSE)
    try:
        date = parsedate_to_datetime(header)
        seconds = (from_datetime(date) - now) / SECOND
    except (ValueError, TypeError, OverflowError):  # no date, or one without a zone
        return None
    return min(max(seconds, 0.0), LONGEST_PAUSE)


def _checked(base_url: str, setting: str) -> str:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        # It is not shown: what stands in an address that cannot be read may be a password.
        raise InvalidConfig(f"{setting} is no address of a server. Use one like 'https://host/v1'.")
    return base_url


def _checked_key(api_key: str | None) -> str | None:
    if api_key and not re.fullmatch(r"[!-~]+", api_key):
        raise InvalidConfig("The key of the model has spaces, or characters that no header can carry. Copy it again.")
    return api_key


async def _begin_of(response: httpx.Response) -> bytes:
    """Enough of an error's body to find its message."""
    begin = bytearray()
    async for piece in response.aiter_bytes():
        begin += piece
        if len(begin) >= 2**14:
            break
    return bytes(begin[: 2**14])


def _message_in(body: bytes) -> str:
    """What an error's body says: `{"error": {"message": ...}}` and its relatives, or its text."""
    try:
        found: object = msgspec.json.decode(body)
        for name in ("error", "message", "detail"):
            if isinstance(found, dict) and name in found:
                found = cast("dict[str, object]", found)[name]
        return found if isinstance(found, str) else ""
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return body.decode("utf-8", "replace")


def _note_answer(span: Span | None, answer: Answer) -> None:
    if span is None:
        return
    span.set_attribute("gen_ai.usage.input_tokens", answer.usage.tokens_in)
    span.set_attribute("gen_ai.usage.output_tokens", answer.usage.tokens_out)
    if answer.finish_reason:
        span.set_attribute("gen_ai.response.finish_reasons", [answer.finish_reason])
