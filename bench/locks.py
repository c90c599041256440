#!/usr/bin/env python3
"""Path locks: `check`, `lock` and the hook with 1,000 active locks against their time with 10.

    python3 bench/locks.py [--rounds N]

As bench/run.py: the interpreter it was started with, a copy of the code, PYTHON* and AGENT_CHAT_* cleared. The
sizes are measured in turns; medians of CPU time. Every answer is verified, and the exit status is 1 when one is
wrong. A missed limit is shown, never an error.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

from run import REPOSITORY, STAT_EACH, Bench, Row, Wrong, table

FEW, MANY, MOST = 10, 1000, 10_000
LIMIT, STAT_LIMIT = 1.5, 1.0


class Locks:
    """The copied code, and a root with few and one with many locks."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.code, self.work = os.path.join(home, "code"), os.path.join(home, "work")
        ignore = shutil.ignore_patterns("__pycache__")
        for name in ("agent_chat", "hooks"):
            shutil.copytree(os.path.join(REPOSITORY, name), os.path.join(self.code, name), ignore=ignore)
        shutil.copy(os.path.join(REPOSITORY, "chat.py"), self.code)
        os.makedirs(os.path.join(self.work, ".git"))
        self.roots = {count: self._root(count) for count in (FEW, MANY, MOST)}

    def _root(self, count: int) -> str:
        """A root whose channel has this many locks of a day, made from one that `lock` wrote."""
        root = os.path.join(self.home, f"locks-{count}")
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

    def stat_each(self, root: str, count: int) -> subprocess.CompletedProcess[str]:
        return self.run(["-c", STAT_EACH, os.path.join(root, "c", "locks")])

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

    def unlock(self, root: str, count: int) -> subprocess.CompletedProcess[str]:
        done = self.chat(root, "unlock", "c", "free.py", "--as", "bob")
        verify(done, 0, len(os.listdir(os.path.join(root, "c", "locks"))) == count)
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


def measure(bench: Locks, rounds: int) -> dict[str, dict[int, float]]:
    """Median milliseconds of CPU of each command, by its name and the number of locks."""
    commands = {
        "python, bare": bench.bare,
        "a stat each": bench.stat_each,
        "check, free": bench.check_free,
        "check, held": bench.check_held,
        "check, pattern": bench.check_pattern,
        "lock": bench.lock,
        "unlock": bench.unlock,
        "hook, allows": bench.hook_allows,
        "hook, denies": bench.hook_denies,
    }
    found: dict[str, dict[int, list[float]]] = {name: {count: [] for count in bench.roots} for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            for count, root in bench.roots.items():
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                command(root, count)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                if turn:  # the first is the warm one
                    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                    found[name][count].append(1000 * used)
    return {name: {count: statistics.median(each) for count, each in times.items()} for name, times in found.items()}


def locks(bench: Bench, rounds: int) -> list[Row]:
    found = measure(Locks(os.path.realpath(tempfile.mkdtemp(dir=bench.home))), rounds)
    bare, stats = found.pop("python, bare")[FEW], found.pop("a stat each")
    rows = []
    for name, times in found.items():
        ratio = times[MANY] / times[FEW]
        beside = f"CPU {times[MANY]:.0f} of {times[FEW]:.0f} ms, bare Python {bare:.0f} ms"
        rows.append(Row(f"{name}: {MANY} locks to {FEW}", f"{ratio:.2f} x", beside, f"{LIMIT} x", ratio <= LIMIT))
    for name in ("check, free", "lock"):
        more, plain = found[name][MOST] - found[name][FEW], stats[MOST] - stats[FEW]
        beside, ratio = f"{more:.0f} ms more than with {FEW}; a stat each {plain:.0f} ms", more / plain
        what = f"{name}: {MOST} locks to a stat each"
        rows.append(Row(what, f"{ratio:.2f} x", beside, f"{STAT_LIMIT} x", ratio <= STAT_LIMIT))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="path locks: 1,000 and 10,000 active ones against 10")
    parser.add_argument("--rounds", type=int, default=15, help="how often each is measured (default 15)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        try:
            print(table(locks(Bench(home), options.rounds)))
        except Wrong as wrong:
            print(f"wrong: {wrong}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
