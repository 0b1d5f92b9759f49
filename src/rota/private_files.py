"""Files and folders of Rota's own: closed to every other user from their first moment, whatever the umask.

They hold prompts, secrets of webhooks, what people have said. A file that an older version made, or somebody copied,
may still be open to others: it is closed when it is next used, and that is said. A folder that is there already is its
maker's own, and stays as it is.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from rota.logs import get_logger

__all__ = ["close_to_others", "make_folder", "opener", "prepare_sqlite"]

OTHERS: Final = 0o077
_FILE: Final = 0o600
_BESIDE: Final = ("-wal", "-shm", "-journal")
"""What SQLite puts beside a database, with the mode of the database."""

_log = get_logger("rota.files")


def make_folder(path: Path, mode: int = 0o700) -> None:
    """The folder, and those that are missing on the way to it."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        with suppress(FileExistsError):  # somebody else was faster, and has made it as we would
            folder.mkdir(mode=mode)
            folder.chmod(mode)  # the umask may have taken away what its own user needs; it never adds anything
    path.mkdir(exist_ok=True)  # a file in its place is an error


def opener(path: str, flags: int) -> int:
    """For `open(..., opener=)`: a file that is made is closed to others."""
    return os.open(path, flags | os.O_CLOEXEC, _FILE)


def prepare_sqlite(path: Path) -> None:
    """Before SQLite opens a file: make it, since SQLite itself would do so by the umask; close what is open to others.

    A file that is there is never opened here: closing it would drop the locks that SQLite has on it in this process.
    """
    # SQLite follows links, also to what does not exist yet.
    real = Path(os.path.realpath(path))
    with suppress(OSError):  # it is there; or cannot be made, which SQLite says in its own words
        os.close(os.open(real, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE))
    for file in (real, *(Path(f"{real}{ending}") for ending in _BESIDE)):
        close_to_others(file)


def close_to_others(path: Path) -> None:
    """Take from everybody but its owner what they may do with a file, and say so. It is no error if that fails."""
    mode = _mode_of(path)
    if not mode & OTHERS:
        return
    trouble = "the file system keeps no modes"
    try:
        path.chmod(mode & ~OTHERS)
    except OSError as error:
        trouble = str(error)
    if _mode_of(path) & OTHERS:
        remedy = f"Let its owner run `chmod 600 {path}`, or move it to where nobody else may look."
        _log.warning(
            "a file of Rota's is open to other users", file=str(path), mode=f"{mode:o}", why=trouble, do=remedy
        )
    else:
        _log.warning("a file of Rota's was open to other users and is closed now", file=str(path), mode=f"{mode:o}")


def _mode_of(path: Path) -> int:
    """What may be done with a file; nothing if there is none."""
    try:
        status = path.stat()
    except OSError:
        return 0
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else 0
