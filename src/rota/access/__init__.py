"""Who may do what, and who has done it: roles, tokens, the audit log."""

from rota.access.acting import Actor
from rota.access.audit import AuditEntry, AuditLog, AuditQuery
from rota.access.principal import Principal, Role
from rota.access.tokens import NewToken, Token, Tokens

__all__ = ["Actor", "AuditEntry", "AuditLog", "AuditQuery", "NewToken", "Principal", "Role", "Token", "Tokens"]
