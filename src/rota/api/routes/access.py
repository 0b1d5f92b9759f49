"""Tokens and the audit log: who may do what, and who did it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path

from rota.access import AuditLog, AuditQuery, Role
from rota.api.auth import Acting, Viewing
from rota.api.filters import WordFilter
from rota.api.models import AuditModel, NewTokenModel, NewTokenRequest, PageModel, TokenModel, TokensModel
from rota.api.paging import Cursor, Limit
from rota.api.routing import routes_for
from rota.app.schedules import instant_of

__all__ = ["audit", "tokens"]

tokens: Final[APIRouter] = routes_for(Role.ADMIN, tag="access")
audit: Final[APIRouter] = routes_for(Role.OPERATOR, tag="access")


@tokens.get("/tokens", operation_id="list_tokens", response_model=TokensModel)
async def list_tokens(service: Viewing) -> dict[str, Any]:
    """Every token, revoked ones too, without the secrets."""
    return {"items": [token.to_dict() for token in await (await service.tokens()).list()]}


@tokens.post("/tokens", operation_id="add_token", response_model=NewTokenModel, status_code=201)
async def add_token(service: Viewing, operator: Acting, request: NewTokenRequest) -> dict[str, object]:
    """Make a token. Its secret is in this answer and nowhere else."""
    expires_at = None
    if request.expires is not None:
        now = await (await service.app.store()).now()
        expires_at = instant_of(request.expires, service.app.config.timezone, now, what="expires")
    made = await operator.add_token(request.name, request.role, expires_at=expires_at)
    return {"token": made.token.to_dict(), "secret": made.secret}


@tokens.delete("/tokens/{id}", operation_id="revoke_token", response_model=TokenModel)
async def revoke_token(
    operator: Acting,
    id: Annotated[str, Path(pattern="^[0-9a-f]{8}$", description="The token's id.")],  # noqa: A002 - the word of the address
) -> dict[str, object]:
    """End a token, and every session that was started with it."""
    return (await operator.revoke_token(id)).to_dict()


@audit.get("/audit", operation_id="list_audit", response_model=PageModel[AuditModel])
async def list_audit(
    service: Viewing,
    actor: WordFilter = None,
    action: WordFilter = None,
    target: WordFilter = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """What was done, newest first."""
    log = AuditLog(await service.app.database())
    query = AuditQuery(actor=actor, action=action, target=target, cursor=cursor, limit=limit)
    entries, following = await log.page(query)
    return {"items": [entry.to_dict() for entry in entries], "cursor": following}
