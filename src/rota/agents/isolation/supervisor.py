"""The process between Rota and one agent: whatever happens to either, nothing of the agent is left behind.

It is started by its path, with nothing but the standard library, and told what to run in one JSON line on the
*lifeline*, a pipe whose other end only Rota holds. When that end is closed, because Rota asks for the end or because
Rota itself was killed, the agent is told to stop and then ended. It adopts every process that the agent leaves behind
(`PR_SET_CHILD_SUBREAPER`), so that a daemon which has left the agent's session and process group is still found.

Limits are set in the child, before the agent's program is loaded. How it ended is one JSON line on the status pipe.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from typing import Any, NoReturn, cast

__all__ = ["main"]

SUBREAPER = 36
NO_NEW_PRIVILEGES = 38
PARENT_DEATH_SIGNAL = 1
CLEANUP_SECONDS = 20.0
SWEEP_SECONDS = 10.0
"""How long ending what is left may take before the supervisor gives up and says so."""

_THREADS = 17
"""Where `/proc/<pid>/stat` has the number of threads, counted from the field after the name."""

Spec = dict[str, Any]
# Signal numbers wake the loop through this pipe; a handler that does nothing is enough.
_wake_read, _wake_write = -1, -1


def main(lifeline: int, status: int) -> int:
    """Run one spec to its end."""
    os.set_inheritable(lifeline, False)
    os.set_inheritable(status, False)
    spec = _read_spec(lifeline)
    if spec is None:
        return 1  # Rota was gone before it had said anything
    _control(SUBREAPER, 1)
    _listen()
    agent = _start(spec, status)
    # The agent's ends of the pipes are its own: the supervisor must not keep them open.
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    try:
        cause, code = _watch(agent, lifeline, spec)
        left = _sweep(spec)
    except BaseException:
        # Whatever went wrong here, the agent must not gain by it.
        _kill(_descendants(), signal.SIGKILL)
        raise
    _clean_up(spec)
    _say(status, _report(cause, code, left))
    return 0


def _read_spec(lifeline: int) -> Spec | None:
    text = b""
    while not text.endswith(b"\n"):
        part = os.read(lifeline, 65_536)
        if not part:
            return None
        text += part
    return cast("Spec", json.loads(text))


def _listen() -> None:
    global _wake_read, _wake_write
    _wake_read, _wake_write = os.pipe()
    os.set_blocking(_wake_read, False)
    os.set_blocking(_wake_write, False)
    signal.set_wakeup_fd(_wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    # Only the lifeline decides: a signal to Rota's whole group must not leave the agent without its supervisor.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


# --- the child -------------------------------------------------------------------------------------------------------


def _start(spec: Spec, status: int) -> int:
    supervisor = os.getpid()
    agent = os.fork()
    if agent == 0:
        _become(spec, status, supervisor)
    return agent


def _become(spec: Spec, status: int, supervisor: int) -> NoReturn:
    """Turn this copy into the agent: own session, limits, another user if asked, then its program."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.umask(0o022)  # the folders on the way into a sandbox are made with it, and must be passable
        for name, value in spec["limits"].items():
            _limit(getattr(resource, name), value)
        if spec["processes"] is not None:
            _limit(resource.RLIMIT_NPROC, _tasks_of(os.getuid()) + spec["processes"])
        if spec["uid"] is not None:
            os.setgroups([])
            os.setresgid(spec["uid"], spec["uid"], spec["uid"])
            os.setresuid(spec["uid"], spec["uid"], spec["uid"])
        if not spec["is_privileged"]:
            _control(NO_NEW_PRIVILEGES, 1)
        # After the change of user, which would clear it.
        _control(PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)
        os.chdir(spec["cwd"])
        os.execve(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606  # there is no shell, and that is the point
    except BaseException as error:  # whatever it is, the copy must end here and say why
        _say(status, {"error": f"{type(error).__name__}: {error}"})
    os._exit(127)


def _limit(number: int, value: int) -> None:
    """At most `value`, and never more than this process itself may have."""
    _, hard = resource.getrlimit(number)
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (most, most))


def _tasks_of(uid: int) -> int:
    """How many processes and threads a user has now: the kernel counts them together."""
    count = 0
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():  # noqa: PTH208, PTH112  # pathlib costs time
        try:
            if entry.isdigit() and os.stat(f"/proc/{entry}").st_uid == uid:  # noqa: PTH116
                count += len(os.listdir(f"/proc/{entry}/task"))  # noqa: PTH208
        except OSError:
            continue  # it has just ended
    return count


def _control(option: int, value: int) -> None:
    """`prctl`, which Python has no name for. Elsewhere than on Linux there is none."""
    if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")


# --- watching it -----------------------------------------------------------------------------------------------------


def _watch(agent: int, lifeline: int, spec: Spec) -> tuple[str, int]:
    """Until the agent ends, Rota lets go, or its time is up. Answers why, and the status that `wait` gave."""
    deadline = time.monotonic() + spec["wall_ms"] / 1_000
    cause = "ended"
    while (code := _reap(agent)) is None:
        now = time.monotonic()
        if now >= deadline and cause != "ended":
            _kill(_descendants(), signal.SIGKILL)
            deadline = now + 1
            continue
        ready, _, _ = select.select(_sources(lifeline, cause), [], [], max(0.0, deadline - now))
        if _wake_read in ready:
            _drain()
        is_over = time.monotonic() >= deadline
        if cause == "ended" and (is_over or (lifeline in ready and not os.read(lifeline, 4_096))):
            cause = "wall" if is_over else "asked"
            _ask_to_end(spec)
            deadline = time.monotonic() + spec["grace_ms"] / 1_000
    return cause, code


def _sources(lifeline: int, cause: str) -> list[int]:
    return [lifeline, _wake_read] if cause == "ended" else [_wake_read]


def _drain() -> None:
    try:
        while os.read(_wake_read, 4_096):
            pass
    except BlockingIOError:
        return


def _reap(agent: int) -> int | None:
    """Wait for every child that has ended; the status of the agent's own process, if it is among them."""
    found: int | None = None
    while True:
        try:
            pid, code = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == agent:
            found = code


def _ask_to_end(spec: Spec) -> None:
    """Politely. The wrapper of a sandbox is spared: it would take the sandbox down at once."""
    _kill([pid for pid in _descendants() if not _is_wrapper(pid, spec)], signal.SIGTERM)


def _sweep(spec: Spec) -> int:
    """End everything that is left of the agent; how many processes that were, without the sandbox's own."""
    seen: set[int] = set()
    left = 0
    until = time.monotonic() + SWEEP_SECONDS
    while (alive := _descendants()) and time.monotonic() < until:
        # A stopped process cannot fork: without this a fork bomb makes new ones as fast as they are ended.
        while fresh := [pid for pid in alive if pid not in seen]:
            _kill(fresh, signal.SIGSTOP)
            seen.update(fresh)
            left += sum(not _is_wrapper(pid, spec) for pid in fresh)
            alive = _descendants()
        _kill(alive, signal.SIGKILL)
        _reap(-1)
        time.sleep(0.005)
    _reap(-1)
    return left


def _descendants() -> list[int]:
    """Every living process below this one, also those that have left the agent's session."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():  # noqa: PTH208, PTH112  # pathlib costs time
        if entry.isdigit() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _parent(pid: str) -> int | None:
    """The parent of a process; None if it has ended (a zombie has: it only waits to be waited for)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            # The name in parentheses may contain anything, also parentheses.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    state, parent, threads = fields[0], int(fields[1]), int(fields[_THREADS])
    # A process whose first thread has ended looks like a zombie, and lives on in the others.
    is_over = state == b"X" or (state == b"Z" and threads <= 1)
    return None if is_over else parent


def _is_wrapper(pid: int, spec: Spec) -> bool:
    """Whether it is the process that holds the sandbox. An agent's process may have any bytes as its name."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:  # noqa: PTH123
            return spec["wrapper"] != "" and file.read().rstrip(b"\n") == spec["wrapper"].encode()
    except OSError:
        return False


def _kill(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # it has ended by itself, or is the wrapper's own privileged helper, which ends with it


# --- the end ---------------------------------------------------------------------------------------------------------


def _clean_up(spec: Spec) -> None:
    """What lives elsewhere, a container say, is removed by its own command, also after Rota's death."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for argv in spec["cleanup"]:
        try:
            subprocess.run(  # noqa: S603  # argv comes from the runner, never from an agent
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=CLEANUP_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue  # the report says how the agent ended; a container that cannot be removed shows in the runtime


def _report(cause: str, code: int, left: int) -> dict[str, object]:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cause": cause,
        "exit": os.WEXITSTATUS(code) if os.WIFEXITED(code) else None,
        "signal": os.WTERMSIG(code) if os.WIFSIGNALED(code) else None,
        "left": left,
        "cpu_ms": round((used.ru_utime + used.ru_stime) * 1_000),
        "memory_kib": used.ru_maxrss,
    }


def _say(status: int, report: dict[str, object]) -> None:
    try:
        os.write(status, json.dumps(report).encode() + b"\n")
    except OSError:
        return  # Rota is gone: nobody is left to be told


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
