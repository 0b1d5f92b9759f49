"""Prefect's HTTP API, as far as resuming a flow run needs it: a look at the run, and one POST. No package is needed.

What the server says (Prefect 3, tried on 3.8):

| the flow run          | `POST /flow_runs/{id}/resume`                                       |
|-----------------------|---------------------------------------------------------------------|
| paused                | 201, status ACCEPT                                                  |
| paused a moment ago   | 200, REJECT "Run input schema not found": it is written after that  |
| paused, other input   | 200, REJECT with what is wrong with the input                       |
| paused for too long   | 200, REJECT "... has timed out and can no longer resume"            |
| not paused yet        | 200, ABORT "Cannot resume a flow run that is not paused."           |
| resumed already       | the same                                                            |
| ended, in any way     | the same                                                            |
| unknown               | 500                                                                 |

So the status counts and not the HTTP code, and neither tells a run that has not paused yet from one that has gone on.
The run itself does: it lists the keys of all its pauses. A flow that pauses with the handle's id as the key
(`pause_flow_run(..., key=handle_id)`) is resumed for this handle only, once, and known to have been. Without a key of
its own a pause has a number, which says nothing about handles: such a run is resumed whenever it is paused.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import msgspec

from rota.codec import warmed
from rota.errors import InvalidInput
from rota.events.handle import Outcome
from rota.lazy import lazy_module

if TYPE_CHECKING:
    import httpx
else:
    httpx = lazy_module("httpx")

__all__ = ["PrefectAnswer", "PrefectApi", "PrefectSays"]

TIMEOUT_SECONDS: Final = 5.0
MAX_REASON: Final = 500

_SCHEMA_IS_COMING: Final = "schema not found"
_ENDED: Final = frozenset({"FAILED", "CRASHED", "CANCELLED"})


class PrefectSays(StrEnum):
    """What came of resuming."""

    RESUMED = "resumed"
    """It goes on, or has gone on already."""
    NOT_YET = "not yet"
    """It is not paused, or the server cannot say: try again."""
    REFUSED = "refused"
    """It never will."""


class PrefectAnswer(NamedTuple):
    """What came of it, and why."""

    says: PrefectSays
    reason: str = ""


class _StateDetails(msgspec.Struct, frozen=True):
    pause_key: str | None = None


class _State(msgspec.Struct, frozen=True):
    state_details: _StateDetails = _StateDetails()


class _Policy(msgspec.Struct, frozen=True):
    pause_keys: list[str] | None = None


class _FlowRun(msgspec.Struct, frozen=True):
    state_type: str | None = None
    state: _State | None = None
    empirical_policy: _Policy = _Policy()


class _Details(msgspec.Struct, frozen=True):
    reason: str | None = None


class _Answer(msgspec.Struct, frozen=True):
    status: str
    details: _Details | None = None


class _Problem(msgspec.Struct, frozen=True):
    detail: Any = None


_FLOW_RUN: Final = warmed(msgspec.json.Decoder(_FlowRun), '{"state":{"state_details":{}},"empirical_policy":{}}')
_ANSWER: Final = warmed(msgspec.json.Decoder(_Answer), '{"status":"ABORT","details":{"reason":"r"}}')
_PROBLEM: Final = warmed(msgspec.json.Decoder(_Problem), '{"detail":"d"}')


class PrefectApi:
    """One server. `transport` is for tests."""

    def __init__(
        self,
        api_url: str,
        api_key: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if not api_url.startswith(("http://", "https://")):
            raise InvalidInput(f"prefect.api_url is {api_url!r}. Write it like 'http://prefect.example.org:4200/api'.")
        self.api_url = api_url.rstrip("/")
        self._headers = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        self._timeout = timeout
        self._transport = transport
        self._client: httpx.AsyncClient | None = None

    async def resume(self, flow_run_id: str, outcome: Outcome) -> PrefectAnswer:
        """Resume a flow run that waits for this handle. Whatever the server or the way to it does is an answer."""
        try:
            found = await self._look(flow_run_id, outcome.handle_id)
            return found or await self._resume(flow_run_id, outcome)
        except httpx.HTTPError as error:
            return _away(f"Prefect at {self.api_url} cannot be reached: {str(error) or type(error).__name__}.")
        except msgspec.MsgspecError as error:
            return _away(f"What answers at {self.api_url} is no Prefect: {error}.")

    async def _look(self, flow_run_id: str, handle_id: str) -> PrefectAnswer | None:
        """How it stands; None if it is to be resumed."""
        answer = await self._ask("GET", f"/flow_runs/{flow_run_id}")
        if answer.status_code == HTTPStatus.NOT_FOUND and _detail(answer) not in ("", "Not Found"):
            return PrefectAnswer(PrefectSays.REFUSED, f"Prefect knows no flow run {flow_run_id}: {_detail(answer)}.")
        if answer.status_code != HTTPStatus.OK:
            return _away(f"Prefect at {self.api_url} answers {answer.status_code} to a look at {flow_run_id}.")
        return _judge(_FLOW_RUN.decode(answer.content), flow_run_id, handle_id)

    async def _resume(self, flow_run_id: str, outcome: Outcome) -> PrefectAnswer:
        # Prefect fills in templates that it finds in here: nothing but ids and counts may be.
        run_input = msgspec.to_builtins(outcome)
        answer = await self._ask("POST", f"/flow_runs/{flow_run_id}/resume", json={"run_input": run_input})
        if not answer.is_success:
            return _away(f"Prefect at {self.api_url} answers {answer.status_code} to resuming {flow_run_id}.")
        said = _ANSWER.decode(answer.content)
        reason = ((said.details and said.details.reason) or said.status)[:MAX_REASON]
        if said.status == "ACCEPT":
            return PrefectAnswer(PrefectSays.RESUMED)
        if said.status == "REJECT" and _SCHEMA_IS_COMING not in reason:
            return PrefectAnswer(PrefectSays.REFUSED, f"Prefect refuses to resume {flow_run_id}: {reason}")
        return _away(f"The flow run {flow_run_id} is not ready to be resumed: {reason}")

    async def _ask(self, method: str, path: str, json: object = None) -> httpx.Response:
        client = self._client or await self._connect()
        return await client.request(method, f"{self.api_url}{path}", json=json)

    async def _connect(self) -> httpx.AsyncClient:
        # From the environment only whom to trust: a house may have its own authority. Reading that takes a while.
        trust = await asyncio.to_thread(httpx.create_ssl_context)
        if self._client is None:
            self._client = httpx.AsyncClient(
                headers=self._headers, timeout=self._timeout, transport=self._transport, verify=trust, trust_env=False
            )
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


def _judge(run: _FlowRun, flow_run_id: str, handle_id: str) -> PrefectAnswer | None:
    """What a look at the run says; None if it waits for us."""
    has_paused = handle_id in (run.empirical_policy.pause_keys or ())
    is_paused = run.state_type == "PAUSED"
    key = run.state.state_details.pause_key if is_paused and run.state is not None else None
    if key is not None and (key == handle_id or (key.isdigit() and not has_paused)):
        return None
    if run.state_type in _ENDED:
        return PrefectAnswer(PrefectSays.REFUSED, f"The flow run {flow_run_id} has ended: {run.state_type}.")
    if has_paused or run.state_type == "COMPLETED":
        return PrefectAnswer(PrefectSays.RESUMED, "The flow run has gone on already.")
    if is_paused:
        return _away(f"The flow run {flow_run_id} is paused for something else, under the key {key!r:.100}.")
    return _away(f"The flow run {flow_run_id} is not paused yet: {run.state_type}.")


def _away(reason: str) -> PrefectAnswer:
    return PrefectAnswer(PrefectSays.NOT_YET, reason)


def _detail(answer: httpx.Response) -> str:
    try:
        detail = _PROBLEM.decode(answer.content).detail
    except msgspec.MsgspecError:
        return ""
    return detail[:MAX_REASON] if isinstance(detail, str) else ""
