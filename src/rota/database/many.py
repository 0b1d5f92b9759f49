"""Many rows by one statement.

SQLite runs a statement once for each row, in its own process. To PostgreSQL each row would be a statement of its own,
with its own parameters to be prepared here and its own answer to be read: there all rows travel as one JSON document,
which the server reads as a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Connection,
    Executable,
    FromClause,
    Table,
    Text,
    and_,
    bindparam,
    cast,
    column,
    func,
    select,
    update,
)
from sqlalchemy.sql.selectable import TableValuedAlias

from rota.database.later import write_later
from rota.database.upsert import upsert

__all__ = [
    "as_document",
    "given_rows",
    "insert_many",
    "insert_new_many",
    "insert_statement",
    "new_values",
    "raise_many",
    "update_many",
]

Rows = Sequence[Mapping[str, Any]]


def insert_many(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert rows, which all have the same columns, in the order given."""
    if rows:
        _execute(connection, insert_statement(connection.dialect.name, table, tuple(rows[0])), _given(connection, rows))


def insert_new_many(connection: Connection, table: Table, rows: Rows, told: Column[Any]) -> set[Any]:
    """The same; rows that are there already are left alone. The column `told` of those that are new."""
    if not rows:
        return set()
    statement = insert_statement(connection.dialect.name, table, tuple(rows[0]), is_new_only=True, told=told)
    return set(connection.execute(statement, _given(connection, rows)).scalars())


def update_many(connection: Connection, table: Table, rows: Rows, *, by: Sequence[str] = ("id",)) -> None:
    """Give rows their new values; the columns `by` say which row it is. They are held by this transaction already, or
    nobody else holds more than one of them: in which order they are taken is the server's choice."""
    if not rows:
        return
    statement = _update_statement(connection.dialect.name, table, tuple(rows[0]), tuple(by))
    _execute(connection, statement, _renamed(connection, rows))


def raise_many(connection: Connection, table: Table, rows: Rows, *, by: Sequence[str], what: str) -> None:
    """Raise the column `what` of rows; one that is as far already stays as it is. They are taken in the order of the
    columns `by`, so that two who do so at once wait for each other, and not both."""
    if not rows:
        return
    statement = _raise_statement(connection.dialect.name, table, tuple(rows[0]), tuple(by), what)
    _execute(connection, statement, _renamed(connection, rows))


def as_document(rows: Rows) -> str:
    """The value of the parameter `rows`."""
    return msgspec.json.encode(rows).decode()


def given_rows(database: str, table: Table, names: Sequence[str]) -> FromClause:
    """The rows of the parameter `rows`, as something to be joined with: they have these columns of a table."""
    if database != "sqlite":
        return _rows_of_document(table, names)
    each = func.json_each(bindparam("rows")).table_valued("value")
    return select(*(func.json_extract(each.c.value, f"$.{name}").label(name) for name in names)).subquery("given")


def new_values(database: str, table: Table, names: Sequence[str]) -> Mapping[str, ColumnElement[Any]]:
    """These columns of the rows that a statement is given: parameters `b_...`, or what the server reads from the
    parameter `rows`."""
    if database == "sqlite":
        return {name: bindparam(f"b_{name}") for name in names}
    return dict(_rows_of_document(table, names).c)


def _rows_of_document(table: Table, names: Sequence[str]) -> TableValuedAlias:
    document = cast(bindparam("rows", type_=Text), JSON)
    columns = [column(name, table.c[name].type) for name in names]
    return func.json_to_recordset(document).table_valued(*columns, name="new").render_derived(with_types=True)


def _execute(connection: Connection, statement: Executable, given: Any) -> None:
    """Nobody reads its answer."""
    if connection.dialect.name == "sqlite":
        connection.execute(statement, given)
    else:
        write_later(connection, statement, given)


def _given(connection: Connection, rows: Rows) -> Any:
    return list(rows) if connection.dialect.name == "sqlite" else {"rows": as_document(rows)}


def _renamed(connection: Connection, rows: Rows) -> Any:
    """The same for an UPDATE, in which a parameter must not be named as a column is."""
    if connection.dialect.name != "sqlite":
        return {"rows": as_document(rows)}
    return [{f"b_{name}": value for name, value in row.items()} for row in rows]


@cache
def insert_statement(
    database: str, table: Table, names: tuple[str, ...], *, is_new_only: bool = False, told: Column[Any] | None = None
) -> Executable:
    """An INSERT of rows with these columns; with `is_new_only` those that are there already are left alone."""
    statement: Any = upsert(database, table)
    if database == "sqlite":
        statement = statement.values({name: bindparam(name) for name in names})
    else:
        new = new_values(database, table, names)
        statement = statement.from_select(list(names), select(*(new[name] for name in names)))
    if is_new_only:
        statement = statement.on_conflict_do_nothing()
    return statement if told is None else statement.returning(told)


@cache
def _update_statement(database: str, table: Table, names: tuple[str, ...], by: tuple[str, ...]) -> Executable:
    new = new_values(database, table, names)
    return update(table).where(_same(table.c, new, by)).values({name: new[name] for name in names if name not in by})


@cache
def _raise_statement(database: str, table: Table, names: tuple[str, ...], by: tuple[str, ...], what: str) -> Executable:
    if database == "sqlite":
        given = new_values(database, table, names)
        return update(table).where(_same(table.c, given, by), table.c[what] < given[what]).values({what: given[what]})
    new = _rows_of_document(table, names)
    lower = and_(_same(table.c, new.c, by), table.c[what] < new.c[what])
    taken = (
        select(*(table.c[name] for name in by), new.c[what])
        .select_from(table.join(new, lower))
        .order_by(*(table.c[name] for name in by))
        .with_for_update(of=table)
        .subquery("taken")
    )
    return update(table).where(_same(table.c, taken.c, by)).values({what: taken.c[what]})


def _same(old: Any, new: Any, by: Sequence[str]) -> ColumnElement[bool]:
    return and_(*(old[name] == new[name] for name in by))
