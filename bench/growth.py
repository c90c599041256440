#!/usr/bin/env python3
"""Benchmark: a channel of 100,000 messages against one of 10; each figure beside its limit.

    python3 bench/growth.py [--rounds N] [--messages N]

Both channels, bare Python and a plain sorted listing are used in turns, so that a busy machine slows all. As
bench/run.py: the interpreter it was started with, a copy of the code, PYTHON* and AGENT_CHAT_* cleared; exit
status 1 when a command did not do its work, a missed limit is only shown. Linux and macOS; memory on Linux.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time

from run import WAKES, Bench, Process, Row, Run, Wrong, bare, channel_file, compared, idle_percent, table, wake_times

FEW, MANY = 10, 100_000
GROWTH_LIMIT, FOREIGN_LIMIT, MEMORY_LIMIT, WAKE_LIMIT, IDLE_LIMIT = 1.3, 1.5, 1.3, 30.0, 0.2
HEAD = "---\nseq: {0}\nfrom: alice\nto: all\nchannel: c\nts: 2026-01-01T00:00:00+00:00\ntitle: t\n---\n"
POST = ("post", "c", "--from", "alice", "--title", "t", "--body", "b")
LISTING = "import os, sys; sorted(os.listdir(sys.argv[1]))"
SAY_MEMORY = """
import sys
if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv.pop(1))
    from agent_chat.cli import main
    main(sys.argv[1:])
with open("/proc/self/status") as file:
    print("\\npeak", next(line.split()[1] for line in file if line.startswith("VmHWM")))
"""


def put(root: str, number: int) -> None:
    """A message as git or another program puts it there."""
    with open(channel_file(root, f"{number:04d}-alice-t.md"), "w", encoding="utf-8") as file:
        file.write(HEAD.format(number) + "body\n")


def fill(bench: Bench, count: int) -> str:
    """A root whose channel `c` has this many messages, all read by bob."""
    root = os.path.join(bench.home, f"messages-{count}")
    bench.run(root, "init", "c", "--members", "alice,bob")
    for number in range(1, count + 1):
        put(root, number)
    bench.run(root, "ack", "c", "--as", "bob", "--upto", str(count))
    bench.run(root, *POST)
    bench.run(root, "read", "c", "--as", "bob")
    return root


def newest(root: str) -> int:
    return max(int(name.partition("-")[0]) for name in os.listdir(os.path.join(root, "c")) if name[0].isdigit())


class Turn:
    """One round on one root: each command once, checked to have done its work."""

    def __init__(self, bench: Bench, root: str, last: int) -> None:
        self.bench, self.root, self.last = bench, root, last
        self.found: dict[str, Run] = {}

    def run(self, what: str, said: str, *words: str) -> None:
        done = Process(self.bench.chat, "--root", self.root, *words).end()
        if said not in done.out + done.err:
            raise Wrong(f"{what} in {self.root} did not do its work: {done}")
        self.found[what] = done

    def post(self) -> None:
        self.last += 1
        self.run("post", f"posted #{self.last} ", *POST)
        time.sleep(0.03)  # longer than a tick of the folder's time, as between two commands of an agent

    def all(self) -> None:
        shown = f'seq="{self.last + 1}"'
        self.post()
        self.run("peek", shown, "peek", "c")
        self.run("read, 1 new", shown, "read", "c", "--as", "bob")
        self.run("read, nothing new", "no new messages", "read", "c", "--as", "bob")
        self.post()
        self.run("wait, 1 new", f'seq="{self.last}"', "wait", "c", "--as", "bob")
        self.run("wait, nothing new", "no new message", "wait", "c", "--as", "bob", "--timeout", "0")
        self.last += 1
        put(self.root, self.last)
        time.sleep(0.03)
        self.run("first look after a foreign change", f'seq="{self.last}"', "read", "c", "--as", "bob")


def growth(bench: Bench, rounds: int, many: int = MANY) -> list[Row]:
    roots = [fill(bench, FEW), fill(bench, many)]
    lasts = [newest(root) for root in roots]
    found: dict[str, list[list[Run]]] = {}
    floors: list[Run] = []
    listings: list[Run] = []
    for turn in range(rounds + 1):
        for at, root in enumerate(roots):
            one = Turn(bench, root, lasts[at])
            one.all()
            lasts[at] = one.last
            for what, done in one.found.items():
                found.setdefault(what, [[], []])[at].append(done) if turn else None
        if turn:
            floors.append(bare())
            listings.append(Process("-c", LISTING, os.path.join(roots[1], "c")).end())
    rows = []
    for what, (few, big) in found.items():
        if what.startswith("first look"):
            (ratio, beside), limit = compared(list(zip(listings, big))), FOREIGN_LIMIT
            what += f", {many} messages, to a sorted listing"
        else:
            (ratio, beside), limit = compared(list(zip(few, big))), GROWTH_LIMIT
            what = f"{what}: {many} messages to {FEW}"
            beside += f", {compared(list(zip(floors, big)))[0]:.2f} x bare"
        rows.append(Row(what, f"{ratio:.2f} x", beside, f"{limit} x", ratio <= limit))
    return [*rows, *memory(bench, roots[1]), *waiting(bench, roots[1], many)]


def memory(bench: Bench, root: str) -> list[Row]:
    """The peak of `read` with one new message, against Python that does nothing but ask for its own."""
    if not os.path.exists("/proc/self/status"):
        return []
    bench.run(root, *POST)
    time.sleep(0.03)
    done = Process("-c", SAY_MEMORY, bench.code, "--root", root, "read", "c", "--as", "bob").end()
    if "1 more" in done.out or "<message" not in done.out:
        raise Wrong(f"read did not show one message: {done}")
    peak, floor = (int(run.out.split("peak ")[1]) for run in (done, Process("-c", SAY_MEMORY).end()))
    ratio, beside = peak / floor, f"{peak / 1024:.1f} of {floor / 1024:.1f} MiB"
    return [Row("memory of read, 1 new", f"{ratio:.2f} x", beside, f"{MEMORY_LIMIT} x", ratio <= MEMORY_LIMIT)]


def waiting(bench: Bench, root: str, many: int) -> list[Row]:
    times = wake_times(bench, root, WAKES)
    median, percent = statistics.median(times), idle_percent(bench, root)
    beside = f"{min(times):.0f} to {max(times):.0f} ms in {len(times)} rounds"
    return [
        Row(f"wake, {many} messages", f"{median:.0f} ms", beside, f"{WAKE_LIMIT:.0f} ms", median <= WAKE_LIMIT),
        Row(f"idle cost of wait, {many} messages", f"{percent:.3f} %", "", f"{IDLE_LIMIT} %", percent <= IDLE_LIMIT),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="rounds of each command (default 20)")
    parser.add_argument("--messages", type=int, default=MANY, metavar="N", help=f"in the large channel ({MANY})")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agent-chat-bench-") as home:
        try:
            rows = growth(Bench(home), given.rounds, given.messages)
        except Wrong as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    print(f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores\n\n{table(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
