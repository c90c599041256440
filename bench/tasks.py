#!/usr/bin/env python3
"""Benchmark: task commands in channels of 1,000 and 5,000 tasks against one of 10; each beside its limit.

    python3 bench/tasks.py [--rounds N]

With 1,000 tasks a command is compared with itself with 10. What it takes more with 5,000, with what bare Python takes
to list and stat them: people edit records in place, so each must be looked at. `task list`, by the task it prints.
The channels are used in turns, so that a busy machine slows all. Every tenth task has an owner, every second one
waits for the one before it, and each has its audit message. As bench/run.py: the interpreter it was started with, a
copy of the code, PYTHON* and AGENT_CHAT_* cleared; exit status 1 when a command did not do its work, a missed limit is
only shown. Linux and macOS.
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

from run import STAT_EACH, Bench, Row, Wrong, channel_file, environment, table

SIZES = FEW, MANY, MOST = 10, 1000, 5000
SETTLED = 2.1  # seconds: of a younger record nothing is remembered
LIMIT, STAT_LIMIT, LIST_LIMIT = 1.5, 1.0, 1.3
STATS = "a stat each"
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


def measure(words: Sequence[str], check: Callable[[str], bool]) -> Measured:
    """One process of this interpreter; its output may be longer than a pipe takes."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        status = subprocess.run([sys.executable, *words], stdout=out, env=environment(), check=False).returncode
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        out.seek(0)
        text = out.read()
    if status or not check(text):
        raise Wrong(f"{' '.join(words)} ended with {status}: {text[:200]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def turn_of(bench: Bench, roots: Sequence[str], turn: int) -> dict[str, list[Measured]]:
    """Each command in each root: {command: [few, many, most]}; STATS is bare Python."""
    found: dict[str, list[Measured]] = {}
    name = f"T-{2 * (turn % 5) + 1:04d}"
    for root, count in zip(roots, SIZES):
        claims = channel_file(root, "claims")

        def claimed(text: str, claims: str = claims) -> bool:
            return text.startswith("claimed") and os.path.exists(os.path.join(claims, f"{name}.bob.json"))

        def released(text: str, claims: str = claims) -> bool:
            return text.startswith("released") and not os.listdir(claims)

        steps: dict[str, tuple[list[str], Callable[[str], bool]]] = {
            "task list": (["list", "c"], lambda text, count=count: text.count("\n") == count + 1),
            "task show": (["show", "c", name], lambda text: f"id: {name}\n" in text),
            "task claim": (["claim", "c", name, "--as", "bob"], claimed),
            "task renew": (["renew", "c", name, "--as", "bob"], lambda text: text.startswith("renewed")),
            "task release": (["release", "c", name, "--as", "bob"], released),
        }
        for command, (words, check) in steps.items():
            done = measure([bench.chat, "--root", root, "task", *words], check)
            found.setdefault(command, []).append(done)
        stats = measure(["-c", STAT_EACH, channel_file(root, "tasks")], lambda text: text == "")
        found.setdefault(STATS, []).append(stats)
    return found


def tasks(bench: Bench, rounds: int) -> list[Row]:
    roots = [fill(bench, count) for count in SIZES]
    time.sleep(SETTLED)
    turn_of(bench, roots, 0)  # the warm round
    turns = [turn_of(bench, roots, turn) for turn in range(rounds)]

    def median(command: str, at: int, kind: int = 1) -> float:
        return 1000 * statistics.median(turn[command][at][kind] for turn in turns)

    stats = median(STATS, 2) - median(STATS, 0)
    rows = []
    for command in turns[0]:
        if command == STATS:
            continue
        few, many, most = (median(command, at) for at in range(3))
        walls = f"wall {median(command, 1, 0):.0f} of {median(command, 0, 0):.0f} ms"
        ratio = statistics.median(turn[command][1][1] / turn[command][0][1] for turn in turns)
        row = Row(f"{command}: {MANY} tasks to {FEW}", f"{ratio:.2f} x", f"CPU {many:.0f} of {few:.0f} ms, {walls}")
        is_list = command == "task list"
        rows.append(row if is_list else row._replace(limit=f"{LIMIT} x", is_kept=ratio <= LIMIT))
        beside = f"CPU {most:.0f} ms, {most / few:.2f} x that with {FEW}"
        if is_list:
            ratio = (most - few) / (MOST - FEW) / ((many - few) / (MANY - FEW))
            what, limit = f"a task of {MOST} to one of {MANY}", LIST_LIMIT
        else:
            beside += f"; a stat each {stats:.0f} ms"
            what, limit, ratio = f"{MOST} tasks to a stat each", STAT_LIMIT, (most - few) / stats
        rows.append(Row(f"{command}: {what}", f"{ratio:.2f} x", beside, f"{limit} x", ratio <= limit))
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
