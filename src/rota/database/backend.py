"""Where databases differ: how to connect, write and read, how to hear of others' changes, and a few words of SQL.

`backends/` has a file for each of them. Everything else is one implementation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Select, Table

from rota.clock import Instant
from rota.group_commit import MAX_GROUP

__all__ = ["READ_FIRST", "AnySelect", "Backend", "Dialect"]

READ_FIRST: Final = "rota read first"
"""Where a connection keeps what its transaction has read with its beginning, until somebody takes it."""

AnySelect = TypeVar("AnySelect", bound=Select[Any])


class Dialect(Protocol):
    """What a transaction asks of its database."""

    count_shards: int

    def now(self, connection: Connection) -> Instant: ...

    @staticmethod
    def among(column: ColumnElement[Any]) -> ColumnElement[bool]:
        """`column` is one of the parameter `keys`, in SQL text that is the same for any number of them."""
        ...

    @staticmethod
    def keys(keys: Collection[str]) -> object:
        """The value of the parameter `keys`."""
        ...

    @staticmethod
    def by_keys(query: Select[Any], key: ColumnElement[str]) -> Select[Any]:
        """The query for each of the parameter `keys`, in their order. With the rest of its conditions a key says which
        row it is, and the row is found by that, whatever the database believes to know about the others."""
        ...

    @staticmethod
    def locked(query: AnySelect, *, pass_over: bool = False, of: Table | None = None) -> AnySelect:
        """The query, holding its rows until the transaction ends; or passing over those that others hold. `of`: of
        several tables, only the rows of this one."""
        ...

    @staticmethod
    def in_one_row(query: Select[Any]) -> Select[Any]:
        """The query, or where each row is a step of its own, one that answers with a JSON list of all rows."""
        ...

    def lock_names(self, connection: Connection, names: Sequence[str], *, wait: bool = True) -> Sequence[str]:
        """Hold names until the transaction ends, in the order given; those that are held. Without waiting, what another
        transaction holds is left out."""
        ...

    def tokens(self, connection: Connection, count: int, claim_id: str, now: Instant, above: int) -> Iterator[int]: ...

    def tell(self, connection: Connection, topics: Sequence[str]) -> None:
        """Tell other processes, once this is committed, that something of these topics has changed; if it can tell."""
        ...


class Backend(ABC):
    """One database, as the store sees it."""

    name: str
    """The URL without its password, for messages."""
    engine: Engine
    dialect: Dialect
    writers: int
    apart: int
    """How many connections are kept for those who must not wait behind the writers; 0: there is one writer for all."""
    in_flight: int
    group_size: int = MAX_GROUP
    """How many items share a transaction at the most."""
    tells: bool
    """Whether it tells of other processes' changes."""
    must_look: bool
    """Whether other processes' changes must be looked for, because nobody tells."""
    sends_together: bool = False
    """Whether several statements can be sent at once, before the first one is answered."""
    schema: str | None = None
    """The schema that Rota's tables lie in, where a database has schemas."""

    is_in_memory: bool = False

    @property
    def driver_error(self) -> type[Exception]:
        """What the driver raises where SQLAlchemy does not stand between."""
        return self.engine.dialect.loaded_dbapi.Error

    @abstractmethod
    def writing(self, first: str | None = None) -> AbstractContextManager[Connection]:
        """A transaction that commits at the end of the block. `first`: a query that it would begin with; where that
        saves a way to the server and back, its rows are in the `info` of the connection, as `READ_FIRST`."""

    @abstractmethod
    def writing_apart(self) -> AbstractContextManager[Connection]:
        """The same, on a connection that ordinary calls never take."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]: ...

    @property
    def engines(self) -> Sequence[Engine]:
        """Those that write."""
        return [self.engine]

    def mark(self) -> object:
        """Something that is cheap to look at, and another one once somebody has written; as a rule."""
        return None

    def number_of(self, connection: Any) -> int | None:
        """By which number the database knows a connection of its driver; None if it gives none."""
        return None

    @abstractmethod
    def version(self) -> int:
        """A number that is another one after another process has written."""

    @abstractmethod
    def check(self) -> None:
        """Refuse what can be seen to be wrong before the first connection is made."""

    @abstractmethod
    def listen(self, told: Callable[[str, int], None], heard: Callable[[str | None], None]) -> None:
        """Call `told`, on a thread of its own, with each topic that any process tells, and the number of the connection
        that told it. `heard` is called with None when it begins to hear, and with the reason when it cannot."""

    @abstractmethod
    def close(self) -> None: ...
