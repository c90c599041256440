"""wait: blocking until something is new (cases W1 to W6)."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import CHAT, Root, clean_environment, make_root, open_channel

from agent_chat import cursors
from agent_chat.cli import output
from agent_chat.storage import disk

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX processes")
WAIT = ["wait", "c", "--as", "bob"]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_watching(pid: int, root: Root) -> bool:
    """Whether a process has the channel's folder open: from then on it looks, sleeps and looks."""
    folder = f"/proc/{pid}/fd"
    if not os.path.isdir("/proc/self/fd"):
        time.sleep(1.5)
        return True
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                if os.readlink(f"{folder}/{name}") == os.path.realpath(root.folder()):
                    return True
    return False


@pytest.fixture
def start(root: Root) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a wait and return when it is waiting; whatever is left is killed in the end."""
    started: list[subprocess.Popen[bytes]] = []

    def go(*words: str) -> subprocess.Popen[bytes]:
        process = root.spawn(*(words or (*WAIT, "--timeout", "60")))
        started.append(process)
        assert until(lambda: is_watching(process.pid, root))
        time.sleep(0.1)
        return process

    yield go
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def contents(root: Root) -> list[str]:
    """Every file but those that only say who waits: whoever looks there next removes a killed waiter's."""
    found = (str(path.relative_to(root.path)) for path in root.path.rglob("*"))
    return sorted(name for name in found if not name.startswith(os.path.join("c", ".waiters")))


# ---- what it answers ----------------------------------------------------------------------------


def test_what_is_there_is_shown_at_once_and_the_cursor_moves_as_by_read(root: Root) -> None:
    root.put(1, "hello")
    root.put(2, to="carol")
    started = time.monotonic()
    assert "hello" in root.ok(*WAIT, "--timeout", "60").out and root.cursor("bob") == 2
    assert time.monotonic() - started < 10


def test_what_comes_later_is_shown_when_it_comes(root: Root, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = start()
    root.post(body="later")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"") and b"later" in out and root.cursor("bob") == 1


def test_what_is_not_for_the_agent_does_not_wake_it(root: Root) -> None:
    root.put(1, to="carol")
    root.put(2, sender="bob")
    result = root.run(*WAIT, "--timeout", "0.1")
    assert (result.status, result.out, len(result.err.splitlines())) == (4, "", 1)
    assert not (root.folder() / ".cursors").exists(), "a timeout leaves the cursor"


def test_a_timeout_is_exact_enough_and_says_why_it_ended_in_one_line(root: Root) -> None:
    started = time.monotonic()
    result = root.run(*WAIT, "--timeout", "0.3", "--interval", "5")
    assert 0.3 <= time.monotonic() - started < 3
    assert result.status == 4 and "bob" in result.err and "0.3" in result.err and len(result.err.splitlines()) == 1


def test_a_timeout_of_zero_looks_once(root: Root) -> None:
    assert root.run(*WAIT, "--timeout", "0").status == 4
    root.put(1, "hello")
    assert "hello" in root.ok(*WAIT, "--timeout", "0").out


@pytest.mark.parametrize("option", ["timeout", "interval"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1", "1e305", "x", "", "1s", "0"])
def test_odd_numbers_are_usage_errors(root: Root, option: str, value: str) -> None:
    """W1."""
    if option == "timeout" and value == "0":
        return
    root.put(1)
    root.refused("USAGE_ERROR", *WAIT, f"--{option}={value}")
    assert not (root.folder() / ".cursors").exists()


def test_an_unknown_channel_is_refused_at_once(root: Root) -> None:
    root.refused("CHANNEL_NOT_FOUND", "wait", "nope", "--as", "bob", "--timeout", "60")
    root.refused("CHANNEL_NOT_FOUND", "wait", "c", "nope", "--as", "bob", "--timeout", "60")


def test_the_bounds_are_those_of_read(root: Root) -> None:
    for number in (1, 2, 3):
        root.put(number, f"body{number}.")
    assert root.ok(*WAIT, "--limit", "2").out.count("body") == 2 and root.cursor("bob") == 2


# ---- several channels ----------------------------------------------------------------------------------


def test_the_first_of_several_channels_that_has_something_is_shown(root: Root) -> None:
    root.ok("init", "d")
    root.ok("post", "d", "--from", "alice", "--title", "t", "--body", "in d")
    out = root.ok("wait", "c", "d", "--as", "bob", "--timeout", "60", AGENT_CHAT_FORMAT="envelope").out
    assert "in d" in out and 'channel="d"' in out
    root.ok("post", "d", "--from", "alice", "--title", "t", "--body", "in d again")
    root.post(body="in c")
    first = root.ok("wait", "c", "d", "--as", "bob", "--timeout", "60").out
    assert "in c" in first and "in d" not in first
    assert "in d again" in root.ok("wait", "c", "d", "--as", "bob", "--timeout", "60").out


def test_several_channels_wake_it(root: Root, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    root.ok("init", "d")
    process = start("wait", "c", "d", "--as", "bob", "--timeout", "60")
    root.ok("post", "d", "--from", "alice", "--title", "t", "--body", "in d")
    assert b"in d" in process.communicate(timeout=30)[0]


def test_a_timeout_names_all_of_several_channels(root: Root) -> None:
    root.ok("init", "d")
    result = root.run("wait", "c", "d", "--as", "bob", "--timeout", "0")
    assert result.status == 4 and "'c'" in result.err and "'d'" in result.err


# ---- --peek -----------------------------------------------------------------------------------------------


def test_peek_says_one_line_and_moves_nothing(root: Root) -> None:
    root.put(1)
    root.put(2, sender="carol")
    for _ in range(2):
        result = root.ok(*WAIT, "--peek", "--timeout", "60")
        assert len(result.out.splitlines()) == 1 and result.out.startswith(
            "2 messages for bob in 'c' from alice, carol;"
        )
        assert result.out.rstrip().endswith(f"--root {root.path} read c --as bob")
    assert not (root.folder() / ".cursors").exists()


def test_peek_in_json_names_the_command_too(root: Root) -> None:
    root.put(1)
    found = root.ok(*WAIT, "--peek", "--json").json
    assert (found["channel"], found["agent"], found["count"], found["from"]) == ("c", "bob", 1, ["alice"])
    assert found["next"].endswith("read c --as bob")


# ---- W2, W5, W6: what happens meanwhile ----------------------------------------------------------------------


def test_a_message_posted_between_the_look_and_the_print_comes_with_the_next_call(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W2."""
    root.put(1, "first one")
    real = output.emit

    def posted_meanwhile(text: str, sync: bool = False) -> None:
        root.put(2, "second one")
        real(text, sync)

    monkeypatch.setattr(output, "emit", posted_meanwhile)
    out = root.ok(*WAIT).out
    monkeypatch.undo()
    assert "first one" in out and "second one" not in out and root.cursor("bob") == 1
    assert "second one" in root.ok(*WAIT).out


def test_a_folder_whose_time_never_moves_still_wakes_it(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """W6: within about two seconds."""
    monkeypatch.setattr(disk.Folder, "stamp", lambda folder: (0, 0, 0))
    poster = threading.Timer(0.5, lambda: root.put(1, "hello"))
    poster.start()
    started = time.monotonic()
    out = root.ok(*WAIT, "--timeout", "30").out
    poster.join()
    assert "hello" in out and time.monotonic() - started < 8


@posix
@pytest.mark.parametrize("how", ["removed", "moved away", "replaced"])
def test_a_channel_that_goes_away_ends_it_with_a_code(
    root: Root, start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, how: str
) -> None:
    """W5."""
    process = start()
    if how == "removed":
        shutil.rmtree(root.folder())
    else:
        root.folder().rename(tmp_path / "away")
    if how == "replaced":
        root.ok("init", "c")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (2, b"") and err.count(b"\n") == 1
    assert err.startswith(b"agent-chat: CHANNEL_NOT_FOUND: ")


def test_a_file_that_becomes_whole_in_place_wakes_it(root: Root) -> None:
    """Writing to it moves no folder's time."""
    path = root.put(1, "hello")
    data = path.read_bytes()
    path.write_bytes(data[:-2])

    def finish() -> None:
        with open(path, "ab") as file:
            file.write(data[-2:])

    writer = threading.Timer(0.6, finish)
    writer.start()
    started = time.monotonic()
    out = root.ok(*WAIT, "--timeout", "30").out
    writer.join()
    assert "hello" in out and time.monotonic() - started < 6


# ---- another reading of the same agent --------------------------------------------------------------------------


def test_it_ends_in_time_even_behind_another_reading_and_names_it(root: Root) -> None:
    root.put(1, "hello")
    with open_channel(root) as channel, cursors.reading(channel, "bob"):
        started = time.monotonic()
        result = root.refused("CURSOR_BUSY", *WAIT, "--timeout", "0.5")
        assert time.monotonic() - started < 5 and f"pid {os.getpid()}" in result.err
    assert "hello" in root.ok(*WAIT, "--timeout", "0.5").out


def test_it_delivers_when_the_other_reading_ends_without_having_shown_anything(root: Root) -> None:
    root.put(1, "hello")
    with open_channel(root) as channel:
        other = cursors.reading(channel, "bob")
        ending = threading.Timer(0.4, other.__exit__)
        ending.start()
        assert "hello" in root.ok(*WAIT, "--timeout", "30").out
        ending.join()


# ---- W3: signals ------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_quietly_and_leaves_nothing_behind(
    root: Root, start: Callable[..., subprocess.Popen[bytes]], number: signal.Signals
) -> None:
    """W3: 130 and 143 to a shell."""
    before = contents(root)
    process = start()
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode in (128 + number, -number) and out == b""
    assert b"Traceback" not in err and err.count(b"\n") <= 1
    assert contents(root) == before


@posix
def test_a_shell_sees_the_status_of_an_interrupt(root: Root) -> None:
    assert shell_status(root, signal.SIGINT) == 130 and shell_status(root, signal.SIGTERM) == 143


def shell_status(root: Root, number: int) -> int:
    """`wait` in a real shell, which a timer interrupts; the status that the shell sees."""
    code = (
        "import os, sys, threading; sys.path.insert(0, sys.argv[1]); import agent_chat.cli.reading\n"
        f"threading.Timer(0.3, os.kill, (os.getpid(), {number})).start()\n"
        "from agent_chat.cli import main; sys.exit(main(sys.argv[2:]))\n"
    )
    words = [sys.executable, "-c", code, os.path.dirname(CHAT), "--root", str(root.path), *WAIT, "--timeout", "20"]
    shell = ["sh", "-c", '"$@"; echo $?', "sh", *words]
    done = subprocess.run(shell, env=clean_environment(), capture_output=True, text=True, check=False, timeout=60)
    return int(done.stdout)


# ---- W4: the parent's end -----------------------------------------------------------------------------------------


def is_running(pid: int) -> bool:
    """Whether it runs; a zombie that nobody collects does not."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:
        return not os.path.isdir("/proc/self")


def orphan(root: Root, tmp_path: Path, *more: str) -> int:
    """A background wait whose shell was killed with -9; its process id."""
    line = f'"$@" >"{tmp_path}/out" 2>"{tmp_path}/err" & echo $!; wait'
    words = [sys.executable, CHAT, "--root", str(root.path), *WAIT, "--timeout", "60", *more]
    shell = subprocess.Popen(["sh", "-c", line, "sh", *words], stdout=subprocess.PIPE, env=clean_environment())
    assert shell.stdout
    pid = int(shell.stdout.readline())
    assert until(lambda: is_watching(pid, root))
    time.sleep(0.1)
    shell.kill()
    shell.communicate()
    return pid


@posix
@pytest.mark.parametrize("interval", [[], ["--interval", "30"]], ids=["adaptive", "slow"])
def test_it_ends_with_the_process_that_started_it(root: Root, tmp_path: Path, interval: list[str]) -> None:
    """W4: within 5 s, so that no waiter eats mail for nobody."""
    pid = orphan(root, tmp_path, *interval)
    try:
        assert until(lambda: not is_running(pid), 5), "it outlived its parent"
        root.put(1, "hello")
        assert (tmp_path / "out").read_bytes() == b"" and len((tmp_path / "err").read_text().splitlines()) == 1
        assert "gone" in (tmp_path / "err").read_text()
        assert "hello" in root.ok("read", "c", "--as", "bob").out
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@posix
def test_it_may_be_told_to_outlive_its_parent(root: Root, tmp_path: Path) -> None:
    pid = orphan(root, tmp_path, "--outlive-parent")
    try:
        assert not until(lambda: not is_running(pid), 3)
        root.put(1, "hello")
        assert until(lambda: not is_running(pid)) and "hello" in (tmp_path / "out").read_text()
        assert root.cursor("bob") == 1
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@posix
def test_the_parent_is_looked_at_again_right_before_the_output(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """W4: a message that comes just after the parent's end stays unread."""
    root.put(1, "hello")
    parents = iter([os.getppid()])
    monkeypatch.setattr(os, "getppid", lambda: next(parents, 1))
    result = root.run(*WAIT, "--timeout", "60")
    monkeypatch.undo()
    assert (result.status, result.out, len(result.err.splitlines())) == (1, "", 1)
    assert root.cursor("bob") == 0 and os.listdir(root.folder() / ".tmp") == []
    assert "hello" in root.ok("read", "c", "--as", "bob").out
