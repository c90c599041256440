"""Two agents take turns as real processes, killed at random and repeated: nothing is lost or doubled."""

from __future__ import annotations

import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from board import QUICK
from support import Result, Root, make_root
from turns_scene import assert_counted, turn, versions

KILLED = -9
GIVEN_BACK = 0.1  # of the worker's turns end without a report


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = make_root(tmp_path)
    (root.folder() / "_policy.json").write_text(json.dumps({"recovery": "auto"}))
    root.ok("turn", "open", "c", "--orchestrator", "alice", "--worker", "bob")
    return root


class Agent:
    """One side: real commands, some of them killed with -9 at a random moment and then given again."""

    def __init__(self, root: Root, name: str, seed: int) -> None:
        self.root, self.name, self.chance = root, name, random.Random(seed)
        self.kills = 0

    def attempt(self, *words: object) -> Result | None:
        """What a command answered; None when it was killed."""
        process = self.root.spawn("turn", *words, "--as", self.name, environment=QUICK)
        if self.chance.random() < 0.35:
            time.sleep(self.chance.uniform(0.005, 0.15))
            process.kill()
        out, err = process.communicate(timeout=120)
        if process.returncode == KILLED:
            self.kills += 1
            return None
        return Result(process.returncode, out.decode(), err.decode())

    def until_answered(self, *words: object) -> Result:
        while True:
            result = self.attempt(*words)
            if result:
                return result

    def holds(self) -> int:
        """Wait for the turn; its version."""
        while True:
            result = self.until_answered("wait", "c", "--timeout", "5", "--json")
            if result.status == 0:
                assert result.json["turn"]["holder"] == self.name
                return int(result.json["turn"]["version"])
            assert result.status == 4 and result.out == "", result  # no permission to work


def direct(alice: Agent, count: int) -> None:
    for number in range(count):
        version = alice.holds()
        words = ["assign", "c", "--version", version, "--title", f"t{number}", "--request-id", f"a-{number}"]
        result = alice.until_answered(*words)
        assert result.status == 0, result
        stale = alice.until_answered("assign", "c", "--version", version, "--title", "stale")
        assert stale.code == "TURN_STALE", stale
    alice.holds()


def work(bob: Agent, count: int, given_back: list[int]) -> None:
    for number in range(count):
        version = bob.holds()
        if bob.chance.random() < GIVEN_BACK:
            given_back.append(number)
            while bob.root.real("turn", "show", "c", "--json").json["turn"]["version"] == version:
                bob.attempt("wait", "c", "--have", version, "--timeout", "0")
            continue
        words = ["report", "c", "--version", version, "--outcome", "done", "--title", f"r{number}"]
        result = bob.until_answered(*words, "--request-id", f"b-{number}")
        assert result.status == 0, result
        stale = bob.until_answered("report", "c", "--version", version, "--outcome", "done")
        assert stale.code == "TURN_STALE", stale


def observe(root: Root, is_over: threading.Event) -> list[tuple[int, str]]:
    """Version and holder, as somebody sees them who looks all the time."""
    seen = []
    while not is_over.is_set():
        found = root.real("turn", "show", "c", "--json", environment=QUICK)
        assert found.status == 0, found
        seen.append((found.json["turn"]["version"], found.json["turn"]["holder"]))
    return seen


@pytest.mark.slow
def test_two_agents_alternate_under_kills_and_retries(root: Root, whole: bool) -> None:
    count, is_over = 200 if whole else 10, threading.Event()
    given_back: list[int] = []
    alice, bob = Agent(root, "alice", 1), Agent(root, "bob", 2)
    with ThreadPoolExecutor(3) as pool:
        watching = pool.submit(observe, root, is_over)
        directing, working = pool.submit(direct, alice, count), pool.submit(work, bob, count, given_back)
        try:
            directing.result(timeout=1800)
            working.result(timeout=60)
        finally:
            is_over.set()
        seen = watching.result()

    told = [message for message in root.messages() if message.status.startswith("turn.")]
    bodies = [json.loads(message.body) for message in told if "transaction" not in message.status]
    made = [body["request_id"] for body in bodies if body["event"] == "turn.assigned"]
    assert made == [f"a-{number}" for number in range(count)], "each assignment once, in order"
    reported = [body["request_id"] for body in bodies if body["event"] == "turn.reported"]
    assert reported == [f"b-{number}" for number in range(count) if number not in given_back]
    assert sum(body["event"] == "turn.returned" for body in bodies) == len(given_back)
    holders = [body["holder"] for body in bodies]
    assert holders == ["alice", "bob"] * count + ["alice"], "at every moment exactly one"
    assert_counted(root)
    assert turn(root)["version"] == 2 * count + 1
    history = dict(versions(root))
    assert all(history[version] == holder for version, holder in seen)
    assert [version for version, _ in seen] == sorted(version for version, _ in seen)
    assert alice.kills + bob.kills, "there was something to get over"
