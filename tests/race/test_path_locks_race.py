"""Many agents want the same paths at once: one gets them, and nobody sees the middle of a change."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from board import QUICK
from faults import Child, Outcome
from locked import assert_audited, audits, held, lock, lock_expired, make_workspace
from scene import assert_sound, message_bytes
from support import Root, make_root

from agent_chat import clock, patterns

LOCKERS = 50


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    monkeypatch.chdir(make_workspace(tmp_path))
    return make_root(tmp_path)


def at_once(root: Root, commands: Sequence[Sequence[object]]) -> list[Outcome]:
    """What these commands answer that begin at the same moment, each in a process of its own."""
    gate, opened = os.pipe()

    def wait() -> None:
        os.close(opened)  # its own copy: the gate opens when the last one is closed
        os.read(gate, 1)

    children = [Child(root, words, first=wait, environment=QUICK) for words in commands]
    os.close(opened)
    try:
        return [child.end() for child in children]
    finally:
        os.close(gate)
        for child in children:
            child.__exit__(None, None, None)


def assert_one_winner(outcomes: list[Outcome], code: str) -> int:
    """Exactly one worked; every other was refused with this code, in one line. Who won."""
    won = [number for number, outcome in enumerate(outcomes) if outcome.status == 0]
    assert len(won) == 1, outcomes
    for number, outcome in enumerate(outcomes):
        if number not in won:
            assert (outcome.status, outcome.code, len(outcome.err.splitlines())) == (2, code, 1), outcome
    return won[0]


def test_of_fifty_lockers_of_one_path_one_wins(root: Root) -> None:
    before = message_bytes(root)
    outcomes = at_once(root, [["lock", "c", "src/a.py", "--as", f"agent{n}"] for n in range(LOCKERS)])
    winner = assert_one_winner(outcomes, "PATH_LOCK_CONFLICT")
    assert [one["owner"] for one in held(root)] == [f"agent{winner}"]
    assert all(f"agent{winner} until" in outcome.err for outcome in outcomes if outcome.status), "the loser learns who"
    assert len(audits(root)) == 1
    assert_sound(root, before)
    assert_audited(root)


def test_of_many_spellings_that_meet_one_wins(root: Root) -> None:
    spellings = ["src/a.py", "src", "src/", "./src//a.py", "src/*", "**/a.py", "src/a.p?", ".", "s*/[ab].py", "src/**"]
    for _ in range(3):
        commands = [["lock", "c", path, f"own{n}", "--as", f"a{n}"] for n, path in enumerate(spellings * 2)]
        winner = assert_one_winner(at_once(root, commands), "PATH_LOCK_CONFLICT")
        (record,) = held(root)
        assert record["owner"] == f"a{winner}" and len(record["paths"]) == 2, "all or nothing"
        root.ok("unlock", "c", record["lock_id"], "--as", f"a{winner}", **QUICK)


def test_paths_that_do_not_meet_are_all_had(root: Root) -> None:
    outcomes = at_once(root, [["lock", "c", f"d{n}/**", f"e{n}.py", "--as", f"a{n}"] for n in range(20)])
    assert [outcome.status for outcome in outcomes] == [0] * 20, outcomes
    assert len(held(root)) == len(audits(root)) == 20
    assert_audited(root)


def test_of_those_who_recover_an_expired_lock_one_wins(root: Root) -> None:
    record = lock_expired(root, "a", "b")
    commands = [["recover", "c", path, "--as", f"a{n}", "--reason", "r"] for n, path in enumerate(["a", "b"] * 8)]
    winner = assert_one_winner(at_once(root, commands), "PATH_LOCK_NOT_STALE")
    (after,) = held(root)
    assert (after["owner"], after["previous_owner"], after["lock_id"]) == (f"a{winner}", "alice", record["lock_id"])
    assert_audited(root)


def test_of_those_who_put_a_damaged_record_aside_one_wins(root: Root) -> None:
    (root.folder() / "locks").mkdir()
    (root.folder() / "locks/x.json").write_text("{")
    outcomes = at_once(root, [["recover", "c", "x.json", "--as", f"a{n}", "--reason", "r"] for n in range(10)])
    assert_one_winner(outcomes, "PATH_LOCK_NOT_FOUND")
    assert [path.read_text() for path in (root.folder() / "locks/.damaged").iterdir()] == ["{"]


def test_unlock_renew_and_recover_of_one_lock(root: Root) -> None:
    for turn in range(5):
        record = lock(root, "a")
        commands: list[list[object]] = [["unlock", "c", record["lock_id"], "--as", "alice"] for _ in range(4)]
        commands += [["renew-lock", "c", "a", "--as", "alice"], ["recover", "c", "a", "--as", "bob", "--reason", "r"]]
        outcomes = at_once(root, commands)
        assert [outcome.status for outcome in outcomes[:4]].count(0) == 1 and held(root) == []
        assert {outcome.code for outcome in outcomes[:4]} == {"", "PATH_LOCK_NOT_FOUND"}
        assert outcomes[4].code in ("", "PATH_LOCK_NOT_FOUND"), turn
        assert outcomes[5].code in ("PATH_LOCK_NOT_STALE", "PATH_LOCK_NOT_FOUND")
    assert_audited(root)


# ---- a history, and whoever reads meanwhile ---------------------------------------------------------------------

PATHS = ("src/a.py", "src", "src/*.py", "docs/b", "docs", "**/b", "x")


def work(who: str, seed: int, turns: int) -> Iterator[list[object]]:
    choice = random.Random(seed)
    for _ in range(turns):
        verb = choice.choice(["lock", "lock", "unlock", "renew-lock"])
        paths = choice.sample(PATHS, 1 if verb != "lock" else choice.choice([1, 1, 2]))
        yield [verb, "c", *paths, "--as", who]


@pytest.mark.slow
def test_a_history_of_locks_never_overlaps_and_readers_see_no_middle(root: Root, whole: bool) -> None:
    """What the audit messages tell, in their order, is replayed against a model."""
    allowed = {"", "PATH_LOCK_CONFLICT", "PATH_LOCK_NOT_FOUND", "PATH_LOCK_OWNER_MISMATCH"}
    for turn in range(40 if whole else 6):
        commands = [words for n in range(6) for words in work(f"a{n}", turn * 10 + n, 2)]
        looks = [["check", "c", path, "--as", "bob"] for path in PATHS[:4]] + [["locks", "c"]]
        for words, outcome in zip([*commands, *looks], at_once(root, [*commands, *looks])):
            if words in looks:
                assert outcome.status in (0, 3) and not outcome.err, (words, outcome)
                assert all(line.startswith(("locked ", "available", "(no locks")) for line in outcome.out.splitlines())
            else:
                assert outcome.code in allowed, (words, outcome)
        for record in held(root)[::2]:  # else soon everything is locked and nothing happens any more
            root.ok("unlock", "c", record["lock_id"], "--as", record["owner"], **QUICK)
    assert_history(root)
    assert_audited(root)


def assert_history(root: Root) -> None:
    active: dict[str, dict[str, object]] = {}
    for audit in audits(root):
        body = audit.body
        if audit.event == "path.locked":
            wanted = entries(body["paths"])
            for other in active.values():
                assert not any(patterns.overlaps(one, two) for one in wanted for two in entries(other["paths"])), (
                    body,
                    other,
                )
            active[body["lock_id"]] = body
        elif audit.event == "path.lock.unlocked":
            assert active.pop(body["lock_id"])["owner"] == audit.sender
        else:
            assert active[body["lock_id"]]["owner"] == audit.sender
            before, after = str(active[body["lock_id"]]["expires_at"]), body["expires_at"]
            assert clock.parse_stamp(after) >= clock.parse_stamp(before)
            active[body["lock_id"]] = body
    assert len(audits(root)) > 5, json.dumps([audit.event for audit in audits(root)])


def entries(paths: object) -> list[tuple[str, str]]:
    assert isinstance(paths, list)
    return [(one["kind"], one["normalized_path"]) for one in paths]
