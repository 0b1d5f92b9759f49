"""What somebody can do from a page, each with its equal on the command line and over HTTP.

An action is offered only where the lifecycle's table leads somewhere; whether it is allowed, the `Operator` decides.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from rota.api.paths import quote_key
from rota.app.views import SWITCHES, filters_of
from rota.core.failure import FailureGroup
from rota.core.lifecycle import TABLE, goes_to
from rota.core.task import Identity, Task, TaskStatus, Transition, Want
from rota.dashboard.forms import written
from rota.keys import GLOBAL_KEY
from rota.stores.base import MOST_COUNTED, TaskQuery, TypeRecord

__all__ = [
    "DANGEROUS",
    "Action",
    "again",
    "applies_to",
    "bulk_call",
    "bulk_command",
    "call",
    "named_call",
    "named_command",
    "of_failure",
    "of_schedule",
    "of_task",
    "of_type",
    "offered",
    "revoke_token",
    "typed",
]

_LABELS: Final[Mapping[Transition, str]] = {
    Transition.RUN_NOW: "Run now",
    Transition.REDRIVE: "Redrive",
    Transition.RESUME: "Resume",
    Transition.PAUSE: "Pause",
    Transition.CANCEL: "Cancel",
    Transition.PURGE: "Purge",
}
_QUESTIONS: Final[Mapping[Transition, str]] = {
    Transition.CANCEL: "Cancel {}? A running handler is asked to stop.",
    Transition.PURGE: "Purge {}? It is deleted permanently.",
}
DANGEROUS: Final = frozenset({Transition.CANCEL, Transition.PURGE})
"""What nobody can undo: it looks different wherever it is offered."""


@dataclass(frozen=True, slots=True)
class Action:
    """One button: what it says, where its form goes, and the same thing in other places."""

    label: str
    path: str
    fields: tuple[tuple[str, str], ...]
    command: str
    method: str
    url: str
    body: str | None = None
    question: str | None = None
    danger: bool = False
    primary: bool = False

    def curl(self, origin: str) -> str:
        """The same over HTTP; the token stays in the environment."""
        return call(self.method, origin + self.url, self.body)


def call(method: str, url: str, body: str | None = None) -> str:
    """A curl command. The token is taken from the environment, never written down."""
    words = ["curl", "-X", method, "-H", '"Authorization: Bearer $ROTA_TOKEN"']
    if body is not None:
        words += ["-H", "'Content-Type: application/json'", "-d", shlex.quote(body)]
    return " ".join([*words, shlex.quote(url)])


def of_task(task: Task) -> list[Action]:
    """What can be done to this task as it stands."""
    return [_on_task(transition, task) for transition in offered(task)]


def offered(task: Task) -> list[Transition]:
    """The events that can apply to this task as it stands."""
    return [transition for transition in _LABELS if _is_offered(transition, task)]


def applies_to(transition: Transition, status: TaskStatus | None) -> bool:
    """Whether a transition can apply to tasks of a state; of any state, if none is named."""
    return status is None or (
        status in TABLE[transition] and not (transition is Transition.RUN_NOW and status is TaskStatus.FAILED)
    )


def of_schedule(task: Task) -> list[Action]:
    """The same for a schedule, by the schedule's commands."""
    offered = (Transition.RUN_NOW, Transition.RESUME, Transition.PAUSE, Transition.CANCEL)
    return [_on_schedule(transition, task) for transition in offered if _is_offered(transition, task)]


def _is_offered(transition: Transition, task: Task) -> bool:
    if goes_to(transition, task) is None:
        return False
    if transition is Transition.RUN_NOW:
        # A failed task is redriven: that gives it fresh counts too.
        return task.status is not TaskStatus.FAILED
    if task.status is TaskStatus.RUNNING:
        wanted = {Transition.PAUSE: Want.NONE, Transition.RESUME: Want.PAUSE}
        return task.want is wanted.get(transition, task.want) and not (
            transition is Transition.CANCEL and task.want is Want.CANCEL
        )
    return True


def _on_task(transition: Transition, task: Task) -> Action:
    name = f"{task.task_type}/{task.key}"
    group = (
        "dlq" if task.status is TaskStatus.FAILED and transition in (Transition.REDRIVE, Transition.PURGE) else "task"
    )
    target = [name] if group == "dlq" else [task.task_type, *([] if task.key == GLOBAL_KEY else [task.key])]
    return Action(
        label=_LABELS[transition],
        path="/act/task",
        fields=(("event", transition.value), ("task", written(task.identity))),
        command=shlex.join(["rota", group, _word(transition), *target]),
        method="POST",
        url=f"/api/tasks/{task.task_type}/{quote_key(task.key)}/{_word(transition)}",
        question=_QUESTIONS[transition].format(name) if transition in _QUESTIONS else None,
        danger=transition in DANGEROUS,
    )


def _on_schedule(transition: Transition, task: Task) -> Action:
    return Action(
        label=_LABELS[transition],
        path="/act/schedule",
        fields=(("event", transition.value), ("task", written(task.identity))),
        command=shlex.join(["rota", "schedule", _word(transition), task.task_type, task.key]),
        method="POST",
        url=f"/api/schedules/{task.task_type}/{quote_key(task.key)}/{_word(transition)}",
        question=f"Cancel the schedule {task.key}? It will not fire again."
        if transition is Transition.CANCEL
        else None,
        danger=transition is Transition.CANCEL,
    )


def _word(transition: Transition) -> str:
    return transition.value.replace("_", "-")


def again(task: Task) -> Action | None:
    """An ended task once more, or a series beside itself; None for one that is under way."""
    goes_on = task.is_recurring or task.key == GLOBAL_KEY
    if task.status.is_live and not goes_on:
        return None
    name = [task.task_type, *([] if task.key == GLOBAL_KEY else [task.key])]
    return Action(
        label="Run again",
        path="/act/task/again",
        fields=(("task", written(task.identity)),),
        command=shlex.join(["rota", "task", "again", *name]),
        method="POST",
        url=f"/api/tasks/{task.task_type}/{quote_key(task.key)}/again",
        body="{}",
    )


def of_failure(group: FailureGroup, *, dead: int, is_muted: bool) -> list[Action]:
    """Redrive the dead letters of a group, and no others; leave it aside, or hear of it again."""
    redrive = [_redrive_failure(group, dead)] if dead else []
    return [
        *redrive,
        _on_failure("Hear again", group, "unmute") if is_muted else _on_failure("Mute for a day", group, "mute"),
    ]


def _redrive_failure(group: FailureGroup, dead: int) -> Action:
    those = (("type", group.task_type), ("status", TaskStatus.FAILED.value), ("failure", group.id))
    return Action(
        label=f"Redrive {dead:,}{'+' if dead >= MOST_COUNTED else ''}",
        path="/act/bulk",
        fields=(("event", Transition.REDRIVE.value), ("scope", "all"), *those),
        command=shlex.join(["rota", "failures", "redrive", f"{group.task_type}/{group.id}"]),
        method="POST",
        url=f"/api/failures/{group.task_type}/{group.id}/redrive",
        body="{}",
        primary=True,
    )


def _on_failure(label: str, group: FailureGroup, verb: str) -> Action:
    is_mute = verb == "mute"
    return Action(
        label=label,
        path=f"/act/failure/{verb}",
        fields=(("type", group.task_type), ("failure", group.id), *([("for", "1d")] if is_mute else [])),
        command=shlex.join(
            ["rota", "failures", verb, f"{group.task_type}/{group.id}", *(["--for", "1d"] if is_mute else [])]
        ),
        method="POST",
        url=f"/api/failures/{group.task_type}/{group.id}/{verb}",
        body='{"duration": "1d"}' if is_mute else None,
    )


def of_type(record: TypeRecord) -> list[Action]:
    """Freeze, drain, switch off, and back."""
    over, name = record.overrides, record.task_type.name
    found: list[Action] = []
    if over.frozen or over.draining:
        found.append(_on_type("Thaw", name, "thaw"))
    if not over.frozen:
        found.append(_on_type("Freeze", name, "freeze"))
    if not over.draining:
        found.append(_on_type("Drain", name, "drain"))
    if over.enabled is False:
        found.append(_on_type("Enable", name, "enable"))
    elif record.task_type.enabled:
        found.append(_on_type("Disable", name, "disable"))
    return found


_TYPE_QUESTIONS: Final = {
    "disable": "Disable {}? No instance accepts or starts its tasks until it is enabled again.",
    "freeze": "Freeze {}? No instance starts its tasks; new tasks wait until it is thawed.",
    "drain": "Drain {}? New tasks are refused; existing tasks still run.",
}


def _on_type(label: str, name: str, verb: str) -> Action:
    question = _TYPE_QUESTIONS.get(verb)
    return Action(
        label=label,
        path="/act/type",
        fields=(("verb", verb), ("type", name)),
        command=shlex.join(["rota", "type", verb, name]),
        method="PATCH",
        url=f"/api/types/{name}",
        body=json.dumps(SWITCHES[verb]),
        question=None if question is None else question.format(name),
        danger=verb == "disable",
    )


def revoke_token(token_id: str, name: str) -> Action:
    """End a token."""
    return Action(
        label="Revoke",
        path="/act/token/revoke",
        fields=(("id", token_id),),
        command=shlex.join(["rota", "token", "revoke", token_id]),
        method="DELETE",
        url=f"/api/tokens/{quote_key(token_id)}",
        question=f"Revoke the token {name}? Its next request will be refused.",
        danger=True,
    )


def typed(identity: Identity) -> str:
    """A task as one word of a command line."""
    return shlex.quote(f"{identity.task_type}/{identity.key}")


def named_command(transition: Transition, identities: Sequence[Identity]) -> str:
    """The command that does the same to these tasks and no others."""
    return " ".join(["rota", "task", _word(transition), *map(typed, identities)])


def named_call(origin: str, transition: Transition, identities: Sequence[Identity]) -> str:
    """The same over HTTP."""
    named = [{"task_type": identity.task_type, "key": identity.key} for identity in identities]
    return call("POST", f"{origin}/api/tasks/bulk", json.dumps({"event": _word(transition), "identities": named}))


def bulk_command(transition: Transition, query: TaskQuery) -> str:
    """The command that does the same to everything that matches."""
    if query.failure is not None and query.task_type is not None:
        return shlex.join(["rota", "failures", _word(transition), f"{query.task_type}/{query.failure}"])
    words = ["rota", "task", _word(transition), "--all"]
    if transition is Transition.RESUME and query.status is None is query.without:
        # Alone it would mean those that are paused, and not those that would be when their run ends.
        query = replace(query, without=TaskStatus.COMPLETED)
    for name, value in filters_of(query).items():
        words += [f"--{name}", value]
    return shlex.join([*words, "--schedules"] if query.schedules else words)


_FIELDS: Final = {"type": "task_type"}
"""Where the API has another word than the command line and the addresses of pages."""


def bulk_call(origin: str, transition: Transition, query: TaskQuery) -> str:
    """The same over HTTP."""
    selection: dict[str, object] = {_FIELDS.get(name, name): value for name, value in filters_of(query).items()}
    if query.schedules:
        selection["schedules"] = True
    return call("POST", f"{origin}/api/tasks/bulk", json.dumps({"event": _word(transition), "query": selection}))
