"""presence.py: who is waiting is who holds a lock just now."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import Root, make_root, open_channel

from agent_chat import clock, presence
from agent_chat.storage import oslock

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX processes")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def waiters(root: Root) -> list[str]:
    folder = root.folder() / presence.FOLDER
    return sorted(os.listdir(folder)) if folder.exists() else []


def waiting(root: Root) -> dict[str, str]:
    with open_channel(root) as channel:
        found = presence.waiting(channel)
        for agent in ("alice", "bob", "carol"):
            assert presence.is_waiting(channel, agent) == any(one.lower() == agent for one in found)
        return found


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not come to pass"
        time.sleep(0.02)


@pytest.fixture
def start(root: Root) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a wait of an agent, and return when it is seen waiting."""
    started: list[subprocess.Popen[bytes]] = []

    def go(agent: str, *more: str) -> subprocess.Popen[bytes]:
        process = root.spawn("wait", "c", "--as", agent, "--timeout", "60", *more)
        started.append(process)
        until(lambda: any(name.startswith(f"{agent}.{process.pid}-") for name in waiters(root)))
        until(lambda: agent in waiting(root))
        return process

    yield go
    for process in started:
        process.kill()
        process.communicate()


def test_nobody_waits_where_nobody_does(root: Root) -> None:
    assert waiting(root) == {}
    assert not (root.folder() / presence.FOLDER).exists(), "looking makes nothing"


def test_a_wait_that_need_not_block_announces_nothing(root: Root) -> None:
    root.put(1)
    root.ok("wait", "c", "--as", "bob", "--timeout", "60")
    assert root.run("wait", "c", "--as", "bob", "--timeout", "0").status == 4
    assert not (root.folder() / presence.FOLDER).exists()


@posix
def test_a_waiter_counts_from_when_it_began_and_is_gone_when_it_ended(
    root: Root, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    before = clock.now() - clock.SECOND
    process = start("bob")
    found = waiting(root)
    assert list(found) == ["bob"] and before <= clock.parse_stamp(found["bob"]) <= clock.now()
    root.post()
    assert process.wait(30) == 0
    assert waiting(root) == {} and waiters(root) == [], "nothing is left behind"


@posix
def test_several_waiters_and_spellings(root: Root, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    first, _, _ = start("bob"), start("Carol"), start("bob")
    assert set(waiting(root)) == {"bob", "Carol"}
    first.kill()
    first.wait()
    assert set(waiting(root)) == {"bob", "Carol"}, "the other one still waits"
    assert len(waiters(root)) == 2, "the killed one's file is removed by whoever looks"


@posix
def test_a_killed_waiter_is_gone_at_once(root: Root, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = start("bob")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert waiting(root) == {} and waiters(root) == []


@posix
def test_a_stopped_waiter_still_counts_and_says_since_when(
    root: Root, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = start("bob")
    since = waiting(root)["bob"]
    os.kill(process.pid, signal.SIGSTOP)
    try:
        time.sleep(0.3)
        assert waiting(root) == {"bob": since}
    finally:
        os.kill(process.pid, signal.SIGCONT)


@posix
def test_what_a_terminated_waiter_left_goes_with_the_next_wait_of_the_agent(
    root: Root, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = start("bob")
    process.terminate()
    process.wait()
    assert len(waiters(root)) == 1
    (found,) = root.run("doctor", "c", "--json").json["findings"]
    assert found["kind"] == "STALE_WAITERS" and len(waiters(root)) == 1
    assert root.run("wait", "c", "--as", "bob", "--timeout", "0.05").status == 4
    assert waiters(root) == []


def test_a_hostile_folder_shows_nobody_and_loses_nothing(root: Root) -> None:
    folder = root.folder() / presence.FOLDER
    folder.mkdir()
    outside = root.path / "outside"
    outside.write_text("mine")
    (folder / f"carol.1-{'0' * 12}").symlink_to(outside)
    (folder / f"alice.2-{'0' * 12}").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / f"bob.3-{'0' * 12}")
    for name in ("README", "bob.x-1", "a b.1-000000000000", "all.1-000000000000", "bob.1-0000", ".hidden"):
        (folder / name).write_text("x")
    before = waiters(root)
    assert waiting(root) == {}
    assert waiters(root) == before and outside.read_text() == "mine"


@pytest.mark.parametrize("kind", ["link", "file"])
def test_something_else_in_place_of_the_folder_stops_no_wait(root: Root, tmp_path: Path, kind: str) -> None:
    place = root.folder() / presence.FOLDER
    if kind == "link":
        place.symlink_to(tmp_path)
    else:
        place.write_text("x")
    assert waiting(root) == {}
    result = root.run("wait", "c", "--as", "bob", "--timeout", "0.05")
    assert result.status == 4 and len(result.err.splitlines()) == 1
    assert sorted(os.listdir(tmp_path)) == ["root"]


def test_without_kernel_locks_nobody_seems_to_wait(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def no_locks(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with open_channel(root) as channel:
        announced = presence.announce([channel], "bob")
        monkeypatch.setattr(fcntl, "flock", no_locks)
        assert presence.waiting(channel) == {}
        presence.announce([channel], "carol").end()
        announced.end()
    assert root.run("wait", "c", "--as", "bob", "--timeout", "0.05").status == 4


def test_a_probe_between_the_making_and_the_locking_of_a_file_hides_no_waiter(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks just then removes the file; the waiter sees it and makes another."""
    real, looks = oslock._try, []

    def looked_at(fd: int, shared: bool) -> bool:
        if not shared and not looks:
            looks.append(0)
            with open_channel(root) as other:
                assert presence.waiting(other) == {}
            assert waiters(root) == []
        return real(fd, shared)

    with open_channel(root) as channel:
        (root.folder() / presence.FOLDER).mkdir()
        monkeypatch.setattr(oslock, "_try", looked_at)
        announced = presence.announce([channel], "bob")
        assert looks and list(waiting(root)) == ["bob"]
        announced.end()
        assert waiting(root) == {} and waiters(root) == []
