"""Tokens and the audit log: who may do what, and who did it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path
from pydantic import Field

from rota.access import AuditLog, AuditQuery, Role
from rota.api.auth import Acting, Viewing
from rota.api.filters import WordFilter
from rota.api.models import AnswerModel, Json, Moment, PageModel, RequestModel, When, an_example
from rota.api.paging import Cursor, Limit
from rota.api.routing import routes_for
from rota.app.schedules import instant_of

__all__ = ["audit", "tokens"]

tokens: Final[APIRouter] = routes_for(Role.ADMIN, tag="access")
audit: Final[APIRouter] = routes_for(Role.OPERATOR, tag="access")


class TokenModel(AnswerModel):
    """An access token without its secret."""

    model_config = an_example(id="1882da2d", name="deploy", role="operator", created_by="token:0b7e4f1a")

    id: str
    """What it is called where it is shown or revoked."""
    name: str
    """Who or what it is for, as whoever made it said."""
    role: Role
    """What it allows."""
    scope: dict[str, Json]
    """What it is narrowed to, like one group of agents; empty: nothing."""
    created_at: Moment
    created_by: str
    """Who made it."""
    expires_at: Moment | None
    """When it ends by itself; null: never."""
    last_used_at: Moment | None
    """When it was shown last, to within a minute; null: never."""
    revoked_at: Moment | None
    """When it was ended; null: it is good."""


class TokensModel(AnswerModel):
    """Every token, revoked ones too."""

    items: list[TokenModel]


class NewTokenRequest(RequestModel):
    """A token to be made."""

    model_config = an_example(name="deploy", role="operator", expires="2099-12-31T23:59:00Z")

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]
    """Who or what it is for."""
    role: Role = Field(strict=False)
    """What it allows: looking, acting, or everything."""
    expires: When | None = None
    """When it ends by itself; null: never."""


class NewTokenModel(AnswerModel):
    """A token that was just made. The secret is shown now and never again."""

    model_config = an_example(secret="rota_1882da2d_...")  # noqa: S106 - an example

    token: TokenModel
    """The token that was made."""
    secret: str
    """What to send as `Authorization: Bearer ...`."""


class AuditModel(AnswerModel):
    """One action: who did what to what."""

    model_config = an_example(
        id=41,
        actor="token:1882da2d",
        role="operator",
        via="api",
        action="task.pause",
        target="report/weekly",
        outcome="ok",
        before="pending",
        after="paused",
    )

    id: int
    """Its number; later ones have more."""
    at: Moment
    """When it was done."""
    actor: str
    """Who did it: `token:` and its id, or a name."""
    role: str
    """The role that whoever did it had."""
    via: str
    """Over which face: `api`, `dashboard`, `cli`, `mcp`."""
    action: str
    """What was done, like `task.pause`."""
    target: str
    """What it was done to."""
    outcome: str | None
    """`ok`, or the code of why it was refused; null while it goes on."""
    before: str | None
    """How that stood before, where it can be said."""
    after: str | None
    """How it stood afterwards."""


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
    id: Annotated[str, Path(pattern="^[0-9a-f]{8}$", description="The token's id.", examples=["1882da2d"])],  # noqa: A002 - the word of the address
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
