"""Tokens and the audit log: who may do what, and who did it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path
from pydantic import Field

from rota.access import AuditLog, AuditQuery, Role
from rota.api.auth import Acting, Viewing
from rota.api.filters import WordFilter
from rota.api.models import AnswerModel, Json, Moment, PageModel, RequestModel, When
from rota.api.paging import Cursor, Limit
from rota.api.routing import routes_for
from rota.app.schedules import instant_of

__all__ = ["audit", "tokens"]

tokens: Final[APIRouter] = routes_for(Role.ADMIN, tag="access")
audit: Final[APIRouter] = routes_for(Role.OPERATOR, tag="access")


class TokenModel(AnswerModel):
    """An access token without its secret."""

    id: str
    name: str
    role: Role
    scope: dict[str, Json]
    created_at: Moment
    created_by: str
    expires_at: Moment | None
    last_used_at: Moment | None
    revoked_at: Moment | None


class TokensModel(AnswerModel):
    """Every token, revoked ones too."""

    items: list[TokenModel]


class NewTokenRequest(RequestModel):
    """A token to be made."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]
    role: Role = Field(strict=False)
    expires: When | None = None


class NewTokenModel(AnswerModel):
    """A token that was just made. The secret is shown now and never again."""

    token: TokenModel
    secret: str


class AuditModel(AnswerModel):
    """One action: who did what to what."""

    id: int
    at: Moment
    actor: str
    role: str
    via: str
    action: str
    target: str
    outcome: str | None
    before: str | None
    after: str | None


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
