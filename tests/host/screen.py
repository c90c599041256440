"""An interactive session of a host in a terminal of its own, and a person who types."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path

ROWS, COLUMNS = 45, 160
_ORDER, _TITLE = r"\x1b\[([0-9;?<=>]*)[ -/]*([@-~])", r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
_PARTS = re.compile(rf"{_ORDER}|{_TITLE}|\x1b.|([\r\n\b])|([^\x1b\r\n\b]+)")


def painted(sent: bytes) -> str:
    """What a person sees of it. Hosts paint only what changes, cell by cell, so a word is seldom sent as one."""
    rows: dict[int, dict[int, str]] = {}
    row = column = 0
    for numbers, order, control, text in _PARTS.findall(sent.decode("utf-8", "replace")):
        if order == "H":
            row, column = ([int(number or 1) - 1 for number in numbers.split(";")] + [0, 0])[:2]
        elif order == "K":
            rows[row] = {at: cell for at, cell in rows.get(row, {}).items() if at < column}
        elif order == "J":
            rows = {at: cells for at, cells in rows.items() if at < row}
        elif control:
            row, column = row + (control == "\n"), 0 if control == "\r" else max(0, column - (control == "\b"))
        for cell in text:
            rows.setdefault(row, {})[column] = cell
            column += 1
    return "\n".join("".join(rows[at].get(x, " ") for x in range(max(rows[at], default=-1) + 1)) for at in sorted(rows))


class Terminal:
    """Runs until `end` or `close`; `screen` is all that the host ever sent."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._fd, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=screen, stdout=screen, stderr=screen, start_new_session=True
        )
        os.close(screen)
        self.screen = b""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while part := os.read(self._fd, 65536):
                self.screen += part
        except OSError:
            pass  # the session ended

    def type(self, text: str) -> None:
        time.sleep(0.5)  # what is typed while a host still paints may be lost
        os.write(self._fd, text.encode())
        time.sleep(0.5)  # what comes at once with a line feed is taken as pasted
        os.write(self._fd, b"\r")

    def shows(self, text: str, seconds: float = 60) -> None:
        """Wait until it was sent, or stands on the screen."""
        deadline = time.monotonic() + seconds
        while text.encode() not in self.screen and text not in painted(self.screen):
            assert time.monotonic() < deadline, painted(self.screen)
            time.sleep(0.05)

    def end(self) -> int:
        """Leave as a person would; the exit status."""
        self.type("/exit")
        return self._process.wait(timeout=30)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._fd)
