#!/usr/bin/env python3
"""Benchmark: `state` of a channel with 20,000 messages, at first and again, against one of an empty channel.

    python3 bench/state.py [--rounds N]

Every hundredth message is a decision, a blocker or evidence, every tenth an audit message. Cold: nothing was
kept of an earlier summary, all messages are opened. Warm: only what is new is opened. The channels are used in
turns, so that a busy machine slows all of them. As bench/run.py: the interpreter it was started with, a copy of
the code, PYTHON* and AGENT_CHAT_* cleared; exit status 1 when a command did not do its work, a missed limit is
only shown. Linux and macOS.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from run import Bench, Row, Wrong, channel_file, table
from tasks import Measured, measure

MANY, COLD_LIMIT, WARM_LIMIT = 20_000, 2.0, 3.0  # messages, seconds, times an empty channel's
STAMP = "2026-01-01T00:00:00+00:00"
STATUSES = ("decision", "blocker", "verification")
AUDIT = '{\n  "channel": "c",\n  "event": "task.updated",\n  "status": "open",\n  "task_id": "T-1"\n}'


def fill(bench: Bench, count: int) -> str:
    """A root whose channel `c` has this many messages, written over two seconds ago."""
    root = os.path.join(bench.home, f"state-{count}")
    bench.run(root, "init", "c", "--members", "alice,bob")
    for number in range(1, count + 1):
        status, body = "discussion", "a line of some words, as people write them\n" * 8
        if number % 100 == 0:
            status = STATUSES[number // 100 % 3]
        elif number % 10 == 0:
            status, body = "task.updated", AUDIT + "\n"
        head = f"seq: {number}\nfrom: alice\nto: all\nchannel: c\nts: {STAMP}\nstatus: {status}\ntitle: number {number}"
        with open(channel_file(root, f"{number:04d}-alice-number-{number}.md"), "w", encoding="utf-8") as file:
            file.write(f"---\n{head}\n---\n{body}")
    return root


def shows(count: int) -> Callable[[str], bool]:
    """Whether a summary is that of `count` messages, with all that counts in it."""
    points = count // 100
    return lambda text: f"Last Message Sequence**: #{count:04d}\n" in text and text.count("\n- `[#") == points


def forget(root: str) -> None:
    """Keep nothing of earlier summaries; the folder of the index stays, as in every channel that is in use."""
    for name in os.listdir(channel_file(root, ".index")):
        os.remove(channel_file(root, ".index", name))


def state(bench: Bench, rounds: int) -> list[Row]:
    empty, full = fill(bench, 0), fill(bench, MANY)
    bench.run(full, "read", "c", "--as", "bob", "--limit", "1")
    time.sleep(2.5)  # what is younger is opened each time
    found: dict[str, list[Measured]] = {"empty": [], "cold": [], "warm": []}
    for turn in range(rounds + 1):
        forget(full)
        for what, root, count in (("empty", empty, 0), ("cold", full, MANY), ("warm", full, MANY)):
            took = measure([bench.chat, "--root", root, "state", "c"], shows(count))
            found[what] += [took] if turn else []  # the first round warms the machine
    middle = {what: [statistics.median(one[kind] for one in found[what]) for kind in (0, 1)] for what in found}
    (base, base_cpu), (cold, cold_cpu), (warm, warm_cpu) = (middle[what] for what in ("empty", "cold", "warm"))
    ratio, name = warm / base, f"state, {MANY} messages"
    beside = f"CPU {cold_cpu:.2f} s; on an empty channel {1000 * base:.0f} ms"
    again = f"wall {1000 * warm:.0f} of {1000 * base:.0f} ms, CPU {warm_cpu / base_cpu:.2f} x"
    again += f" ({1000 * warm_cpu:.0f} of {1000 * base_cpu:.0f} ms)"
    return [
        Row(f"{name}, cold", f"{cold:.2f} s", beside, f"{COLD_LIMIT:.0f} s", cold <= COLD_LIMIT),
        Row(f"{name}, warm", f"{ratio:.2f} x", again, f"{WARM_LIMIT:.0f} x", ratio <= WARM_LIMIT),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="rounds (default 9)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        try:
            print(table(state(Bench(home), options.rounds)))
        except Wrong as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
