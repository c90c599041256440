#!/usr/bin/env python3
"""Benchmark: task commands in a channel of 5,000 tasks against one of 10; each beside its limit.

    python3 bench/tasks.py [--rounds N]

Both channels are used in turns, so that a busy machine slows both. Every tenth task has an owner, every
second one waits for the one before it, and each has its audit message. As bench/run.py: the interpreter it
was started with, a copy of the code, PYTHON* and AGENT_CHAT_* cleared; exit status 1 when a command did not
do its work, a missed limit is only shown. Linux and macOS.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from run import Bench, Row, Wrong, channel_file, environment, table

FEW, MANY = 10, 5000
LIMITS = {"task list": 5.0}  # it prints them all
STAMP = "2026-01-01T00:00:00"

Measured = tuple[float, float]  # seconds: wall, CPU


def write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def fill(bench: Bench, count: int) -> str:
    """A root whose channel `c` has this many tasks and their messages."""
    root = os.path.join(bench.home, f"tasks-{count}")
    bench.run(root, "init", "c", "--members", "alice,bob")
    for number in range(1, count + 1):
        name = f"T-{number:04d}"
        owner = "alice" if number % 10 == 0 else None
        needs = [f"T-{number - 1:04d}"] if number % 2 == 0 else []
        record = {"id": name, "channel": "c", "title": f"task number {number}", "status": "open", "owner": owner}
        record.update({"created_by": "alice", "depends_on": needs, "files_hint": ["src/a.py"], "acceptance": ["works"]})
        record.update({"lease_expires_at": None, "branch": None, "updated_at": f"{STAMP}.000000+00:00"})
        write(channel_file(root, "tasks", f"{name}.json"), json.dumps(record, indent=2) + "\n")
        body = {"channel": "c", "event": "task.created", "task_id": name, "status": "open", "owner": owner}
        head = f"seq: {number}\nfrom: alice\nto: all\nchannel: c\nts: {STAMP}+00:00\nstatus: task.created\n"
        text = f"---\n{head}title: task.created {name}\n---\n{json.dumps(body, indent=2, sort_keys=True)}\n"
        write(channel_file(root, f"{number:04d}-alice-task-created-{name.lower()}.md"), text)
    return root


def measure(bench: Bench, root: str, words: Sequence[str], check: Callable[[str], bool]) -> Measured:
    """One call; its output may be longer than a pipe takes."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, bench.chat, "--root", root, *words]
        status = subprocess.run(command, stdout=out, env=environment(), check=False).returncode
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        out.seek(0)
        text = out.read()
    if status or not check(text):
        raise Wrong(f"{' '.join(words)} in {root} ended with {status}: {text[:200]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(bench: Bench, roots: Sequence[str], turn: int) -> dict[str, list[Measured]]:
    """Each command in each root: {command: [few, many]}."""
    found: dict[str, list[Measured]] = {}
    name = f"T-{2 * (turn % 5) + 1:04d}"
    for root, count in zip(roots, (FEW, MANY)):

        def claimed(text: str, root: str = root) -> bool:
            return text.startswith("claimed") and os.path.exists(channel_file(root, "claims", f"{name}.bob.json"))

        def released(text: str, root: str = root) -> bool:
            return text.startswith("released") and not os.listdir(channel_file(root, "claims"))

        steps: dict[str, tuple[list[str], Callable[[str], bool]]] = {
            "task list": (["task", "list", "c"], lambda text, count=count: text.count("\n") == count + 1),
            "task show": (["task", "show", "c", name], lambda text: f"id: {name}\n" in text),
            "task claim": (["task", "claim", "c", name, "--as", "bob"], claimed),
            "task renew": (["task", "renew", "c", name, "--as", "bob"], lambda text: text.startswith("renewed")),
            "task release": (["task", "release", "c", name, "--as", "bob"], released),
        }
        for command, (words, check) in steps.items():
            found.setdefault(command, []).append(measure(bench, root, words, check))
    return found


def tasks(bench: Bench, rounds: int) -> list[Row]:
    roots = [fill(bench, FEW), fill(bench, MANY)]
    compare(bench, roots, 0)  # the warm round
    turns = [compare(bench, roots, turn) for turn in range(rounds)]
    rows = []
    for command in turns[0]:
        few, many, cpu_few, cpu_many = (
            1000 * statistics.median(turn[command][at][kind] for turn in turns) for kind in (0, 1) for at in (0, 1)
        )
        beside = f"CPU {cpu_many:.0f} of {cpu_few:.0f} ms, wall {many / few:.2f} x ({many:.0f} of {few:.0f} ms)"
        what = f"{command}: {MANY} tasks to {FEW}"
        ratio, limit = cpu_many / cpu_few, LIMITS.get(command, 1.5)
        rows.append(Row(what, f"{ratio:.2f} x", beside, f"{limit} x", ratio <= limit))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="rounds of each command (default 15)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        try:
            print(table(tasks(Bench(home), options.rounds)))
        except Wrong as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
