"""storage/oslock.py: a lock over one file, held by the kernel (cases L2 and L4 too)."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import REPOSITORY

from agent_chat.errors import AgentChatError
from agent_chat.storage import disk, oslock

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the Windows form is not run here")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[disk.Folder]:
    with disk.Folder.open(str(tmp_path)) as opened:
        yield opened


def is_free(folder: disk.Folder, name: str = ".lock", shared: bool = False) -> bool:
    try:
        oslock.hold(folder, name, "probe", 0, shared).release()
    except oslock.Busy:
        return False
    return True


def test_a_lock_is_exclusive_until_it_is_released(folder: disk.Folder) -> None:
    with oslock.hold(folder, ".lock", "alice"):
        assert not is_free(folder)
    assert is_free(folder)


def test_release_twice_is_once(folder: disk.Folder) -> None:
    lock = oslock.hold(folder, ".lock", "alice")
    lock.release()
    descriptor = os.open(os.devnull, os.O_RDONLY)  # it may get the number that the lock had
    lock.release()
    os.fstat(descriptor)
    os.close(descriptor)


def test_different_files_are_different_locks(folder: disk.Folder) -> None:
    with oslock.hold(folder, "a.lock", "alice"), oslock.hold(folder, "b.lock", "alice"):
        pass


def test_shared_holds_exclude_only_an_exclusive_one(folder: disk.Folder) -> None:
    oslock.hold(folder, ".lock", "alice").release()
    with oslock.hold(folder, ".lock", "bob", shared=True), oslock.hold(folder, ".lock", "carol", shared=True):
        assert not is_free(folder)
    with oslock.hold(folder, ".lock", "alice"):
        assert not is_free(folder, shared=True)


def test_a_shared_hold_makes_no_file(folder: disk.Folder, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        oslock.hold(folder, ".lock", "bob", shared=True)
    assert os.listdir(tmp_path) == []


def test_the_note_names_the_holder_and_outlives_no_longer_one(folder: disk.Folder, tmp_path: Path) -> None:
    oslock.hold(folder, ".lock", "a very long name of somebody").release()
    with oslock.hold(folder, ".lock", "bob (pid 7)"):
        assert (tmp_path / ".lock").read_bytes() == b"bob (pid 7)"
        with pytest.raises(oslock.Busy) as caught:
            oslock.hold(folder, ".lock", "carol", 0)
    assert caught.value.holder == "bob (pid 7)"


def test_a_shared_hold_leaves_the_note(folder: disk.Folder, tmp_path: Path) -> None:
    oslock.hold(folder, ".lock", "alice").release()
    oslock.hold(folder, ".lock", "bob", shared=True).release()
    assert (tmp_path / ".lock").read_bytes() == b"alice"


@pytest.mark.parametrize(
    "note, shown",
    [(b"", "an unnamed process"), (b"\x1b[2J\nx", "?[2J?x"), (b"\xff", "?"), (b"n" * 5000, "n" * 200)],
    ids=["empty", "controls", "not ascii", "long"],
)
def test_a_hostile_note_is_shown_printable_and_short(
    folder: disk.Folder, tmp_path: Path, note: bytes, shown: str
) -> None:
    lock = oslock.hold(folder, ".lock", "x")
    (tmp_path / ".lock").write_bytes(note)
    with pytest.raises(oslock.Busy) as caught:
        oslock.hold(folder, ".lock", "bob", 0)
    assert caught.value.holder.replace("\ufffd", "?") == shown
    lock.release()


def test_busy_comes_after_the_patience_and_not_before(folder: disk.Folder) -> None:
    with oslock.hold(folder, ".lock", "alice"):
        started = time.monotonic()
        with pytest.raises(oslock.Busy):
            oslock.hold(folder, ".lock", "bob", 0.3)
    assert 0.3 <= time.monotonic() - started < 3


def test_a_lock_that_changes_hands_is_waited_for_longer(folder: disk.Folder) -> None:
    """Only waiting behind one and the same holder is a hang."""
    step, ready = 0.25, threading.Event()

    def take_turns() -> None:
        for at in range(6):
            with oslock.hold(folder, ".lock", f"holder {at}"):
                ready.set()
                time.sleep(step)

    turns = threading.Thread(target=take_turns)
    turns.start()
    ready.wait(10)
    try:
        oslock.hold(folder, ".lock", "patient", 4 * step).release()  # six steps in all, perhaps
    finally:
        turns.join()


def test_the_lock_of_a_killed_process_is_free_at_once(folder: disk.Folder, tmp_path: Path) -> None:
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from agent_chat.storage import disk, oslock\n"
        "lock = oslock.hold(disk.Folder.open(sys.argv[2]), '.lock', 'doomed')\n"
        "print('held', flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(REPOSITORY), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == "held\n"
        assert not is_free(folder)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert is_free(folder)


def test_a_child_that_inherits_nothing_does_not_keep_the_lock(folder: disk.Folder) -> None:
    """The descriptor is closed on exec: a program started meanwhile must not hold the channel."""
    lock = oslock.hold(folder, ".lock", "alice")
    child = subprocess.Popen(["sleep", "30"], close_fds=False)
    try:
        lock.release()
        assert is_free(folder)
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("age", [-(10**8), 10**8], ids=["from the future", "old"])
def test_the_age_of_a_lock_file_makes_no_difference(folder: disk.Folder, tmp_path: Path, age: int) -> None:
    (tmp_path / ".lock").write_bytes(b"somebody (pid 1)")
    os.utime(tmp_path / ".lock", (time.time() - age,) * 2)
    assert is_free(folder)
    with oslock.hold(folder, ".lock", "alice"):
        os.utime(tmp_path / ".lock", (time.time() - age,) * 2)
        assert not is_free(folder)


def test_a_lock_file_replaced_between_open_and_lock_is_opened_again(
    folder: disk.Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    real, times = fcntl.flock, []

    def replaced_meanwhile(fd: int, how: int) -> None:
        times.append(fd)
        if len(times) == 1:
            (tmp_path / ".lock").unlink()
            (tmp_path / ".lock").write_bytes(b"")
        elif len(times) == 2:
            (tmp_path / ".lock").unlink()
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", replaced_meanwhile)
    lock = oslock.hold(folder, ".lock", "alice")
    assert len(times) == 3
    assert os.path.samestat(os.fstat(lock.fd), os.stat(tmp_path / ".lock"))
    lock.release()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL])
def test_a_file_system_without_locks_says_so(folder: disk.Folder, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    import fcntl

    def none_here(fd: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", none_here)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(oslock.NoLocks):
        oslock.hold(folder, ".lock", "alice")
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert before == after


def test_any_other_failure_of_the_lock_is_an_error(folder: disk.Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def broken(fd: int, how: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", broken)
    with pytest.raises(OSError, match="Input/output"):
        oslock.hold(folder, ".lock", "alice")


def test_a_lock_file_that_is_a_link_or_a_folder_is_refused(folder: disk.Folder, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"theirs")
    (tmp_path / "link").symlink_to("outside")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    codes = {}
    for name in ("link", "dangling", "folder", "pipe"):
        with pytest.raises(AgentChatError) as caught:
            oslock.hold(folder, name, "alice")
        codes[name] = caught.value.code
    refused = {"link": "STORAGE_LINK_REFUSED", "dangling": "STORAGE_LINK_REFUSED"}
    assert codes == {**refused, "folder": "STORAGE_NOT_A_FILE", "pipe": "STORAGE_NOT_A_FILE"}
    assert (tmp_path / "outside").read_bytes() == b"theirs" and not (tmp_path / "nowhere").exists()


def _count(path: str, times: int) -> None:
    with disk.Folder.open(path) as folder:
        for _ in range(times):
            with oslock.hold(folder, ".lock", "counter"):
                value = int(folder.read("count"))
                folder.replace("count", b"%d" % (value + 1), sync=False)


def test_processes_that_count_under_the_lock_lose_no_count(folder: disk.Folder, tmp_path: Path) -> None:
    folder.replace("count", b"0")
    context = multiprocessing.get_context("fork")
    counters = [context.Process(target=_count, args=(str(tmp_path), 40)) for _ in range(4)]
    for counter in counters:
        counter.start()
    for counter in counters:
        counter.join(60)
    assert folder.read("count") == b"160"
