#!/usr/bin/env python3
"""Benchmark: `post` in a channel with guards against one without, both of 100,000 messages.

    python3 bench/guards.py [--rounds N] [--messages N]

In turns with a channel whose policy says nothing about guards. As bench/run.py: the interpreter it was started with, a
copy of the code, PYTHON* and AGENT_CHAT_* cleared; exit status 1 when a post did not do its work, a missed limit is
only shown. Linux and macOS.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time

from growth import Turn, fill, newest
from run import Bench, Row, Run, Wrong, channel_file, compared, table

LIMIT = 1.1
PLAIN, POLICY, GUARDS = "no policy", "a policy", "guards"
SAYS = {POLICY: {"recovery": "explicit"}, GUARDS: {"guards": "on"}}
SENDERS = [f"agent-{number}" for number in range(20)]  # each posts seldom enough for its bucket


def guarded(bench: Bench, rounds: int, many: int) -> list[Row]:
    """One channel has no policy; the policy of the other is written anew, in place, before each post."""
    roots = {PLAIN: fill(bench, many + 1), POLICY: fill(bench, many)}
    lasts = {root: newest(root) for root in roots.values()}
    found: dict[str, list[Run]] = {what: [] for what in (PLAIN, POLICY, GUARDS)}
    decide(roots[POLICY], POLICY)
    for what in (PLAIN, POLICY):
        post(bench, roots[what], lasts, "alice")
    for turn in range(rounds + 1):
        for what, runs in found.items():
            root = roots.get(what, roots[POLICY])
            if what in SAYS:
                decide(root, what)
            done = post(bench, root, lasts, SENDERS[turn % len(SENDERS)])
            runs += [done] if turn else []
    rows = []
    for what in (POLICY, PLAIN):
        ratio, beside = compared(list(zip(found[what], found[GUARDS])))
        rows.append(Row(f"post with guards, to {what}", f"{ratio:.2f} x", beside, f"{LIMIT} x", ratio <= LIMIT))
    return rows


def decide(root: str, what: str) -> None:
    with open(channel_file(root, "_policy.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(SAYS[what], indent=2) + "\n")


def post(bench: Bench, root: str, lasts: dict[str, int], sender: str) -> Run:
    one = Turn(bench, root, lasts[root])
    one.last = lasts[root] = lasts[root] + 1
    words = ("post", "c", "--from", sender, "--title", "t", "--body", f"text {one.last}")
    one.run("post", f"posted #{one.last} ", *words)
    time.sleep(0.03)  # longer than a tick of the folder's time, as between two commands of an agent
    return one.found["post"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="rounds of each post (default 30)")
    parser.add_argument("--messages", type=int, default=100_000, metavar="N", help="in the channel (100,000)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agent-chat-bench-") as home:
        try:
            rows = guarded(Bench(home), given.rounds, given.messages)
        except Wrong as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    print(f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores\n\n{table(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
