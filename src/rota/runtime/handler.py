"""A function that does the work of a task type, and how it is called.

By name: the handler declares what it wants to know, and gets that.

    async def compress(user_id: str) -> None: ...
    def report(payload: dict[str, str], run: Run) -> str: ...          # not async: runs in a thread

By position (`positional=True`): the three ids, as the scheduler interface hands them over; None each if the
task has no user.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from rota.core.task import Task
from rota.errors import InvalidInput
from rota.runtime.run import Run, decode_payload

__all__ = ["Handler", "HandlerFunction", "HandlerKind", "is_async", "make_handler"]

HandlerKind = Literal["async", "thread", "process"]
HandlerFunction = Callable[..., object]

_BY_NAME: Mapping[str, Callable[[Task], object]] = {
    "user_id": lambda task: task.user_id,
    "device_id": lambda task: task.device_id,
    "agent_id": lambda task: task.agent_id,
    "payload": decode_payload,
}
_ALLOWED = f"{', '.join(_BY_NAME)}, and one parameter annotated Run"


@dataclass(frozen=True, slots=True)
class Handler:
    """A function and the way to call it. Made by `make_handler`, which checks the function's parameters."""

    task_type: str
    function: HandlerFunction
    kind: HandlerKind
    positional: bool = False
    parameters: tuple[str, ...] = ()
    run_parameter: str | None = None

    def call(self, task: Task, run: Run | None) -> object:
        """The function's own answer: a value, or an awaitable if it is async."""
        if self.positional:
            if task.user_id is None:
                return self.function(None, None, None)
            return self.function(task.user_id, task.device_id, task.agent_id)
        arguments = {name: _BY_NAME[name](task) for name in self.parameters}
        if self.run_parameter is not None:
            arguments[self.run_parameter] = run
        return self.function(**arguments)


def make_handler(
    task_type: str, function: HandlerFunction, *, process: bool = False, positional: bool = False
) -> Handler:
    """A handler for a type. What cannot be called is refused here, not when the first task is due."""
    where = f"The handler {_name_of(function)} of {task_type!r}"
    if not callable(function):
        raise InvalidInput(f"{where} cannot be called. Give a function.")
    kind: HandlerKind = "async" if is_async(function) else "thread"
    if process:
        _check_importable(function, where)
        kind = "process"
    signature = _signature(function, where)
    if positional:
        _check_positional(signature, where)
        return Handler(task_type, function, kind, positional=True)
    parameters, run_parameter = _plan(function, signature, where)
    return Handler(task_type, function, kind, parameters=parameters, run_parameter=run_parameter)


def is_async(function: HandlerFunction) -> bool:
    """Whether calling it gives a coroutine: async functions, methods, partials, objects with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  # not a test for being callable: the method itself is looked at


def _plan(function: HandlerFunction, signature: inspect.Signature, where: str) -> tuple[tuple[str, ...], str | None]:
    """Which parameters get what: the known names, and the one that wants the Run."""
    hints = _hints(function)
    names: list[str] = []
    run_parameter: str | None = None
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            names += [known for known in _BY_NAME if known not in names]
        elif parameter.kind is parameter.VAR_POSITIONAL:
            continue
        elif _wants_run(hints.get(name, parameter.annotation)) and parameter.kind is not parameter.POSITIONAL_ONLY:
            run_parameter = name
        elif name in _BY_NAME and parameter.kind is not parameter.POSITIONAL_ONLY:
            names.append(name)
        elif parameter.default is parameter.empty:
            raise InvalidInput(f"{where} wants {name!r}, which nobody can give it. It may declare {_ALLOWED}, by name.")
    return tuple(names), run_parameter


def _wants_run(annotation: object) -> bool:
    if isinstance(annotation, str):
        return annotation.strip("'\" ").rpartition(".")[2] == "Run"
    return annotation is Run


def _hints(function: HandlerFunction) -> dict[str, object]:
    """The resolved annotations; nothing if one of them names what exists only for the type checker."""
    target = function if inspect.isroutine(function) else getattr(function, "func", function)
    try:
        return typing.get_type_hints(target)
    except Exception:  # an annotation is any expression: what evaluating it raises is not ours to know
        return {}


def _signature(function: HandlerFunction, where: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidInput(f"{where} does not say which parameters it has. Wrap it in a function that does.") from None


def _check_positional(signature: inspect.Signature, where: str) -> None:
    try:
        signature.bind(None, None, None)
    except TypeError:
        raise InvalidInput(f"{where} must take (user_id, device_id, agent_id); it takes {signature}.") from None


def _check_importable(function: HandlerFunction, where: str) -> None:
    qualname = getattr(function, "__qualname__", "<")
    if "<" in qualname or getattr(function, "__self__", None) is not None:
        raise InvalidInput(
            f"{where} runs in a process of its own, which must find it. Define it at the top of a module."
        )


def _name_of(function: object) -> str:
    return str(getattr(function, "__qualname__", None) or repr(function))
