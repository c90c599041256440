"""Faults, and the stand-in for the module `os` that lets them act: see `faults`.

A fault is an act (below, or any function of a `Call`), the number of the call at which it acts, and which
calls are numbered: those that change something, if not said.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable
from typing import Any

CHANGES = frozenset("create write link rename replace unlink mkdir rmdir fsync ftruncate".split())
LOOKS = frozenset("open read listdir lstat stat fstat".split())
_STDERR = 2  # not counted: a refusal that cannot be said is another matter
pipes = (-1, -1)  # in a child: where its go comes from, where it says that it pauses


class Call:
    """A call about to be made: `go()` makes it."""

    def __init__(self, name: str, where: list[str], function: Callable[..., Any], args: Any, options: Any) -> None:
        self.name, self.where, self.function, self.args, self.options = name, where, function, args, options
        self.is_done = False
        self.result: Any = None

    def go(self) -> Any:
        self.result = self.function(*self.args, **self.options)
        self.is_done = True
        return self.result

    def go_partly(self, count: int) -> Any:
        """Make a write of only the first `count` bytes."""
        self.args = (self.args[0], bytes(self.args[1])[:count])
        return self.go()

    def __str__(self) -> str:
        return " ".join([self.name, *self.where])


def die(call: Call) -> Any:
    """The process is killed before the call."""
    os.kill(os.getpid(), signal.SIGKILL)


def tear(call: Call) -> Any:
    """The process is killed in the midst of a write; before any other call."""
    if call.name == "write":
        call.go_partly(len(call.args[1]) // 2)
    os.kill(os.getpid(), signal.SIGKILL)


def stop(call: Call) -> Any:
    """The process is stopped before the call, until somebody sends SIGCONT."""
    os.kill(os.getpid(), signal.SIGSTOP)
    return call.go()


def pause(call: Call) -> Any:
    """The process waits before the call until `Child.go`."""
    os.write(pipes[1], b"p")
    os.read(pipes[0], 1)
    return call.go()


def short(call: Call) -> Any:
    """A write takes only a part; every other call is made."""
    return call.go_partly(max(1, len(call.args[1]) // 3)) if call.name == "write" else call.go()


def fail(number: int) -> Callable[[Call], Any]:
    """The call fails with this errno and does nothing."""

    def act(call: Call) -> Any:
        raise OSError(number, os.strerror(number))

    return act


def lie(number: int) -> Callable[[Call], Any]:
    """The call is made, and then says that it failed with this errno."""

    def act(call: Call) -> Any:
        call.go()
        raise OSError(number, os.strerror(number))

    return act


class Fault:
    """`act` at the `at`-th call of `only` (all that change something, if empty), `forever`: and at all later ones."""

    def __init__(
        self, act: Callable[[Call], Any], at: int = 1, only: Iterable[str] = (), forever: bool = False
    ) -> None:
        self.act, self.at, self.only, self.forever = act, at, frozenset(only) or CHANGES, forever

    def strikes(self, count: int) -> bool:
        return count >= self.at if self.forever else count == self.at


def _pretend(fd: int) -> None:
    """fsync without waiting for a disk."""


class FaultOS:
    """Stands in for the module `os`: numbers calls, lets the fault act, writes the trace.

    fsync is only pretended: what a power cut would leave is told by the trace, and the matrix is quick.
    """

    _TWO = frozenset(["link", "rename", "replace"])

    def __init__(self, fault: Fault | None, trace: int) -> None:
        self._fault, self._trace, self._count = fault, trace, 0
        self._paths: dict[int, str] = {1: "<stdout>"}

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name in CHANGES | LOOKS:
            return lambda *args, **options: self._meet(name, real, args, options)
        return real

    def _meet(self, name: str, real: Callable[..., Any], args: Any, options: Any) -> Any:
        if name == "write" and args[0] == _STDERR:
            return real(*args)
        if name == "open" and args[1] & os.O_CREAT:
            name = "create"
        elif name == "fsync":
            real = _pretend
        return self._make(Call(name, self._where(name, args, options), real, args, options))

    def _where(self, name: str, args: Any, options: Any) -> list[str]:
        """The paths a call is about."""
        if name in self._TWO:
            folders = options.get("src_dir_fd"), options.get("dst_dir_fd")
            return [self._path(path, folder) for path, folder in zip(args, folders)]
        return [self._path(args[0], options.get("dir_fd"))]

    def _path(self, entry: str | int, folder: int | None) -> str:
        if isinstance(entry, int):
            return self._paths.get(entry, f"<{entry}>")
        return entry if folder is None else os.path.join(self._paths[folder], entry)

    def _make(self, call: Call) -> Any:
        fault = self._fault
        try:
            if fault and call.name in fault.only:
                self._count += 1
                if fault.strikes(self._count):
                    self._note("fault", call.name, *call.where)
                    return fault.act(call)
            return call.go()
        finally:
            if call.is_done:
                self._took_place(call)

    def _took_place(self, call: Call) -> None:
        if call.name in ("open", "create"):
            self._paths[call.result] = call.where[0]
        if call.name == "write":
            fd, data = call.args[0], bytes(call.args[1])[: call.result]
            at = os.lseek(fd, 0, os.SEEK_CUR) - len(data) if fd > _STDERR else 0
            self._note("write", call.where[0], at, data.decode("latin-1"))
        elif call.name == "ftruncate":
            self._note("ftruncate", call.where[0], call.args[1])
        elif call.name in CHANGES:
            self._note(call.name, *call.where)

    def _note(self, *event: Any) -> None:
        os.write(self._trace, (json.dumps([os.getpid(), *event]) + "\n").encode())
