"""Names that lead nowhere but into one folder, and writing where somebody else sets traps."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.agents.group_folders import check_folder, folder_path, prepare_folder, remove_file, write_file
from rota.errors import InvalidInput

HOSTILE = ["", ".", "..", "../x", "a/b", "/etc", "a\\b", "a\0b", "-rf", "_x", ".hidden", "a b", "ä", "x" * 65, "global"]


@pytest.mark.parametrize("name", [*HOSTILE, "CON", "a\n", "~", "$HOME", "a;b", "%2e%2e"])
def test_names_that_are_no_folder_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="family-chat"):
        check_folder(name)


@given(st.text(max_size=70))
def test_a_name_that_is_taken_lies_directly_below(name: str) -> None:
    try:
        path = folder_path(Path("/groups"), name)
    except InvalidInput:
        return
    assert path.parent == Path("/groups")
    assert path.name == name


def test_a_link_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    for target in ("/etc", "inside", "nowhere"):
        (tmp_path / "group").symlink_to(target)
        with pytest.raises(InvalidInput, match="link"):
            prepare_folder(tmp_path, "group", None)
        (tmp_path / "group").unlink()


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "group").write_text("x")
    with pytest.raises(InvalidInput, match="is a file"):
        prepare_folder(tmp_path, "group", None)


def test_the_folder_is_closed_to_others(tmp_path: Path) -> None:
    path = prepare_folder(tmp_path / "groups", "group", None)
    assert path.stat().st_mode & 0o777 == 0o700
    assert prepare_folder(tmp_path / "groups", "group", None) == path


def test_a_link_that_an_agent_has_set_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    folder = prepare_folder(tmp_path, "group", None)
    (folder / "current_tasks.json").symlink_to(victim)
    write_file(folder, "current_tasks.json", b"[]")
    assert victim.read_text() == "untouched"
    assert not (folder / "current_tasks.json").is_symlink()
    assert [path.name for path in folder.iterdir()] == ["current_tasks.json"]


def test_a_folder_in_the_files_place_is_moved_aside(tmp_path: Path) -> None:
    folder = prepare_folder(tmp_path, "group", None)
    (folder / "current_tasks.json").mkdir()
    (folder / "current_tasks.json" / "mine").write_text("kept")
    write_file(folder, "current_tasks.json", b"[]")
    assert (folder / "current_tasks.json").read_bytes() == b"[]"
    assert [path.read_text() for path in folder.glob("current_tasks.json.*/mine")] == ["kept"]
    assert len(list(folder.iterdir())) == 2, "nothing else lies about"


def test_what_is_not_there_or_is_no_file_is_not_removed(tmp_path: Path) -> None:
    folder = prepare_folder(tmp_path, "group", None)
    (folder / "it").mkdir()
    remove_file(folder, "it")
    remove_file(folder, "gone")
    assert [path.name for path in folder.iterdir()] == ["it"]


def test_a_folder_that_became_a_link_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "group").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"symbolic|directory"):
        write_file(tmp_path / "group", "x", b"")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_whoever_reads_sees_the_old_or_the_new_file_whole(tmp_path: Path) -> None:
    folder = prepare_folder(tmp_path, "group", None)
    write_file(folder, "x", b"old")
    reader = os.open(folder / "x", os.O_RDONLY)
    write_file(folder, "x", b"new and longer")
    assert os.read(reader, 100) == b"old"
    os.close(reader)
    assert (folder / "x").read_bytes() == b"new and longer"


def test_a_file_that_is_as_it_should_be_is_not_written_again(tmp_path: Path) -> None:
    folder = prepare_folder(tmp_path, "group", None, files={"x": b"[1]"})
    first = (folder / "x").stat()
    prepare_folder(tmp_path, "group", None, files={"x": b"[1]"})
    assert (folder / "x").stat().st_ino == first.st_ino
    assert (folder / "x").stat().st_mtime_ns == first.st_mtime_ns
    prepare_folder(tmp_path, "group", None, files={"x": b"[1, 2]"})
    assert (folder / "x").read_bytes() == b"[1, 2]"


def _alter(file: Path) -> None:
    file.write_bytes(b"[9]")


def _open_to_all(file: Path) -> None:
    file.chmod(0o666)


def _hold_by_another_name(file: Path) -> None:
    file.with_name("other").hardlink_to(file)


def _link(file: Path) -> None:
    file.rename(file.with_name("other"))
    file.symlink_to("other")


def _put_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize("trap", [_alter, _open_to_all, _hold_by_another_name, _link, _put_a_pipe, Path.unlink])
def test_whatever_an_agent_has_put_in_its_place_is_replaced(tmp_path: Path, trap: Callable[[Path], None]) -> None:
    file = prepare_folder(tmp_path, "group", None, files={"x": b"[1]"}) / "x"
    trap(file)
    prepare_folder(tmp_path, "group", None, files={"x": b"[1]"})
    found = file.lstat()
    assert stat.S_ISREG(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_nlink == 1
    assert file.read_bytes() == b"[1]"
