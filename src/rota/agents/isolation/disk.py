"""How large a folder is, without following anything out of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["MAX_ENTRIES", "is_larger_than"]

MAX_ENTRIES: Final = 200_000
"""A folder with more entries counts as too large: looking at it would take longer than it is worth."""


def is_larger_than(folder: Path, most: int) -> bool:
    """Whether the files below a folder take more than `most` bytes on the disk.

    What cannot be looked into (a folder that its owner closed to itself, a path longer than the system takes) counts as
    too large: nothing is to be hidden there.
    """
    total = entries = 0
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    entries += 1
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # the agent is at work here
                    total += status.st_blocks * 512
                    if total > most or entries > MAX_ENTRIES:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return True
    return False
