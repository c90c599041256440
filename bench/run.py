#!/usr/bin/env python3
"""Benchmarks: start-up, syncs, wake, idle cost, throughput, growth; each beside its limit.

    python3 bench/run.py [--rounds N] [--only startup,fsync,wake,idle,throughput,growth,tasks,locks]

Runs the interpreter it was started with, on a copy of the code in a temporary folder, with PYTHON* and
AGENT_CHAT_* cleared. Every measured command is checked to have done its work; the exit status is 1 when
one had not. It says nothing of the limits: a missed limit is shown, never an error. Linux and macOS.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WAKE_LIMIT, IDLE_LIMIT, THROUGHPUT_LIMIT = 30.0, 0.2, 0.5  # ms, percent of a core, part of a bare script's
MESSAGES = 10  # in the small channel, after those that say what happened to its tasks and locks
WORKERS, POSTS = 8, 25
WAKES = 40  # any delay up to a poll's is as likely: the median of fewer says little
TASKS = [
    ["task", "create", "c", "T-1", "--from", "alice", "--title", "t"],
    ["task", "create", "c", "T-2", "--from", "alice", "--title", "t"],
    ["task", "claim", "c", "T-2", "--as", "alice"],
    ["lock", "c", "held", "--as", "alice", "--lease-seconds", "86400"],
]
LAST = MESSAGES + len(TASKS)

COMMANDS = {
    "post": ["post", "c", "--from", "alice", "--title", "t", "--body", "b"],
    "read": ["read", "c", "--as", "bob"],
    "wait": ["wait", "c", "--as", "bob", "--timeout", "0"],
    "peek": ["peek", "c"],
    "ack": ["ack", "c", "--as", "bob", "--upto", str(LAST)],
}

# What else is measured: its words, what it says, and how many times bare Python it may take.
OTHERS: dict[str, tuple[list[str], str, float]] = {
    "check": (["check", "c", "src/a", "--as", "bob"], "available", 2.0),
    "event post": (
        ["event", "post", "c", "--from", "bob", "--type", "status", "--status", "busy", "--harness", "shell"],
        f"posted #{LAST + 1} ",
        2.0,
    ),
    "lock": (["lock", "c", "src/a", "--as", "bob"], "locked ", 2.2),
    "unlock": (["unlock", "c", "held", "--as", "alice"], "unlocked ", 2.2),
    "task claim": (["task", "claim", "c", "T-1", "--as", "bob"], "claimed task T-1", 2.2),
    "task done": (["task", "done", "c", "T-2", "--as", "alice"], "done task T-2", 2.2),
    "state": (["state", "c"], "# State: c", 2.4),
    "--help": (["--help"], "usage:", 2.4),
}
HOT_LIMIT = 1.3  # for COMMANDS

# What a post does to the disk, and nothing else: a lock, a number, a whole file linked and synced.
BARE_POST = """
import fcntl, os, sys
os.chdir(sys.argv[1])
lock = os.open("lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
number = len(os.listdir("messages")) + 1
temporary = f"tmp/{os.getpid()}"
file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
os.write(file, b"b" * 200)
os.fsync(file)
os.close(file)
os.link(temporary, f"messages/{number:04d}")
folder = os.open("messages", os.O_RDONLY)
os.fsync(folder)
os.unlink(temporary)
"""

# What people's edits in place cost at the least.
STAT_EACH = "import os, sys\nfor entry in os.scandir(sys.argv[1]):\n    os.lstat(entry.path)"

# Ten seconds of what a waiter does at the least.
BARE_POLLS = """
import os, sys, time
folder = os.open(sys.argv[1], os.O_RDONLY)
for _ in range(200):
    time.sleep(0.05)
    os.fstat(folder)
"""

# Counts what reaches the system, in a command run as usual.
COUNT_SYNCS = """
import os, sys
real, count = os.fsync, [0]
def counting(fd):
    count[0] += 1
    real(fd)
os.fsync = counting
sys.path.insert(0, sys.argv.pop(1))
from agent_chat.cli import main
status = main(sys.argv[1:])
os.write(2, b"%d" % count[0])
sys.exit(status)
"""


class Row(NamedTuple):
    """A line of the table."""

    what: str
    found: str
    beside: str = ""
    limit: str = ""
    is_kept: bool | None = None


class Run(NamedTuple):
    """What a process that has ended used and said."""

    status: int
    cpu: float  # seconds, user and system
    wall: float  # seconds
    out: str
    err: str


class Wrong(Exception):
    """A measured command did not do its work."""


# ---- processes ----------------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "AGENT_CHAT_"))}


class Process:
    """A started process of this interpreter. Its output must fit into a pipe."""

    def __init__(self, *words: str, stdin: str = os.devnull, **variables: str) -> None:
        self._out, out = os.pipe()
        self._err, err = os.pipe()
        given = os.open(stdin, os.O_RDONLY)
        actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate((given, out, err))]
        command, known = [sys.executable, *words], {**environment(), **variables}
        self._began = time.perf_counter()
        self.pid = os.posix_spawn(sys.executable, command, known, file_actions=actions)
        for fd in (given, out, err):
            os.close(fd)

    def end(self) -> Run:
        _, status, used = os.wait4(self.pid, 0)
        wall = time.perf_counter() - self._began
        texts = []
        for fd in (self._out, self._err):
            with os.fdopen(fd, encoding="utf-8", errors="replace") as stream:
                texts.append(stream.read())
        return Run(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1, used.ru_utime + used.ru_stime, wall, *texts)


def bare() -> Run:
    return Process("-c", "pass").end()


class Bench:
    """The copied code, and roots made of one template."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.code = os.path.join(home, "code")
        shutil.copytree(
            os.path.join(REPOSITORY, "agent_chat"),
            os.path.join(self.code, "agent_chat"),
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        shutil.copy(os.path.join(REPOSITORY, "chat.py"), self.code)
        self.chat = os.path.join(self.code, "chat.py")
        self.template = os.path.join(home, "template")
        self.run(self.template, "init", "c", "--members", "alice,bob")
        for words in TASKS:
            self.run(self.template, *words)
        for number in range(1, MESSAGES + 1):
            self.run(self.template, *COMMANDS["post"])
            if number < MESSAGES:
                self.run(self.template, "read", "c", "--as", "bob")

    def run(self, root: str, *words: str) -> Run:
        done = Process(self.chat, "--root", root, *words).end()
        if done.status:
            raise Wrong(f"{' '.join(words)} ended with {done.status}: {done.err}")
        return done

    def root(self) -> str:
        """A fresh root: the channel `c` with ten messages, the last of them unread by bob."""
        path = os.path.join(self.home, "root")
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.template, path)
        return path


def channel_file(root: str, *names: str) -> str:
    return os.path.join(root, "c", *names)


def check(command: str, root: str, done: Run) -> None:
    """Wrong unless the command did what it is for."""
    if command in OTHERS:
        if done.status or OTHERS[command][1] not in done.out:
            raise Wrong(f"{command} did not do its work: {done}")
        return
    with open(channel_file(root, ".cursors", "bob.txt"), encoding="ascii") as file:
        cursor = int(file.read())
    shown = {"post": f"posted #{LAST + 1} ", "read": f'seq="{LAST}"', "wait": f'seq="{LAST}"', "ack": f"#{LAST}"}
    expected = shown.get(command, f'seq="{LAST - 1}"')
    moved = LAST if command in ("read", "wait", "ack") else LAST - 1
    is_posted = os.path.exists(channel_file(root, f"{LAST + 1:04d}-alice-t.md"))
    if done.status or expected not in done.out or cursor != moved or is_posted != (command == "post"):
        raise Wrong(f"{command} did not do its work: {done}")


# ---- figures --------------------------------------------------------------------------------------------


def startup(bench: Bench, rounds: int) -> list[Row]:
    """Each command against bare Python, taken in turns and compared pair by pair: the speed of a machine drifts."""
    measured = {**COMMANDS, **{command: words for command, (words, _, _) in OTHERS.items()}}
    times: dict[str, list[tuple[Run, Run]]] = {command: [] for command in measured}
    for turn in range(rounds + 1):
        for command, words in measured.items():
            root, floor = bench.root(), bare()
            done = Process(bench.chat, "--root", root, *words).end()
            check(command, root, done)
            if turn:  # the first is the warm one
                times[command].append((floor, done))
    rows = []
    for command, pairs in times.items():
        ratio, beside = compared(pairs)
        limit = OTHERS[command][2] if command in OTHERS else HOT_LIMIT
        rows.append(Row(f"start-up of {command}", f"{ratio:.2f} x", beside, f"{limit} x", ratio <= limit))
    return rows


def compared(pairs: Sequence[tuple[Run, Run]]) -> tuple[float, str]:
    """What the second of two runs takes of the first one's CPU time, the median of the pairs; and more of it."""
    floors, found = zip(*pairs)
    cpu, floor = (1000 * statistics.median(run.cpu for run in runs) for runs in (found, floors))
    wall, floor_wall = (1000 * statistics.median(run.wall for run in runs) for runs in (found, floors))
    walls = statistics.median(done.wall / floor.wall for floor, done in pairs)
    beside = f"CPU {cpu:.1f} of {floor:.1f} ms, wall {walls:.2f} x ({wall:.1f} of {floor_wall:.1f} ms)"
    return statistics.median(done.cpu / floor.cpu for floor, done in pairs), beside


def fsync(bench: Bench, rounds: int) -> list[Row]:
    rows = []
    for command, words in COMMANDS.items():
        root = bench.root()
        done = Process("-c", COUNT_SYNCS, bench.code, "--root", root, *words).end()
        check(command, root, done)
        rows.append(Row(f"fsyncs of {command}", done.err.strip()))
    return rows


def wake_times(bench: Bench, root: str, rounds: int) -> list[float]:
    """From the exit of `post` to the exit of a `wait` that has waited for longer than a second; ms."""
    found = []
    for _ in range(rounds):
        bench.run(root, "read", "c", "--as", "bob")
        ended: list[tuple[Run, float]] = []
        waiter = Process(bench.chat, "--root", root, "wait", "c", "--as", "bob")
        thread = threading.Thread(target=_note_end, args=(waiter, ended))
        thread.start()
        time.sleep(random.uniform(1.3, 2.1))
        bench.run(root, *COMMANDS["post"])
        posted = time.perf_counter()
        thread.join()
        done, at = ended[0]
        if done.status or "<message" not in done.out:
            raise Wrong(f"wait did not deliver: {done}")
        found.append(1000 * (at - posted))
    return found


def wake(bench: Bench, rounds: int) -> list[Row]:
    found = wake_times(bench, bench.root(), WAKES)
    median = statistics.median(found)
    beside = f"{min(found):.0f} to {max(found):.0f} ms in {WAKES} rounds"
    is_kept = median <= WAKE_LIMIT
    return [Row("wake: post's exit to wait's", f"{median:.0f} ms", beside, f"{WAKE_LIMIT:.0f} ms", is_kept)]


def _note_end(process: Process, ended: list[tuple[Run, float]]) -> None:
    done = process.end()
    ended.append((done, time.perf_counter()))


def idle_percent(bench: Bench, root: str) -> float:
    """What a waiter uses from its second to its twenty-first second, in percent of a core."""
    bench.run(root, "read", "c", "--as", "bob")

    def waited(seconds: int) -> float:
        words = ("--root", root, "wait", "c", "--as", "bob", "--timeout", str(seconds))
        done = Process(bench.chat, *words).end()
        if done.status != 4:
            raise Wrong(f"wait did not time out: {done}")
        return done.cpu

    before = statistics.median(waited(1) for _ in range(5))
    return max(0.0, waited(21) - before) * 100 / 20


def idle(bench: Bench, rounds: int) -> list[Row]:
    percent = idle_percent(bench, bench.root())
    floor = 10 * Process("-c", BARE_POLLS, bench.home).end().cpu - 10 * bare().cpu
    beside = f"{200 * percent:.0f} ms of CPU in 20 s; a bare loop of sleep and fstat {floor:.3f} %"
    return [Row("idle cost of wait", f"{percent:.3f} %", beside, f"{IDLE_LIMIT} %", percent <= IDLE_LIMIT)]


def throughput(bench: Bench, rounds: int) -> list[Row]:
    """8 workers start 25 processes each, one after the other, that post; the same with a bare script."""
    root, bare_root = bench.root(), os.path.join(bench.home, "bare")
    for name in ("messages", "tmp"):
        os.makedirs(os.path.join(bare_root, name))
    post = _together(lambda: bench.run(root, *COMMANDS["post"]))
    floor = _together(lambda: _bare_post(bare_root))
    for folder, before in ((channel_file(root), LAST), (os.path.join(bare_root, "messages"), 0)):
        count = len({name[:4] for name in os.listdir(folder) if name[:4].isdigit()})
        if count != before + WORKERS * POSTS:
            raise Wrong(f"{count - before} of {WORKERS * POSTS} posts are in {folder}")
    part, beside = post / floor, f"{post:.0f} posts/s, a bare script {floor:.0f} posts/s"
    limit = f"{THROUGHPUT_LIMIT} x"
    return [Row(f"{WORKERS} x {POSTS} posts", f"{part:.2f} x", beside, limit, part >= THROUGHPUT_LIMIT)]


def _bare_post(root: str) -> None:
    done = Process("-c", BARE_POST, root).end()
    if done.status:
        raise Wrong(f"the bare script failed: {done.err}")


def _together(post: Callable[[], object]) -> float:
    """Posts a second of all workers."""
    wrong: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(POSTS):
                post()
        except Wrong as error:
            wrong.append(error)

    began, threads = time.perf_counter(), [threading.Thread(target=work) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
    return WORKERS * POSTS / (time.perf_counter() - began)


# ---- the table -------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> str:
    """Aligned, and Markdown at the same time."""
    verdict = {True: "kept", False: "MISSED", None: ""}
    cells = [("what", "found", "limit", "", "in detail")]
    cells += [(row.what, row.found, row.limit, verdict[row.is_kept], row.beside) for row in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(5)]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in cells]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def _of(module: str) -> Callable[[Bench, int], list[Row]]:
    """The figures of another file here; it can be run by itself, too."""
    return lambda bench, rounds: getattr(__import__(module), module)(bench, max(1, rounds // 2))


FIGURES: dict[str, Callable[[Bench, int], list[Row]]] = {
    "startup": startup,
    "fsync": fsync,
    "wake": wake,
    "idle": idle,
    "throughput": throughput,
    "growth": _of("growth"),
    "tasks": _of("tasks"),
    "locks": _of("locks"),
}


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="benchmarks of agent-chat; see bench/README.md")
    parser.add_argument("--rounds", type=int, default=40, metavar="N", help="rounds of the start-up figures (40)")
    parser.add_argument("--only", default=",".join(FIGURES), metavar="A,B", help=f"some of {', '.join(FIGURES)}")
    given = parser.parse_args(words)
    chosen = given.only.split(",")
    if set(chosen) - set(FIGURES) or given.rounds < 1:
        parser.error(f"--only takes some of {', '.join(FIGURES)}, --rounds a number from 1")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="agent-chat-bench-") as home:
        try:
            bench = Bench(home)
            for name in chosen:
                print(f"bench: {name} ...", file=sys.stderr, flush=True)
                rows += FIGURES[name](bench, given.rounds)
        except Wrong as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    print(f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores\n")
    print(table(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
