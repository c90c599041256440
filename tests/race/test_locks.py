"""Locks whose holder stops, and lock files that are something else."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faults import Child, Fault, pause, run, stop
from scene import assert_sound, message_bytes, read_to_end, shown
from support import Root, make_root

POST = ["post", "c", "--from", "alice", "--title", "held", "--body", "<held> ... </held>"]
OTHER = ["post", "c", "--from", "carol", "--title", "other", "--body", "<other> ... </other>"]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = make_root(tmp_path)
    made.post()
    return made


def test_a_stopped_holder_is_named_and_goes_on_later_without_harm(root: Root) -> None:
    """Case L3, stopped at each of its calls, with a patience of 0.05 s instead of 10 s."""
    refused, n = 0, 1
    while True:
        before = message_bytes(root)
        with Child(root, POST, Fault(stop, n)) as holder:
            is_stopped = holder.is_stopped()
            other = run(root, OTHER, patience=0.05)
            if is_stopped:
                os.kill(holder.pid, signal.SIGCONT)
            assert holder.end().status == 0
        if other.status:
            refused += 1
            assert other.code == "CHANNEL_BUSY", other
            if n > 3:  # before that its note is not written yet
                assert f"alice (pid {holder.pid}) since " in other.err, "the holder is named"
        assert_sound(root, before)
        assert len(root.names()) == len(before) + 2 - bool(other.status)
        if not is_stopped:
            break
        n += 1
    assert refused >= n - 3, "it holds the lock but at its first call and its last"


def test_a_stopped_holder_stops_no_reader(root: Root) -> None:
    with Child(root, POST, Fault(stop, 1, ["link"])) as holder:
        assert holder.is_stopped()
        assert "b\n" in run(root, ["read", "c", "--as", "bob"], patience=0.05).out
        assert run(root, ["wait", "c", "--as", "carol", "--timeout", "5"], patience=0.05).status == 0
        os.kill(holder.pid, signal.SIGCONT)
        assert holder.end().status == 0
    assert shown(read_to_end(root)) == {"held": 1}


@pytest.mark.slow
def test_others_wait_ten_seconds_behind_a_stopped_holder(root: Root, whole: bool) -> None:
    """Case L3 in real time."""
    if not whole:
        pytest.skip("it takes 10 s: run it with --whole")
    with Child(root, POST, Fault(stop, 1, ["link"])) as holder:
        assert holder.is_stopped()
        started = time.monotonic()
        other = root.real(*OTHER)
        assert 9.5 < time.monotonic() - started < 20
        assert (other.status, other.code) == (2, "CHANNEL_BUSY") and f"alice (pid {holder.pid})" in other.err
        os.kill(holder.pid, signal.SIGCONT)
        assert holder.end().status == 0
    root.ok(*OTHER)
    assert [name[:4] for name in root.names()] == ["0001", "0002", "0003"]


def test_a_second_reading_of_one_agent_names_the_first(root: Root) -> None:
    with Child(root, ["read", "c", "--as", "bob"], Fault(pause, 6)) as first:
        assert first.is_paused()
        second = run(root, ["read", "c", "--as", "Bob"], patience=0.05)
        assert second.code == "CURSOR_BUSY" and f"bob (pid {first.pid})" in second.err and not second.out
        assert "b\n" in run(root, ["read", "c", "--as", "bob", "--peek"]).out, "looking is free"
        assert "b\n" in first.end().out


# ---- lock files (cases L2 and L4) ----------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [-10 * 365 * 86400, 10 * 365 * 86400], ids=["old", "future"])
def test_the_time_of_a_lock_file_makes_no_difference(root: Root, seconds: int) -> None:
    root.ok("read", "c", "--as", "bob")
    for path in (root.folder() / ".lock", root.folder() / ".cursors" / "bob.lock"):
        then = time.time() + seconds
        os.utime(path, (then, then))
    started = time.monotonic()
    root.ok(*OTHER)
    assert shown(root.ok("read", "c", "--as", "bob")) == {"other": 1}
    assert time.monotonic() - started < 5


def put_link(path: Path) -> None:
    outside = path.parent.parent.parent / "outside"
    outside.write_text("precious\n")
    path.symlink_to(outside)


@pytest.mark.parametrize(
    "put, code",
    [
        (put_link, "STORAGE_LINK_REFUSED"),
        (Path.mkdir, "STORAGE_NOT_A_FILE"),
        (os.mkfifo, "STORAGE_NOT_A_FILE"),
    ],
    ids=["link", "folder", "pipe"],
)
def test_a_lock_file_that_is_no_file_is_refused(root: Root, put: Callable[[Path], object], code: str) -> None:
    before = message_bytes(root)
    (root.folder() / ".lock").unlink()
    put(root.folder() / ".lock")
    root.refused(code, *OTHER)
    assert message_bytes(root) == before
    outside = root.path.parent / "outside"
    assert not outside.exists() or outside.read_text() == "precious\n", "a link is not followed"


@pytest.fixture
def open_root() -> Iterator[Root]:
    """A root that a user without privileges may work in."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        made = make_root(Path(name))
        made.post()
        yield made


def become_nobody() -> None:
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


def test_a_lock_file_that_cannot_be_written_is_refused(open_root: Root) -> None:
    lock = open_root.folder() / ".lock"
    if os.getuid() == 0:
        for path in [open_root.path, *open_root.path.rglob("*")]:
            os.chown(path, 65534, 65534)
        os.chown(lock, 0, 0)
    lock.chmod(0o444)
    outcome = run(open_root, OTHER, first=become_nobody)
    assert (outcome.status, outcome.code, len(open_root.names())) == (2, "STORAGE_DENIED", 1), outcome
    os.unlink(lock)
    assert run(open_root, OTHER, first=become_nobody).status == 0
