"""The contexts of one database.

Every statement names its owner or its user: there is no call that reads or writes contexts without saying whose.

**The watermark.** What has been compressed is known for each context by itself: it is `fresh` until a compression has
decided about it, and that decision is written in the same transaction as what follows from it. A single position
("everything up to here is done") would pass over a context whose transaction began before it and was committed after
it; a state cannot. The position that `watermarks` keeps beside it is for people.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Connection, Integer, LargeBinary, and_, bindparam, case, func, or_, select, tuple_

from rota.clock import Instant
from rota.codec import to_json
from rota.database import Database
from rota.database.tables.memory import contexts as table
from rota.database.tables.memory import statistics, summaries, watermarks
from rota.database.upsert import upsert
from rota.errors import InvalidInput, RotaError
from rota.memory.context import Context, Kind, NewContext, Owner, Scope, State, role_of
from rota.memory.merging import Merged

__all__ = ["ContextPage", "Contexts", "Lost", "Vector", "Watermark", "cursor_of"]

IdAndBytes = tuple[int, bytes]

# --- what every push and every compression asks: made once, for making a statement takes longer than answering it -----

_OF_OWNER: Final = and_(
    table.c.user_id == bindparam("of_user"),
    table.c.device_id == bindparam("of_device"),
    table.c.agent_id == bindparam("of_agent"),
)
_IS_FRESH: Final = table.c.state == State.FRESH
_IDS: Final = table.c.id.in_(bindparam("ids", expanding=True))
_PLACE: Final = func.coalesce(table.c.leader_id, table.c.id)
_LEADING: Final = func.coalesce(table.c.leading_embedding, table.c.embedding)
_MOST: Final = bindparam("most", type_=Integer)
_VECTOR: Final[Any] = bindparam("vector", type_=LargeBinary)
_ADD: Final = table.insert().returning(table.c.id, sort_by_parameter_order=True)
_SOME: Final = select(table).where(table.c.user_id == bindparam("of_user"), _IDS).order_by(table.c.id)
_ANY: Final = select(table.c.id).where(_OF_OWNER).limit(1)
_ANY_FRESH: Final = _ANY.where(_IS_FRESH)
_ANY_LEADER_AFTER: Final = _ANY.where(table.c.leads == 1, table.c.captured_at > bindparam("last_at"))
_FRESH: Final = (
    select(table)
    .where(_OF_OWNER, _IS_FRESH, table.c.captured_at <= bindparam("last_at"))
    .order_by(table.c.captured_at, table.c.id)
    .limit(_MOST)
)
_LEADERS: Final = (
    select(table.c.id, table.c.captured_at, _PLACE, _LEADING, table.c.details)
    .where(_OF_OWNER, table.c.leads == 1, table.c.captured_at <= bindparam("last_at"))
    .where(table.c.embedder == bindparam("by_embedder"))
    .order_by(table.c.captured_at.desc(), _PLACE.desc())
    .limit(_MOST)
)
_KEEP: Final = (
    table.update()
    .where(_OF_OWNER, _IS_FRESH, _IDS)
    .values(state=State.KEPT.value, compressed_at=bindparam("now_at"), leads=table.c.enable_merge)
)
_KEEP_APART: Final = _KEEP.values(leads=0)
_AS_READ: Final[Any] = (
    select(table.c.id, table.c.state, table.c.merge_count).where(_OF_OWNER, _IDS).order_by(table.c.id)
)
# What a result is compared by stays when its text and so its own vector changes, unless it was another embedder's.
_VECTORS: Final[dict[str, Any]] = {
    "embedder": bindparam("by_embedder"),
    "embedding": _VECTOR,
    "leading_embedding": case(
        (table.c.has_compression == 0, None), (table.c.embedder == bindparam("by_embedder"), _LEADING), else_=_VECTOR
    ),
}
_SET_VECTOR: Final = (
    table.update().where(table.c.user_id == bindparam("of_user"), table.c.id == bindparam("the_id")).values(_VECTORS)
)
_CHANGE: Final = table.update().where(table.c.id == bindparam("the_id")).values(_VECTORS)
_ADD_RESULT: Final = table.insert().returning(table.c.id)
_MERGE_INTO: Final = (
    table.update()
    .where(_IDS)
    .values(state=State.MERGED.value, merged_into=bindparam("into"), leads=0, compressed_at=bindparam("now_at"))
)


@cache
def _owners_with_fresh(*, of_device: bool, of_agent: bool) -> Any:
    conditions = [table.c.user_id == bindparam("of_user"), _IS_FRESH]
    conditions += [table.c.device_id == bindparam("of_device")] if of_device else []
    conditions += [table.c.agent_id == bindparam("of_agent")] if of_agent else []
    return select(table.c.user_id, table.c.device_id, table.c.agent_id).where(*conditions).distinct()


@cache
def _mark(dialect: str) -> Any:
    row: dict[str, Any] = {name: bindparam(f"the_{name}") for name in ("user_id", "device_id", "agent_id")}
    changes: dict[str, Any] = {"compressed_to": bindparam("to_at"), "last_run_at": bindparam("now_at")}
    return (
        upsert(dialect, watermarks)
        .values(**row, **changes, runs=1)
        .on_conflict_do_update(
            index_elements=["user_id", "device_id", "agent_id"], set_={**changes, "runs": watermarks.c.runs + 1}
        )
    )


class Lost(RotaError):
    """Another run has decided about these contexts meanwhile; nothing was written."""

    code = "memory_lost"


class Vector(msgspec.Struct, frozen=True):
    """What grouping needs to know of a context."""

    id: int
    place: tuple[Instant, int]
    embedding: bytes
    role: str = ""

    @classmethod
    def of(cls, context: Context) -> Vector:
        """That of a context, which has one by now."""
        return cls(context.id, context.place, context.embedding or b"", context.role)


class Watermark(msgspec.Struct, frozen=True):
    """Up to where an owner's memory is compressed."""

    owner: Owner
    compressed_to: Instant
    last_run_at: Instant
    runs: int


class ContextPage(msgspec.Struct, frozen=True):
    """A page of contexts, newest first, and where the next one begins; None if there is none."""

    contexts: list[Context]
    cursor: int | None


def cursor_of(text: str | None) -> int | None:
    """The cursor that a face was given back as text; None for the first page."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidInput(f"The cursor {text[:64]!r} is none of this list. Give the last page's, unchanged.")
    return int(text)


class Contexts:
    """Reads and writes contexts. Each method is one transaction, unless it says otherwise."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # --- capturing ---

    async def add(
        self,
        owner: Owner,
        new: Sequence[NewContext],
        *,
        batch_id: str | None = None,
        embedder: str | None = None,
        embeddings: Sequence[bytes] = (),
    ) -> list[int]:
        """Keep new contexts, all or none; their ids in the same order. `embeddings` are one for each, or none."""
        owner.check()
        rows = [_row_of(owner, one.check(), batch_id) for one in new]
        for row, embedding in zip(rows, embeddings, strict=False):
            row |= {"embedder": embedder, "embedding": embedding}

        def write(connection: Connection) -> list[int]:
            now = self._now(connection)
            for row in rows:
                happened_at = now if row["created_at"] is None else row["created_at"]
                row |= {"captured_at": now, "updated_at": now, "created_at": happened_at}
            return list(connection.execute(_ADD, rows).scalars())

        return await self.database.write(write)

    # --- queries ---

    async def get(self, user_id: str, context_id: int) -> Context | None:
        """One context of a user; None if there is none, or if it is another user's."""
        found = await self.get_many(user_id, [context_id])
        return found[0] if found else None

    async def get_many(self, user_id: str, ids: Collection[int]) -> list[Context]:
        """Those of a user's contexts that have these ids, in the order of the ids."""
        return await self._read_contexts(_SOME, {"of_user": user_id, "ids": list(ids)})

    async def page(
        self,
        scope: Scope,
        *,
        states: Collection[State] = (),
        only_results: bool = False,
        limit: int = 50,
        cursor: int | None = None,
    ) -> ContextPage:
        """A page of contexts, newest first, of these states or of any; or only results of merges."""
        conditions = [_in_scope(scope)]
        if states:
            conditions.append(table.c.state.in_([state.value for state in states]))
        if only_results:
            conditions.append(table.c.has_compression == 1)
        if cursor is not None:
            conditions.append(table.c.id < cursor)
        limit = min(max(limit, 1), 500)
        found = await self._read_contexts(select(table).where(*conditions).order_by(table.c.id.desc()).limit(limit + 1))
        more = found[limit - 1].id if len(found) > limit else None
        return ContextPage(found[:limit], more)

    async def sources(self, user_id: str, context_id: int, *, limit: int | None = None) -> list[Context]:
        """What was merged into a context, oldest first, as far as its retention has not ended; at most `limit`."""
        mine = and_(table.c.user_id == user_id, table.c.merged_into == context_id)
        statement = select(table).where(mine).order_by(table.c.captured_at, table.c.id).limit(limit)
        return await self._read_contexts(statement)

    async def happened(self, owner: Owner, since_at: Instant, until_at: Instant) -> list[Context]:
        """What was captured of an owner and happened in a span, before it was merged; oldest first."""
        conditions = (
            _of_owner(owner),
            table.c.has_compression == 0,
            table.c.created_at >= since_at,
            table.c.created_at < until_at,
        )
        return await self._read_contexts(select(table).where(*conditions).order_by(table.c.created_at, table.c.id))

    async def vectors(self, scope: Scope, embedder: str, *, after: int = 0, limit: int = 5_000) -> list[IdAndBytes]:
        """The vectors of live contexts with an id above `after`, in the order of their ids."""
        statement = (
            select(table.c.id, table.c.embedding)
            .where(_in_scope(scope), table.c.state != State.MERGED, table.c.embedder == embedder, table.c.id > after)
            .order_by(table.c.id)
            .limit(limit)
        )
        rows = await self.database.read(lambda connection: connection.execute(statement).all())
        return [(row[0], row[1]) for row in rows]

    async def stale(self, scope: Scope, embedder: str, *, after: int = 0, limit: int) -> list[Context]:
        """Live contexts with an id above `after` without a vector, or with that of another embedder; oldest first.

        And results of older versions, which had their leader's vector in place of that of their text.
        """
        is_of_leader = and_(table.c.has_compression == 1, table.c.leading_embedding.is_(None))
        is_stale = or_(table.c.embedder.is_(None), table.c.embedder != embedder, is_of_leader)
        conditions = (_in_scope(scope), table.c.state != State.MERGED, is_stale, table.c.id > after)
        return await self._read_contexts(select(table).where(*conditions).order_by(table.c.id).limit(limit))

    # --- compressing ---

    async def owners_with_fresh(self, scope: Scope) -> tuple[Instant, list[Owner]]:
        """What time it is, and the owners in a scope that have contexts which no compression has decided about."""
        statement = _owners_with_fresh(of_device=scope.device_id is not None, of_agent=scope.agent_id is not None)
        whose = {"of_user": scope.user_id, "of_device": scope.device_id, "of_agent": scope.agent_id}

        def read(connection: Connection) -> tuple[Instant, list[Owner]]:
            now = self._now(connection)
            return now, sorted(Owner(*row) for row in connection.execute(statement, whose))

        return await self.database.read(read)

    async def forgotten(self, settled_before: Instant, *, after: Owner | None, limit: int) -> list[Owner]:
        """A page of the owners with fresh contexts from before an instant, whose upkeep is overdue; in order."""
        ids = (table.c.user_id, table.c.device_id, table.c.agent_id)
        conditions = [table.c.state == State.FRESH, table.c.captured_at < settled_before]
        if after is not None:
            conditions.append(tuple_(*ids) > tuple_(after.user_id, after.device_id, after.agent_id))
        statement = select(*ids).where(*conditions).distinct().order_by(*ids).limit(limit)
        rows = await self.database.read(lambda connection: connection.execute(statement).all())
        return [Owner(*row) for row in rows]

    async def fresh(self, owner: Owner, captured_before: Instant, *, limit: int) -> list[Context]:
        """The earliest fresh contexts of an owner that were captured before an instant."""
        return await self._read_contexts(_FRESH, {**_whose(owner), "last_at": captured_before, "most": limit})

    async def leaders(
        self, owner: Owner, embedder: str, captured_before: Instant, *, limit: int
    ) -> tuple[list[Vector], bool]:
        """The latest contexts of an owner that others may join, in order; and whether some were captured later."""
        asked = {**_whose(owner), "last_at": captured_before, "by_embedder": embedder, "most": limit}

        def read(connection: Connection) -> tuple[list[Vector], bool]:
            rows = connection.execute(_LEADERS, asked).all()
            leaders = [
                Vector(row[0], (row[1], row[2]), row[3], role_of(msgspec.json.decode(row[4]))) for row in reversed(rows)
            ]
            return leaders, connection.execute(_ANY_LEADER_AFTER, asked).first() is not None

        return await self.database.read(read)

    async def set_embeddings(self, user_id: str, embedder: str, embeddings: Sequence[IdAndBytes]) -> None:
        """Write vectors of a user's contexts."""
        rows = [
            {"of_user": user_id, "the_id": context_id, "by_embedder": embedder, "vector": embedding}
            for context_id, embedding in embeddings
        ]
        if rows:
            await self.database.write(lambda connection: connection.execute(_SET_VECTOR, rows))

    async def keep(self, owner: Owner, ids: Collection[int], *, apart: Collection[int] = ()) -> int:
        """fresh -> kept: they stand for themselves, and others may join those that may be merged at all.

        Nobody may join those `apart`: they belong to a group that could not take them in. Answers how many it were;
        what another run has decided about meanwhile stays as it is.
        """

        def write(connection: Connection) -> int:
            done = {**_whose(owner), "now_at": self._now(connection)}
            count = connection.execute(_KEEP, {**done, "ids": list(ids)}).rowcount
            if apart:
                count += connection.execute(_KEEP_APART, {**done, "ids": list(apart)}).rowcount
            return count

        return await self.database.write(write)

    async def merge(
        self,
        leader: Context,
        members: Sequence[Context],
        merged: Merged,
        details: Mapping[str, Any],
        *,
        embedder: str,
        embedding: bytes,
    ) -> int:
        """Make one context of a leader and those who joined it: fresh -> merged for each member. The result's id.

        If the leader is no result yet, it becomes the first source of a new one. All of it or nothing, and only if the
        leader and every member are as they were when they were read (else `Lost`). The result has the leader's owner.
        `embedding` is the vector of the merged text: whoever looks for what a member said finds the result.
        """
        if any(member.owner != leader.owner for member in members):
            raise AssertionError("contexts of different owners in one group")
        if any(member.role != leader.role for member in members):
            raise AssertionError("contexts of different roles in one group")

        def write(connection: Connection) -> int:
            self._check_unchanged(connection, leader, members)
            now = self._now(connection)
            content = {**_content_of(merged, leader, members, now), "details": _json(dict(details))}
            if leader.has_compression:
                result_id = leader.id
                vector = {"by_embedder": embedder, "vector": embedding}
                connection.execute(_CHANGE, {"the_id": leader.id, **vector, **content})
            else:
                vector = {"embedder": embedder, "embedding": embedding}
                result_id = connection.execute(_ADD_RESULT, {**_result_of(leader), **vector, **content}).scalar_one()
            gone = [member.id for member in members] + ([] if leader.has_compression else [leader.id])
            connection.execute(_MERGE_INTO, {"ids": gone, "into": result_id, "now_at": now})
            return int(result_id)

        return await self.database.write(write)

    def _check_unchanged(self, connection: Connection, leader: Context, members: Sequence[Context]) -> None:
        ids = [leader.id, *(member.id for member in members)]
        locked = self.database.backend.dialect.locked(_AS_READ)
        rows = connection.execute(locked, {**_whose(leader.owner), "ids": ids}).all()
        as_read = {one.id: (one.id, one.state.value, one.merge_count) for one in (leader, *members)}
        if [tuple(row) for row in rows] != [as_read[context_id] for context_id in sorted(as_read)]:
            raise Lost("Another run has compressed these contexts meanwhile. Look again; nothing was written.")

    async def set_watermark(self, owner: Owner, compressed_to: Instant) -> bool:
        """Note that a run has looked at everything that was captured up to an instant; whether there is more."""

        def write(connection: Connection) -> bool:
            if not self.holds(connection, owner):
                return False  # erased meanwhile: nothing must remind of them
            whose = {f"the_{name}": value for name, value in _ids_of(owner).items()}
            times = {"to_at": compressed_to, "now_at": self._now(connection)}
            connection.execute(_mark(connection.dialect.name), {**whose, **times})
            return connection.execute(_ANY_FRESH, _whose(owner)).first() is not None

        return await self.database.write(write)

    async def watermarks(self, user_id: str) -> list[Watermark]:
        """Up to where each part of a user's memory is compressed."""
        statement = select(watermarks).where(watermarks.c.user_id == user_id).order_by(*watermarks.primary_key.columns)
        rows = await self.database.read(lambda connection: connection.execute(statement).mappings().all())
        return [Watermark(_owner(row), row["compressed_to"], row["last_run_at"], row["runs"]) for row in rows]

    # --- a user's rights ---

    async def erase_user(self, user_id: str) -> int:
        """Delete everything that is kept of a user, all of it or nothing; how many contexts it were.

        The contexts go first: whoever writes a watermark or a summary meanwhile holds one of them, or finds none.
        """

        def write(connection: Connection) -> int:
            erased = connection.execute(table.delete().where(table.c.user_id == user_id)).rowcount
            for other in (watermarks, summaries, statistics):
                connection.execute(other.delete().where(other.c.user_id == user_id))
            return erased

        return await self.database.write(write)

    def holds(self, connection: Connection, owner: Owner) -> bool:
        """Whether an owner has anything left. If so, no erasure can overtake this transaction."""
        locked = self.database.backend.dialect.locked(_ANY)
        return connection.execute(locked, _whose(owner)).first() is not None

    # --- rows ---

    def _now(self, connection: Connection) -> Instant:
        return self.database.backend.dialect.now(connection)

    async def _read_contexts(self, statement: Any, asked: Mapping[str, object] | None = None) -> list[Context]:
        rows = await self.database.read(lambda connection: connection.execute(statement, asked).mappings().all())
        return [_context(row) for row in rows]


def _of_owner(owner: Owner) -> ColumnElement[bool]:
    return and_(
        table.c.user_id == owner.user_id, table.c.device_id == owner.device_id, table.c.agent_id == owner.agent_id
    )


def _in_scope(scope: Scope) -> ColumnElement[bool]:
    conditions = [table.c.user_id == scope.user_id]
    if scope.device_id is not None:
        conditions.append(table.c.device_id == scope.device_id)
    if scope.agent_id is not None:
        conditions.append(table.c.agent_id == scope.agent_id)
    return and_(*conditions)


def _whose(owner: Owner) -> dict[str, Any]:
    """An owner, for the statements above."""
    return {"of_user": owner.user_id, "of_device": owner.device_id, "of_agent": owner.agent_id}


def _ids_of(owner: Owner) -> dict[str, str]:
    return {"user_id": owner.user_id, "device_id": owner.device_id, "agent_id": owner.agent_id}


def _owner(row: Mapping[Any, Any]) -> Owner:
    return Owner(row["user_id"], row["device_id"], row["agent_id"])


def _json(value: object) -> str:
    return to_json(value).decode()


def _row_of(owner: Owner, new: NewContext, batch_id: str | None) -> dict[str, Any]:
    return {
        **_ids_of(owner),
        "kind": new.kind.value,
        "state": State.FRESH.value,
        "title": new.title,
        "text": new.text,
        "keywords": _json(list(new.keywords)),
        "importance": new.importance,
        "details": _json(dict(new.details)),
        "created_at": new.created_at,
        "enable_merge": int(new.enable_merge),
        "batch_id": batch_id,
        "embedder": None,
        "embedding": None,
    }


def _content_of(merged: Merged, leader: Context, members: Sequence[Context], now: Instant) -> dict[str, Any]:
    """What a merge changes in its result."""
    return {
        "title": merged.title,
        "text": merged.text,
        "keywords": _json(list(merged.keywords)),
        "importance": merged.importance,
        "created_at": min(one.created_at for one in (leader, *members)),
        "updated_at": now,
        "compressed_at": now,
        "merge_count": (leader.merge_count or 1) + len(members),
    }


def _result_of(leader: Context) -> dict[str, Any]:
    """What a new result has from its leader: the owner, the place in the order, and the vector that others are
    compared with, so that a group does not drift as it grows."""
    return {
        **_ids_of(leader.owner),
        "kind": leader.kind.value,
        "state": State.KEPT.value,
        "leading_embedding": leader.embedding,
        "captured_at": leader.captured_at,
        "enable_merge": 1,
        "has_compression": 1,
        "leads": 1,
        "leader_id": leader.id,
    }


def _context(row: Mapping[Any, Any]) -> Context:
    return Context(
        id=row["id"],
        owner=_owner(row),
        kind=Kind(row["kind"]),
        state=State(row["state"]),
        title=row["title"],
        text=row["text"],
        keywords=tuple(msgspec.json.decode(row["keywords"])),
        importance=row["importance"],
        details=msgspec.json.decode(row["details"]),
        created_at=row["created_at"],
        captured_at=row["captured_at"],
        updated_at=row["updated_at"],
        compressed_at=row["compressed_at"],
        enable_merge=bool(row["enable_merge"]),
        has_compression=bool(row["has_compression"]),
        leads=bool(row["leads"]),
        merge_count=row["merge_count"],
        merged_into=row["merged_into"],
        leader_id=row["leader_id"],
        batch_id=row["batch_id"],
        embedder=row["embedder"],
        embedding=row["embedding"],
    )
