"""A group's folder: its name, its path, its owner, and writing into it although an agent writes there too.

An agent owns what lies in its folder, symbolic links included. So nothing here follows a link: the folder is opened
once, and every file is made, filled and moved into place by that handle.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Generator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rota.errors import InvalidInput
from rota.private_files import make_folder

__all__ = [
    "UID_BASE",
    "check_folder",
    "folder_path",
    "make_groups_folder",
    "prepare_folder",
    "remove_file",
    "uid_of",
    "write_file",
]

UID_BASE: Final = 1_900_000_000
# The kernel's largest user id is far above; distributions and container managers hand out none from here on.
_FOLDER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
RESERVED: Final = frozenset({"global", "con", "nul", "aux", "prn"})


def check_folder(name: str) -> str:
    """The name, if it can be nothing but one folder below the groups' folder."""
    if not _FOLDER.fullmatch(name) or name.lower() in RESERVED:
        raise InvalidInput(
            f"The group folder {name[:80]!r} is not allowed. Use 1 to 64 letters, digits, '-' and '_', beginning with"
            " a letter or digit, e.g. 'family-chat'."
        )
    return name


def folder_path(groups_dir: Path, name: str) -> Path:
    """Where a group's folder is. A link, or anything that leads out of `groups_dir`, is refused."""
    path = groups_dir.resolve() / check_folder(name)
    _is_made(path)
    return path


def _is_made(path: Path) -> bool:
    """Whether there is a folder; what else has its name is refused. All above it is resolved, and it is one name, so it
    alone could be a link."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(mode):
        raise InvalidInput(f"The group folder {path.name!r} is a link that leads elsewhere. Put a real folder there.")
    if not stat.S_ISDIR(mode):
        raise InvalidInput(f"The group folder {path.name!r} is a file. Move it away.")
    return True


def uid_of(number: int, base: int | None = UID_BASE) -> int | None:
    """The user that a group's agents run as, who owns its folder; None: Rota's own."""
    return None if base is None or os.geteuid() != 0 else base + number


def make_groups_folder(groups_dir: Path) -> None:
    """The folder of all groups' folders. Root's groups have users of their own, who must get through."""
    make_folder(groups_dir, 0o711 if os.geteuid() == 0 else 0o700)


def prepare_folder(
    groups_dir: Path, name: str, uid: int | None, *, files: Mapping[str, bytes] = MappingProxyType({})
) -> Path:
    """The folder, made if it is not there, owned by the group's user and closed to everybody else, with these files."""
    path = groups_dir.resolve() / check_folder(name)
    if not _is_made(path):
        make_groups_folder(groups_dir)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
    with _opened(path) as folder:
        if uid is not None:
            os.fchown(folder, uid, uid)
        for file, content in files.items():
            if not _is_there(folder, file, content, uid):
                _put_file(folder, file, content, uid, 0o600)
    return path


def write_file(path: Path, name: str, content: bytes, *, uid: int | None = None, mode: int = 0o600) -> None:
    """Put a file into the folder: whole or not at all, in place of whatever has its name."""
    with _opened(path) as folder:
        _put_file(folder, name, content, uid, mode)


def _is_there(folder: int, name: str, content: bytes, uid: int | None) -> bool:
    """Whether a file of ours is there as we would write it. To look is cheaper than to write; what lies there may be
    the agent's own, so nothing is taken for granted: neither that it is a file, nor whose it is, nor its content."""
    try:
        # What is no file, but a pipe, must not keep us waiting.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    try:
        found = os.fstat(file)
        is_ours = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o600 and found.st_nlink == 1
        if not is_ours or found.st_size != len(content) or found.st_uid != (os.geteuid() if uid is None else uid):
            return False
        return os.read(file, len(content) + 1) == content
    finally:
        os.close(file)


def _put_file(folder: int, name: str, content: bytes, uid: int | None, mode: int) -> None:
    temporary = f".{name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    file = os.open(temporary, flags, mode, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            if uid is not None:
                os.fchown(stream.fileno(), uid, uid)
        try:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except IsADirectoryError:
            # A folder in its place is not ours to empty, and no reason that nothing is written any more.
            os.rename(name, f"{name}.{secrets.token_hex(4)}", src_dir_fd=folder, dst_dir_fd=folder)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def remove_file(path: Path, name: str) -> None:
    """Take a file out of the folder; nothing if it is gone, or has become a folder."""
    with contextlib.suppress(FileNotFoundError, IsADirectoryError, PermissionError), _opened(path) as folder:
        os.unlink(name, dir_fd=folder)


@contextlib.contextmanager
def _opened(path: Path) -> Generator[int]:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)
