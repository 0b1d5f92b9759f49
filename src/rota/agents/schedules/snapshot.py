"""`current_tasks.json`: what a group's agent may know about schedules, in its folder before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from rota.agents.groups import Group
from rota.agents.schedules.agent_task import next_run_of, payload_of, status_of, value_of
from rota.agents.schedules.listing import Zones
from rota.agents.schedules.origins import Origin
from rota.clock import Instant, isoformat
from rota.core.task import Task
from rota.errors import InvalidInput
from rota.logs import get_logger
from rota.triggers import decode_trigger

__all__ = ["SNAPSHOT", "snapshot_of"]

SNAPSHOT: Final = "current_tasks.json"

_log = get_logger("rota.agents")

Row = dict[str, object]


def snapshot_of(tasks: Sequence[Task], waiting: Sequence[Origin], zones: Zones, group: Group) -> bytes:
    """The rows of the schedules, and after them what waits for approval: main sees all, every other group its own."""
    rows = [
        _row(task.key, task.payload, task.trigger, zones.of(task.owner or ""), status_of(task), next_run_of(task))
        for task in tasks
    ]
    known = {task.key for task in tasks}
    for one in waiting:
        asked = one.proposal
        if asked is not None and one.id not in known:
            zone = zones.of(one.folder)
            rows.append(_row(one.id, asked.payload, asked.trigger, zone, "waiting_for_approval", None))
    seen = [row for row in rows if row is not None and (group.is_main or row["groupFolder"] == group.folder)]
    return msgspec.json.encode(seen)


def _row(
    schedule_id: str, payload: str | None, trigger: str | None, timezone: str, status: str, next_at: Instant | None
) -> Row | None:
    try:
        does = payload_of(payload)
    except InvalidInput as error:
        # Somebody's own payload in this type: its run says what is wrong; the others' must not fail for it.
        _log.warning("agent schedule cannot be shown", schedule=schedule_id, error=str(error))
        return None
    due = None if trigger is None else decode_trigger(trigger)
    return {
        "id": schedule_id,
        "groupFolder": does.group_folder,
        "prompt": does.prompt,
        "schedule_type": "once" if due is None else due.kind,
        "schedule_value": "" if due is None else value_of(due, does.timezone or timezone),
        "status": status,
        "next_run": isoformat(next_at),
    }
