"""Statements travel together.

To PostgreSQL each statement is a way there and back, and a thread that comes back waits for its turn once more. So what
only has to be done by the end of a transaction is kept for a moment. It is sent with the next question, which may be
about it, or if there is none, with the commit: in one go, in the order in which it was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Dialect, Engine, Executable, event
from sqlalchemy.sql import ClauseElement

from rota.database.changes import AT_ONCE
from rota.database.driver_errors import is_wrong_server

__all__ = ["LateAnswer", "LateStatements", "compiled_once", "read_later", "send_kept", "write_later"]

_KEPT: Final = "rota late statements"
"""Where a connection of ours keeps what is still to be sent."""
_IS_LEFT: Final = "rota leaves this server"
"""What a connection has in its `info` that leads to a server that takes no writes."""

Rows = Sequence[Sequence[Any]]


class LateAnswer:
    """The rows of a query: asked for when somebody wants to see them, or before, with somebody else's."""

    def __init__(self, connection: Connection, rows: Rows | None = None) -> None:
        self._connection = connection
        self._rows = rows

    def rows(self) -> Rows:
        if self._rows is None:
            send_kept(self._connection)
        assert self._rows is not None, "what was asked for in this transaction was sent with the rest"
        return self._rows

    def take(self, cursor: Any) -> None:
        self._rows = cursor.fetchall()


class _Statement(NamedTuple):
    """What is still to be sent, and who wants to know the answer."""

    sql: str
    values: Sequence[Any]
    answer: LateAnswer | None


def write_later(connection: Connection, statement: Executable, parameters: Mapping[str, Any]) -> None:
    """Execute a statement whose answer nobody reads, at the latest when the transaction commits. The statement is one
    that is made once and used for ever; the values are such as the driver takes.

    What is wrong with it is raised by whoever sends it: a later statement of the transaction, or its commit.
    """
    if (kept := _kept_by(connection)) is not None:
        kept.append(_statement(connection, statement, parameters, None))
    elif _is_direct(connection):
        _execute_directly(connection, statement, parameters)
    else:
        connection.execute(statement, parameters)


def read_later(connection: Connection, statement: Executable, parameters: Mapping[str, Any]) -> LateAnswer:
    """The same for a query. It sees what was written before it, and what it holds is held when it is sent."""
    if (kept := _kept_by(connection)) is not None:
        answer = LateAnswer(connection)
        kept.append(_statement(connection, statement, parameters, answer))
        return answer
    if _is_direct(connection):
        return LateAnswer(connection, _execute_directly(connection, statement, parameters).fetchall())
    result = connection.execute(statement, parameters)
    # Plain tuples from the driver's own cursor: who reads here asks no row for a column by name.
    assert result.cursor is not None
    answer = LateAnswer(connection, result.cursor.fetchall())
    result.close()
    return answer


def _kept_by(connection: Connection) -> list[_Statement] | None:
    # Somebody else's transaction may be committed where nobody sees it: nothing is kept there.
    return connection.info.get(_KEPT) if AT_ONCE in connection.info else None


def _is_direct(connection: Connection) -> bool:
    """Whether nobody need stand between us and the driver: what SQLAlchemy does for a statement takes longer than
    SQLite does."""
    return connection.dialect.name == "sqlite" and AT_ONCE in connection.info


def _execute_directly(connection: Connection, statement: Executable, parameters: Mapping[str, Any]) -> Any:
    sql, values, _ = _statement(connection, statement, parameters, None)
    raw: Any = connection.connection.dbapi_connection
    return raw.execute(sql, values)


def _statement(
    connection: Connection, statement: Executable, parameters: Mapping[str, Any], answer: LateAnswer | None
) -> _Statement:
    compiled = compiled_once(statement, connection.dialect)
    values = compiled.construct_params(parameters)
    return _Statement(compiled.string, [values[name] for name in compiled.positiontup], answer)


@lru_cache(maxsize=4_096)
def compiled_once(statement: Executable, dialect: Dialect) -> Any:
    """The statement as the driver takes it; both drivers are set to take parameters by position."""
    assert isinstance(statement, ClauseElement)
    return statement.compile(dialect=dialect)


class LateStatements:
    """For the connections of some engines, whose driver can send several statements at once."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        for engine in engines:
            event.listen(engine, "connect", _begin_to_keep)
            event.listen(engine, "before_cursor_execute", _send_first)
            event.listen(engine, "commit", _send_and_commit)
            # A savepoint is a statement: what is kept when one is undone was asked for after it.
            event.listen(engine, "rollback_savepoint", _drop)
            event.listen(engine, "rollback", _drop)
            event.listen(engine, "checkin", _forget)


def _begin_to_keep(_connection: Any, record: Any) -> None:
    record.info[_KEPT] = []


def send_kept(connection: Connection, *, last: Sequence[_Statement] = ()) -> None:
    """Send what was kept so far, and with it what comes last, if there is anything."""
    kept: list[_Statement] | None = connection.info.get(_KEPT)
    if not kept:
        return
    statements = [*kept, *last]
    kept.clear()
    raw: Any = connection.connection.dbapi_connection
    try:
        if len(statements) == 1:
            _execute(raw, statements[0])
        else:
            _execute_together(raw, statements)
    except Exception as error:
        if is_wrong_server(error):
            connection.info[_IS_LEFT] = True
        raise


def _execute(raw: Any, statement: _Statement) -> None:
    with raw.cursor() as cursor:
        cursor.execute(statement.sql, statement.values)
        if statement.answer is not None:
            statement.answer.take(cursor)


def _execute_together(raw: Any, statements: Sequence[_Statement]) -> None:
    asked: list[tuple[LateAnswer, Any]] = []
    with raw.pipeline():
        for statement in statements:
            cursor = raw.execute(statement.sql, statement.values)
            if statement.answer is not None:
                asked.append((statement.answer, cursor))
    for answer, cursor in asked:
        answer.take(cursor)


def _send_first(connection: Connection, *_: Any) -> None:
    send_kept(connection)


def _send_and_commit(connection: Connection) -> None:
    """The commit that follows finds nothing left to do."""
    send_kept(connection, last=[_Statement("COMMIT", (), None)])


def _drop(connection: Connection, *_: Any) -> None:
    if kept := connection.info.get(_KEPT):
        kept.clear()


def _forget(_connection: Any, record: Any) -> None:
    """It came to nothing. A connection to the wrong server is given up when its transaction is over, not before:
    whoever has it is still to be told why."""
    record.info.get(_KEPT, []).clear()
    if record.info.pop(_IS_LEFT, False):
        record.invalidate()
