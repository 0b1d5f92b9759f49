"""Those who are called about a handle: a receiver of webhooks, and a server that answers as Prefect 3 does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Callee", "Request", "Run", "callee"]

REQUIRED = ("handle_id", "correlation_id", "expected", "done", "failed", "expired")


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Run:
    """A flow run, as far as resuming looks at it."""

    state: str = "RUNNING"
    pause_key: str | None = None
    pause_keys: list[str] = field(default_factory=list[str])
    has_schema: bool = True
    has_timed_out: bool = False
    inputs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def pause(self, key: str) -> None:
        self.state, self.pause_key = "PAUSED", key
        self.pause_keys.append(key)

    def shown(self) -> dict[str, Any]:
        return {
            "state_type": self.state,
            "state": {"type": self.state, "state_details": {"pause_key": self.pause_key}},
            "empirical_policy": {"pause_keys": self.pause_keys},
        }

    def resume(self, run_input: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.state != "PAUSED":
            return 200, _said("ABORT", "Cannot resume a flow run that is not paused.")
        if not self.has_schema:
            return 200, _said("REJECT", "Run input schema not found.")
        if sorted(run_input) != sorted(REQUIRED):
            return 200, _said("REJECT", "Reason: Validation failed. Failure reason: 'x' is a required property")
        if self.has_timed_out:
            return 200, _said("REJECT", "The flow run pause has timed out and can no longer resume.")
        self.state, self.pause_key = "RUNNING", None
        self.inputs.append(run_input)
        return 201, {"status": "ACCEPT", "details": {"type": "accept_details"}, "state": {}}


def _said(status: str, reason: str) -> dict[str, Any]:
    return {"state": None, "status": status, "details": {"type": "abort_details", "reason": reason}}


class Callee:
    """On loopback. Everything below `/api/flow_runs` is Prefect, `/hook` takes webhooks."""

    def __init__(self) -> None:
        self.port = 0
        self.runs: dict[str, Run] = {}
        self.requests: list[Request] = []
        self.hook_status = 204
        self.raw: tuple[int, bytes] | None = None
        """What is answered to every POST instead, if anything."""
        self.hangs = asyncio.Event()
        """Until it is set `/hang` does not answer."""
        self._server: asyncio.Server | None = None

    @property
    def hook(self) -> dict[str, object]:
        return {"kind": "webhook", "url": f"http://127.0.0.1:{self.port}/hook", "secret": "a secret of the flow's"}

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    def posted(self, path: str = "") -> list[Request]:
        return [request for request in self.requests if request.method == "POST" and path in request.path]

    async def come(self) -> None:
        """The first time at any port, and then always at the same."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def go(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            method, path, _ = head.split(" ")
            self.requests.append(Request(method, path, headers, body))
            status, said = await self._answer(self.requests[-1])
            lines = [f"HTTP/1.1 {status} X", f"content-length: {len(said)}", "connection: close", "", ""]
            writer.write("\r\n".join(lines).encode() + said)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: Request) -> tuple[int, bytes]:
        if request.path == "/hang":
            await self.hangs.wait()
            return 204, b""
        if request.path == "/hook":
            return self.hook_status, b""
        _, _, found = request.path.partition("/api/flow_runs/")
        if not found:
            return 404, b'{"detail":"Not Found"}'
        run = self.runs.get(found.removesuffix("/resume"))
        if request.method == "GET":
            return (404, b'{"detail":"Flow run not found"}') if run is None else (200, _json(run.shown()))
        if self.raw is not None:
            return self.raw
        if run is None:
            return 500, b'{"exception_message":"Internal Server Error"}'
        status, said = run.resume(json.loads(request.body)["run_input"])
        return status, _json(said)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


@asynccontextmanager
async def callee() -> AsyncGenerator[Callee]:
    made = Callee()
    await made.come()
    try:
        yield made
    finally:
        made.hangs.set()
        await made.go()
