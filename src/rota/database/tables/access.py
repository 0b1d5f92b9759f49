"""Who may do what, and who has done it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Table, Text

from rota.database.tables.base import Name, RowId, metadata

__all__ = ["audit", "tokens"]

tokens = Table(
    "access_tokens",
    metadata,
    Column("id", Name, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    # Only this is kept of the secret.
    Column("digest", Text, nullable=False),
    # JSON: what the token is narrowed to beyond its role (an agent group, MCP scopes); '{}' for none.
    Column("scope", Text, nullable=False, server_default="{}"),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", BigInteger),
    Column("last_used_at", BigInteger),
    Column("revoked_at", BigInteger),
)
Index("ix_access_tokens_digest", tokens.c.digest, unique=True)

audit = Table(
    "audit_log",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    # Who: the token's id and name, or the person at the command line.
    Column("actor", Name, nullable=False),
    Column("role", Text, nullable=False),
    # Through which face: api, dashboard, cli, mcp, code.
    Column("via", Text, nullable=False),
    Column("action", Name, nullable=False),
    Column("target", Name, nullable=False),
    # NULL: the action began, and what became of it is not known (the process died in it, or the database went away).
    Column("outcome", Text),
    Column("before", Text),
    Column("after", Text),
    sqlite_autoincrement=True,
)
Index("ix_audit_actor", audit.c.actor, audit.c.id)
Index("ix_audit_action", audit.c.action, audit.c.id)
Index("ix_audit_target", audit.c.target, audit.c.id)
