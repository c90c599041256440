#!/usr/bin/env python3
"""What a host's hooks cost on a channel of 20,000 messages, against bare `python3 -c pass`.

    python3 bench/hooks.py [--rounds N] [--messages N]

As bench/run.py: the interpreter it was started with, on a copy of the code, with PYTHON* and AGENT_CHAT_* cleared;
every hook is checked to have said what it should; a missed limit is shown, never an error. Linux and macOS.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile

from run import REPOSITORY, Process, Row, Run, Wrong, bare, compared, table

SILENT_LIMIT, NEWS_LIMIT = 1.1, 2.0  # times bare Python: nothing new, something new
EVENTS = {
    "session_inbox": {"hook_event_name": "SessionStart", "source": "startup"},
    "prompt_inbox": {"hook_event_name": "UserPromptSubmit", "prompt": "go on"},
    "stop_inbox": {"hook_event_name": "Stop", "stop_hook_active": False},
    "path_guard": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "make"}},
    "session_end": {"hook_event_name": "SessionEnd", "reason": "other"},
}
SAYING = ("session_inbox", "prompt_inbox", "stop_inbox")
HEAD = "---\nseq: {0}\nfrom: alice\nto: all\nchannel: c\nts: 2026-01-01T00:00:00+00:00\ntitle: t\n---\n"


class Bench:
    """The copied code, and a channel that bob has read."""

    def __init__(self, home: str, messages: int) -> None:
        self.home, self.code, self.root = home, os.path.join(home, "code"), os.path.join(home, "root")
        for name in ("agent_chat", "hooks"):
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(os.path.join(REPOSITORY, name), os.path.join(self.code, name), ignore=ignore)
        shutil.copy(os.path.join(REPOSITORY, "chat.py"), self.code)
        self.chat("init", "c", "--members", "alice,bob")
        for number in range(1, messages + 1):
            with open(os.path.join(self.root, "c", f"{number:04d}-alice-t.md"), "w", encoding="utf-8") as file:
                file.write(HEAD.format(number) + "body\n")
        self.chat("ack", "c", "--as", "bob", "--upto", str(messages))
        self.chat("read", "c", "--as", "bob")
        for name, event in EVENTS.items():
            with open(os.path.join(home, name), "w", encoding="utf-8") as file:
                file.write(json.dumps({"session_id": "s-1", "cwd": home, **event}, separators=(",", ":")) + "\n")

    def chat(self, *words: str) -> None:
        done = Process(os.path.join(self.code, "chat.py"), "--root", self.root, *words, AGENT_CHAT_FSYNC="0").end()
        if done.status:
            raise Wrong(f"{' '.join(words)} ended with {done.status}: {done.err}")

    def hook(self, name: str) -> Run:
        script, stdin = os.path.join(self.code, "hooks", f"{name}.py"), os.path.join(self.home, name)
        variables = {"AGENT_CHAT_ROOT": self.root, "AGENT_CHAT_NAME": "bob", "CLAUDECODE": "1"}
        return Process("-I", "-S", script, stdin=stdin, **variables).end()

    def measure(self, name: str, is_new: bool, rounds: int) -> Row:
        """Bare Python and the hook in turns, after a warm one."""
        pairs = [(bare(), self.hook(name)) for _ in range(rounds + 1)][1:]
        last = pairs[-1][1]
        if last.status or last.err or ("#c 1 from alice" in last.out) != (is_new and name in SAYING):
            raise Wrong(f"{name} said {last}")
        ratio, beside = compared(pairs)
        limit = NEWS_LIMIT if is_new else SILENT_LIMIT
        what = f"{name}, {'one message new' if is_new else 'nothing new'}"
        return Row(what, f"{ratio:.2f} x", beside, f"{limit} x", ratio <= limit)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="what hooks cost; see bench/README.md")
    parser.add_argument("--rounds", type=int, default=40, metavar="N", help="rounds of each figure (40)")
    parser.add_argument("--messages", type=int, default=20_000, metavar="N", help="messages in the channel (20000)")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="agent-chat-bench-") as home:
        try:
            bench = Bench(home, given.messages)
            rows = [bench.measure(name, False, given.rounds) for name in EVENTS]
            bench.chat("post", "c", "--from", "alice", "--title", "t", "--body", "b")
            rows += [bench.measure(name, True, given.rounds) for name in SAYING]
        except Wrong as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    print(f"Python {platform.python_version()}, {platform.system()}, {given.messages} messages\n")
    print(table(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
