"""The machinery itself: a harness that sees nothing would pass everything."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest
from faults import CHANGES, LOOKS, Child, Fault, at_each_call, copier, die, fail, pause, run, stop
from support import Root, make_root, open_channel

from agent_chat import log
from agent_chat.storage import disk

POST = ["post", "c", "--from", "alice", "--title", "t", "--body", "b"]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = make_root(tmp_path)
    made.post()
    time.sleep(0.03)
    with open_channel(made) as channel, channel.writing("alice"):
        channel.log.note()  # the folder's time is believed from now on, so that each run makes the same calls
    return made


def test_the_calls_of_a_post_are_numbered_in_their_order(root: Root) -> None:
    outcome = run(root, POST)
    lock, number, temporary = ["create", "write", "ftruncate"], ["create"], ["create", "write", "fsync"]
    index = ["create", "write", "create", "write", "replace"]  # a line, and the stamp
    assert outcome.changes == [*lock, *number, *temporary, "link", *index, "fsync", "unlink", "unlink", "write"]
    assert outcome.status == 0 and not outcome.fired and not outcome.died


def test_a_death_falls_before_its_call_and_a_run_survives_in_the_end(root: Root, tmp_path: Path) -> None:
    all_calls = run(copier(root, tmp_path)(), POST).changes
    done = []
    for n, _, outcome in at_each_call(copier(root, tmp_path), POST, die):
        assert len(outcome.changes) == min(n - 1, len(all_calls)), outcome.changes
        done.append(outcome.died)
    assert done == [True] * len(all_calls) + [False]


def test_looks_are_numbered_apart_from_changes(root: Root) -> None:
    outcome = run(root, ["peek", "c"], Fault(fail(errno.EIO), 1, LOOKS))
    assert outcome.status == 1 and outcome.code == "STORAGE_IO_ERROR" and outcome.fired.startswith("open ")
    assert not LOOKS & CHANGES


def test_a_paused_child_goes_on_when_told(root: Root) -> None:
    with Child(root, POST, Fault(pause, 1, ["link"])) as child:
        assert child.is_paused() and len(root.names()) == 1
        outcome = child.end()
    assert outcome.status == 0 and len(root.names()) == 2
    with Child(root, POST, Fault(pause, 99)) as child:
        assert not child.is_paused() and child.end().status == 0


def test_a_child_left_behind_is_killed(root: Root) -> None:
    for act in (pause, stop):
        with Child(root, POST, Fault(act, 5)) as child:
            assert child.is_paused() if act is pause else child.is_stopped()
        with pytest.raises(ProcessLookupError):
            os.kill(child.pid, 0)
        root.post()  # its lock is gone, too


def test_locks_made_to_do_nothing_exclude_nobody(root: Root) -> None:
    for locks, expected in (("real", "CHANNEL_BUSY"), ("nothing", ""), ("none", "")):
        with Child(root, POST, Fault(pause, 1, ["link"]), locks=locks) as child:
            assert child.is_paused()
            assert run(root, POST, locks=locks, patience=0.05).code == expected


def test_a_command_that_lets_an_exception_through_is_told_from_one_that_refuses(root: Root) -> None:
    def break_it() -> None:
        raise ZeroDivisionError

    outcome = run(root, POST, first=break_it)
    assert outcome.status == 70 and "ZeroDivisionError" in outcome.err


def test_a_number_that_is_only_looked_up_would_be_found_to_be_used_twice(root: Root) -> None:
    def take_no_number() -> None:
        log.Log.take_number = lambda self: self._highest() + 1  # type: ignore[method-assign]

    for first, numbers in ((take_no_number, ["0001", "0002", "0002"]), (None, ["0001", "0002", "0003"])):
        with Child(root, POST, Fault(pause, 1, ["link"]), locks="nothing", first=first) as child:
            assert child.is_paused()
            other = run(root, [*POST[:5], "other", *POST[6:]], locks="nothing", first=first)
            assert (other.status, child.end().status) == (0, 0)
        assert [name[:4] for name in root.names()] == numbers
        for name in root.names()[1:]:
            (root.folder() / name).unlink()
        for name in os.listdir(root.folder() / log.NUMBERS):
            (root.folder() / log.NUMBERS / name).unlink()


def test_a_file_written_in_place_would_be_found_half_there(root: Root) -> None:
    def write_in_place() -> None:
        def link_to(temporary: disk.Temporary, folder: disk.Folder, name: str) -> None:
            fd = folder._open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            disk.write_all(fd, temporary.folder.read(temporary.name))
            os.close(fd)

        disk.Temporary.link_to = link_to  # type: ignore[method-assign]

    assert run(root, POST, Fault(die, 3, ["write"]), first=write_in_place).died
    assert (root.folder() / root.names()[-1]).read_bytes() == b""
