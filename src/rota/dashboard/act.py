"""Where the buttons go: plain form posts that act through the `Operator` and lead back with one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, get_args

from fastapi.responses import Response

from rota.access import Role
from rota.app.again import SAME
from rota.app.declarations import declaration_of
from rota.app.operator import Counted, Done
from rota.app.time_range import time_range
from rota.app.views import SWITCHES, choice, task_query
from rota.clock import parse_duration
from rota.core.outcome import ScheduleOutcome, TouchOutcome
from rota.core.task import Identity, Transition
from rota.core.task_type import did_you_mean
from rota.dashboard import actions, run_once, words
from rota.dashboard.forms import Form, json_value, read_identity, whole_number
from rota.dashboard.pages import dead_letters, schedules, system
from rota.dashboard.preferences import COOKIES
from rota.dashboard.view import Page, View, safe_back
from rota.errors import IllegalTransition, InvalidInput
from rota.keys import shown_key
from rota.stores.base import TaskQuery
from rota.stores.limits import check_overrides
from rota.triggers import Misfire, Overlap

__all__ = ["ACTS"]

A_YEAR: Final = 365 * 86_400

_DONE: Final = {
    Transition.PAUSE: "paused",
    Transition.RESUME: "resumed",
    Transition.CANCEL: "cancelled",
    Transition.RUN_NOW: "made due now",
    Transition.REDRIVE: "redriven",
    Transition.PURGE: "purged",
}


async def _task(view: View, form: Form) -> Response:
    transition = choice(Transition, form.need("event"), "event")
    identity = form.identity
    name = f"{identity.task_type}/{shown_key(identity.key)}"
    try:
        await view.operator.apply(transition, identity)
    except IllegalTransition as refused:
        # Somebody was faster, or it has run meanwhile: no error, but worth a sentence.
        return view.back(str(refused), _origin(view, form))
    gone = transition is Transition.PURGE
    to = view.url("/tasks") if gone and view.task_url(*identity) in _origin(view, form) else _origin(view, form)
    return view.back(f"{name} {_DONE.get(transition, transition.value)}.", to)


async def _again(view: View, form: Form) -> Response:
    """Once more, with what it carried unless another payload was written; on to the page of what was made."""
    payload: object = SAME
    if form.all("payload"):
        form.require("payload")
        payload = form.read("payload", json_value)
        form.check()
    try:
        receipt = await view.operator.run_again(form.identity, payload)
    except IllegalTransition as refused:
        return view.back(str(refused), _origin(view, form))
    return view.back(
        f"{receipt.task_type}/{shown_key(receipt.key)} is due now.", view.task_url(receipt.task_type, receipt.key)
    )


async def _reset(view: View, form: Form) -> Response:
    identity = form.identity
    await view.operator.reset(identity)
    return view.back(f"The failures of {shown_key(identity.key)} in a row are forgotten.", _origin(view, form))


# --- many ------------------------------------------------------------------------------------------------------------


async def _bulk(view: View, form: Form) -> Response:
    """Without a count that somebody has agreed to, ask; with one, act only if it is still right."""
    transition = choice(Transition, form.need("event"), "event")
    meant = await _meant(view, form)
    expected = form.get("expected")
    if meant == []:
        return view.back("Nothing was selected. Select some rows, or “all matching”.", _origin(view, form))
    found = await view.operator.confirm(transition, meant, None if expected is None else whole_number(expected))
    if expected is None:
        return await _ask_first(view, form, transition, meant, found.counted)
    done = await view.operator.carry_out(transition, found)
    return view.back(_sentence(transition, done), _origin(view, form))


async def _meant(view: View, form: Form) -> TaskQuery | list[Identity]:
    """The ticked rows, or the filter if all that match is meant."""
    if form.get("scope") != "all":
        return [read_identity(text) for text in form.all("task")]
    query, reason = _query(view, form), form.get("reason")
    if reason is None:
        return query
    return await dead_letters.identities_of(await view.store(), query, reason)


async def _ask_first(
    view: View, form: Form, transition: Transition, meant: TaskQuery | list[Identity], counted: Counted
) -> Response:
    """The question, with the command that does exactly what the button does."""
    left = 0
    if isinstance(meant, TaskQuery):
        command, curl = actions.bulk_command(transition, meant), actions.bulk_call(view.origin, transition, meant)
    else:
        command, curl = actions.named_command(transition, meant), actions.named_call(view.origin, transition, meant)
        found = await (await view.store()).get(meant)
        left = sum(task is None or transition not in actions.offered(task) for task in found)
        if left == len(meant):
            fate = _DONE.get(transition, transition.value)
            return view.back(f"None of the selected tasks can be {fate} in their current state.", _origin(view, form))
    values = {
        "form": form,
        "event": transition,
        "verb": transition.value.replace("_", " "),
        "counted": counted,
        "left": left,
        "command": command,
        "curl": curl,
        "danger": transition in actions.DANGEROUS,
        "back": _origin(view, form),
    }
    return view.site.render(view, Page("confirm.html", "Are you sure?", values))


def _sentence(transition: Transition, done: Done) -> str:
    left = f" {words.count(done.refused, 'task')} could not be, by their state." if done.refused else ""
    return f"{words.count(done.changed, 'task')} {_DONE.get(transition, transition.value)}.{left}"


def _query(view: View, form: Form) -> TaskQuery:
    return task_query(
        type=form.get("type"),
        status=form.get("status"),
        without=form.get("without"),
        user=form.get("user"),
        owner=form.get("owner"),
        search=form.get("search"),
        failure=form.get("failure"),
        within=time_range(form.get("since"), form.get("until"), now=view.now, timezone=view.timezone),
        schedules=form.get("schedules") == "true",
    )


# --- failures --------------------------------------------------------------------------------------------------------


async def _mute_failure(view: View, form: Form) -> Response:
    task_type, failure = form.need("type"), form.need("failure")
    form.require("for")
    span = form.read("for", partial(parse_duration, what="duration"))
    form.check()
    until = view.now + (span or 0)
    await view.operator.mute_failure(task_type, failure, until)
    return view.back(f"{task_type}/{failure} is muted until {view.clock(until)}.", _origin(view, form))


async def _unmute_failure(view: View, form: Form) -> Response:
    task_type, failure = form.need("type"), form.need("failure")
    await view.operator.mute_failure(task_type, failure, None)
    return view.back(f"{task_type}/{failure} is heard again.", _origin(view, form))


# --- schedules -------------------------------------------------------------------------------------------------------


async def _schedule(view: View, form: Form) -> Response:
    return await _task(view, form)


async def _upsert(view: View, form: Form) -> Response:
    given = form.get("task")
    if given is None:
        form.require("type", "id")
    task_type, schedule_id = (form.get("type") or "", form.get("id") or "") if given is None else read_identity(given)
    kept = await schedules.kept_by_a_part(view, task_type, schedule_id) if schedule_id else None
    if kept is not None:
        return await kept[0].change(view, schedule_id, form)
    settings = _settings(view, form)
    form.check()
    if form.get("payload_hidden") is not None:
        # Whoever does not see it does not change it.
        known = await view.app.schedules.get(schedule_id, task_type)
        settings["payload"] = None if known is None else known.payload
    await view.operator.upsert_schedule(schedule_id, task_type, **settings)
    return view.back(f"The schedule {schedule_id} is set.", view.schedule_url(task_type, schedule_id))


def _settings(view: View, form: Form) -> dict[str, Any]:
    """What the fields say, as they stand; each is understood here once, so that all that is wrong is said at once."""
    settings: dict[str, Any] = {}
    schedules.read_when(view, form)
    kind, value = form.get("kind") or "cron", form.get("value")
    if kind in schedules.KINDS and value is not None:
        settings[kind] = value
    form.read("jitter", partial(parse_duration, what="jitter"))
    form.read("grace", partial(parse_duration, what="grace"))
    form.read("misfire", partial(_one_of, get_args(Misfire)))
    form.read("overlap", partial(_one_of, get_args(Overlap)))
    for name in ("timezone", "owner", "misfire", "overlap", "jitter", "grace", "expires", "serial"):
        if (text := form.get(name)) is not None:
            settings[name] = text
    for name in ("max_runs", "priority"):
        if (number := form.read(name, whole_number)) is not None:
            settings[name] = number
    if form.get("payload") is not None:
        settings["payload"] = form.read("payload", json_value)
    return settings


def _one_of(known: Sequence[str], text: str) -> str:
    if text not in known:
        raise InvalidInput(f"There is no {text[:20]!r} here. {did_you_mean(text, known)}")
    return text


# --- types -----------------------------------------------------------------------------------------------------------


async def _type(view: View, form: Form) -> Response:
    verb, task_type = form.need("verb"), form.need("type")
    if verb not in SWITCHES:
        raise InvalidInput(f"There is nothing called {verb[:20]!r} to do to a type. Use one of: {', '.join(SWITCHES)}.")
    await view.operator.override(task_type, SWITCHES[verb])
    past = {"enable": "on", "disable": "off", "freeze": "frozen", "thaw": "running again", "drain": "draining"}
    return view.back(f"{task_type} is {past[verb]}.", _origin(view, form))


_BUCKETS: Final = {"rate_limit": ("rate", "burst"), "start_limit": ("start_rate", "start_burst")}
"""The two fields of each bucket."""


async def _run_once(view: View, form: Form) -> Response:
    """Try a type: make one task of it, or say that a user was active."""
    task_type = form.need("type")
    store = await view.store()
    takes = (await declaration_of(store, task_type)).takes
    payload = run_once.payload_of(form, takes, view.timezone, view.now)
    options = run_once.options_of(form, view.timezone, view.now)
    is_touch = form.get("how") == "touch"
    if is_touch or (takes is not None and "user_id" in takes.ids):
        form.require("user_id")
    form.check()
    if is_touch:
        return await _touched(view, form, task_type)
    receipt = await view.operator.schedule(task_type, payload, **options)
    name = f"{task_type}/{shown_key(receipt.key)}"
    said = (
        f"{name} is made." if receipt.outcome is ScheduleOutcome.CREATED else f"{name} is there already: it was kept."
    )
    return view.back(said, view.task_url(task_type, receipt.key))


async def _touched(view: View, form: Form, task_type: str) -> Response:
    ids = (form.need("user_id"), form.get("device_id"), form.get("agent_id"))
    touched = await view.operator.touch(task_type, *ids)
    if touched.outcome is TouchOutcome.DISABLED:
        raise InvalidInput(f"{task_type} takes no activity on: it is off or drained.")
    said = f"The activity of {ids[0]} was taken: {touched.outcome}."
    (task,) = await (await view.store()).get([Identity(task_type, view.app.host.keys.build_key(*ids))])
    return view.back(said, view.url(f"/types/{task_type}") if task is None else view.identity_url(task.identity))


async def _limits(view: View, form: Form) -> Response:
    """An empty field takes the override back."""
    task_type = form.need("type")
    changes: dict[str, object] = {}
    for name in ("concurrency", "max_pending"):
        changes[name] = form.read(name, whole_number)
    for name, (rate_field, burst_field) in _BUCKETS.items():
        rate, burst = form.read(rate_field, _rate), form.read(burst_field, whole_number)
        if rate is None and burst is not None:
            form.refuse(rate_field, "A burst alone limits nothing. Say how many a second, too.")
        changes[name] = None if rate is None else {"rate": rate, "burst": 1 if burst is None else burst}
    for name, value in changes.items():
        _check_limit(form, name, value)
    form.check()
    await view.operator.override(task_type, changes)
    return view.back(f"The limits of {task_type} are set.", _origin(view, form))


def _check_limit(form: Form, name: str, value: object) -> None:
    """What is wrong with one limit is said at its field; a bucket has two of them."""
    try:
        check_overrides({name: value})
    except InvalidInput as error:
        rate, burst = _BUCKETS.get(name, (name, name))
        form.refuse(burst if f"{name}.burst" in str(error) else rate, str(error).removeprefix("override."))


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"The rate is {text[:20]!r}, which is no number. Use starts a second, like 0.5.") from None


# --- people and tokens -----------------------------------------------------------------------------------------------


async def _erase(view: View, form: Form) -> Response:
    user_id = form.exact("user")
    if form.exact("confirmation") != user_id:
        raise InvalidInput(
            "Nothing was erased: the user's id was not typed as it is. Type it again.", field="confirmation"
        )
    erasure, kept = await view.operator.erase_user(user_id)
    still = (
        f" {words.count(erasure.running, 'task')} still run and are removed when they end." if erasure.running else ""
    )
    counted = {"tasks": erasure.tasks, "runs": erasure.runs, **kept}
    *most, last = (words.count(count, name.removesuffix("s")) for name, count in counted.items())
    gone = f"{', '.join(most)} and {last}"
    return view.back(f"Of {user_id}, {gone} are erased.{still}", view.url("/users", user=user_id))


async def _add_token(view: View, form: Form) -> Response:
    """The secret is shown here, once: this page is never stored and cannot be loaded again."""
    form.require("name", "role")
    role = form.read("role", lambda text: choice(Role, text, "role"))
    lasts = form.read("expires", partial(parse_duration, what="time"))
    form.check()
    assert role is not None, "the form was checked"
    made = await view.operator.add_token(
        form.need("name"), role, expires_at=None if lasts is None else view.now + lasts
    )
    return view.site.render(view, await system.tokens(view, made))


async def _revoke_token(view: View, form: Form) -> Response:
    token = await view.operator.revoke_token(form.need("id"))
    return view.back(f"The token {token.name} is revoked.", view.url("/tokens"))


# --- for one's own eyes ----------------------------------------------------------------------------------------------


async def _preferences(view: View, form: Form) -> Response:
    answer = view.back("", _origin(view, form))
    answer.delete_cookie("rota_flash", path=view.cookie_path)
    for name, allowed in COOKIES.items():
        value = form.get(name)
        if value in allowed:
            answer.set_cookie(name, value, max_age=A_YEAR, path=view.cookie_path, samesite="strict")
    return answer


def _origin(view: View, form: Form) -> str:
    """The page that the form was on."""
    return safe_back(form.exact("back"), view.site.service.base_path)


ACTS: Final = (
    ("/act/task", _task, Role.OPERATOR),
    ("/act/task/again", _again, Role.OPERATOR),
    ("/act/reset", _reset, Role.OPERATOR),
    ("/act/bulk", _bulk, Role.OPERATOR),
    ("/act/failure/mute", _mute_failure, Role.OPERATOR),
    ("/act/failure/unmute", _unmute_failure, Role.OPERATOR),
    ("/act/schedule", _schedule, Role.OPERATOR),
    ("/act/schedule/set", _upsert, Role.OPERATOR),
    ("/act/type", _type, Role.OPERATOR),
    ("/act/type/limits", _limits, Role.OPERATOR),
    ("/act/type/run", _run_once, Role.OPERATOR),
    ("/act/user/erase", _erase, Role.ADMIN),
    ("/act/token/add", _add_token, Role.ADMIN),
    ("/act/token/revoke", _revoke_token, Role.ADMIN),
    ("/act/preferences", _preferences, Role.VIEWER),
)
"""Where a form goes, what it does there, and who may."""
