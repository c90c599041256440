"""Run a command as a person would: standard input and error output are a terminal of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import pytest
from support import CHAT, Result, Root, clean_environment

if os.name == "nt":
    pytest.skip("needs pseudo-terminals", allow_module_level=True)

import pty
import select


def at_terminal(root: Root, *words: object, typed: str = "c\n", **options: Any) -> Result:
    """The command's answer when `typed` is typed. `stdin`, `stderr`: something else in place of the terminal."""
    environment = clean_environment(**options.pop("environment", {}))
    master, slave = pty.openpty()
    try:
        command = [sys.executable, CHAT, "--root", str(root.path), *map(str, words)]
        streams = {"stdin": slave, "stderr": slave, "stdout": subprocess.PIPE, **options}
        process = subprocess.Popen(command, env=environment, **streams)
        os.close(slave)
        slave = -1
        os.write(master, typed.encode())
        shown = _shown(master, process)
        out = process.communicate(timeout=60)[0]
    finally:
        os.close(master)
        if slave >= 0:
            os.close(slave)
    text = shown.decode("utf-8", "replace").replace("\r\n", "\n").removeprefix(typed)
    return Result(process.returncode, out.decode("utf-8"), text)


def _shown(master: int, process: subprocess.Popen[bytes]) -> bytes:
    """What appears on the terminal until the command ends."""
    shown, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        is_over = process.poll() is not None
        if select.select([master], [], [], 0 if is_over else 0.05)[0]:
            try:
                part = os.read(master, 65536)
            except OSError:  # Linux: the last one who had it open is gone
                return shown
            if not part:
                return shown
            shown += part
        elif is_over:
            return shown
    raise AssertionError("the command does not end")


def decide(root: Root, *words: object, channel: str = "c") -> Result:
    """A person's decision, which must work."""
    result = at_terminal(root, *words, typed=f"{channel}\n")
    assert result.status == 0, (words, result)
    return result
