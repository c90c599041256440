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
which `powerloss.PowerLoss` replays. A fault is an act (below, or any function of a `Call`), the number of
the call at which it acts, and which calls are numbered: those that change something, if not said.
"""

from __future__ import annotations

import errno
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

import pytest
from support import Result, Root, clean_environment

from agent_chat.cli import main, output
from agent_chat.cli.table import COMMANDS
from agent_chat.storage import disk, oslock

if not hasattr(os, "fork"):
    pytest.skip("faults are put into forked children", allow_module_level=True)

CHANGES = frozenset("create write link rename replace unlink mkdir rmdir fsync ftruncate".split())
LOOKS = frozenset("open read listdir lstat stat fstat".split())
PATIENCE = 30.0  # seconds for a child to end or to reach its pause; only a defect takes that long
_MOST_CALLS = 500
_BROKEN = 70  # exit status of a child whose command let an exception through
_STDERR = 2  # not counted: a refusal that cannot be said is another matter


# ---- faults ---------------------------------------------------------------------------------------


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
    os.write(_pipes[1], b"p")
    os.read(_pipes[0], 1)
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


# ---- children ---------------------------------------------------------------------------------------

_pipes = (-1, -1)  # in a child: where its go comes from, where it says that it pauses


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
        self._own = None if trace else Trace()
        self.trace = trace or self._own or Trace()
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        go, self._go = os.pipe()
        self._paused, told = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            global _pipes
            _pipes = go, told
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
        if self._own:
            self._own.close()

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
