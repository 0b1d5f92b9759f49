"""Typed calls of the scripts: values in, values out, and nobody else packs an argument."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rota.clock import Clock, Instant
from rota.core.task import Entry, Identity
from rota.stores.base import Beat, Instance, Taken
from rota.stores.redis.client import Call, Server
from rota.stores.redis.codec import decode_entry
from rota.stores.redis.keys import Keys

__all__ = ["Loaded", "Scripts", "Swept", "Ticked"]

_pack = msgspec.msgpack.Encoder().encode


class Loaded(NamedTuple):
    """What is known of an identity, and the digest by which a change of it is seen."""

    digest: str
    entry: Entry


class Swept(NamedTuple):
    """What a tick found in one type: leases extended, leases run out (key and deadline), serials that nobody holds."""

    task_type: str
    extended: int
    expired: list[tuple[str, Instant]]
    idle: list[str]
    next_due_at: Instant | None


class Ticked(NamedTuple):
    now: Instant
    next_due_at: Instant | None
    swept: list[Swept]


class Scripts:
    """The scripts of one server under one prefix."""

    def __init__(self, server: Server, keys: Keys, clock: Clock | None) -> None:
        self.server = server
        self.keys = keys
        self.origin = uuid.uuid4().hex[:12]
        """Who publishes a wake-up: whoever hears its own need not heed it."""
        self._clock = clock
        self._swept: set[str] = set()

    # --- time ---

    def now_blocking(self) -> Instant:
        return self._clock.now() if self._clock is not None else _millis(self.server.command_blocking("TIME"))

    async def now(self) -> Instant:
        return self._clock.now() if self._clock is not None else _millis(await self.server.command("TIME"))

    def _time(self, now: Instant | None) -> str:
        """What the script is told: a test's own time, or nothing, and then the server's clock rules."""
        if now is not None:
            return str(now)
        return "" if self._clock is None else str(self._clock.now())

    # --- calling ---

    async def run(self, name: str, task_type: str, given: object, now: Instant | None = None) -> Any:
        return await self.server.run(name, self.keys.type(task_type), self._args(task_type, given, now))

    def run_blocking(self, name: str, task_type: str, given: object, now: Instant | None = None) -> Any:
        return self.server.run_blocking(name, self.keys.type(task_type), self._args(task_type, given, now))

    def _args(self, task_type: str, given: object, now: Instant | None) -> tuple[str | bytes, ...]:
        return self.keys.prefix, task_type, self._time(now), _pack(given), self.origin

    # --- units of work ---

    def load_blocking(self, task_type: str, identities: Sequence[Identity]) -> list[Loaded]:
        found = self.run_blocking("load", task_type, [identity.key for identity in identities])
        return _loaded(identities, found)

    async def load(self, task_type: str, identities: Sequence[Identity]) -> list[Loaded]:
        found = await self.run("load", task_type, [identity.key for identity in identities])
        return _loaded(identities, found)

    def commit(self, task_type: str, step: Mapping[str, object]) -> bool:
        """False if something that the step has read changed meanwhile: then nothing was written."""
        return self.run_blocking("commit", task_type, step) == 1

    def held_blocking(self, task_type: str, instance: str, claim_id: str) -> list[bytes]:
        return self.run_blocking("held", task_type, [instance, claim_id])

    async def held(self, task_type: str, instance: str, claim_id: str) -> list[bytes]:
        return await self.run("held", task_type, [instance, claim_id])

    # --- duties ---

    async def forget(self, task_type: str, keys: Sequence[str], now: Instant) -> int:
        return int(await self.run("forget", task_type, keys, now))

    async def tick(self, beat: Beat, now: Instant | None) -> Ticked:
        """Sign of life, and a sweep of all types, in one round trip."""
        names = sorted(self._swept)
        given = {"lease_ms": beat.lease_ms, "due": dict.fromkeys(beat.types, True)}
        known, at, *swept = await self.server.run_many(
            [
                ("SMEMBERS", self.keys.types),
                Call("beat", self.keys.instances, self._args("any", _beat(beat), now)),
                *(Call("tick", self.keys.type(name), self._args(name, given, now)) for name in names),
            ]
        )
        new = sorted({name.decode() for name in known} - self._swept)
        if new:
            # A type that another instance has made since: from now on it is swept with the others.
            self._swept |= set(new)
            swept += await self.server.run_many(
                [Call("tick", self.keys.type(name), self._args(name, given, now)) for name in new]
            )
        found = [_swept(name, *each) for name, each in zip([*names, *new], swept, strict=True) if each is not None]
        due = [each.next_due_at for each in found if each.next_due_at is not None]
        return Ticked(int(at), min(due, default=None), found)

    async def instances(self) -> dict[str, Instance]:
        found = await self.server.command("HGETALL", self.keys.instances)
        return {name.decode(): msgspec.json.decode(value, type=Instance) for name, value in found.items()}

    async def take(self, bucket: str, amount: int, rate: float, burst: int, now: Instant | None) -> Taken:
        """A shared bucket; its own name leads to its node."""
        key = self.keys.bucket(bucket)
        given = {"bucket": key, "amount": amount, "rate": rate, "burst": burst}
        granted, wait_ms = await self.server.run("take", key, self._args("any", given, now))
        return Taken(int(granted), int(wait_ms))


def _millis(time: tuple[int, int]) -> Instant:
    return int(time[0]) * 1_000 + int(time[1]) // 1_000


def _loaded(identities: Sequence[Identity], found: Sequence[Any]) -> list[Loaded]:
    return [
        Loaded(digest.decode(), decode_entry(identity, flat, payload))
        for identity, (digest, flat, payload) in zip(identities, found, strict=True)
    ]


def _beat(beat: Beat) -> dict[str, str]:
    return {"instance": beat.instance, "beat": msgspec.json.encode(beat).decode()}


def _swept(name: str, extended: int, expired: Sequence[bytes], idle: Sequence[bytes], due: bytes | int) -> Swept:
    leases = [(key.decode(), int(float(at))) for key, at in zip(expired[::2], expired[1::2], strict=True)]
    return Swept(name, extended, leases, [serial.decode() for serial in idle], due if isinstance(due, int) else None)
