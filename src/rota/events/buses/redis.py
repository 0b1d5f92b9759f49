"""The Redis bus: each partition of a topic is a stream of its own, with one owner among the instances of a consumer.

A consumer group alone would hand the entries of one key to whoever asks first. So an instance reads only from streams
of which it holds the lease, a key with its token, and whatever it does to a stream is one script that looks at the
lease first: whoever was held up for longer than its lease changes nothing any more, neither what the next owner reads
nor what it has acknowledged. Waiting is a plain XREAD, which hands out nothing.

What an owner has read and not acknowledged stays open in the group, under one name for all owners. The next owner reads
that first, in its order, and then what is new. `{}` stands for `{topic:partition}`, a hash tag, so that all of one
stream lies in one slot of a Cluster:

    events:{}                              stream   the messages
    events:{}:lease:<consumer>             string   the token of the reader whose stream it is, with a TTL
    events:readers:{<topic>}:<consumer>    zset     the tokens of the readers that are there, by time, with a TTL

Clocks are read by Redis alone; here durations are measured by the event loop.
"""

from __future__ import annotations

import asyncio
import secrets
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, Final, NamedTuple, cast

import msgspec
from redis.exceptions import NoScriptError, ResponseError
from sqlalchemy import Connection

from rota.clock import SECOND, Instant, Millis
from rota.codec import warmed
from rota.errors import BusAway, InvalidConfig, StoreError
from rota.events.buses.base import Bus, BusReader, Message, Outgoing, Place, Refused
from rota.logs import get_logger
from rota.stores.redis.address import parse_address
from rota.stores.redis.client import LOOP_CALLS, Server
from rota.stores.redis.keys import Keys

__all__ = ["RedisBus", "RedisReader"]

LEASE_MS: Final[Millis] = 10 * SECOND
ROUND_SECONDS: Final = 1.0
"""How often it is looked who is there and what is free, at least; a third of the lease if that is shorter."""
HAND_OVER_SECONDS: Final = 5.0
"""For so long a place that somebody else should have waits until all that was read of it is committed."""
REST_SECONDS: Final = 1.0
"""What could not be read is left alone for so long: on a Cluster others may be read meanwhile."""
BLOCK_MS: Final[Millis] = 2 * SECOND
"""How long Redis holds a read for which there is nothing. Twice that, and the connection counts as dead."""
MAX_BYTES: Final = 1_048_576
"""What every Redis takes, however it is set. Rota's own messages are far smaller."""
MAX_COUNTED: Final = 10_000
"""So many unread entries of a stream are counted where Redis does not count them itself."""
MAX_PARTITIONS: Final = 1_024
_PAGE: Final = 1_000
_NEW_ONLY: Final = ">"
_TOO_LARGE: Final = ("too large", "exceeds maximum", "invalid bulk length")
_LAST_NUMBER: Final = 2**64 - 1

_HEADERS: Final = warmed(msgspec.json.Decoder(dict[str, str]), "{}")

log = get_logger("rota.events")

Offset = tuple[int, int]
"""An id of a stream: milliseconds, and a number among those of the same millisecond."""


class RedisBus(Bus):
    """Events in Redis Streams: on one server, behind Sentinel, or on a Cluster."""

    def __init__(
        self, url: str, *, partitions: int = 16, call_timeout: float | None = None, lease_ms: Millis = LEASE_MS
    ) -> None:
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise InvalidConfig(
                f"A topic has from 1 to {MAX_PARTITIONS:,} partitions; {partitions!r} is no such number."
            )
        self.address = parse_address(url)
        self.name = self.address.name
        self.partitions = partitions
        self.lease_ms = lease_ms
        self.call_timeout = call_timeout
        self._streams = _Streams(self._server(), Keys(self.address.prefix).prefix)
        self._readers: set[RedisReader] = set()

    def _server(self, call_timeout: float | None = None) -> Server:
        return Server(self.address, call_timeout or self.call_timeout)

    async def open(self) -> None:
        self._streams.server.open()

    async def close(self) -> None:
        for reader in list(self._readers):
            await reader.close()
        await self._streams.server.close()

    # --- publishing ---

    async def publish(self, group: Sequence[Outgoing]) -> Sequence[Refused | BusAway | None]:
        answers: list[Refused | BusAway | None] = [_too_large(message) for message in group]
        sendable = [at for at, answer in enumerate(answers) if answer is None]
        by_place: defaultdict[Place, list[int]] = defaultdict(list)
        for at in sendable:
            by_place[Place(group[at].topic, group[at].partition % self.partitions)].append(at)

        async def send(together: Sequence[Place]) -> None:
            chosen = [(place, at) for place in together for at in by_place[place]]
            sent = await self._send([self._streams.add(place, group[at]) for place, at in chosen])
            for (_, at), answer in zip(chosen, sent, strict=True):
                answers[at] = answer

        await asyncio.gather(*map(send, self._streams.together(by_place)))
        away = [answer for answer in answers if isinstance(answer, BusAway)]
        if away and len(away) == len(group):
            raise away[0]
        return answers

    async def _send(self, commands: Sequence[Sequence[str | bytes]]) -> Sequence[Refused | BusAway | None]:
        """All at once; if Redis says something of one of them, one by one, to hear of which."""
        try:
            await self._streams.server.many(commands)
        except StoreError as error:
            if not isinstance(error.__cause__, ResponseError):
                return [_away(error)] * len(commands)
            return [await self._send_one(command) for command in commands]
        return [None] * len(commands)

    async def _send_one(self, command: Sequence[str | bytes]) -> Refused | BusAway | None:
        try:
            await self._streams.server.command(*command)
        except StoreError as error:
            said = str(error.__cause__)
            if isinstance(error.__cause__, ResponseError) and any(word in said for word in _TOO_LARGE):
                return Refused(f"The bus {self.name} does not take it: {said}.")
            return _away(error)
        return None

    # --- reading ---

    async def reader(self, consumer: str, topics: Collection[str], *, instance: str) -> RedisReader:
        places = self._places(topics)
        ears = -(-len(places) // LOOP_CALLS) if self.address.kind == "cluster" else 1
        reader = RedisReader(
            _Streams(self._server(), self._streams.prefix),
            [self._server(2 * BLOCK_MS / SECOND) for _ in range(ears)],
            consumer,
            places,
            instance=instance,
            lease_ms=self.lease_ms,
            on_close=self._readers.discard,
        )
        self._readers.add(reader)
        await reader.begin()
        return reader

    async def lag(self, consumer: str, topics: Collection[str]) -> Mapping[str, int]:
        """What is open or unread. Redis 7 counts it; before, a stream with over 10,000 unread entries counts whole."""
        places = self._places(topics)
        lags = await self._ask_for_all("lag", places, (consumer, str(MAX_COUNTED)), with_lease_of=None)
        found = dict.fromkeys(topics, 0)
        for place, lag in zip(places, lags, strict=True):
            found[place.topic] += lag
        return found

    async def replay(self, consumer: str, topics: Collection[str], since: Instant) -> None:
        """Whoever reads now loses its places, and finds them again where they are set."""
        before = f"{since - 1}-{_LAST_NUMBER}" if since > 0 else "0-0"
        await self._ask_for_all("replay", self._places(topics), (consumer, before), with_lease_of=consumer)

    async def trim(self, keep_ms: Millis) -> int:
        """What a group has not acknowledged stays, however old: a consumer that is gone for good keeps it until its
        group is destroyed. A stream that nobody has ever read is trimmed by age."""
        removed = 0
        try:
            async for keys in self._streams.server.scan(self._streams.pattern, _PAGE):
                for key in keys:
                    if key.endswith("}"):
                        removed += await self._streams.run("trim", [key], [str(keep_ms)])
        except StoreError as error:
            raise _away(error) from error
        return removed

    def _places(self, topics: Collection[str]) -> list[Place]:
        return [Place(topic, number) for topic in sorted(topics) for number in range(self.partitions)]

    async def _ask_for_all(
        self, script: str, places: Sequence[Place], args: Sequence[str], *, with_lease_of: str | None
    ) -> list[Any]:
        """What a script says of each place, where it says something of each."""
        streams = self._streams

        async def ask(together: Sequence[Place]) -> Any:
            return await streams.run(script, streams.keys(together, with_lease_of), args)

        try:
            answers = await asyncio.gather(*(ask(each) for each in streams.together(places)))
        except StoreError as error:
            raise _away(error) from error
        return [each for answer in answers if isinstance(answer, list) for each in cast("list[Any]", answer)]


class _Held:
    """A place that is ours: from when it was taken until it is lost or given back. Taken again, it is another one."""

    def __init__(self, place: Place, last_delivered: str, valid_until: float) -> None:
        self.place = place
        self.valid_until = valid_until
        """When it is somebody else's, if it is not renewed; by the monotonic clock."""
        self.read_up_to: Offset = (0, 0)
        self.heard_up_to = _offset(last_delivered)
        """Waiting is for what comes after this."""
        self.after = _text(self.read_up_to)
        """What the group has read after this, and we have not, comes first; '>' if there is nothing."""
        self.open: deque[Offset] = deque()
        """What was handed out and is not committed."""
        self.is_listened_to = False
        self.rests_until = 0.0
        """It could not be read; by the monotonic clock."""
        self.leaves_at: float | None = None
        """When it is given back at the latest, if somebody else should have it."""

    def has_left(self, now: float) -> bool:
        return self.leaves_at is not None and (not self.open or now >= self.leaves_at)

    def heard(self, offset: Offset) -> None:
        self.heard_up_to = max(self.heard_up_to, offset)


class RedisReader(BusReader):
    """One consumer's reading, in one process."""

    def __init__(
        self,
        streams: _Streams,
        ears: Sequence[Server],
        consumer: str,
        places: Sequence[Place],
        *,
        instance: str,
        lease_ms: Millis,
        on_close: Callable[[RedisReader], None],
    ) -> None:
        self._streams = streams
        self._ears = ears
        """On their connections nobody does anything but wait."""
        self._consumer = consumer
        self._places = places
        self._topics = sorted({place.topic for place in places})
        self._token = f"{instance}:{secrets.token_hex(8)}"
        self._lease_ms = lease_ms
        self._lease_seconds = lease_ms / SECOND
        self._on_close = on_close
        self._held: dict[Place, _Held] = {}
        self._paused: frozenset[Place] = frozenset()
        self._turn = 0
        """Where the next read begins, so that no place comes first for ever."""
        self._news = asyncio.Event()
        """Whoever fetches should look again."""
        self._nudge = asyncio.Event()
        """Whoever keeps the leases should look again."""
        self._trouble: BusAway | None = None
        """What whoever fetches is to hear."""
        self._is_woken = False
        self._is_closing = False
        self._listening: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None

    # --- coming and going ---

    async def begin(self) -> None:
        for server in (self._streams.server, *self._ears):
            server.open()
        await self._try_round()
        self._keeper = asyncio.get_running_loop().create_task(self._keep(), name=f"rota-reader-{self._consumer}")

    async def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        self._on_close(self)
        self._news.set()
        await self._end_tasks()
        self._held.clear()
        # What cannot be given back ends by itself.
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(self._streams.server.patience):
                await self._give_all_back()
        for server in (self._streams.server, *self._ears):
            await server.close()

    async def _end_tasks(self) -> None:
        self._nudge.set()
        if self._keeper is not None:
            # Not in the middle of a round: what it takes must be given back.
            await asyncio.wait([self._keeper], timeout=self._streams.server.patience)
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        for task in self._listening:
            task.cancel()
        if self._listening:
            await asyncio.wait(self._listening)
        for ear in self._ears:
            ear.patience = 0.0  # nobody waits for their replies any more

    async def _give_all_back(self) -> None:
        leases = [self._renew_leases(together, 0) for together in self._streams.together(self._places)]
        await _all(*leases, *(self._present(topic, 0) for topic in self._topics))

    # --- what is ours ---

    def places(self) -> Collection[Place]:
        self._forget_late()
        return tuple(self._held)

    def pause(self, places: Collection[Place]) -> None:
        self._paused = frozenset(places)
        self._news.set()

    async def _keep(self) -> None:
        """Renew what is ours and share it with those who come and go, as long as this reads."""
        every = min(self._lease_seconds / 3, ROUND_SECONDS)
        while not self._is_closing:
            with suppress(TimeoutError):
                async with asyncio.timeout(every):
                    await self._nudge.wait()
            self._nudge.clear()
            if not self._is_closing:
                await self._try_round()

    async def _try_round(self) -> None:
        try:
            # What takes longer is lost anyway.
            async with asyncio.timeout(self._lease_seconds):
                await self._round()
            self._trouble = None
        except Exception as error:
            # Whatever it is, it must not end the keeping; whoever fetches is told.
            self._trouble = _away(error)
            log.debug("leases not renewed", consumer=self._consumer, error=str(error))
            await self._cut_silent(error)
        if self._trouble is not None or any(held.rests_until for held in self._held.values()):
            self._news.set()

    async def _cut_silent(self, error: Exception) -> None:
        """If there was no answer at all, the connections may be dead without knowing: each would cost a wait."""
        if error.__cause__ is None and self._streams.server.address.kind != "cluster":
            for server in (self._streams.server, *self._ears):
                await server.cut()

    async def _round(self) -> None:
        self._forget_late()
        renewed = [self._renew(together) for together in self._streams.together(list(self._held))]
        await _all(*renewed, *(self._balance(topic) for topic in self._topics))

    async def _renew(self, places: Sequence[Place]) -> None:
        held = [self._held[place] for place in places if place in self._held]
        sent_at = _now()
        answers = await self._renew_leases([each.place for each in held], self._lease_ms)
        for each, is_ours in zip(held, answers, strict=True):
            if is_ours:
                each.valid_until = sent_at + self._lease_seconds
            else:
                self._forget(each)

    async def _renew_leases(self, places: Sequence[Place], lease_ms: Millis) -> list[int]:
        if not places:
            return []
        keys = [self._streams.lease(place, self._consumer) for place in places]
        return await self._streams.run("renew", keys, [self._token, str(lease_ms)])

    async def _present(self, topic: str, lease_ms: Millis) -> list[str]:
        key = self._streams.readers(topic, self._consumer)
        there: list[bytes] = await self._streams.run("present", [key], [self._token, str(lease_ms)])
        return [each.decode() for each in there]

    def _of(self, topic: str) -> list[Place]:
        return [place for place in self._places if place.topic == topic]

    async def _balance(self, topic: str) -> None:
        """Give back what is too much, take what is missing."""
        there = await self._present(topic, self._lease_ms)
        share = _share(topic, self._of(topic), there, self._token)
        held = [each for place, each in self._held.items() if place.topic == topic]
        staying = [each for each in held if each.leaves_at is None]
        leaving = [each for each in held if each.leaves_at is not None]
        for each in leaving[: max(0, share.size - len(staying))]:
            each.leaves_at = None
            staying.append(each)
        for each in _least_wanted(staying, share)[: max(0, len(staying) - share.size)]:
            each.leaves_at = _now() + HAND_OVER_SECONDS
        await self._give_back([each for each in held if each.has_left(_now())])
        await self._take([place for place in share.order if place not in self._held], share.size - len(staying))

    async def _give_back(self, held: Sequence[_Held]) -> None:
        for each in held:
            self._forget(each)
        places = self._streams.together([each.place for each in held])
        await _all(*(self._renew_leases(together, 0) for together in places))

    async def _take(self, places: Sequence[Place], wanted: int) -> None:
        trouble: StoreError | None = None
        for together in self._streams.together(places):
            if wanted > 0:
                try:
                    wanted -= await self._take_together(together, wanted)
                except StoreError as error:
                    trouble = error  # others may lie on a node that answers
        if trouble is not None:
            raise trouble

    async def _take_together(self, places: Sequence[Place], wanted: int) -> int:
        until = _now() + self._lease_seconds
        keys = self._streams.keys(places, self._consumer)
        args = [self._token, str(self._lease_ms), self._consumer, str(wanted)]
        answers: list[bytes] = await self._streams.run("take", keys, args)
        taken = {place: last for place, last in zip(places, answers, strict=True) if last}
        for place, last_delivered in taken.items():
            self._held[place] = _Held(place, last_delivered.decode(), until)
            self._news.set()
        return len(taken)

    def _forget(self, held: _Held) -> None:
        if self._held.get(held.place) is held:
            del self._held[held.place]

    def _forget_late(self) -> None:
        """What was not renewed in time may be somebody else's. It never comes back as it was: it is taken anew."""
        now = _now()
        for held in [each for each in self._held.values() if each.valid_until <= now]:
            self._forget(held)

    # --- fetching ---

    async def fetch(self, limit: int, seconds: float) -> Sequence[Message]:
        deadline = _now() + seconds
        while not self._is_closing:
            self._news.clear()
            found = await self._read(limit)
            if found:
                return found
            self._raise_trouble()
            if self._is_woken or _now() >= deadline:
                break
            self._listen()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
        self._is_woken = False
        return ()

    def wake(self) -> None:
        self._is_woken = True
        self._news.set()

    def _raise_trouble(self) -> None:
        trouble, self._trouble = self._trouble, None
        if trouble is not None and not self._is_closing:
            raise trouble

    def _readable(self) -> list[_Held]:
        """What may have something; nothing is new in what is listened to."""
        self._forget_late()
        now = _now()
        found = [
            held
            for place, held in self._held.items()
            if place not in self._paused
            and held.leaves_at is None
            and held.rests_until <= now
            and not held.is_listened_to
        ]
        self._turn += 1
        begin = self._turn % len(found) if found else 0
        return found[begin:] + found[:begin]

    async def _read(self, limit: int) -> list[Message]:
        readable = {held.place: held for held in self._readable()}
        groups = self._streams.together(list(readable))[:limit]
        each_limit = limit // max(1, len(groups))
        read = (self._read_together([readable[place] for place in group], each_limit) for group in groups)
        return [message for messages in await asyncio.gather(*read) for message in messages]

    async def _read_together(self, held: Sequence[_Held], limit: int) -> list[Message]:
        cursors = [each.after for each in held]
        for each in held:
            # If the answer is lost, what it held is open: the next read finds it.
            each.after = _text(each.read_up_to)
        args = [self._token, self._consumer, str(limit), *cursors]
        try:
            keys = self._streams.keys([each.place for each in held], self._consumer)
            answers: list[Any] = await self._streams.run("read", keys, args)
        except StoreError as error:
            self._rest(held, error)
            return []
        self._forget_late()
        found: list[Message] = []
        for each, cursor, answer in zip(held, cursors, answers, strict=False):
            found += self._received(each, cursor, answer, limit - len(found))
        for each, cursor in zip(held[len(answers) :], cursors[len(answers) :], strict=True):
            each.after = cursor  # the limit was reached before it had its turn
        return found

    def _rest(self, held: Sequence[_Held], error: StoreError) -> None:
        """Whoever fetches is told, unless others have something for it."""
        self._trouble = _away(error)
        for each in held:
            each.rests_until = _now() + REST_SECONDS

    def _received(self, held: _Held, cursor: str, answer: Any, limit: int) -> list[Message]:
        if self._held.get(held.place) is not held:
            return []
        if answer == 0:
            self._lose(held)
            return []
        messages = [_message(held.place, entry) for entry in answer]
        if messages and messages[0].offset <= held.read_up_to:
            # Somebody has set the group back by hand. What is open belongs to another order by now.
            self._lose(held)
            return []
        for message in messages:
            held.open.append(message.offset)
            held.read_up_to = message.offset
            held.heard(message.offset)
        is_all = cursor == _NEW_ONLY or len(messages) < limit
        held.after = _NEW_ONLY if is_all else _text(held.read_up_to)
        held.rests_until = 0.0
        return messages

    def _lose(self, held: _Held) -> None:
        self._forget(held)
        self._nudge.set()

    # --- waiting ---

    def _listen(self) -> None:
        """Have Redis say when there is something in places that were just found empty."""
        places = {held.place: held for held in self._readable()}
        for together in self._streams.together(list(places)):
            if len(self._listening) >= LOOP_CALLS * len(self._ears):
                return  # each of them ends soon
            held = [places[place] for place in together]
            for each in held:
                each.is_listened_to = True
            ear = self._ears[self._places.index(together[0]) // LOOP_CALLS % len(self._ears)]
            task = asyncio.get_running_loop().create_task(self._hear(ear, held))
            self._listening.add(task)
            task.add_done_callback(self._listening.discard)

    async def _hear(self, ear: Server, held: Sequence[_Held]) -> None:
        keys = {self._streams.stream(each.place).encode(): each for each in held}
        after = [_text(each.heard_up_to) for each in held]
        try:
            answer = await ear.command("XREAD", "COUNT", 1, "BLOCK", BLOCK_MS, "STREAMS", *keys, *after)
            news: dict[bytes, Sequence[Sequence[Any]]] = dict(answer or ())
            for key, entries in news.items():
                # Should somebody else take it out of our group, we do not wait for it again.
                keys[key].heard(_offset(entries[0][0].decode()))
        except StoreError as error:
            self._trouble = _away(error)
        finally:
            for each in held:
                each.is_listened_to = False
            self._news.set()

    # --- how far it is done ---

    def commit_within(self, connection: Connection, done: Mapping[Place, Any]) -> None:
        """Redis is told by `commit`."""

    async def commit(self, done: Mapping[Place, Any]) -> None:
        self._forget_late()
        held = {place: self._held[place] for place in done if place in self._held}
        ids = {place: [each for each in held[place].open if each <= done[place]] for place in held}
        places = self._streams.together([place for place in held if ids[place]])
        await _all(*(self._commit_together({held[place]: ids[place] for place in together}) for together in places))

    async def _commit_together(self, acknowledged: Mapping[_Held, Sequence[Offset]]) -> None:
        args = [self._token, self._consumer]
        for offsets in acknowledged.values():
            args += [str(len(offsets)), *map(_text, offsets)]
        try:
            keys = self._streams.keys([held.place for held in acknowledged], self._consumer)
            answers: list[int] = await self._streams.run("commit", keys, args)
        except StoreError as error:
            raise _away(error) from error
        for (held, offsets), is_ours in zip(acknowledged.items(), answers, strict=True):
            while is_ours and held.open and held.open[0] <= offsets[-1]:
                held.open.popleft()
            if not is_ours:
                self._lose(held)
            elif held.has_left(_now()):
                self._nudge.set()


# --- who should have what -------------------------------------------------------------------------------------------


class _Share(NamedTuple):
    """How many places of a topic a reader should have, and the order in which it takes them."""

    size: int
    order: Sequence[Place]


def _share(topic: str, places: Sequence[Place], there: Sequence[str], token: str) -> _Share:
    """As many for everybody; where that does not come out even, one more for some, and for others in each topic."""
    rank = (there.index(token) + zlib.crc32(topic.encode())) % len(there)
    count, rest = divmod(len(places), len(there))
    # Everybody begins elsewhere, so that two that come at once do not want the same.
    first = [place for place in places if place.partition % len(there) == rank]
    return _Share(count + (rank < rest), [*first, *(place for place in places if place not in first)])


def _least_wanted(held: Iterable[_Held], share: _Share) -> list[_Held]:
    return sorted(held, key=lambda each: share.order.index(each.place), reverse=True)


# --- streams and scripts --------------------------------------------------------------------------------------------


class _Script(NamedTuple):
    text: str
    digest: str


@cache
def _script(name: str) -> _Script:
    folder = files("rota.events").joinpath("buses", "lua")
    text = "\n".join(folder.joinpath(f"{each}.lua").read_text(encoding="utf-8") for each in ("common", name))
    return _Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


class _Streams:
    """The names of all keys, and how a script is run on them."""

    def __init__(self, server: Server, prefix: str) -> None:
        self.server = server
        self.prefix = prefix

    def stream(self, place: Place) -> str:
        return f"{self.prefix}events:{{{place.topic}:{place.partition}}}"

    def lease(self, place: Place, consumer: str) -> str:
        return f"{self.stream(place)}:lease:{consumer}"

    def readers(self, topic: str, consumer: str) -> str:
        return f"{self.prefix}events:readers:{{{topic}}}:{consumer}"

    @property
    def pattern(self) -> str:
        """What SCAN is to look for to find every stream, and a few other keys."""
        escaped = "".join(f"\\{each}" if each in "*?[]^\\" else each for each in self.prefix)
        return f"{escaped}events:{{*}}"

    def keys(self, places: Sequence[Place], with_lease_of: str | None) -> list[str]:
        """What a script is given: the streams, and if a consumer is named after each stream its lease."""
        if with_lease_of is None:
            return [self.stream(place) for place in places]
        return [key for place in places for key in (self.stream(place), self.lease(place, with_lease_of))]

    def add(self, place: Place, message: Outgoing) -> Sequence[str | bytes]:
        fields = ("event_id", message.event_id, "key", message.key, "value", message.value)
        return "XADD", self.stream(place), "*", *fields, "headers", msgspec.json.encode(message.headers)

    def together(self, places: Iterable[Place]) -> list[list[Place]]:
        """The places in groups that one command can name: on a Cluster each lies elsewhere."""
        found = list(places)
        if self.server.address.kind == "cluster":
            return [[place] for place in found]
        return [found] if found else []

    async def run(self, name: str, keys: Sequence[str], args: Sequence[str]) -> Any:
        script = _script(name)
        try:
            return await self.server.command("EVALSHA", script.digest, len(keys), *keys, *args)
        except StoreError as error:
            if not isinstance(error.__cause__, NoScriptError):
                raise
        return await self.server.command("EVAL", script.text, len(keys), *keys, *args)


# --- what goes over the wire ----------------------------------------------------------------------------------------


async def _all(*calls: Coroutine[Any, Any, object]) -> None:
    """Each of them, whatever becomes of the others; then the first error is raised."""
    for answer in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(answer, BaseException):
            raise answer


def _now() -> float:
    return asyncio.get_running_loop().time()


def _offset(text: str) -> Offset:
    ms, _, number = text.partition("-")
    return int(ms), int(number or 0)


def _text(offset: Offset) -> str:
    return f"{offset[0]}-{offset[1]}"


def _message(place: Place, entry: Sequence[Any]) -> Message:
    """An entry that is none of ours has no value; whoever decodes it says so."""
    flat: Sequence[bytes] = entry[1]
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    key = fields.get(b"key", b"").decode(errors="replace")
    return Message(place, _offset(entry[0].decode()), key, _headers(fields), fields.get(b"value", b""))


def _headers(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    try:
        return _HEADERS.decode(fields.get(b"headers", b"{}"))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _too_large(message: Outgoing) -> Refused | None:
    size = max(len(message.value), len(msgspec.json.encode(message.headers)))
    if size <= MAX_BYTES:
        return None
    return Refused(
        f"The message has {size:,} bytes; the Redis bus takes {MAX_BYTES:,}. Keep large data elsewhere, and send where"
        " it is."
    )


def _away(error: Exception) -> BusAway:
    if isinstance(error, TimeoutError):
        return BusAway("The bus did not answer in time. Check that it is up and can be reached.")
    return BusAway(str(error).replace("The store ", "The bus ", 1))
