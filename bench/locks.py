#!/usr/bin/env python3
"""Path locks: `check`, `lock` and the hook with 1,000 active locks against their time with 10.

    python3 bench/locks.py [--rounds N]

Runs the interpreter it was started with, on a copy of the code in a temporary folder, with PYTHON* and
AGENT_CHAT_* cleared. Both sizes are measured in turns and the best time of each counts: what else a machine
does only adds to it. Every answer is verified, and the exit status is 1 when one is wrong. A missed limit is
shown, never an error.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FEW, MANY, LIMIT = 10, 1000, 3.0
BARE = "python, bare"


class Wrong(Exception):
    """A measured command did not do its work."""


class Bench:
    """The copied code, and a root with few and one with many locks."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.code, self.work = os.path.join(home, "code"), os.path.join(home, "work")
        ignore = shutil.ignore_patterns("__pycache__")
        for name in ("agent_chat", "hooks"):
            shutil.copytree(os.path.join(REPOSITORY, name), os.path.join(self.code, name), ignore=ignore)
        shutil.copy(os.path.join(REPOSITORY, "chat.py"), self.code)
        os.makedirs(os.path.join(self.work, ".git"))
        self.templates = {count: self._template(count) for count in (FEW, MANY)}

    def _template(self, count: int) -> str:
        """A root whose channel has this many locks of a day, made from one that `lock` wrote."""
        root = os.path.join(self.home, f"template{count}")
        self.chat(root, "init", "c")
        made = self.chat(root, "lock", "c", "d0/file.py", "--as", "a0", "--ttl", "86400", "--json")
        record = json.loads(made.stdout)["lock"]
        for number in range(1, count):
            path = f"d{number}/{'*.py' if number % 10 == 0 else 'file.py'}"
            kind = "pattern" if "*" in path else "file"
            paths = [{"display_path": path, "kind": kind, "normalized_path": path}]
            other = {**record, "lock_id": f"{number:032x}", "owner": f"a{number}", "paths": paths}
            with open(os.path.join(root, "c", "locks", f"{number:032x}.json"), "w", encoding="utf-8") as file:
                file.write(json.dumps(other, indent=2, sort_keys=True) + "\n")
        return root

    def fresh(self, count: int) -> str:
        """A copy of a template that a command may change."""
        path = os.path.join(self.home, "root")
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.templates[count], path)
        return path

    def chat(self, root: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run([os.path.join(self.code, "chat.py"), "--root", root, *words])

    def hook(self, root: str, path: str) -> subprocess.CompletedProcess[str]:
        event = {"tool_name": "Write", "tool_input": {"file_path": path}, "cwd": self.work}
        script = os.path.join(self.code, "hooks", "path_guard.py")
        environment = {"AGENT_CHAT_NAME": "bob", "AGENT_CHAT_ROOT": root}
        return self.run(["-I", "-S", script], json.dumps(event) + "\n", environment)

    def run(
        self, words: list[str], text: str = "", environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        foreign = ("PYTHON", "AGENT_CHAT_", "GIT_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        return subprocess.run(
            [sys.executable, *words],
            input=text,
            cwd=self.work,
            env={**kept, **(environment or {})},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    # ---- what is measured: each verifies its answer -----------------------------------------------------------

    def bare(self, root: str, count: int) -> subprocess.CompletedProcess[str]:
        return self.run(["-c", "pass"])

    def check_free(self, root: str, count: int) -> subprocess.CompletedProcess[str]:
        done = self.chat(root, "check", "c", "free.py", "--as", "bob")
        verify(done, 0, done.stdout == "available\n")
        return done

    def check_held(self, root: str, count: int) -> subprocess.CompletedProcess[str]:
        done = self.chat(root, "check", "c", f"d{count - 1}/file.py", "--as", "bob")
        verify(done, 3, f"owner=a{count - 1} " in done.stdout and done.stdout.count("\n") == 1)
        return done

    def check_pattern(self, root: str, count: int) -> subprocess.CompletedProcess[str]:
        done = self.chat(root, "check", "c", "d?/*.py", "--as", "bob")
        verify(done, 3, done.stdout.count("locked ") == 10)
        return done

    def lock(self, root: str, count: int) -> subprocess.CompletedProcess[str]:
        done = self.chat(root, "lock", "c", "free.py", "--as", "bob")
        there = len(os.listdir(os.path.join(root, "c", "locks")))
        verify(done, 0, "owner=bob" in done.stdout and there == count + 1)
        return done

    def hook_allows(self, root: str, count: int) -> subprocess.CompletedProcess[str]:
        done = self.hook(root, "free.py")
        verify(done, 0, done.stdout == "")
        return done

    def hook_denies(self, root: str, count: int) -> subprocess.CompletedProcess[str]:
        done = self.hook(root, f"d{count - 1}/file.py")
        verify(done, 0, f"locked by a{count - 1} until" in done.stdout)
        return done


def verify(done: subprocess.CompletedProcess[str], status: int, is_right: bool) -> None:
    if done.returncode != status or not is_right:
        raise Wrong(f"{done.args} ended with {done.returncode}: {done.stdout[:300]}{done.stderr[:300]}")


def measure(bench: Bench, rounds: int) -> dict[str, dict[int, list[float]]]:
    """Seconds of each command, by its name and the number of locks."""
    commands = {
        BARE: bench.bare,
        "check, free": bench.check_free,
        "check, held": bench.check_held,
        "check, pattern": bench.check_pattern,
        "lock": bench.lock,
        "hook, allows": bench.hook_allows,
        "hook, denies": bench.hook_denies,
    }
    found: dict[str, dict[int, list[float]]] = {name: {FEW: [], MANY: []} for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            for count in (FEW, MANY):
                root = bench.fresh(count) if name == "lock" else bench.templates[count]
                began = time.perf_counter()
                command(root, count)
                if turn:  # the first is the warm one
                    found[name][count].append(time.perf_counter() - began)
    return found


def show(found: dict[str, dict[int, list[float]]]) -> None:
    print(f"{'':16}{FEW:>8} locks{MANY:>8} locks   ratio   limit")
    for name, times in found.items():
        few, many = (1000 * min(times[count]) for count in (FEW, MANY))
        line = f"{name:16}{few:11.1f} ms{many:11.1f} ms"
        if name != BARE:
            line += f"{many / few:8.2f}" + (f"{LIMIT:8.1f}" + ("" if many / few <= LIMIT else "  MISSED"))
        print(line)


def main() -> int:
    parser = argparse.ArgumentParser(description="path locks: 1,000 active ones against 10")
    parser.add_argument("--rounds", type=int, default=15, help="how often each is measured (default 15)")
    options = parser.parse_args()
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"Python {version}, {os.cpu_count()} processors, best of {options.rounds} runs")
    with tempfile.TemporaryDirectory() as home:
        try:
            show(measure(Bench(os.path.realpath(home)), options.rounds))
        except Wrong as wrong:
            print(f"wrong: {wrong}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
