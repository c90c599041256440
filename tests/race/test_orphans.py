"""A `wait` whose parent is gone eats no mail."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scene import shown
from support import CHAT, clean_environment, make_root


@pytest.mark.parametrize("is_posted_at_once", [True, False])
def test_a_wait_ends_when_its_shell_was_killed_and_leaves_the_cursor(tmp_path: Path, is_posted_at_once: bool) -> None:
    """Case W4: the message comes right after the kill, or only when the wait has ended."""
    root = make_root(tmp_path)
    wait = shlex.join([sys.executable, CHAT, "--root", str(root.path), "wait", "c", "--as", "bob", "--timeout", "60"])
    shell = subprocess.Popen(
        ["sh", "-c", f"{wait} & exec sleep 60 >/dev/null 2>&1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=clean_environment(),
    )
    time.sleep(1.5)  # it has started and waits
    started = time.monotonic()
    os.kill(shell.pid, signal.SIGKILL)
    message = ("post", "c", "--from", "alice", "--title", "t", "--body", "<mail> ... </mail>")
    if is_posted_at_once:
        root.ok(*message)
    assert shell.stdout
    said = shell.stdout.read().decode()  # until the wait closes it
    assert time.monotonic() - started < 5
    shell.wait()
    shell.stdout.close()
    assert "mail" not in said and len(said.splitlines()) == 1, said
    if not is_posted_at_once:
        root.ok(*message)
    assert shown(root.ok("read", "c", "--as", "bob")) == {"mail": 1}
