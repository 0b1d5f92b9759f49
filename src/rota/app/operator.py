"""What people do to tasks, schedules and types, with their name on it.

Every face that lets somebody act (HTTP, dashboard, command line, MCP) goes through an `Operator`: it checks the role,
acts, and leaves an entry in the audit log with what was before and after.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Unpack

from msgspec.structs import replace as replace_query

from rota.access import Actor, NewToken, Principal, Role, Token, Tokens
from rota.app.again import SAME, once_more
from rota.app.failures import one_failure
from rota.app.making import schedule_one
from rota.app.results import Receipt, ScheduleInfo, TaskDetails, answered, details_to_dict
from rota.app.rota import Rota, ScheduleOptions
from rota.app.schedules import ScheduleSettings
from rota.app.views import is_filtered
from rota.clock import Instant
from rota.config.urls import masked
from rota.core.outcome import Answer, ScheduleOutcome, Touched
from rota.core.run_details import decode_details
from rota.core.task import Identity, RunRecord, Task, TaskStatus, Transition
from rota.errors import CountChanged, IllegalTransition, InvalidInput, UnknownTask
from rota.keys import shown_key
from rota.masking import unmasked
from rota.runtime.database_owner import DatabaseIdentity
from rota.stores.base import MAX_PAGE, Erasure, Failures, RunRef, Snapshot, Store, TaskQuery, TaskSort, TypeRecord

__all__ = ["MAX_COUNTED", "Counted", "Done", "Erased", "Meant", "Operator"]

MAX_COUNTED: Final = 10_000
"""How far tasks that match are counted before a bulk action; beyond it people read "more than"."""

BULK_EVENTS: Final = frozenset(
    {Transition.PAUSE, Transition.RESUME, Transition.CANCEL, Transition.RUN_NOW, Transition.REDRIVE, Transition.PURGE}
)


@dataclass(frozen=True, slots=True)
class Counted:
    """How many tasks match; `is_all` is False when counting was ended early."""

    count: int
    is_all: bool


@dataclass(frozen=True, slots=True)
class Meant:
    """The tasks that a bulk action is about, as `Operator.confirm` has listed them."""

    counted: Counted
    words: str
    """Which ones, for the audit log."""
    listed: tuple[Identity, ...] = ()
    rest: TaskQuery | None = None
    """What matches beyond those, where there are too many to list."""
    most: int | None = None
    """No more than these are changed, if somebody agreed to a number."""


class Done(NamedTuple):
    """What a bulk action did: how many tasks it changed, and how many it could not, by their state."""

    changed: int
    refused: int


class Erased(NamedTuple):
    """What became of a user's data: how far the store is, and how much of what the parts kept is gone, by its name."""

    erasure: Erasure
    kept: Mapping[str, int]


class Operator(Actor):
    """Acts on a connected app in somebody's name."""

    def __init__(self, app: Rota, principal: Principal) -> None:
        super().__init__(principal, app.database)
        self._app = app

    # --- one task ---

    async def apply(self, transition: Transition, identity: Identity) -> TaskDetails | None:
        """Pause, resume, cancel, run now, redrive or purge one task. None: it is gone (purged)."""
        self.need(Role.OPERATOR, f"{transition} a task")
        store = await self._store()
        async with self.recording(f"task.{transition}", str(identity)) as note:
            (before,) = await store.get([identity])
            note.before = _picture(before)
            (reply,) = await store.apply(transition, [identity])
            task = answered(transition, identity, reply)
            note.after = _picture(task)
        return None if task is None else TaskDetails.of(task)

    async def reset(self, identity: Identity) -> None:
        """Forget the failures in a row, so that activity is taken on again."""
        self.need(Role.OPERATOR, "reset a breaker")
        store = await self._store()
        async with self.recording("task.reset", str(identity)):
            await store.reset_breaker([identity])

    async def schedule(self, task_type: str, payload: object = None, **options: Unpack[ScheduleOptions]) -> Receipt:
        """Make a task, as `app.schedule` does."""
        self.need(Role.OPERATOR, "schedule a task")
        async with self.recording("task.schedule", task_type) as note:
            receipt = await self._app.schedule(task_type, payload, **options)
            note.after = receipt.to_dict()
        return receipt

    async def touch(
        self, task_type: str, user_id: str, device_id: str | None = None, agent_id: str | None = None
    ) -> Touched:
        """Say that a user was active, as an application does: to try what becomes of it."""
        self.need(Role.OPERATOR, "touch a user's task")
        async with self.recording("task.touch", task_type) as note:
            touched = await self._app.host.touch(task_type, user_id, device_id, agent_id)
            note.after = {"user_id": user_id, "outcome": str(touched.outcome)}
        return touched

    # --- many tasks ---

    async def count(self, query: TaskQuery) -> Counted:
        """How many tasks match, counted up to `MAX_COUNTED`; of those in one state, the kept counters know more."""
        self.need(Role.VIEWER, "count tasks")
        return (await self._matching(query)).counted

    async def confirm(self, transition: Transition, meant: TaskQuery | list[Identity], expected: int | None) -> Meant:
        """The tasks that a bulk action means. If somebody agreed to another number of them, it is not to be done."""
        self.need(Role.OPERATOR, f"{transition} tasks")
        found = _named(meant) if isinstance(meant, list) else await self._matching(_narrowed(meant))
        if expected is None:
            return found
        if expected != found.counted.count:
            raise _count_changed(expected, found.counted.count)
        return replace(found, most=expected) if found.counted.is_all else found

    async def apply_all(self, transition: Transition, query: TaskQuery, *, agreed: Counted | None = None) -> Done:
        """The same transition on every task that matches. What comes to match meanwhile may be left.

        `agreed` is what somebody has agreed to, who was told what `count` says. If it is another number now, nothing is
        changed, and what comes to match later is left. Beyond `MAX_COUNTED` nobody compares; no more than the number
        agreed to are changed, unless that was "more than" it.
        """
        meant = await self.confirm(transition, query, None)
        if agreed is not None and agreed.is_all:
            if agreed.count <= MAX_COUNTED and agreed != meant.counted:
                raise _count_changed(agreed.count, meant.counted.count)
            meant = replace(meant, most=agreed.count)
        return await self.carry_out(transition, meant)

    async def apply_these(self, transition: Transition, identities: list[Identity]) -> Done:
        """The same transition on the named tasks."""
        if not identities:
            raise InvalidInput(f"No task was named; 1 to {MAX_PAGE:,} is possible.")
        return await self.carry_out(transition, _named(identities))

    async def carry_out(self, transition: Transition, meant: Meant) -> Done:
        """The same transition on the tasks that `confirm` has listed, a page at a time.

        They are not looked for again, though some may be other than they were. Between a look and a change there is
        always a moment, so a second look would not spare anybody anything: what a task is by then, the store itself
        looks at when it changes it, and a state that does not allow the transition is refused, task by task. And what
        has come to match since is not among those that were listed, so nothing happens to it. Only where there were too
        many to list does the listing go on from where it ended, as the first ones are changed.
        """
        self.need(Role.OPERATOR, f"{transition} tasks")
        if transition not in BULK_EVENTS:
            raise InvalidInput(f"{transition} is nothing to do to many tasks at once.")
        store = await self._store()
        done = Done(0, 0)
        async with self.recording(f"tasks.{transition}", meant.words) as note:
            try:
                async for identities in _pages(store, meant):
                    replies = await store.apply(transition, identities)
                    changed = sum(reply.answer is Answer.OK for reply in replies)
                    done = Done(done.changed + changed, done.refused + len(replies) - changed)
            finally:
                # Also when it was broken off half-way: what was changed is changed.
                note.after = done._asdict()
        return done

    async def _matching(self, query: TaskQuery) -> Meant:
        """The tasks that match now, listed as far as they are counted."""
        store = await self._store()
        # By key, whatever the list was sorted by: that order alone reaches all of them.
        query = replace_query(query, cursor=None, limit=MAX_PAGE, sort=TaskSort.KEY)
        if query.status is not None and query == TaskQuery(
            task_type=query.task_type, status=query.status, limit=MAX_PAGE
        ):
            counts = await store.counts()
            chosen = [each for name, each in counts.items() if query.task_type in (None, name)]
            kept = sum(getattr(each, query.status.value) for each in chosen)
            if kept > MAX_COUNTED:
                return Meant(Counted(kept, True), _words(query), rest=query)
        listed: list[Identity] = []
        rest: TaskQuery | None = query
        while rest is not None and len(listed) <= MAX_COUNTED:
            page = await store.find(rest)
            listed += [task.identity for task in page.items]
            rest = None if page.cursor is None else replace_query(rest, cursor=page.cursor)
        is_all = len(listed) <= MAX_COUNTED
        return Meant(Counted(len(listed) if is_all else MAX_COUNTED, is_all), _words(query), tuple(listed), rest)

    # --- again ---

    async def run_again(self, identity: Identity, payload: object = SAME) -> Receipt:
        """Make the task of an identity once more, with what it carried or with another payload; due now.

        A schedule goes on by itself: what is tried of it beside runs under a key of its own. One that is under way is
        left alone.
        """
        self.need(Role.OPERATOR, "run a task again")
        store = await self._store()
        (task,) = await store.get([identity])
        if task is None:
            raise UnknownTask(
                f"There is no task {identity.task_type}/{shown_key(identity.key)} any more, so nobody knows what it"
                " carried. Make one with `rota task schedule`."
            )
        new = once_more(task, payload, uuid.uuid4().hex[:8])
        async with self.recording("task.run_again", str(identity)) as note:
            note.before = _picture(task)
            scheduled = await schedule_one(store, new, self._app.host.producer)
            if scheduled.outcome is ScheduleOutcome.EXISTS:
                raise IllegalTransition(
                    f"{identity.task_type}/{shown_key(new.key)} is under way, so it was not made once more."
                    " Wait for its end, or cancel it."
                )
            receipt = Receipt.of(scheduled, new.identity)
            note.after = receipt.to_dict()
        return receipt

    # --- failures ---

    async def mute_failure(self, task_type: str, failure_id: str, until: Instant | None) -> Failures:
        """Mute a group of failures until an instant; None lets it be heard again."""
        self.need(Role.OPERATOR, "mute a group of failures")
        store = await self._store()
        async with self.recording("failure.mute", f"{task_type}/{failure_id}") as note:
            note.before = (await one_failure(store, task_type, failure_id)).group.muted_until
            await store.mute_failure(task_type, failure_id, until, self.principal.name)
            note.after = until
        return await one_failure(store, task_type, failure_id)

    # --- schedules ---

    async def upsert_schedule(
        self, schedule_id: str, task_type: str, **settings: Unpack[ScheduleSettings]
    ) -> ScheduleInfo:
        """Make or change a schedule, as `app.schedules.upsert` does."""
        self.need(Role.OPERATOR, "make a schedule")
        async with self.recording("schedule.upsert", f"{task_type}/{schedule_id}") as note:
            before = await self._app.schedules.get(schedule_id, task_type)
            note.before = None if before is None else before.to_dict()
            if before is not None and "payload" in settings:
                # Whoever was shown it with its secrets hidden has not changed those.
                settings["payload"] = unmasked(settings["payload"], before.payload)
            info = await self._app.schedules.upsert(schedule_id, type=task_type, **settings)
            note.after = info.to_dict()
        return info

    # --- types ---

    async def override(self, task_type: str, changes: Mapping[str, object]) -> TypeRecord:
        """Switch a type on or off, freeze or drain it, or set its limits, for all instances and over restarts."""
        self.need(Role.OPERATOR, "change a type")
        store = await self._store()
        async with self.recording("type.override", task_type) as note:
            before = next((r for r in await store.list_types() if r.task_type.name == task_type), None)
            note.before = None if before is None else before.overrides
            record = await self._app.override(task_type, changes)
            note.after = record.overrides
        return record

    # --- the database ---

    async def adopt_database(self) -> dict[str, DatabaseIdentity]:
        """The tasks of every part belong to the database of this process from now on; to which ones they belonged."""
        self.need(Role.ADMIN, "say which database is the right one")
        store, database_owner = await self._store(), self._app.host.database_owner
        before: dict[str, DatabaseIdentity] = {}
        async with self.recording("database.adopt", masked(self._app.config.database_url)) as note:
            for part in self._app.host.parts.values():
                owner = await database_owner.adopt(store, part.name) if part.keeps_data else None
                if owner is not None:
                    before[part.name] = owner
            note.before = {part: owner.location for part, owner in before.items()}
        return before

    # --- people's data ---

    async def erase_user(self, user_id: str) -> Erased:
        """Remove all that is known of a user. What still runs is told to stop and removed when it has ended."""
        self.need(Role.ADMIN, "erase a user")
        store = await self._store()
        async with self.recording("user.erase", user_id) as note:
            before, erasure = None, await store.erase_user(user_id)
            while erasure.has_more(before):
                before, erasure = erasure, await store.erase_user(user_id)
            # After the store: whatever upkeep still runs was told to stop, and writes nothing for who is gone.
            kept: dict[str, int] = {}
            for part in self._app.host.parts.values():
                kept.update(await part.erase_user(user_id))
            note.after = {"tasks": erasure.tasks, "runs": erasure.runs, "running": erasure.running, **kept}
        return Erased(erasure, kept)

    async def export_user(self, user_id: str) -> AsyncGenerator[Snapshot | RunRecord | Mapping[str, object]]:
        """All that is known of a user, page by page: tasks and runs, then what the parts keep."""
        self.need(Role.ADMIN, "export a user")
        store = await self._store()
        async with self.recording("user.export", user_id):
            cursor = None
            while True:
                page = await store.export_user(user_id, cursor, MAX_PAGE)
                for item in page.items:
                    yield item
                async for left in _left_by(store, page.items):
                    yield left
                cursor = page.cursor
                if cursor is None:
                    break
            for part in self._app.host.parts.values():
                async for kept in part.export_user(user_id):
                    yield kept

    # --- tokens ---

    async def add_token(self, name: str, role: Role, *, expires_at: Instant | None = None) -> NewToken:
        self.need(Role.ADMIN, "make a token")
        tokens = Tokens(await self._app.database())
        async with self.recording("token.add", name) as note:
            made = await tokens.add(name, role, created_by=self.principal.id, expires_at=expires_at)
            note.after = made.token.to_dict()
        return made

    async def revoke_token(self, token_id: str) -> Token:
        self.need(Role.ADMIN, "revoke a token")
        tokens = Tokens(await self._app.database())
        async with self.recording("token.revoke", token_id) as note:
            token = await tokens.revoke(token_id)
            note.after = token.to_dict()
        return token

    # --- shared ---

    async def _store(self) -> Store:
        return await self._app.store()


def _narrowed(query: TaskQuery) -> TaskQuery:
    """The query itself, if it leaves anything out."""
    if not is_filtered(query):
        raise InvalidInput("Every task of the store would match. Name a type, a status, a user or an owner.")
    return query


def _named(identities: list[Identity]) -> Meant:
    if len(identities) > MAX_PAGE:
        raise InvalidInput(f"{len(identities)} tasks were named; 1 to {MAX_PAGE:,} is possible.")
    return Meant(Counted(len(identities), True), ", ".join(map(str, identities)), tuple(identities))


async def _pages(store: Store, meant: Meant) -> AsyncIterator[Sequence[Identity]]:
    """What was listed, then what else matches, and in all no more than was agreed to."""
    for start in range(0, len(meant.listed), MAX_PAGE):
        yield meant.listed[start : start + MAX_PAGE]
    left = None if meant.most is None else meant.most - len(meant.listed)
    rest = meant.rest
    while rest is not None and left != 0:
        page = await store.find(rest)
        found = [task.identity for task in page.items][:left]
        left = None if left is None else left - len(found)
        if found:
            yield found
        rest = None if page.cursor is None else replace_query(rest, cursor=page.cursor)


def _count_changed(agreed: int, count: int) -> CountChanged:
    return CountChanged(
        f"{agreed} tasks were confirmed, but {count} match now. Nothing was changed;"
        " look again, and confirm the new number.",
        count,
    )


def _picture(task: Task | None) -> dict[str, object] | None:
    """What of a task an action can change: not its payload, which may be anything."""
    if task is None:
        return None
    names = ("status", "scheduled_at", "want", "priority", "version", "errors", "reason")
    return {name: getattr(task, name) for name in names}


def _words(query: TaskQuery) -> str:
    given = {name: getattr(query, name) for name in query.__struct_fields__ if name not in ("cursor", "limit", "sort")}
    named = {name: value.value if isinstance(value, TaskStatus) else value for name, value in given.items() if value}
    return " ".join(f"{name}={value}" for name, value in named.items())


async def _left_by(store: Store, items: Sequence[Snapshot | RunRecord]) -> AsyncGenerator[Mapping[str, object]]:
    """What the runs among these have left: their lines may name whoever they were for."""
    runs = [
        RunRef(item.task_type, item.key, item.token) for item in items if isinstance(item, RunRecord) and item.token
    ]
    for run, text in zip(runs, await store.details(runs) if runs else [], strict=True):
        if text is not None:
            yield {"kind": "run_details", **run._asdict(), **details_to_dict(decode_details(text))}
