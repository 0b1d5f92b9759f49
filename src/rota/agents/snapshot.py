"""`current_tasks.json`: what a group's agent may know about schedules, in its folder before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from rota.agents.folders import write_file
from rota.agents.record import AgentSchedule

__all__ = ["SNAPSHOT", "snapshot_of", "write_snapshot"]

SNAPSHOT: Final = "current_tasks.json"


def snapshot_of(schedules: Sequence[AgentSchedule], group: str, *, is_main: bool) -> list[dict[str, object]]:
    """Seed 001's rows: main sees all, every other group its own."""
    return [
        {
            "id": one.id,
            "groupFolder": one.group_folder,
            "prompt": one.prompt,
            "schedule_type": one.schedule_type,
            "schedule_value": one.schedule_value,
            "status": one.status,
            "next_run": one.next_run,
        }
        for one in schedules
        if is_main or one.group_folder == group
    ]


def write_snapshot(
    folder: Path, schedules: Sequence[AgentSchedule], group: str, *, is_main: bool, uid: int | None
) -> None:
    """Write it: whoever reads it meanwhile sees the old one or the new one, whole."""
    rows = snapshot_of(schedules, group, is_main=is_main)
    write_file(folder, SNAPSHOT, msgspec.json.encode(rows), uid=uid)
