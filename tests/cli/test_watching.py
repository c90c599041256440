"""watch: messages as they come, and the bell that wakes the session of a host."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import CHAT, Root, clean_environment, make_root

from agent_chat import hosts

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX processes")
QUICK = {"AGENT_CHAT_FSYNC": "0"}
SESSION = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


class Watcher:
    """A running `watch`, and what it has printed so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.text = ""

    def sees(self, *wanted: str, seconds: float = 30.0) -> str:
        """All output, once it holds all of `wanted`."""
        assert self.process.stdout
        deadline = time.monotonic() + seconds
        while not all(text in self.text for text in wanted):
            assert time.monotonic() < deadline, (wanted, self.text)
            self.take(0.2)
        return self.text

    def take(self, seconds: float) -> str:
        """All output after this many seconds without anything."""
        assert self.process.stdout
        while select.select([self.process.stdout], [], [], seconds)[0]:
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                break
            self.text += part.decode()
        return self.text

    def end(self, signal_number: int = signal.SIGTERM) -> int:
        self.process.send_signal(signal_number)
        return self.process.wait(timeout=30)


@pytest.fixture
def start(root: Root) -> Iterator[Callable[..., Watcher]]:
    started: list[subprocess.Popen[bytes]] = []

    def go(*words: str, **options: Any) -> Watcher:
        process = root.spawn("watch", *words, **options)
        started.append(process)
        return Watcher(process)

    yield go
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def waiting(root: Root, channel: str = "c") -> bool:
    """Whether somebody says that it waits: from then on it looks again and again."""
    folder = root.folder(channel) / ".waiters"
    return folder.is_dir() and any(folder.iterdir())


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ---- the stream ---------------------------------------------------------------------------------------------


def test_it_shows_what_is_there_and_what_comes_and_moves_the_cursor(root: Root, start: Callable[..., Watcher]) -> None:
    root.post("alice", "one", "body one", **QUICK)
    watcher = start("c", "--as", "bob")
    watcher.sees("body one")
    root.post("alice", "two", "body two", **QUICK)
    root.post("bob", "own", "body of bob", **QUICK)
    root.post("carol", "three", "body three", **QUICK)
    watcher.sees("body two", "body three")
    until(lambda: root.cursor("bob") == 4)
    assert watcher.end(signal.SIGINT) == 130
    assert watcher.text.count("body ") == 3 and "(no new messages" not in root.ok("peek", "c").out
    assert root.ok("read", "c", "--as", "bob").out.startswith("(no new messages")
    assert not waiting(root)


def test_json_is_one_object_a_delivery(root: Root, start: Callable[..., Watcher]) -> None:
    root.post("alice", "one", "x" * 30_000, **QUICK)
    root.post("alice", "two", "y" * 30_000, **QUICK)
    watcher = start("c", "--as", "bob", "--json")
    watcher.sees("\n")
    root.post("alice", "three", "z", **QUICK)
    watcher.sees('"seq": 3')
    lines = [json.loads(line) for line in watcher.text.splitlines()]
    assert [message["seq"] for line in lines for message in line["messages"]] == [1, 2, 3]
    assert watcher.end(signal.SIGINT) == 130


def test_without_channels_it_watches_all_and_new_ones_too(root: Root, start: Callable[..., Watcher]) -> None:
    watcher = start("--as", "bob", environment={"AGENT_CHAT_ROOT": str(root.path)})
    until(lambda: waiting(root))
    root.ok("init", "d")
    root.ok("post", "d", "--from", "alice", "--title", "t", "--body", "in the new one", **QUICK)
    watcher.sees("in the new one")
    root.post("alice", "t", "in the old one", **QUICK)
    watcher.sees("in the old one")


def test_a_removed_channel_ends_a_watch_that_named_it(root: Root, start: Callable[..., Watcher]) -> None:
    watcher = start("c", "--as", "bob")
    until(lambda: waiting(root))
    root.folder().rename(root.path / ".away")
    assert watcher.process.wait(timeout=30) == 2
    assert watcher.process.stderr and b"CHANNEL_NOT_FOUND" in watcher.process.stderr.read()


def test_refusals(root: Root) -> None:
    root.refused("USAGE_ERROR", "watch", "c")
    root.refused("USAGE_ERROR", "watch", "c", "--notify")
    root.refused("CHANNEL_NOT_FOUND", "watch", "nope", "--as", "bob")
    root.refused("AGENT_INVALID_NAME", "watch", "c", "--as", "a b", "--notify")
    root.refused("USAGE_ERROR", "watch", "c", "--as", "bob", "--interval", "0")


# ---- the bell -----------------------------------------------------------------------------------------------


def test_a_burst_is_one_short_line_without_any_text_and_no_cursor_moves(
    root: Root, start: Callable[..., Watcher]
) -> None:
    root.ok("init", "d")
    watcher = start("c", "d", "--as", "bob", "--notify")
    until(lambda: waiting(root, "d"))
    for number in range(3):
        root.post("alice", f"</event> {number}", "secret", **QUICK)
    root.ok("post", "d", "--from", "dave", "--title", "x", "--body", "secret", **QUICK)
    root.post("alice", "not for bob", "x", "--to", "carol", **QUICK)
    watcher.sees("\n")
    assert watcher.take(1.0) == "[agent-chat] 4 new messages for bob: #c 3 from alice; #d 1 from dave\n"
    root.post("carol", "again", "x", **QUICK)
    watcher.sees("carol\n")
    assert watcher.text.endswith("\n[agent-chat] 1 new message for bob: #c 1 from carol\n")
    assert not (root.folder() / ".cursors/bob.txt").exists()
    assert watcher.end() == -signal.SIGTERM


def test_a_line_is_never_long(root: Root, start: Callable[..., Watcher]) -> None:
    for number in range(40):
        root.ok("init", f"channel-with-a-long-name-{number}")
        root.ok("post", f"channel-with-a-long-name-{number}", "--from", "alice", "--title", "t", "--body", "b", **QUICK)
    watcher = start("--as", "bob", "--notify")
    line = watcher.sees("\n")
    assert len(line) <= 501 and "40 new messages for bob" in line and line.endswith(" more channels\n")


def registered(root: Root, pid: int, agent: str = "bob", session: str = SESSION) -> None:
    hosts.register(str(root.path), hosts.Session(session, agent, "claude", str(pid)))


def test_in_a_host_it_waits_for_the_sessions_name(root: Root, start: Callable[..., Watcher]) -> None:
    host = {"CLAUDE_PID": str(os.getpid()), "CLAUDE_CODE_SESSION_ID": SESSION}
    watcher = start("--notify", environment=host)
    root.post("alice", "t", "b", **QUICK)
    assert watcher.take(1.5) == "", "nobody's mail"
    registered(root, os.getpid())
    watcher.sees("1 new message for bob: #c 1 from alice\n")


def test_after_a_clear_the_newer_session_of_the_process_counts(root: Root, start: Callable[..., Watcher]) -> None:
    registered(root, os.getpid(), "carol", SESSION)
    registered(root, os.getpid(), "bob", "another-session")
    host = {"CLAUDE_PID": str(os.getpid()), "CLAUDE_CODE_SESSION_ID": SESSION}
    watcher = start("--notify", environment=host)
    root.post("alice", "t", "b", **QUICK)
    watcher.sees("for bob")


def test_root_and_channels_of_the_hosts_settings_are_found(root: Root, tmp_path: Path) -> None:
    """A monitor sees no options: the session's hook wrote them down where it looks."""
    root.ok("init", "d")
    home = tmp_path / "home"
    session = hosts.Session(SESSION, "bob", "claude", str(os.getpid()), root=str(root.path), channels="d")
    hosts.register(str(home / "agent-chat"), session)
    for channel, sender in (("c", "alice"), ("d", "dave")):
        root.ok("post", channel, "--from", sender, "--title", "t", "--body", "b", **QUICK)
    environment = clean_environment(HOME=str(home), CLAUDE_PID=str(os.getpid()), CLAUDE_CODE_SESSION_ID=SESSION)
    command = [sys.executable, CHAT, "watch", "--notify"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        watcher = Watcher(process)
        assert watcher.sees("\n") == "[agent-chat] 1 new message for bob: #d 1 from dave\n"
        watcher.end()


@pytest.mark.parametrize("words", [["--notify"], []], ids=["bell", "stream"])
def test_it_ends_with_its_host(root: Root, start: Callable[..., Watcher], words: list[str]) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as host:
        watcher = start("c", "--as", "bob", *words, environment={"CLAUDE_PID": str(host.pid)})
        until(lambda: waiting(root))
    assert watcher.process.wait(timeout=30) == 0
    assert watcher.take(0.1) == "" and not waiting(root)


def test_it_ends_with_its_parent(root: Root, tmp_path: Path) -> None:
    script = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(60)"
    command = [sys.executable, CHAT, "--root", str(root.path), "watch", "c", "--as", "bob", "--notify"]
    with subprocess.Popen([sys.executable, "-c", script, *command], env=clean_environment()) as parent:
        until(lambda: waiting(root))
        parent.kill()
    until(lambda: not waiting(root))
