"""A message counts as read only after standard output took all of it (cases M7 and M8)."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import CHAT, Result, Root, clean_environment, make_root

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX descriptors")
PIPE_HOLDS = 65536  # bytes, on Linux
COMMANDS = {"read": ["read", "c", "--as", "bob"], "wait": ["wait", "c", "--as", "bob", "--timeout", "60"]}
BUFFERING = [{}, {"PYTHONUNBUFFERED": "1"}]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def fill(root: Root, size: int, count: int = 30) -> None:
    """So many messages for bob, which together are more than `size` bytes."""
    for number in range(1, count + 1):
        root.put(number, f"body{number}.\n" + "x" * (size // count))


def shell(root: Root, line: str, **environment: str) -> Result:
    chat = f"'{sys.executable}' '{CHAT}' --root '{root.path}'"
    done = subprocess.run(
        ["sh", "-c", line.replace("$chat", chat)],
        env=clean_environment(**environment),
        capture_output=True,
        check=False,
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def has_moved(root: Root) -> bool:
    return (root.folder() / ".cursors" / "bob.txt").exists() and root.cursor("bob") > 0


def assert_all_come_again(root: Root, count: int = 30) -> None:
    assert not has_moved(root)
    assert os.listdir(root.folder() / ".tmp") == [], "nothing is left behind"
    out = root.ok("read", "c", "--as", "bob").out
    assert [f"body{number}." in out for number in range(1, count + 1)] == [True] * count
    assert root.cursor("bob") == count


# ---- what does not take it -----------------------------------------------------------------------


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("environment", BUFFERING, ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_device_leaves_the_cursor(root: Root, command: str, environment: dict[str, str]) -> None:
    fill(root, 1000)
    result = shell(root, "$chat " + " ".join(COMMANDS[command]) + " >/dev/full", **environment)
    assert (result.status, result.code, len(result.err.splitlines())) == (1, "OUTPUT_FAILED", 1)
    assert_all_come_again(root)


@pytest.mark.parametrize("environment", BUFFERING, ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_standard_output_leaves_the_cursor(root: Root, command: str, environment: dict[str, str]) -> None:
    fill(root, 1000)
    result = shell(root, "$chat " + " ".join(COMMANDS[command]) + " >&-", **environment)
    assert (result.status, result.code, len(result.err.splitlines())) == (1, "OUTPUT_FAILED", 1)
    assert_all_come_again(root)


@pytest.mark.parametrize("environment", BUFFERING, ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_that_closes_early_ends_quietly_and_leaves_the_cursor(
    root: Root, command: str, environment: dict[str, str]
) -> None:
    fill(root, 4 * PIPE_HOLDS)
    process = root.spawn(*COMMANDS[command], environment=environment)
    assert process.stdout and process.stderr
    assert process.stdout.read(100)
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(60) != 0
    assert_all_come_again(root)


def test_a_socket_whose_other_end_closes_early_leaves_the_cursor(root: Root) -> None:
    fill(root, 4 * PIPE_HOLDS)
    ours, theirs = socket.socketpair()
    process = root.spawn(*COMMANDS["read"], stdout=theirs)
    theirs.close()
    assert ours.recv(100)
    ours.close()
    err = process.communicate(timeout=60)[1]
    assert process.returncode != 0 and b"Traceback" not in err and err.count(b"\n") <= 1
    assert_all_come_again(root)


@pytest.mark.parametrize("environment", BUFFERING, ids=["buffered", "unbuffered"])
def test_a_disk_that_fills_up_in_the_middle_leaves_the_cursor(
    root: Root, tmp_path: Path, environment: dict[str, str]
) -> None:
    """A short write and then an error, by a limit on the size of files."""
    import resource

    fill(root, 64 * 1024)
    with open(tmp_path / "out", "wb") as out:
        process = root.spawn(
            *COMMANDS["read"],
            stdout=out,
            environment=environment,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 1024, 16 * 1024)),
        )
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and b"OUTPUT_FAILED" in err and err.count(b"\n") == 1
    assert (tmp_path / "out").stat().st_size == 16 * 1024
    assert_all_come_again(root)


def test_head_takes_the_first_line_and_nothing_complains(root: Root) -> None:
    """M7: what a pipe's buffer took counts as taken."""
    fill(root, 1000)
    for _ in range(3):
        result = shell(root, "{ $chat read c --as bob; echo $? >&2; } | head -1")
        assert "Traceback" not in result.err and len(result.err.splitlines()) == 1 and len(result.out.splitlines()) == 1
        assert has_moved(root) == (result.err == "0\n")
        root.ok("ack", "c", "--as", "bob", "--upto", "0", "--force")


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EPIPE])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_an_error_after_some_of_it_leaves_the_cursor(
    root: Root, monkeypatch: pytest.MonkeyPatch, number: int, after: int
) -> None:
    fill(root, 1000)
    real, written = os.write, []

    def failing(fd: int, data: bytes) -> int:
        if sys.stdout is None or fd != sys.stdout.fileno():
            return real(fd, data)
        if len(written) >= after:
            raise OSError(number, os.strerror(number))
        written.append(fd)
        return real(fd, bytes(data)[:10])

    monkeypatch.setattr(os, "write", failing)
    result = root.run("read", "c", "--as", "bob")
    monkeypatch.undo()
    assert result.status == (141 if number == errno.EPIPE else 1) and len(result.out) == 10 * after
    assert_all_come_again(root)


def test_a_cursor_that_cannot_be_prepared_is_refused_before_any_output(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that can fail for want of space fails first."""
    fill(root, 1000)
    root.ok("ack", "c", "--as", "bob", "--upto", "0")
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if bytes(data) == b"30\n":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(os, "write", full)
    root.refused("STORAGE_IO_ERROR", "read", "c", "--as", "bob", status=1)
    monkeypatch.undo()
    assert_all_come_again(root)


# ---- what takes it slowly ------------------------------------------------------------------------------


def slowly(fd: int, step: int = 20_000, pause: float = 0.01) -> bytes:
    parts = []
    while True:
        part = os.read(fd, step)
        if not part:
            return b"".join(parts)
        parts.append(part)
        time.sleep(pause)


@pytest.mark.parametrize("environment", BUFFERING, ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("kind", ["pipe", "non-blocking pipe", "socket", "non-blocking socket"])
def test_whatever_takes_all_of_it_in_parts_gets_all_of_it(root: Root, kind: str, environment: dict[str, str]) -> None:
    fill(root, 5 * PIPE_HOLDS)
    if "socket" in kind:
        ours, theirs = (end.detach() for end in socket.socketpair())
    else:
        ours, theirs = os.pipe()
    os.set_blocking(theirs, "non-blocking" not in kind)
    process = root.spawn(*COMMANDS["read"], stdout=theirs, environment=environment)
    os.close(theirs)
    data = slowly(ours)
    os.close(ours)
    assert (process.wait(60), process.communicate()[1]) == (0, b"")
    texts = [(root.folder() / name).read_text() for name in root.names()]
    assert data.decode() == "".join(f"{'=' * 70}\n{text}\n" for text in texts)
    assert root.cursor("bob") == 30


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_an_answer_of_about_what_a_pipe_holds_arrives_whole(root: Root, more: int) -> None:
    root.put(1, "x")
    size = len(root.ok("read", "c", "--as", "bob", "--peek").out)
    root.put(1, "x" * (PIPE_HOLDS + more - size + 1))
    process = root.spawn(*COMMANDS["read"])
    time.sleep(0.3)
    out = process.communicate(timeout=60)[0]
    assert (len(out), process.returncode, root.cursor("bob")) == (PIPE_HOLDS + more, 0, 1)


def test_the_cursor_waits_for_the_last_byte(root: Root) -> None:
    """A reader that takes one byte too few has not taken it."""
    root.put(1, "x" * 3 * PIPE_HOLDS)
    process = root.spawn(*COMMANDS["read"])
    assert process.stdout
    taken = len(process.stdout.read(PIPE_HOLDS))
    time.sleep(0.3)
    assert not has_moved(root) and process.poll() is None
    taken += len(process.stdout.read())
    assert process.wait(60) == 0 and root.cursor("bob") == 1 and taken > 3 * PIPE_HOLDS
    process.communicate()


def test_short_writes_and_full_pipes_go_on(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(root, 300, count=3)
    expected = root.ok("read", "c", "--as", "bob", "--peek").out
    real, calls = os.write, []

    def odd(fd: int, data: bytes) -> int:
        if fd != sys.stdout.fileno():
            return real(fd, data)
        calls.append(len(data))
        if len(calls) % 3 == 0:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return real(fd, bytes(data)[:7])

    monkeypatch.setattr(os, "write", odd)
    assert root.ok("read", "c", "--as", "bob").out == expected
    assert root.cursor("bob") == 3


# ---- a regular file ----------------------------------------------------------------------------------------


def test_a_file_is_synced_before_the_cursor_moves(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.put(1)
    root.ok("ack", "c", "--as", "bob", "--upto", "0")
    done: list[str] = []
    sync, replace, write = os.fsync, os.replace, os.write

    def note_write(fd: int, data: bytes) -> int:
        if fd == sys.stdout.fileno():
            done.append("output")
        return write(fd, data)

    def note_sync(fd: int) -> None:
        if fd == sys.stdout.fileno():
            assert stat.S_ISREG(os.fstat(fd).st_mode)
            done.append("synced")
        sync(fd)

    def note_move(old: str, new: str, **folders: int) -> None:
        done.extend([str(new)] * (new != "stamp"))  # the index is another matter
        replace(old, new, **folders)

    monkeypatch.setattr(os, "write", note_write)
    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_move)
    root.ok("read", "c", "--as", "bob")
    assert done == ["output", "synced", "bob.txt"]


def test_a_file_that_cannot_be_synced_leaves_the_cursor(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(root, 1000)
    sync = os.fsync

    def failing(fd: int) -> None:
        if fd == sys.stdout.fileno():
            raise OSError(errno.EIO, "Input/output error")
        sync(fd)

    monkeypatch.setattr(os, "fsync", failing)
    result = root.run("read", "c", "--as", "bob")
    monkeypatch.undo()
    assert (result.status, result.code) == (1, "OUTPUT_FAILED")
    assert_all_come_again(root)


def test_a_file_may_be_appended_to(root: Root, tmp_path: Path) -> None:
    root.put(1, "first one")
    shell(root, f"$chat read c --as bob >>'{tmp_path}/log'")
    root.put(2, "second one")
    shell(root, f"$chat read c --as bob >>'{tmp_path}/log'")
    text = (tmp_path / "log").read_text()
    assert "first one" in text and "second one" in text


# ---- encodings (M8) ------------------------------------------------------------------------------------------

TEXT = "→ é 世界 😀 \u202e"


@pytest.mark.parametrize(
    "encoding", ["ascii", "ascii:strict", "cp1252", "cp949", "latin-1", "koi8-r", "utf-8", "utf-16-le"]
)
@pytest.mark.parametrize("shape", ["envelope", "markdown", "json"])
def test_what_the_stream_cannot_show_is_shown_escaped_and_nothing_is_lost(
    root: Root, encoding: str, shape: str
) -> None:
    root.post("alice", TEXT, TEXT)
    process = root.spawn(
        *COMMANDS["read"], "--format", shape, environment={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err, root.cursor("bob")) == (0, b"", 1)
    codec = encoding.split(":")[0]
    text = out.decode(codec)
    for letter in "→é世界😀":
        try:
            letter.encode(codec)
            wanted = [letter]
        except UnicodeEncodeError:
            wanted = []
        code = ord(letter)
        wanted += [f"\\x{code:02x}", f"\\u{code:04x}", f"\\U{code:08x}", "\\ud83d\\ude00"]
        assert any(form in text for form in wanted), (letter, text)
    if shape == "json":
        import json

        assert json.loads(text)["messages"][0]["title"] == TEXT
    else:
        assert "\u202e" not in text


def test_a_refusal_is_shown_escaped_too(root: Root) -> None:
    result = root.real(
        "post", "c", "--from", "alice", "--title", "t", "--body-file", "/→/é", environment={"PYTHONIOENCODING": "ascii"}
    )
    assert result.code == "MESSAGE_BODY_UNREADABLE" and "/\\u2192/\\xe9" in result.err
