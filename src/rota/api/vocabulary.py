"""Names that mean the same wherever they stand: what they say, and an example. A field's own words come first.

The examples are of one story: the memory of the user `u1` is compressed, once a while after they were active.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

__all__ = ["FILTERS", "WORDS", "Word"]


class Word(NamedTuple):
    """What a name says, and a value that shows it."""

    says: str
    example: Any


WORDS: Final[Mapping[str, Word]] = {
    # --- whose, and which ---
    "task_type": Word("The task type.", "memory_compression"),
    "key": Word("The task's key, one of a kind within its type.", "u1:phone:default"),
    "user_key": Word("The key as people know it; the one of a periodic type is `global`.", "u1:phone:default"),
    "user_id": Word("The user that it is for; null: nobody in particular.", "u1"),
    "user": Word("Only those of this user.", "u1"),
    "device_id": Word("The device that the user was on.", "phone"),
    "agent_id": Word("The agent that the user was with.", "default"),
    "owner": Word("Whoever it belongs to: a user, a program, a group of agents.", "billing"),
    "search": Word("A part of the key or of the user's id.", "u1"),
    "run_id": Word("The id of the run.", "1794829516921"),
    "instance": Word("The process that runs it, or has run it.", "app-1:4711:9c2f"),
    "host": Word("The machine that the process is on.", "app-1"),
    "pid": Word("The number of the process on its machine.", 4711),
    "correlation_id": Word("What belongs together has the same one.", "order-77"),
    # --- when ---
    "created_at": Word("When it was made.", "2026-11-19T08:00:00Z"),
    "updated_at": Word("When it changed last.", "2026-11-19T08:30:00Z"),
    "scheduled_at": Word("When it is due.", "2026-11-19T08:30:00Z"),
    "due_at": Word("When it is or was due.", "2026-11-19T08:30:00Z"),
    "fire_at": Word("The moment of its series that it stands for; null without a series.", "2026-11-19T08:30:00Z"),
    "last_fire_at": Word("The last moment of the series that it stands for, if it is more than one.", None),
    "fires": Word("How many moments of the series it stands for.", 1),
    "next_fire": Word("The next moment of its series; null if there is none.", "2026-11-20T08:30:00Z"),
    "started_at": Word("When it began.", "2026-11-19T08:30:00Z"),
    "finished_at": Word("When it ended; null before.", None),
    "ended_at": Word("When it ended; null before.", None),
    "seen_at": Word("When it was heard of last.", "2026-11-19T08:30:05Z"),
    "expires_at": Word("What has not begun by then never does.", "2099-12-31T23:59:00Z"),
    "expires": Word("What has not begun by then never does.", "2099-12-31T23:59:00Z"),
    "lease_until": Word("The run counts as lost if nobody has renewed its lease by then.", None),
    "last_activity_at": Word("When the user was active last.", "2026-11-19T08:00:00Z"),
    "timezone": Word("The zone of wall clock times, by its name in the tz database.", "Europe/Berlin"),
    "duration_ms": Word("How long it took, in milliseconds.", 1250),
    "lease_ms": Word("For how long an instance may be silent before its runs count as lost, in milliseconds.", 60_000),
    # --- how it stands, and what became of it ---
    "payload": Word("What the handler is given: any JSON.", {"days": 7}),
    "priority": Word("From 0 to 10; what has more goes first.", 5),
    "serial": Word("Of the tasks with the same one, at most one runs at a time.", None),
    "attempt": Word("Which attempt it is, from 1 on.", 1),
    "attempts": Word("How often it was tried.", 1),
    "errors": Word("How many attempts in a row have failed.", 0),
    "crashes": Word("How many of its attempts ended with their process.", 0),
    "coalesced": Word("How many activities it stands for beside the first.", 2),
    "reason": Word("Why it is as it is, in a word that programs may switch on; null if nothing is special.", None),
    "error": Word("What went wrong, in a line; null if nothing did.", None),
    "error_class": Word("The class of the error; null without one.", None),
    "result": Word("What the handler returned, as text.", "kept 12 of 40"),
    "progress": Word("What the handler reported last: any JSON.", None),
    "failure": Word("The group of failures that it belongs to.", None),
    "trigger_mode": Word("What makes it due: an activity, a cron expression, another type's end.", "user_activity"),
    "token": Word("The number of the claim: only the newest one of a task may end it.", 243458427685173),
    "summary": Word("The same in a sentence.", "It is due in 25 minutes."),
    "description": Word("What it is for, as its author has said.", "Compresses what a user has said."),
    # --- lists, and many at once ---
    "items": Word("What was found.", None),
    "cursor": Word("What to ask for the next page with; null: this one is the last.", None),
    "limit": Word("At most so many.", 50),
    "matched": Word("How many were meant.", 3),
    "changed": Word("How many were changed.", 3),
    "dry_run": Word("Only count.", True),
    "expected": Word("How many somebody agreed to. If it is another number now, nothing is changed.", 3),
    "all": Word("Every one. To be said, so that nobody means it by leaving a filter out.", False),
    # --- figures ---
    "pending": Word("How many wait.", 12),
    "running": Word("How many run now.", 2),
    "paused": Word("How many are held back.", 0),
    "runs": Word("How many runs there were.", 120),
    "failures": Word("How many runs failed.", 3),
    "failure_rate": Word("The share of the runs that failed, from 0 to 1.", 0.025),
    "late_ms": Word("For how long it has been due, in milliseconds.", 0),
    "late_p50_ms": Word("Half of the runs began within so many milliseconds of being due; null without runs.", 4),
    "late_p99_ms": Word("All but one in a hundred began within so many milliseconds of being due.", 38),
    "concurrency": Word("At most so many run at a time, over all instances; null: as many as there is room for.", 4),
    "max_pending": Word("At most so many wait; what comes then is refused.", 1_000_000),
    "success": Word("Always true: what fails is answered as a problem.", True),
    "data": Word("What was asked for.", None),
    "total_executions": Word("How many runs there were.", 120),
    "recent_failures": Word("The runs that failed last.", None),
}

FILTERS: Final[Mapping[str, str]] = {
    "status": "Only those in this state.",
    "user": "Only those of this user.",
    "owner": "Only those of this owner.",
    "key": "Only those of this key.",
    "user_id": "Only those of this user.",
    "correlation_id": "Only those that belong together by this.",
    "actor": "Only what they have done.",
    "action": "Only this action.",
    "target": "Only what was done to this.",
}
"""What the same name says as a parameter of a list."""
