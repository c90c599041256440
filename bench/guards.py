#!/usr/bin/env python3
"""Benchmark: `post` in a channel with guards against one without, both of 100,000 messages, in calm and in a burst.

    python3 bench/guards.py [--rounds N] [--messages N]

In turns with a channel whose policy says nothing about guards, and one without a policy. Calm: what was posted is taken
away again, so that nothing else was said within the limits' five minutes. A burst: it stays, and in the end the guards
must look at some hundred messages. As bench/run.py: the interpreter it was started with, a
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

from growth import fill
from run import Bench, Process, Row, Run, Wrong, channel_file, compared, table

LIMIT = 1.1
PLAIN, POLICY, GUARDS = "no policy", "a policy", "guards"
SAYS = {POLICY: {"recovery": "explicit"}, GUARDS: {"guards": "on"}}
SENDERS = [f"agent-{number}" for number in range(20)]  # each posts seldom enough for its bucket


def guarded(bench: Bench, rounds: int, many: int) -> list[Row]:
    """One channel has no policy; the policy of the other is written anew, in place, before each post."""
    roots = {PLAIN: fill(bench, many + 1), POLICY: fill(bench, many)}
    for root in roots.values():
        forget(bench, root)
    return [*measured(bench, roots, rounds, "in calm"), *measured(bench, roots, rounds, "in a burst")]


def measured(bench: Bench, roots: dict[str, str], rounds: int, when: str) -> list[Row]:
    found: dict[str, list[Run]] = {what: [] for what in (PLAIN, POLICY, GUARDS)}
    for turn in range(rounds + 1):
        for what, runs in found.items():
            root = roots.get(what, roots[POLICY])
            if what in SAYS:
                decide(root, what)
            done = post(bench, root, SENDERS[turn % len(SENDERS)], f"{when} {turn} {what}")
            runs += [done] if turn else []
            if when == "in calm":
                forget(bench, root)
    rows = []
    for what in (POLICY, PLAIN):
        ratio, beside = compared(list(zip(found[what], found[GUARDS])))
        name = f"post with guards {when}, to {what}"
        rows.append(Row(name, f"{ratio:.2f} x", beside, f"{LIMIT} x", ratio <= LIMIT))
    return rows


def forget(bench: Bench, root: str) -> None:
    """Take away what was posted in this run, and let the index be brought in step with that."""
    for name in os.listdir(channel_file(root)):
        if name.endswith("-t.md") and not name.endswith("-alice-t.md"):
            os.unlink(channel_file(root, name))
    bench.run(root, "read", "c", "--as", "bob")
    time.sleep(0.03)  # longer than a tick of the folder's time, as between two commands of an agent


def decide(root: str, what: str) -> None:
    with open(channel_file(root, "_policy.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(SAYS[what], indent=2) + "\n")


def post(bench: Bench, root: str, sender: str, text: str) -> Run:
    done = Process(bench.chat, "--root", root, "post", "c", "--from", sender, "--title", "t", "--body", text).end()
    file = done.out.partition("-> c/")[2].strip()
    if done.status or not file or not os.path.exists(channel_file(root, file)):
        raise Wrong(f"post in {root} did not do its work: {done}")
    time.sleep(0.03)
    return done


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
