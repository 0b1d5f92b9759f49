"""Names in a database: whose schema is meant, how a name is written in SQL, which names are taken."""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy import URL, Connection, text

from rota.errors import InvalidConfig

__all__ = ["DEFAULT_SCHEMA", "path_of", "quoted", "relations", "without_schema"]

DEFAULT_SCHEMA: Final = "rota"
"""Where Rota's tables lie on PostgreSQL unless the URL says otherwise: apart from the application's."""
_LONGEST: Final = 63
"""Bytes. PostgreSQL cuts longer names, and two of them may then be one."""
_USABLE = re.compile(r"(?!pg_|information_schema$)[\w$-]+")
"""PostgreSQL takes any letter, and keeps two kinds of names for itself; nobody needs more than these."""

_SEARCH_PATH = re.compile(r"search_path\s*=\s*((?:\\.|\S)+)")
_NAME = re.compile(r'"((?:[^"]|"")*)"|([^,\s"]+)')

_IN_SCHEMA = text(
    "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :schema"
)
# SQLite does not tell Meta from meta.
_IN_FILE = text("SELECT lower(name) FROM sqlite_master")


def path_of(url: URL) -> list[str]:
    """The schemas that a PostgreSQL URL names, Rota's own first: `?schema=NAME`, else the first one of an explicit
    search_path in its options, else `rota`."""
    path = _search_path(url)
    named = url.query.get("schema")
    if named is not None:
        path = [str(named), *(name for name in path if name != named)]
    schema, *_ = path = path or [DEFAULT_SCHEMA]
    if not _USABLE.fullmatch(schema) or len(schema.encode()) > _LONGEST:
        raise InvalidConfig(
            f"The schema {schema!r} in {url.render_as_string()} cannot be Rota's: it needs a name of letters, digits,"
            f" _, $ and -, at most {_LONGEST} bytes, and none of PostgreSQL's own. Use e.g. ?schema={DEFAULT_SCHEMA}."
        )
    return path


def without_schema(url: URL) -> URL:
    """The URL as the driver takes it: `schema` is a word of ours."""
    return url.difference_update_query(["schema"])


def _search_path(url: URL) -> list[str]:
    options = url.query.get("options", "")
    found = _SEARCH_PATH.search(options if isinstance(options, str) else " ".join(options))
    if found is None:
        return []
    names = [plain.lower() or inner.replace('""', '"') for inner, plain in _NAME.findall(found[1])]
    return [name for name in names if name != "$user"]


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it is made of."""
    return '"' + name.replace('"', '""') + '"'


def relations(connection: Connection, schema: str | None) -> set[str]:
    """Every table, index, view and sequence in a schema; on SQLite, in the file."""
    if schema is None:
        return set(connection.execute(_IN_FILE).scalars())
    return set(connection.execute(_IN_SCHEMA, {"schema": schema}).scalars())
