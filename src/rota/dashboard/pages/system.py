"""The pages about the system itself: instances, audit log, users, tokens, help."""

from __future__ import annotations

import asyncio
from typing import Final

from rota.access import AuditLog, Role, Tokens
from rota.access.audit import AuditQuery
from rota.app.overview import overview
from rota.app.views import task_query
from rota.dashboard import actions
from rota.dashboard.pages.lists import PAGE_SIZE, filled
from rota.dashboard.view import Page, View
from rota.stores.base import RunQuery

__all__ = ["audit", "help_page", "instances", "tokens", "users"]

COMMANDS: Final = (
    ("rota up", "the service: worker, API, this dashboard"),
    ("rota top", "the overview, live, in a terminal"),
    ("rota task ls --status failed", "tasks by a filter"),
    ("rota task explain TYPE KEY", "why a task waits"),
    ("rota task touch TYPE --user ID", "say that a user was active"),
    ("rota schedule add TYPE ID --cron '0 9 * * 1-5' --timezone Europe/Berlin", "a schedule"),
    ("rota schedule explain '0 9 * * 1-5'", "an expression in words, with its next fires"),
    ("rota dlq ls", "what failed for good"),
    ("rota dlq redrive --all", "run all of it again"),
    ("rota type freeze TYPE", "start nothing of a type, everywhere"),
    ("rota token add NAME --role viewer", "let somebody else look"),
    ("rota memory ls USER", "what is kept of a user, and what became of it"),
    ("rota doctor", "what is wrong with the set-up"),
)


async def instances(view: View) -> Page:
    seen = await overview(view.app, 1)
    return Page("instances.html", "Instances", {"instances": seen.instances}, concerns="*")


async def audit(view: View) -> Page:
    query = AuditQuery(
        actor=view.given("actor"),
        action=view.given("action"),
        target=view.given("target"),
        cursor=view.given("cursor"),
        limit=PAGE_SIZE,
    )
    entries, cursor = await AuditLog(await view.app.database()).page(query)
    values = {
        "entries": entries,
        "cursor": cursor,
        "query": query,
        "is_filtered": any((query.actor, query.action, query.target)),
    }
    return Page("audit.html", "Audit log", values, concerns="*")


async def users(view: View) -> Page:
    """One user's tasks and runs; nobody is listed before somebody was named."""
    user_id = view.given("user")
    if user_id is None:
        return Page("users.html", "Users", {"user_id": None})
    store = await view.store()
    page, runs, erasures = await asyncio.gather(
        filled(store, task_query(user=user_id, limit=PAGE_SIZE)),
        store.runs(RunQuery(user_id=user_id, limit=20)),
        store.erasures(),
    )
    values = {
        "user_id": user_id,
        "tasks": page.items,
        "more": page.cursor is not None,
        "runs": runs.items,
        "erasure": next((each for each in erasures if each.user_id == user_id), None),
    }
    return Page("users.html", "Users", values, concerns="*")


async def tokens(view: View, made: object = None) -> Page:
    known = await Tokens(await view.app.database()).list()
    values = {
        "tokens": list(reversed(known)),
        "made": made,
        "roles": list(Role),
        "revoke": actions.revoke_token,
        "mine": view.principal.id,
    }
    return Page("tokens.html", "Tokens", values)


async def help_page(view: View) -> Page:
    return Page("help.html", "Help", {"pages": view.site.menu, "commands": COMMANDS})
