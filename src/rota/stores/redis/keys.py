"""Every key of the Redis store, in one place.

The braces are literal hash tags: whatever belongs to one type lies in one slot, so that a script that works on one type
also works on a Redis Cluster. `{}` stands for the type in braces:

    task_types                       set      the names of all types (the only thing that knows them all)
    type:{}                          hash     config (JSON), overrides (JSON), followed, swept_at
    task_type:{}                     string   where the first layout had that; keeps its instances out (`upgrade.py`)
    task:{}:<key>                    string   the record: the task and the identity's past (`codec.py`)
    payload:{}:<key>                 string   a payload over 64 bytes, so that the record stays short
    queue:{}, queue:{}:<priority>    zset     pending, by scheduled_at: the lane of priority 5, and the others
    lanes:{}                         set      the priorities other than 5 that were ever used
    running:{}                       zset     leases, by deadline
    parked:{}:<serial>               zset     due, but the serial is busy; by rank
    parked:{}                        zset     all of those, by scheduled_at
    serials:{}                       set      the serials under which something is parked
    holders:{}:<serial>              set      who runs under a serial
    paused:{}                        zset     paused, by scheduled_at
    dead:{}, done:{}                 zset     failed; completed and cancelled; by purge_at
    failed:{}:<failure>              zset     those of the failed that belong to a group of failures; by purge_at
    expires:{}                       zset     pending and paused tasks with an end, by expires_at
    past:{}                          zset     identities without a task whose past is kept, by forget_at
    keys:{}                          zset     score 0: all of which anything is known; pages and users, by lexical range
    user:{}:<user_id>                set      the tasks of a user whose keys do not begin with the user
    owner:{}:<owner>                 set      live schedules of one owner
    owned:{}:<owner>                 zset     score 0: all tasks of one owner, for pages
    schedules:{}                     zset     score 0: all tasks with a trigger of their own, for pages
    runs:{}                          stream   the run log, capped
    history:{}:<key>                 stream   the last 30 rows of a recurring task, under the same ids
    details:{}:<key>                 hash     what the last runs of an identity have left (JSON), by token
    detailed:{}                      zset     identities of which there is any, by when it was last written
    failures:{}                      hash     groups of failures (JSON), by their ids
    after:{}                         stream   completions for the pump
    need:{}:<key>                    hash     what of its `after` has arrived
    seq:{}                           string   the last token
    counts:{}                        hash     kept counters
    slices:{}:<resolution>           zset     what ran in each minute or hour (JSON), by its start
    bucket:{<name>}                  hash     a shared token bucket, with a TTL
    bucket:{}:own, bucket:{}:starts  hash     a type's own: of its rate_limit, of its start_limit; with a TTL
    instances, meta                  hash     incarnations; the schema's version, which indexes are complete, the notes
    erasures                         hash     the tombstones of users who are being erased, by user_id
    turn:<duty>:<indexes>            string   whose turn a duty of many instances is, with a TTL
    absent:{}                        -        never there: see `declared`
"""

from __future__ import annotations

import re
from functools import lru_cache, partial

from rota.clock import DAY
from rota.core.task import Identity
from rota.errors import InvalidConfig

__all__ = ["DEFAULT_PREFIX", "NEED_TTL_MS", "NORMAL_LANE", "PERMANENT", "SEEN", "Keys", "declared"]

DEFAULT_PREFIX = "scheduler:"
NORMAL_LANE = 5
"""The priority whose lane has the plain name of the queue, without a number."""

_TAG = r"\{[^{}]+\}"
PERMANENT = (
    r"task_types|instances|meta|erasures",
    rf"(type|task_type):{_TAG}",
    rf"(task|payload|need|history|details|user|owner|owned|parked|holders|failed):{_TAG}:.+",
    rf"slices:{_TAG}:(minute|hour)",
    rf"queue:{_TAG}(:\d+)?",
    rf"(running|parked|schedules|paused|dead|done|expires|past|keys|lanes|serials|runs|after|seq|counts|detailed|failures):{_TAG}",
)
"""Patterns of the keys, after the prefix, that live as long as the work does. Every other key has a time to live."""

_OWN_BUCKET = "type:"
_OF_STARTS = ":starts"

SEEN = "seen:"
"""What the fields of `need` begin with that were dealt with: a pump that was cut off may bring them again."""
NEED_TTL_MS = 2 * DAY
"""How long it is remembered which completions a follower has seen: far longer than a pump can be late."""


class Keys:
    """The names of all keys under one prefix."""

    def __init__(self, prefix: str = DEFAULT_PREFIX) -> None:
        if "{" in prefix or "}" in prefix or len(prefix) > 100:
            raise InvalidConfig(
                f"The key prefix {prefix[:40]!r} cannot be used: no braces, at most 100 characters. Use 'scheduler:'."
            )
        self.prefix = prefix
        self.pattern = re.sub(r"([*?\[\]^\\])", r"\\\1", prefix)
        """The prefix for a scan: it may contain what a pattern gives a meaning."""
        self.types = f"{prefix}task_types"
        self.instances = f"{prefix}instances"
        self.meta = f"{prefix}meta"
        self.erasures = f"{prefix}erasures"
        self.wake = f"{prefix}wake"
        """The channel on which instances wake each other."""
        self.type = lru_cache(1_000)(partial(self.of, "type"))
        """The key of a type by its name: every call of a script asks for it, and types are few."""

    def of(self, kind: str, task_type: str, suffix: str | int | None = None) -> str:
        """A key of one type."""
        stem = f"{self.prefix}{kind}:{{{task_type}}}"
        return stem if suffix is None else f"{stem}:{suffix}"

    def task(self, identity: Identity) -> str:
        return self.of("task", identity.task_type, identity.key)

    def lane(self, task_type: str, priority: int) -> str:
        return self.of("queue", task_type, None if priority == NORMAL_LANE else priority)

    def bucket(self, name: str) -> str:
        if not name.startswith(_OWN_BUCKET):
            return self.of("bucket", name)
        # Beside everything else of the type: a claim takes from it.
        task_type, of_starts, rest = name.removeprefix(_OWN_BUCKET).partition(_OF_STARTS)
        if of_starts and not rest:
            return self.of("bucket", task_type, "starts")
        return self.of("bucket", name.removeprefix(_OWN_BUCKET), "own")


@lru_cache(1_000)
def declared(key: str) -> tuple[str, ...]:
    """The keys that a script declares: the one that leads to its node, and for a type's script one that never exists.

    A type's script touches keys that it does not declare. While a Cluster moves their slot some are here and some are
    there, and the script would fail half-way, with its first writes done. But of several declared keys in a moving
    slot all must be there, or the node answers TRYAGAIN before the script begins; so one of them never is. On a slot
    that stays where it is, and on a single server, it makes no difference. A script that touches only what it declares
    follows its key.
    """
    absent = key.replace("type:{", "absent:{", 1)
    return (key,) if absent == key else (key, absent)
