"""Calling those who wait: a duty that tells a webhook or Prefect that a handle is ready.

Any number of instances run it. Whoever claims a handle has it for ten seconds, calls, and writes down what came of it;
an instance that dies in between leaves it to the next one, whose call is then perhaps the second. That is harmless:
Prefect resumes a run once, and a webhook is called under the same message id.

A callee that is away, or a flow that is not paused yet, costs nothing: it is called again, ever less often, up to once
a minute, for ever. Only a definite refusal ends it as `failed`, with the reason; an operator may resume it by hand.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec
from sqlalchemy import Connection

from rota.clock import SECOND, Instant, Millis
from rota.database.changes import Subscription
from rota.errors import InvalidInput, WebhookFailed
from rota.events.handle import HandleStep, WebhookCallback, put_off_ms
from rota.events.handles import HANDLES_CHANGED, Called, Claimed, Handles
from rota.events.prefect_api import PrefectApi, PrefectSays
from rota.logs import get_logger
from rota.runtime.duty import Duty
from rota.runtime.health import Pulse
from rota.webhooks import Webhooks

__all__ = ["CallbackDuty", "CallbackReport"]

LEASE_MS: Final[Millis] = 10 * SECOND
CALL_SECONDS: Final = 8.0
"""A call ends before its lease does."""
AT_ONCE: Final = 32
"""So many calls of one instance are under way at the same time."""
LOOK_MS: Final[Millis] = 10 * SECOND
"""Nobody has to poll; but if a wake-up was lost nobody waits longer than this."""
FAREWELL_SECONDS: Final = 3.0
"""For so long an instance that is told to stop waits for its calls."""

_STEPS: Final = {
    PrefectSays.RESUMED: HandleStep.ACCEPT,
    PrefectSays.NOT_YET: HandleStep.PUT_OFF,
    PrefectSays.REFUSED: HandleStep.REFUSE,
}

log = get_logger("rota.events")


class CallbackReport(NamedTuple):
    """What a pass has begun, and when the next one is due (ms from now)."""

    expired: int = 0
    calls: int = 0
    next_ms: Millis = LOOK_MS


class CallbackDuty(Duty[CallbackReport]):
    """One instance's. `prefect` is None where no Prefect is configured: its handles then wait for one."""

    name = "callbacks"

    def __init__(
        self,
        open_handles: Callable[[], Awaitable[Handles | None]],
        webhooks: Webhooks,
        prefect: PrefectApi | None = None,
        *,
        pulse: Pulse,
        chance: Callable[[], float],
        lease_ms: Millis = LEASE_MS,
        at_once: int = AT_ONCE,
    ) -> None:
        super().__init__(pulse, chance)
        self._open = open_handles
        self._webhooks = webhooks
        self._prefect = prefect
        self._lease_ms = lease_ms
        self._call_seconds = min(CALL_SECONDS, 0.8 * lease_ms / SECOND)
        self._at_once = at_once
        self._token = uuid.uuid4().hex
        self._heard: Subscription | None = None
        self._calls: set[asyncio.Task[None]] = set()

    async def run_once(self, now: Instant | None = None) -> CallbackReport:
        """Expire what is over, and set out to call whoever is to be called. The calls themselves go on beside it, so
        that one that hangs keeps nobody waiting."""
        handles = await self._open()
        if handles is None:
            return CallbackReport()
        if self._heard is None:
            self._heard = await handles.database.changes.subscribe(HANDLES_CHANGED, on_wake=self.wake)
        # Whoever is woken by somebody else's commit looks before it writes.
        next_ms = await handles.database.read(partial(self._next_ms, handles=handles))
        if next_ms > 0:
            return CallbackReport(next_ms=next_ms)
        room = self._at_once - len(self._calls)
        expired, claimed, next_ms = await handles.database.write(partial(self._claim, handles=handles, room=room))
        for each in claimed:
            call = asyncio.create_task(self._attend(handles, each), name="rota-callback")
            self._calls.add(call)
            call.add_done_callback(self._ended)
        # With no room left the end of a call is what to wait for.
        return CallbackReport(expired, len(claimed), next_ms if len(self._calls) < self._at_once else LOOK_MS)

    def pause_after(self, report: CallbackReport) -> float:
        return report.next_ms / SECOND

    async def calls_ended(self) -> None:
        """Until the calls that are under way have ended."""
        while self._calls:
            await asyncio.wait(self._calls)

    async def close(self) -> None:
        """Wait for the calls a little; what is not written down then is called again by somebody else."""
        if self._heard is not None:
            self._heard.close()
            self._heard = None
        if self._calls:
            _, late = await asyncio.wait(self._calls, timeout=FAREWELL_SECONDS)
            for call in late:
                call.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if self._prefect is not None:
            await self._prefect.close()

    def _claim(self, connection: Connection, handles: Handles, room: int) -> tuple[int, list[Claimed], Millis]:
        expired = handles.expire(connection)
        # A token for each claim: after a takeover by this very instance the first call is still too late.
        token = f"{self._token}:{uuid.uuid4().hex}"
        claimed = handles.claim(connection, limit=room, lease_ms=self._lease_ms, token=token) if room > 0 else []
        return expired, claimed, self._next_ms(connection, handles)

    @staticmethod
    def _next_ms(connection: Connection, handles: Handles) -> Millis:
        """Until there is something to do."""
        next_at = handles.next_at(connection)
        now = handles.database.backend.dialect.now(connection)
        return LOOK_MS if next_at is None else min(max(next_at - now, 0), LOOK_MS)

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self.wake()

    # --- one call ---

    async def _attend(self, handles: Handles, claimed: Claimed) -> None:
        called = await self._called(claimed)
        if called.error is not None:
            log.warning(
                "flow not resumed", handle=claimed.id, step=str(called.step), tries=claimed.attempts, error=called.error
            )
        wait_ms = put_off_ms(claimed.attempts, self._chance())
        try:
            await handles.database.grouped(lambda connection: handles.record(connection, claimed, called, wait_ms))
        except Exception as error:
            # The lease runs out, and it is called again: twice is harmless, never is not.
            log.warning("callback not recorded", handle=claimed.id, error=str(error))

    async def _called(self, claimed: Claimed) -> Called:
        try:
            async with asyncio.timeout(self._call_seconds):
                return await self._call(claimed)
        except TimeoutError:
            return Called(HandleStep.PUT_OFF, f"The call took longer than {self._call_seconds:g} s.")
        except Exception as error:
            # Nobody foresaw it, so nobody knows that it is for ever.
            return Called(HandleStep.PUT_OFF, f"{type(error).__name__}: {error}")

    async def _call(self, claimed: Claimed) -> Called:
        if isinstance(claimed.callback, WebhookCallback):
            return await self._call_webhook(claimed, claimed.callback)
        if self._prefect is None:
            return Called(HandleStep.PUT_OFF, "No Prefect is configured here. Set prefect.api_url.")
        assert claimed.flow_run_id is not None
        says, reason = await self._prefect.resume(claimed.flow_run_id, claimed.outcome)
        return Called(_STEPS[says], reason if says is not PrefectSays.RESUMED else None)

    async def _call_webhook(self, claimed: Claimed, callback: WebhookCallback) -> Called:
        body = msgspec.json.encode(claimed.outcome)
        try:
            await self._webhooks.post(
                callback.url, body, message_id=claimed.id, now=claimed.now, secret=callback.secret
            )
        except InvalidInput as error:
            return Called(HandleStep.REFUSE, str(error))
        except WebhookFailed as error:
            return Called(HandleStep.REFUSE if error.is_final else HandleStep.PUT_OFF, str(error))
        return Called(HandleStep.ACCEPT)
