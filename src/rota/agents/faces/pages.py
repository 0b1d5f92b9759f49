"""Scheduled agents: what runs now and says, what waits for approval, the schedules, the groups and their switches."""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final

from fastapi.responses import Response

from rota.access import Role
from rota.agents import AGENT, EVERYBODY, AgentSchedule, agents_of
from rota.agents.operator import AgentOperator
from rota.api.paths import quote_key
from rota.clock import Instant, format_duration, from_datetime
from rota.dashboard.actions import Action
from rota.dashboard.forms import Form
from rota.dashboard.navigation import MenuEntry
from rota.dashboard.pages.lists import PAGE_SIZE
from rota.dashboard.pages.schedules import read_when
from rota.dashboard.part import KeptSchedule, Pages
from rota.dashboard.view import Page, View, safe_back
from rota.errors import IllegalTransition, InvalidInput, UnknownTask

__all__ = ["carry_out", "change", "operator_of", "same_as", "show", "throw"]

_QUESTIONS: Final = {
    "cancel": "Cancel {}? It will not run again; its history is kept.",
    "stop": "Stop the run of {}? The agent stops within seconds; the schedule stays active.",
    "reject": "Reject {}? It will not take effect.",
}
_LABELS: Final = {
    "approve": "Approve",
    "reject": "Reject",
    "stop": "Stop",
    "run": "Run now",
    "pause": "Pause",
    "resume": "Resume",
    "cancel": "Cancel",
}


def operator_of(view: View) -> AgentOperator:
    """Acts on the agents in the name of whoever looks."""
    return AgentOperator(agents_of(view.app), view.principal, view.app.database)


async def show(view: View) -> Page:
    """Only what is asked for is looked up: while an agent talks, its output is asked for every second."""
    operator, group = operator_of(view), view.given("group")
    switches = {switch.scope: switch for switch in await operator.switches()}
    schedules: list[AgentSchedule] = []
    cursor: str | None = None
    if view.wants("rows"):
        # What counts; what only waits to be approved has a place of its own.
        page = await operator.page_of_tasks(group=group, after=view.given("cursor"), limit=PAGE_SIZE)
        schedules, cursor = page.items, page.cursor
    waiting = await operator.waiting() if view.wants("waiting") else []
    values = {
        "running": await operator.running() if view.wants("running") else [],
        "waiting": waiting[:PAGE_SIZE],
        "waiting_in_all": len(waiting),
        "schedules": schedules,
        "cursor": cursor,
        "groups": await operator.groups() if view.wants("groups") else [],
        "group": group,
        "moment": _moment,
        "timezone": operator.agents.settings.timezone,
        "switches": switches,
        "all_off": switches.get(EVERYBODY),
        "of_schedule": of_schedule,
        "on_one": on_one,
        "switch_of": switch_of,
    }
    return Page("agents.html", "Agents", values, concerns="agent")


def _moment(text: str | None) -> Instant | None:
    return None if text is None else from_datetime(datetime.fromisoformat(text))


# --- what can be done ------------------------------------------------------------------------------------------------


def of_schedule(schedule: AgentSchedule) -> list[Action]:
    """What can be done to a schedule as it stands."""
    if schedule.is_running:
        verbs = ("stop", "pause", "cancel")
    else:
        verbs = ("resume", "run", "cancel") if schedule.status == "paused" else ("run", "pause", "cancel")
    return [on_one(verb, schedule.id) for verb in verbs]


def on_one(verb: str, schedule_id: str, digest: str | None = None) -> Action:
    """One button about one schedule; approving means what was shown."""
    word = "run-now" if verb == "run" else verb
    question = _QUESTIONS.get(verb)
    return Action(
        label=_LABELS[verb],
        path="/act/agent",
        fields=(("verb", verb), ("id", schedule_id), ("digest", digest or "")),
        command=shlex.join(["rota", "agent", verb, schedule_id, *([] if digest is None else ["--digest", digest])]),
        method="POST",
        url=f"/api/agents/schedules/{quote_key(schedule_id)}/{word}",
        body=json.dumps({} if digest is None else {"digest": digest}) if verb == "approve" else None,
        question=None if question is None else question.format(schedule_id),
        danger=verb in ("cancel", "stop", "reject"),
        primary=verb == "approve",
    )


def same_as(view: View, schedule: AgentSchedule) -> tuple[str, str]:
    """What changes the same schedule on the command line and over HTTP, with its times as they are."""
    option = {"interval": "--every", "once": "--at"}.get(schedule.schedule_type, "--cron")
    value = schedule.schedule_value if option != "--every" else format_duration(int(schedule.schedule_value))
    command = shlex.join(["rota", "agent", "update", schedule.id, option, value])
    body = {"schedule_type": schedule.schedule_type, "schedule_value": schedule.schedule_value}
    return command, view.call("PATCH", f"/api/agents/schedules/{quote_key(schedule.id)}", json.dumps(body))


def switch_of(scope: str, *, is_off: bool) -> Action:
    """The kill switch of a group, or of all."""
    whose = "all groups" if scope == EVERYBODY else f"the group {scope}"
    word = "all" if scope == EVERYBODY else scope
    return Action(
        label=f"{'Revive' if is_off else 'Stop'}{' all' if scope == EVERYBODY else ''}",
        path="/act/agent/switch",
        fields=(("scope", scope), ("verb", "revive" if is_off else "kill")),
        command=shlex.join(["rota", "agent", "revive" if is_off else "kill", *([] if word == "all" else [scope])]),
        method="DELETE" if is_off else "PUT",
        url=f"/api/agents/switches/{word}",
        body=None if is_off else "{}",
        question=None if is_off else f"Stop {whose}? Running agents are stopped, and due runs are skipped.",
        danger=not is_off,
    )


# --- and is done -----------------------------------------------------------------------------------------------------


async def carry_out(view: View, form: Form) -> Response:
    """A button about one schedule."""
    verb, schedule_id = form.need("verb"), form.exact("id")
    back = safe_back(form.exact("back"), view.site.service.base_path)
    try:
        sentence = await _done(operator_of(view), verb, schedule_id, form.get("digest"))
    except (IllegalTransition, UnknownTask) as refused:
        # Somebody was faster, or it has ended by itself: no error, but worth a sentence.
        sentence = str(refused)
    return view.back(sentence, back)


_DONE: Final[Mapping[str, tuple[Callable[[AgentOperator, str], Awaitable[object]], str]]] = {
    "reject": (AgentOperator.reject, "rejected"),
    "stop": (AgentOperator.stop_run, "told to end"),
    "pause": (AgentOperator.pause_task, "paused"),
    "resume": (AgentOperator.resume_task, "going on"),
    "cancel": (AgentOperator.cancel_task, "cancelled"),
}


async def _done(operator: AgentOperator, verb: str, schedule_id: str, digest: str | None) -> str:
    if verb == "approve":
        await operator.approve(schedule_id, digest=digest)
        return f"{schedule_id} is approved."
    if verb == "run":
        stays = (await operator.run_task(schedule_id)).status == "paused"
        return f"{schedule_id} is due now{', once, and stays paused' if stays else ''}."
    if verb not in _DONE:
        raise InvalidInput(f"There is nothing called {verb[:20]!r} to do here. Use one of: {', '.join(_LABELS)}.")
    act, said = _DONE[verb]
    await act(operator, schedule_id)
    return f"{schedule_id} is {said}."


async def change(view: View, schedule_id: str, form: Form) -> Response:
    """The form of one schedule: through the agent's own update, which writes down what was agreed to."""
    operator = operator_of(view)
    known = await operator.get_task(schedule_id)
    kind = {"every": "interval", "at": "once"}.get(form.get("kind") or "cron", form.get("kind") or "cron")
    zone, hidden = form.get("timezone"), form.get("payload_hidden") is not None
    read_when(view, form)
    form.check()
    await operator.update_task(
        schedule_id,
        prompt=None if hidden else _text(form, "prompt", known.prompt),
        script=None if hidden else _text(form, "script", known.script or ""),
        schedule_type=kind,
        schedule_value=form.need("value"),
        timezone=None if zone == known.timezone else zone,
        context_mode=form.get("context_mode"),
        expires=form.get("expires") or "",
    )
    return view.back(f"The schedule {schedule_id} is set.", view.schedule_url(AGENT, schedule_id))


def _text(form: Form, name: str, known: str) -> str | None:
    """What was written, with the line breaks of a script: browsers send others. None if it is as it was."""
    text = form.exact(name).replace("\r\n", "\n")
    return None if text == known.replace("\r\n", "\n") else text


async def throw(view: View, form: Form) -> Response:
    """A kill switch, on or off."""
    operator, scope = operator_of(view), form.need("scope")
    back = safe_back(form.exact("back"), view.site.service.base_path)
    whose = "All groups" if scope == EVERYBODY else f"The group {scope}"
    if form.need("verb") == "revive":
        return view.back((await operator.switch_on(scope)).words, back)
    await operator.switch_off(scope, form.get("reason") or "from the dashboard")
    return view.back(f"{whose} must stop: what runs is ended, what is due is skipped.", back)


class _AgentSchedules:
    """A schedule of an agent is shown and changed as such."""

    async def find(self, view: View, task_type: str, schedule_id: str) -> KeptSchedule | None:
        if task_type != AGENT or not await agents_of(view.app).is_kept(schedule_id):
            return None
        agent = await operator_of(view).get_task(schedule_id)
        return KeptSchedule("agent_form.html", "rota agent add", same_as(view, agent), {"agent": agent})

    async def change(self, view: View, schedule_id: str, form: Form) -> Response:
        return await change(view, schedule_id, form)


PAGES: Final = Pages(
    menu=(MenuEntry("agents", "/agents", "Agents", "e", Role.VIEWER, "Work"),),
    shown=(("/agents", show, Role.VIEWER),),
    acts=(("/act/agent", carry_out, Role.OPERATOR), ("/act/agent/switch", throw, Role.OPERATOR)),
    templates="rota.agents.faces",
    schedules=_AgentSchedules(),
    made_by={AGENT: "rota agent add"},
)
