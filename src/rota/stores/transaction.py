"""What one atomic step of a store may read and write, by what needs it.

    Transaction         what a verb on identities needs. Every store has it; on Redis a step knows one type alone.
    Sweeps              what a tick needs beside: leases and serials of all types, and who is at work
    Retention           what pruning needs beside
    UserData            what erasing and exporting a user needs beside
    WholeTransaction    all of it: a transaction that sees every type at once, which `memory` and `sql` have

The verbs of `stores/verbs.py` are written once against a `Transaction`. Those that go over all types have a part that
says what is done to identities that were found; `redis` finds them in its own way, type by type, and calls the same.

Whatever a transaction reads with `load`, `due`, `expired` and the like is locked until it ends (or, on Redis, compared
at its end), so that what the verb decides is still true when it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from rota.clock import Instant, Millis
from rota.core.bucket import Bucket
from rota.core.failure import FailureGroup, FailureKey
from rota.core.history import Resolution, Slice, SliceKey
from rota.core.lifecycle import Step
from rota.core.task import Entry, Identity, RunRecord, Settlement
from rota.stores.base import Beat, Erasure, Instance, RunLeft, TypeRecord

__all__ = ["Completion", "Retention", "Sweeps", "Transaction", "UserData", "WholeTransaction", "Written"]


Written = tuple[Identity, Entry, Entry]
"""One identity, before and after the step."""


class Completion(NamedTuple):
    """A task was completed, and other types come after its type."""

    task_type: str
    key: str
    user_id: str | None
    device_id: str | None
    agent_id: str | None
    trace: str | None = None
    """The context in which it was made: what comes after it is linked to the same maker."""
    log_id: str | None = None
    """Where it stands in the log, if it may be handed on more than once: by it a follower knows what it has seen."""


class Transaction(Protocol):
    """One atomic step: all of it becomes visible at once, or nothing does."""

    def now(self) -> Instant:
        """The store's clock."""
        ...

    def poke(self) -> None:
        """Wake the other instances when this transaction becomes visible: something is due soon."""
        ...

    # --- identities ---

    def load(self, identities: Collection[Identity]) -> Mapping[Identity, Entry]:
        """What is known of each identity; one that is unknown has no task and no past."""
        ...

    def write(self, changes: Sequence[Written]) -> None: ...

    def claim_plain(self, task_type: str, tokens: Mapping[str, int], claimed: Step) -> bool:
        """Write plain tasks that are claimed, by their keys, each with its token, in one go, as `core/plain.py` says.
        False where there is no such way: then nothing was written."""
        ...

    def end_plain(self, task_type: str, succeeded: Mapping[str, Settlement], success: Step) -> Collection[str]:
        """Of runs that have succeeded, by the keys of their tasks, end those of plain tasks in one go, as
        `core/plain.py` says; the keys of those that were ended. None of them, where there is no such way."""
        ...

    def claimed(self, instance: str, claim_id: str) -> Sequence[Entry]: ...

    def owned(self, task_type: str, owner: str) -> int:
        """How many live tasks of the type an owner has."""
        ...

    # --- lanes and serials ---

    def due(self, task_type: str, now: Instant, limit: int) -> Sequence[Sequence[Entry]]:
        """Of each lane of a type, which is what has the same priority, the first due tasks, in due order; ones that
        another transaction holds are passed over."""
        ...

    def next_due(self, task_type: str, after: Instant) -> Instant | None:
        """When the first task of the type that is due later than `after` is due."""
        ...

    def lock_serials(self, serials: Sequence[tuple[str, str]], *, wait: bool) -> Collection[tuple[str, str]]:
        """Keep every other transaction from counting or changing who runs under these until this one ends. Which are
        kept so: without waiting, not those that another transaction keeps."""
        ...

    def running_under(self, task_type: str, serials: Collection[str]) -> Mapping[str, int]:
        """How many run under each; one that is not named has none."""
        ...

    def with_parked(self, task_type: str, serials: Collection[str]) -> Collection[str]:
        """Those under which a task is parked."""
        ...

    def parked(self, task_type: str, serial: str, aging_ms: Millis, limit: int) -> Sequence[Entry]:
        """The parked tasks of a serial that rank first."""
        ...

    # --- types, counters, tokens ---

    def types(self) -> Mapping[str, TypeRecord]: ...

    def put_type(self, record: TypeRecord) -> None: ...

    def tokens(self, count: int, claim_id: str, now: Instant, above: int) -> Iterator[int]:
        """So many tokens of a claim (`core/token.py`), none of which was ever handed out before. `above` is the highest
        one that any of the tasks has had: a store that counts goes on from there if it has counted less."""
        ...

    def pending(self, task_type: str) -> int:
        """The kept counter of pending tasks."""
        ...

    def count(self, deltas: Mapping[str, Mapping[str, int]]) -> None:
        """Add to the kept counters, by type and by the name of the counter."""
        ...

    def bucket(self, name: str) -> Bucket | None: ...

    def put_bucket(self, name: str, bucket: Bucket) -> None: ...

    def instances(self) -> Sequence[Instance]: ...

    # --- the run log, and what comes after ---

    def log(self, runs: Sequence[RunRecord]) -> None: ...

    def append_completions(self, completions: Sequence[Completion]) -> None: ...

    def completed_for(self, identity: Identity) -> set[str]:
        """Which of the types it comes after have completed for an identity since it was last claimed."""
        ...

    def mark_completed(self, identity: Identity, task_type: str, log_id: str | None = None) -> bool:
        """A type that it comes after has completed for an identity; False if it was told of this one (`log_id`) before,
        and then nothing changes."""
        ...

    def clear_completed(self, identities: Collection[Identity]) -> None:
        """They are claimed: what has completed so far is dealt with."""
        ...

    def forget_completed(self, identities: Collection[Identity]) -> None:
        """Keep nothing of what has completed, or ever completed, for these."""
        ...

    # --- what ran, over time ---

    def slices(self, resolution: Resolution, keys: Collection[SliceKey]) -> Sequence[Slice]:
        """Those of the slices under these keys that there are; nobody else adds to them until this step ends."""
        ...

    def put_slices(self, resolution: Resolution, slices: Sequence[Slice]) -> None: ...

    # --- what a run leaves, and failures by groups ---

    def put_details(self, left: Sequence[RunLeft], user_ids: Sequence[str | None], now: Instant) -> None:
        """Keep what runs have left, in the place of what is there of them; of one identity not more than the last
        `DETAILED_RUNS`."""
        ...

    def drop_details(self, identities: Collection[Identity]) -> None:
        """Remove what all runs of these have left."""
        ...

    def failure_groups(self, task_type: str) -> Sequence[FailureGroup]:
        """Those of a type; nobody else changes them until this step ends."""
        ...

    def put_failure_groups(self, groups: Sequence[FailureGroup], dropped: Sequence[FailureKey]) -> None: ...


class Sweeps(Protocol):
    """Leases and serials of all types, and who was last known to look after them."""

    def beat(self, beat: Beat, now: Instant) -> None: ...

    def swept_at(self, now: Instant) -> Instant | None:
        """When somebody was last known to have swept; in the future of `now` if the clock has stepped back since.

        Nobody waits for whoever writes it down just now: where that one never ends, a beat that came with a later
        sweep, and is none of the future, tells as well.
        """
        ...

    def set_swept_at(self, now: Instant) -> None:
        """Write it down, unless another transaction is about to: theirs will do."""
        ...

    def extend_leases(self, until: Instant) -> int:
        """Let no lease end before `until` that was renewed since it was last extended; how many were extended."""
        ...

    def set_back_leases(self, by_ms: Millis, until: Instant) -> None:
        """Let every lease end so much earlier, but none before `until`."""
        ...

    def expired_leases(self, now: Instant, limit: int) -> Sequence[Entry]: ...

    def idle_serials(self, limit: int) -> Sequence[tuple[str, str]]:
        """Serials under which something is parked and nothing runs."""
        ...


class Retention(Protocol):
    """What is kept only for a time, over all types."""

    def expired(self, now: Instant, limit: int) -> Sequence[Entry]:
        """Pending and paused tasks whose `expires_at` has passed."""
        ...

    def purgeable(self, now: Instant, limit: int) -> Sequence[Entry]: ...

    def forget(self, now: Instant, limit: int) -> int:
        """Remove the pasts that have no task and are past their time."""
        ...

    def drop_runs(self, before: Instant, limit: int) -> int:
        """Remove those of the `limit` oldest run records that started before an instant."""
        ...

    def drop_instances(self, before: Instant) -> int:
        """Forget instances that were last seen before an instant."""
        ...

    def drop_erasures(self, before: Instant) -> None:
        """Forget the tombstones of erasures that were done before an instant."""
        ...

    def drop_slices(self, resolution: Resolution, before: Instant) -> None:
        """Forget the slices that begin before an instant."""
        ...

    def drop_old_details(self, before: Instant, limit: int) -> None:
        """Forget what runs have left that was last written before an instant."""
        ...

    def drop_failure_groups(self, before: Instant) -> None:
        """Forget the groups of which nothing was seen since an instant."""
        ...


class UserData(Protocol):
    """What of all that is kept belongs to a user (`stores/users.py`)."""

    def known_of(
        self, user_id: str, *, until: Instant | None = None, after: Identity | None = None, limit: int
    ) -> Sequence[Identity]:
        """The first identities behind `after` that belong to a user, in (type, key) order; with `until` only those of
        which something can be erased."""
        ...

    def running_of(self, user_id: str, until: Instant) -> int:
        """How many tasks of a user, made at or before an instant, run."""
        ...

    def drop_runs_of(self, user_id: str, until: Instant, limit: int) -> int:
        """Remove run records of a user (`is_old_run`), with what these runs have left; how many were removed."""
        ...

    def drop_completions(self, user_id: str, until: Instant) -> None:
        """Take the completions of a user's tasks out of the log, but for tasks made after an instant."""
        ...

    def erasure(self, user_id: str) -> Erasure | None:
        """The tombstone of a user; nobody else changes it until this step ends."""
        ...

    def put_erasure(self, erasure: Erasure) -> None: ...


class WholeTransaction(Transaction, Sweeps, Retention, UserData, Protocol):
    """A transaction that sees every type at once."""

    def take_completions(self, limit: int) -> Sequence[Completion]:
        """Take the oldest completions out of the log."""
        ...

    def known(self, after: Identity | None, limit: int) -> Sequence[Identity]:
        """The first identities, in (type, key) order and behind `after`, of which anything is known: a task, a past,
        or the completion of a type that it comes after. For moving to another store; nothing is locked."""
        ...

    def note(self, name: str, value: str, *, replace: bool) -> None:
        """Remember a text, unless another transaction was first and it is not to be replaced."""
        ...

    def noted(self, name: str) -> str | None: ...

    def leave(self, instance: str) -> None: ...
