"""Which task a command line means, and what to say when there is none or it is in the wrong state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

import typer

from rota.app.results import TaskDetails
from rota.cli.invocation import Cli, Session
from rota.config.urls import masked
from rota.core.task import Identity, Task, TaskStatus, Transition
from rota.core.task_type import did_you_mean
from rota.errors import IllegalTransition, InvalidInput, UnknownTask, UnknownTaskType
from rota.keys import GLOBAL_KEY, UserKeyBuilder, check_task_type, shown_key
from rota.stores.base import Store, TypeRecord

__all__ = [
    "DONE",
    "AgentOption",
    "DeviceOption",
    "KeyArgument",
    "Target",
    "TypeArgument",
    "UserOption",
    "apply",
    "bring_built_in",
    "find_task",
    "known_type",
    "meant_by",
    "name_of",
]

TypeArgument = Annotated[str, typer.Argument(metavar="TYPE", help="The task type, or TYPE/KEY in one word.")]
KeyArgument = Annotated[
    str | None, typer.Argument(metavar="[KEY]", help="The key, as `task ls` prints it. Left out: the global task.")
]
UserOption = Annotated[str | None, typer.Option("--user", metavar="ID", help="The user, in place of a key.")]
DeviceOption = Annotated[str | None, typer.Option("--device", metavar="ID", help="The user's device.")]
AgentOption = Annotated[str | None, typer.Option("--agent", metavar="ID", help="The user's agent.")]


class Target(NamedTuple):
    """A task as a command line names it."""

    task_type: str
    key: str | None = None
    user: str | None = None
    device: str | None = None
    agent: str | None = None

    def identity(self, cli: Cli) -> Identity:
        """The identity that is meant; what contradicts itself is refused."""
        name, key = self._parts()
        if key is not None and self.user is not None:
            raise InvalidInput(f"Both the key {key!r} and --user {self.user!r} were given. Use one of them.")
        if self.user is not None:
            key = UserKeyBuilder(cli.config.user_key).build_key(self.user, self.device, self.agent)
        elif self.device is not None or self.agent is not None:
            raise InvalidInput("--device and --agent need --user. Add it, or give the key itself.")
        if key == "":
            raise InvalidInput(f"The key of the {name!r} task is empty. `rota task ls --type {name}` lists the keys.")
        return Identity(check_task_type(name), GLOBAL_KEY if key is None else key)

    @property
    def given_key(self) -> str | None:
        """The key itself, if one was given."""
        return self._parts()[1]

    def _parts(self) -> tuple[str, str | None]:
        # No type's name has a slash, so TYPE/KEY can always be told apart.
        name, slash, key = self.task_type.partition("/")
        if slash and self.key is not None:
            raise InvalidInput(f"The key was given twice: in {self.task_type!r} and as {self.key!r}. Use one of them.")
        return (name, key) if slash else (self.task_type, self.key)


def name_of(identity: Identity) -> str:
    """A task as people write it: type/key."""
    return f"{identity.task_type}/{shown_key(identity.key)}"


async def find_task(cli: Cli, store: Store, target: Target) -> Task:
    """The task that is meant. Unknown: `UnknownTask`, or `UnknownTaskType` if it is the type that nobody knows."""
    identity = target.identity(cli)
    (task,) = await store.get([await meant_by(store, identity)])
    if task is not None:
        return task
    await known_type(cli, store, identity.task_type)
    raise UnknownTask(
        f"There is no task {name_of(identity)!r} in {masked(store.url)}."
        f" `rota task ls --type {identity.task_type}` lists those there are."
    )


async def meant_by(store: Store, identity: Identity) -> Identity:
    """The identity itself, or the global task: the lists show its key by a name that a user may have too."""
    if identity.key == shown_key(GLOBAL_KEY) and (await store.get([identity]))[0] is None:
        return Identity(identity.task_type, GLOBAL_KEY)
    return identity


async def known_type(cli: Cli, store: Store, name: str, *, register: bool = False) -> TypeRecord:
    """The type, from the store or else from the configuration (which `register` puts into the store)."""
    check_task_type(name)
    records = {record.task_type.name: record for record in await store.list_types()}
    if name in records:
        return records[name]
    configured = cli.config.tasks.get(name)
    if configured is None:
        known = sorted({*records, *cli.config.tasks})
        hint = did_you_mean(name, known) if known else "None is registered yet."
        raise UnknownTaskType(
            f"Neither {masked(store.url)} nor the configuration knows a task type {name!r}. {hint}"
            " A type is made known by a worker that has it, or by scheduler.tasks in the configuration."
        )
    return (await store.put_types([configured]))[0] if register else TypeRecord(configured)


async def bring_built_in(cli: Cli, store: Store, name: str) -> None:
    """If the store does not know a built-in type, it learns of it as a worker with this configuration would tell it.

    For commands that make tasks of it. No other type is touched, and none that is known: its workers know it better.
    """
    if all(record.task_type.name != name for record in await store.list_types()):
        from rota.app.builtin import build

        await store.put_types([build(cli.config).host.declared[name]])


async def apply(session: Session, transition: Transition, task: Task) -> TaskDetails | None:
    """One of the operator's events on a task that is there; the task as it is then, None if it is purged."""
    try:
        return await session.operator.apply(transition, task.identity)
    except IllegalTransition:
        (found,) = await session.store.get([task.identity])
        raise IllegalTransition(_refusal(transition, task if found is None else found)) from None


DONE: Final[Mapping[Transition, str]] = {
    Transition.PAUSE: "paused",
    Transition.RESUME: "resumed",
    Transition.CANCEL: "cancelled",
    Transition.RUN_NOW: "run now",
    Transition.REDRIVE: "redriven",
    Transition.PURGE: "purged",
}

_ADVICE: Final[Mapping[TaskStatus, str]] = {
    TaskStatus.RUNNING: "Wait until its run has ended, or cancel it.",
    TaskStatus.CANCELLED: "Schedule it again if it is wanted.",
    TaskStatus.COMPLETED: "It is done; `run-now` runs it once more.",
    TaskStatus.FAILED: "`rota dlq redrive` or `run-now` runs it again.",
    TaskStatus.PAUSED: "Resume it first.",
    TaskStatus.PENDING: "It is waiting for its time already.",
}


def _refusal(transition: Transition, task: Task) -> str:
    return (
        f"The task {name_of(task.identity)!r} is {task.status} and cannot be {DONE[transition]}. {_ADVICE[task.status]}"
    )
