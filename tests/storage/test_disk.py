"""storage/disk.py: what the one door to the disk promises, with folder descriptors and without."""

from __future__ import annotations

import errno
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_chat.errors import AgentChatError
from agent_chat.storage import disk, sweep

needs_links = pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="needs symbolic links")
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")


@pytest.fixture(params=["descriptors", "paths"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[disk.Folder]:
    """A folder opened as on POSIX, and as on Windows, where there are no folder descriptors."""
    if request.param == "paths":
        monkeypatch.setattr(disk, "HAS_FOLDER_DESCRIPTORS", False)
    elif not disk.HAS_FOLDER_DESCRIPTORS:
        pytest.skip("this system has no folder descriptors")
    (tmp_path / "ch").mkdir()
    with disk.Folder.open(str(tmp_path / "ch")) as opened:
        assert (opened.fd is None) == (request.param == "paths")
        yield opened


@pytest.fixture
def path(folder: disk.Folder) -> Path:
    return Path(folder.path)


def temporaries(folder: disk.Folder) -> list[str]:
    found = os.path.join(folder.path, disk.TMP)
    return os.listdir(found) if os.path.isdir(found) else []


def code_of(call: Any, *arguments: Any) -> str:
    with pytest.raises(AgentChatError) as caught:
        call(*arguments)
    return caught.value.code


# ---- publish --------------------------------------------------------------------------------------


def test_publish_makes_a_whole_file_and_leaves_no_temporary(folder: disk.Folder, path: Path) -> None:
    folder.publish("a.md", b"hello\n")
    assert (path / "a.md").read_bytes() == b"hello\n"
    assert temporaries(folder) == []


def test_publish_never_replaces(folder: disk.Folder, path: Path) -> None:
    folder.publish("a.md", b"first\n")
    with pytest.raises(FileExistsError):
        folder.publish("a.md", b"second\n")
    assert (path / "a.md").read_bytes() == b"first\n"
    assert temporaries(folder) == []


@needs_links
@pytest.mark.parametrize("target", ["outside", "nowhere"])
def test_publish_onto_a_link_is_refused_and_nothing_outside_changes(
    folder: disk.Folder, path: Path, tmp_path: Path, target: str
) -> None:
    (tmp_path / "outside").write_bytes(b"theirs")
    (path / "a.md").symlink_to(tmp_path / target)
    with pytest.raises(FileExistsError):
        folder.publish("a.md", b"ours\n")
    assert (tmp_path / "outside").read_bytes() == b"theirs" and not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL])
def test_publish_renames_where_hard_links_do_not_work(
    folder: disk.Folder, path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def no_links(*names: str, **folders: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", no_links)
    folder.publish("a.md", b"one\n")
    with pytest.raises(FileExistsError):
        folder.publish("a.md", b"two\n")
    assert (path / "a.md").read_bytes() == b"one\n"
    assert temporaries(folder) == []


def test_publish_takes_a_link_that_worked_but_said_exists_as_done(
    folder: disk.Folder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS: the answer was lost, the client asked again and found its own link."""
    real = os.link

    def lost_answer(*names: str, **folders: Any) -> None:
        real(*names, **folders)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", lost_answer)
    folder.publish("a.md", b"one\n")
    assert (path / "a.md").read_bytes() == b"one\n"


def test_publish_of_something_else_under_that_name_is_still_refused(
    folder: disk.Folder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path / "a.md").write_bytes(b"theirs\n")
    with pytest.raises(FileExistsError):
        folder.publish("a.md", b"ours\n")
    assert (path / "a.md").read_bytes() == b"theirs\n"


def test_publish_that_runs_out_of_space_leaves_nothing(
    folder: disk.Folder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        folder.publish("a.md", b"one\n")
    monkeypatch.undo()
    assert os.listdir(path) in ([disk.TMP], []) and temporaries(folder) == []


def test_publish_says_not_durable_when_only_the_folder_could_not_be_synced(
    folder: disk.Folder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if folder.fd is None:
        pytest.skip("folders without descriptors cannot be synced")
    folder.publish("before.md", b"")  # so that .tmp/ is there
    real = os.fsync

    def failing(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        real(fd)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(disk.NotDurable):
        folder.publish("a.md", b"one\n")
    assert (path / "a.md").read_bytes() == b"one\n"
    assert temporaries(folder) == []


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_cannot_sync_folders_is_no_failure(
    folder: disk.Folder, path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def only_files(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", only_files)
    folder.publish("a.md", b"one\n")
    assert (path / "a.md").exists()


def test_the_file_is_synced_before_it_is_named_and_the_folder_after(
    folder: disk.Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    if folder.fd is None:
        pytest.skip("folders without descriptors cannot be synced")
    folder.publish("before.md", b"")  # so that .tmp/ is there
    done: list[str] = []
    sync, link = os.fsync, os.link
    monkeypatch.setattr(
        os, "fsync", lambda fd: done.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file") or sync(fd)
    )
    monkeypatch.setattr(os, "link", lambda *a, **k: done.append("link") or link(*a, **k))
    monkeypatch.setattr(disk, "durable", True)
    folder.publish("a.md", b"one\n")
    assert done == ["file", "link", "folder"]
    done.clear()
    monkeypatch.setattr(disk, "durable", False)  # $AGENT_CHAT_FSYNC=0
    folder.publish("b.md", b"one\n")
    assert done == ["link"]


def test_a_short_write_goes_on(folder: disk.Folder, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:3]))
    folder.publish("a.md", b"0123456789\n")
    assert (path / "a.md").read_bytes() == b"0123456789\n"


def test_the_mode_of_a_file_follows_the_umask(folder: disk.Folder, path: Path) -> None:
    if os.name == "nt":
        pytest.skip("needs POSIX modes")
    before = os.umask(0o027)
    try:
        folder.publish("a.md", b"one\n")
        folder.replace("b", b"one\n")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((path / name).stat().st_mode) for name in ("a.md", "b")] == [0o640, 0o640]


# ---- replace, prepare ------------------------------------------------------------------------------


def test_replace_makes_and_replaces(folder: disk.Folder, path: Path) -> None:
    folder.replace("x", b"1\n")
    folder.replace("x", b"2\n", sync=False)
    assert (path / "x").read_bytes() == b"2\n" and temporaries(folder) == []


@needs_links
def test_replace_refuses_a_link_and_leaves_its_target(folder: disk.Folder, path: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"theirs")
    (path / "x").symlink_to(tmp_path / "outside")
    assert code_of(folder.replace, "x", b"ours") == "STORAGE_LINK_REFUSED"
    assert (path / "x").is_symlink() and (tmp_path / "outside").read_bytes() == b"theirs"
    assert temporaries(folder) == []


def test_replace_refuses_a_folder(folder: disk.Folder, path: Path) -> None:
    (path / "x").mkdir()
    assert code_of(folder.replace, "x", b"ours") == "STORAGE_NOT_A_FILE"


def test_what_is_prepared_and_discarded_never_happened(folder: disk.Folder, path: Path) -> None:
    folder.replace("x", b"old\n")
    with folder.prepare("x", b"new\n"):
        assert (path / "x").read_bytes() == b"old\n" and len(temporaries(folder)) == 1
    assert (path / "x").read_bytes() == b"old\n" and temporaries(folder) == []


def test_what_is_prepared_is_put_in_place_by_one_rename(folder: disk.Folder, path: Path) -> None:
    with folder.prepare("x", b"new\n") as temporary:
        temporary.rename_to(folder, "x")
    assert (path / "x").read_bytes() == b"new\n" and temporaries(folder) == []


# ---- reading: what is no regular file is never waited for and never followed -------------------------


def test_read_gives_the_bytes(folder: disk.Folder, path: Path) -> None:
    (path / "x").write_bytes(b"\x00\xff\r\n")
    assert folder.read("x") == b"\x00\xff\r\n"
    with pytest.raises(FileNotFoundError):
        folder.read("y")


def test_read_is_bounded(folder: disk.Folder, path: Path) -> None:
    (path / "x").write_bytes(b"a" * 11)
    assert code_of(folder.read, "x", 10) == "STORAGE_TOO_LARGE"
    assert folder.read("x", 11) == b"a" * 11


def test_a_file_that_grows_while_it_is_read_stays_bounded(
    folder: disk.Folder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path / "x").write_bytes(b"a" * 4)
    real = os.read

    def growing(fd: int, count: int) -> bytes:
        with open(path / "x", "ab") as more:
            more.write(b"b" * 4)
        return real(fd, count)

    monkeypatch.setattr(os, "read", growing)
    assert len(folder.read("x", 20)) <= 20


@needs_links
@pytest.mark.parametrize("target", ["../outside", "nowhere", "x"])
def test_read_refuses_links(folder: disk.Folder, path: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "outside").write_bytes(b"secret")
    (path / "x").symlink_to(target)  # the last of these points to itself
    assert code_of(folder.read, "x") == "STORAGE_LINK_REFUSED"


@needs_pipes
@pytest.mark.parametrize("call", ["read", "open_lock", "append"])
def test_a_pipe_is_refused_at_once(folder: disk.Folder, path: Path, call: str) -> None:
    os.mkfifo(path / "x")
    started = time.monotonic()
    arguments = [b"line\n"] if call == "append" else []
    assert code_of(getattr(folder, call), "x", *arguments) == "STORAGE_NOT_A_FILE"
    assert time.monotonic() - started < 1


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets")
def test_a_socket_and_a_folder_are_refused(folder: disk.Folder, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path)  # the path of a socket may have 108 bytes
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s")
        assert code_of(folder.read, "s") == "STORAGE_NOT_A_FILE"
    (path / "d").mkdir()
    assert code_of(folder.read, "d") == "STORAGE_NOT_A_FILE"
    assert code_of(folder.open_lock, "d") == "STORAGE_NOT_A_FILE"


@needs_links
def test_no_door_follows_a_link(folder: disk.Folder, path: Path, tmp_path: Path) -> None:
    """Every call that takes a name, on a link to a file and to a folder outside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"theirs\n")
    (path / "file").symlink_to(outside / "f")
    (path / "folder").symlink_to(outside, target_is_directory=True)
    refused = [
        code_of(call, *arguments)
        for call, arguments in (
            (folder.read, ("file",)),
            (folder.replace, ("file", b"x")),
            (folder.prepare, ("file", b"x")),
            (folder.append, ("file", b"x\n")),
            (folder.open_lock, ("file",)),
            (folder.open_lock, ("file", False)),
            (folder.move, ("file", "other")),
            (folder.sub, ("folder",)),
            (folder.sub, ("folder", True)),
            (disk.Folder.open, (str(path / "folder"),)),
        )
    ]
    assert set(refused) == {"STORAGE_LINK_REFUSED"}
    assert folder.create_new("file") is False
    assert folder.remove("file") is True and not (path / "file").is_symlink()  # the link itself
    assert os.listdir(outside) == ["f"] and (outside / "f").read_bytes() == b"theirs\n"


@needs_links
def test_temporaries_never_lie_behind_a_link(folder: disk.Folder, path: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (path / disk.TMP).symlink_to(tmp_path / "outside", target_is_directory=True)
    assert code_of(folder.publish, "a.md", b"x\n") == "STORAGE_LINK_REFUSED"
    assert os.listdir(tmp_path / "outside") == [] and not (path / "a.md").exists()


@needs_links
def test_a_folder_swapped_for_a_link_after_it_was_opened_is_not_entered(
    folder: disk.Folder, path: Path, tmp_path: Path
) -> None:
    if folder.fd is None:
        pytest.skip("only a descriptor holds a folder fast")
    outside = tmp_path / "outside"
    outside.mkdir()
    path.rename(tmp_path / "away")
    path.symlink_to(outside, target_is_directory=True)
    folder.publish("a.md", b"x\n")
    assert os.listdir(outside) == [] and (tmp_path / "away" / "a.md").exists()
    assert folder.is_gone()


def test_a_file_is_no_folder(folder: disk.Folder, path: Path) -> None:
    (path / "x").write_bytes(b"")
    assert code_of(folder.sub, "x") == "STORAGE_NOT_A_FILE"
    assert code_of(folder.sub, "x", True) == "STORAGE_NOT_A_FILE"
    with pytest.raises(FileNotFoundError):
        folder.sub("y")


def test_a_folder_that_another_process_makes_first_is_used(
    folder: disk.Folder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir

    def quicker(name: Any, *rest: Any, **more: Any) -> None:
        real(path / "sub")
        real(name, *rest, **more)

    monkeypatch.setattr(os, "mkdir", quicker)
    with folder.sub("sub", create=True) as made:
        assert made.names() == []


# ---- the small ones -----------------------------------------------------------------------------------


def test_create_new_is_exclusive(folder: disk.Folder, path: Path) -> None:
    assert folder.create_new("n") is True
    assert folder.create_new("n") is False
    assert (path / "n").read_bytes() == b""


@pytest.mark.parametrize(
    "before, after",
    [(b"", b"new\n"), (b"old\n", b"old\nnew\n"), (b"old\nto", b"old\nto\nnew\n"), (b"\n", b"\nnew\n")],
    ids=["empty", "whole", "torn", "blank"],
)
def test_append_closes_a_torn_line_first(folder: disk.Folder, path: Path, before: bytes, after: bytes) -> None:
    (path / "log").write_bytes(before)
    folder.append("log", b"new\n")
    assert (path / "log").read_bytes() == after


def test_append_makes_the_file(folder: disk.Folder, path: Path) -> None:
    folder.append("log", b"new\n")
    assert (path / "log").read_bytes() == b"new\n"


def test_move_renames_a_file_once(folder: disk.Folder, path: Path) -> None:
    (path / "a").write_bytes(b"x")
    folder.move("a", "b")
    with pytest.raises(FileNotFoundError):
        folder.move("a", "c")
    (path / "a").write_bytes(b"y")
    with pytest.raises(FileExistsError):
        folder.move("a", "b")
    (path / "d").mkdir()
    assert code_of(folder.move, "d", "e") == "STORAGE_NOT_A_FILE"
    assert (path / "b").read_bytes() == b"x"


def test_remove_says_whether_there_was_one(folder: disk.Folder, path: Path) -> None:
    (path / "a").write_bytes(b"x")
    assert (folder.remove("a"), folder.remove("a")) == (True, False)
    (path / "d").mkdir()
    folder.remove_folder("d")
    assert not (path / "d").exists()


def test_a_stamp_changes_when_an_entry_comes(folder: disk.Folder, path: Path) -> None:
    before = folder.stamp()
    time.sleep(0.02)
    folder.create_new("a")
    assert folder.stamp() != before


def test_a_removed_or_replaced_folder_is_gone(folder: disk.Folder, path: Path) -> None:
    assert not folder.is_gone()
    path.rmdir()
    assert folder.is_gone()
    if folder.fd is not None:
        path.mkdir()
        assert folder.is_gone(), "another folder under this name is not this one"


def test_the_sweep_takes_old_temporaries_only(folder: disk.Folder, path: Path) -> None:
    (path / disk.TMP).mkdir()
    for name, age in (("old", sweep.STALE + 60), ("young", 60), ("future", -60)):
        (path / disk.TMP / name).write_bytes(b"")
        os.utime(path / disk.TMP / name, (time.time() - age,) * 2)
    (path / disk.TMP / "folder").mkdir()
    os.utime(path / disk.TMP / "folder", (0, 0))
    sweep.sweep_temporaries(folder)
    assert sorted(os.listdir(path / disk.TMP)) == ["folder", "future", "young"]


def test_folders_below_the_home_are_private(tmp_path: Path) -> None:
    if os.name == "nt":
        pytest.skip("needs POSIX modes")
    before = os.umask(0o022)
    try:
        disk.make_folders(str(tmp_path / "home" / "chat" / "x"), str(tmp_path / "home"))
        disk.make_folders(str(tmp_path / "homework" / "x"), str(tmp_path / "home"))
    finally:
        os.umask(before)
    modes = {
        name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("home/chat", "home/chat/x", "homework/x")
    }
    assert modes == {"home/chat": 0o700, "home/chat/x": 0o700, "homework/x": 0o755}


def test_make_folders_refuses_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(OSError):
        disk.make_folders(str(tmp_path / "f"))
    with pytest.raises(OSError):
        disk.make_folders(str(tmp_path / "f" / "x"))


# ---- Windows, by injection ---------------------------------------------------------------------------


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[disk.Folder]:
    monkeypatch.setattr(disk, "HAS_FOLDER_DESCRIPTORS", False)
    monkeypatch.setattr(disk, "WINDOWS", True)
    monkeypatch.setattr(disk, "SHARING_PATIENCE", 0.2)
    with disk.Folder.open(str(tmp_path)) as opened:
        yield opened


def held_open(times: int) -> Any:
    """os.replace, os.unlink of a file that a virus scanner still holds open for so many calls."""

    def wrap(real: Any) -> Any:
        def call(*names: str) -> None:
            nonlocal times
            times -= 1
            if times >= 0:
                raise PermissionError(errno.EACCES, "The process cannot access the file")
            real(*names)

        return call

    return wrap


@pytest.mark.parametrize("call", ["replace", "unlink", "rename"])
def test_a_file_that_a_scanner_holds_open_is_tried_again(
    windows: disk.Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    windows.replace("a", b"1\n")
    monkeypatch.setattr(os, call, held_open(5)(getattr(os, call)))
    if call == "replace":
        windows.replace("a", b"2\n")
        assert (tmp_path / "a").read_bytes() == b"2\n"
    elif call == "unlink":
        assert windows.remove("a") is True and not (tmp_path / "a").exists()
    else:
        windows.move("a", "b")
        assert (tmp_path / "b").exists()


def test_a_file_that_stays_open_is_an_error_after_a_while(
    windows: disk.Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows.replace("a", b"1\n")
    monkeypatch.setattr(os, "replace", held_open(1_000_000)(os.replace))
    started = time.monotonic()
    with pytest.raises(PermissionError):
        windows.replace("a", b"2\n")
    assert 0.2 <= time.monotonic() - started < 5
    assert (tmp_path / "a").read_bytes() == b"1\n" and os.listdir(tmp_path / disk.TMP) == []


@needs_links
def test_links_are_looked_for_beforehand_on_windows(
    windows: disk.Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no O_NOFOLLOW there."""
    monkeypatch.setattr(disk, "_SAFE", getattr(os, "O_CLOEXEC", 0))
    (tmp_path / "outside").write_bytes(b"secret")
    (tmp_path / "x").symlink_to("outside")
    assert code_of(windows.read, "x") == "STORAGE_LINK_REFUSED"
    assert code_of(windows.replace, "x", b"y") == "STORAGE_LINK_REFUSED"
    assert (tmp_path / "outside").read_bytes() == b"secret"
