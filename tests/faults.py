"""Run a command in a forked child in which the n-th call that changes the disk goes wrong.

    outcome = run(root, ["post", "c", ...], Fault(die, 3))            # dies before its 3rd change
    for n, copy, outcome in at_each_call(copies, words, fail(errno.EIO)):   # 1, 2, 3 ... until none is left
        ...
    with Child(root, words, Fault(pause, 3)) as child:
        if child.is_paused():                                         # else it ended before its 3rd change
            ...                                                       # run something else meanwhile
        outcome = child.end()

The child is forked from this warmed process. It puts a `FaultOS` in place of `os` in `storage.disk` and
`cli.output`, so that its calls have numbers, and runs `cli.main`. What the calls did is written to a trace,
which `powerloss.PowerLoss` replays. A fault is an act (die, tear, stop, pause, short, fail(errno), lie(errno)
or any function of a `Call`), the number of the call, and which calls are numbered.
"""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import faultos
import pytest
from faultos import CHANGES, LOOKS, Call, Fault, FaultOS, die, fail, lie, pause, short, stop, tear
from support import Result, Root, clean_environment

from agent_chat.cli import main, output
from agent_chat.cli.table import COMMANDS
from agent_chat.storage import disk, oslock

if not hasattr(os, "fork"):
    pytest.skip("faults are put into forked children", allow_module_level=True)

__all__ = ["CHANGES", "LOOKS", "Call", "Child", "Fault", "Outcome", "Trace", "at_each_call", "copier"]
__all__ += ["die", "fail", "lie", "pause", "run", "short", "stop", "tear"]

PATIENCE = 30.0  # seconds for a child to end or to reach its pause; only a defect takes that long
_MOST_CALLS = 500
_BROKEN = 70  # exit status of a child whose command let an exception through


class Outcome(Result):
    """What became of a command: `died`, or `status`, `out`, `err`, `code`. `fired`: the call that the fault met."""

    def __init__(self, died: bool, status: int, out: str, err: str, events: list[list[Any]]) -> None:
        super().__init__(status, out, err)
        self.died, self.events = died, events
        self.fired = " ".join(next(([str(part) for part in event[2:]] for event in events if event[1] == "fault"), []))

    def __repr__(self) -> str:
        return f"<died {self.died}, fired {self.fired!r}, {super().__repr__()}>"

    @property
    def changes(self) -> list[str]:
        """The names of the calls that changed something."""
        return [event[1] for event in self.events if event[1] in CHANGES]


class Trace:
    """A file to which children add what they did, in the order in which they did it."""

    def __init__(self) -> None:
        self.fd, name = tempfile.mkstemp()
        os.unlink(name)
        os.set_inheritable(self.fd, False)

    def events(self) -> list[list[Any]]:
        """[process, call, paths or what else there is to say]."""
        size = os.fstat(self.fd).st_size
        return [json.loads(line) for line in os.pread(self.fd, size, 0).splitlines()]

    def close(self) -> None:
        os.close(self.fd)


class Child:
    """A command in a forked child. Leaving the `with` block kills it if it is still there.

    `locks`: "real"; "nothing", they succeed and exclude nobody; "none", the file system says ENOLCK.
    `patience`: seconds that it waits behind a lock at most. `trace`: one to share with other children.
    `first`: what else the child does before the command.
    """

    def __init__(
        self,
        root: Root,
        words: Iterable[object],
        fault: Fault | None = None,
        *,
        locks: str = "real",
        patience: float | None = None,
        trace: Trace | None = None,
        first: Callable[[], object] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.trace, self._owns_trace = trace or Trace(), trace is None
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        go, self._go = os.pipe()
        self._paused, told = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            faultos.pipes = go, told
            argv = ["--root", str(root.path), *map(str, words)]
            _run_in_child(argv, fault, self, locks, patience, first, environment or {})
        os.close(go)
        os.close(told)
        self.status: int | None = None  # as waitpid says it

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._reap(os.WNOHANG)
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self._reap(0)
        for fd in (self._go, self._paused):
            os.close(fd)
        self._out.close()
        self._err.close()
        if self._owns_trace:
            self.trace.close()

    def is_paused(self) -> bool:
        """Wait until it pauses; False when it ended instead."""
        ready, _, _ = select.select([self._paused], [], [], PATIENCE)
        assert ready, "the child neither pauses nor ends"
        return os.read(self._paused, 1) == b"p"

    def is_stopped(self) -> bool:
        """Wait until it is stopped by a signal; False when it ended instead."""
        self._reap(os.WUNTRACED)
        if self.status is not None and os.WIFSTOPPED(self.status):
            self.status = None
            return True
        return False

    def end(self) -> Outcome:
        """Let it go on if it pauses, wait for its end."""
        try:
            os.write(self._go, b"g")
        except BrokenPipeError:
            pass  # it has ended already
        while self.is_paused():
            pass
        status = self._reap(0)
        assert status is not None
        died = os.WIFSIGNALED(status)
        status = -os.WTERMSIG(status) if died else os.WEXITSTATUS(status)
        texts = []
        for stream in (self._out, self._err):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8"))
        events = [event for event in self.trace.events() if event[0] == self.pid]
        return Outcome(died, status, *texts, events)

    def _reap(self, how: int) -> int | None:
        if self.status is None:
            pid, status = os.waitpid(self.pid, how)
            self.status = status if pid else None
        return self.status

    def take_streams(self) -> None:
        """In the child: standard streams of its own."""
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(self._out.fileno(), 1)
        os.dup2(self._err.fileno(), 2)
        sys.stdin, sys.stdout, sys.stderr = (
            io.TextIOWrapper(io.FileIO(fd, mode, closefd=False), encoding="utf-8") for fd, mode in enumerate("rww")
        )


def _run_in_child(
    argv: list[str],
    fault: Fault | None,
    child: Child,
    locks: str,
    patience: float | None,
    first: Callable[[], object] | None,
    environment: dict[str, str],
) -> NoReturn:
    status = _BROKEN
    try:
        gc.disable()  # it would touch, and so copy, all memory
        child.take_streams()
        os.environ.clear()
        os.environ.update(clean_environment(**environment))
        sys.argv = ["agent-chat"]
        _make_locks(locks, patience)
        if first:
            first()
        disk.os = output.os = FaultOS(fault, child.trace.fd)  # type: ignore[assignment, attr-defined]
        status = main(argv)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _make_locks(locks: str, patience: float | None) -> None:
    import fcntl

    def no_locks(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    if locks == "nothing":
        fcntl.flock = lambda fd, operation: None  # type: ignore[assignment]
    elif locks == "none":
        fcntl.flock = no_locks  # type: ignore[assignment]
    if patience is not None:
        hold = oslock.hold
        oslock.hold = lambda folder, name, who, seconds=patience, shared=False: hold(
            folder, name, who, min(seconds, patience), shared
        )


def run(root: Root, words: Iterable[object], fault: Fault | None = None, **options: Any) -> Outcome:
    """Run a command in a child to its end; the options are those of `Child`."""
    with Child(root, words, fault, **options) as child:
        return child.end()


def at_each_call(
    copies: Callable[[], Root],
    words: Iterable[object],
    act: Callable[[Call], Any],
    only: Iterable[str] = (),
    **options: Any,
) -> Iterator[tuple[int, Root, Outcome]]:
    """The command with the fault at its 1st, 2nd, 3rd ... call, each in a fresh copy, until a run meets none."""
    words = list(words)
    for n in range(1, _MOST_CALLS):
        root = copies()
        outcome = run(root, words, Fault(act, n, only), **options)
        yield n, root, outcome
        if not outcome.fired:
            return
    raise AssertionError(f"{words} makes more than {_MOST_CALLS} calls")


def copier(template: Root, into: Path) -> Callable[[], Root]:
    """A function that gives a fresh copy of the template, always in the same place."""

    def copy() -> Root:
        path = into / "copy"
        if path.exists():
            shutil.rmtree(path)
        shutil.copytree(template.path, path, symlinks=True)
        return Root(path)

    return copy


def warm() -> None:
    """Import here what commands import late, so that no child has to."""
    modules = {f"agent_chat.cli.{spec[0]}" for spec in COMMANDS.values()} | {"agent_chat.cli.parser"}
    for name in sorted(modules | {"agent_chat.storage.records", "agent_chat.storage.watch", "difflib", "re", "shlex"}):
        try:
            __import__(name)
        except ModuleNotFoundError:
            continue  # a command whose module is still to be written


warm()
