"""Real processes want the same task at once: one gets it, the others are told who; nothing overlaps."""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from board import (
    QUICK,
    assert_agree,
    assert_audited,
    audits,
    claims,
    do,
    lease_expired,
    make,
    records,
    task,
)
from support import Result, Root, make_root

RACERS = 50


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def race(root: Root, commands: list[list[object]]) -> list[Result]:
    """All of these as processes at once."""
    started = [root.spawn(*words, environment=QUICK) for words in commands]
    found = []
    for process in started:
        out, err = process.communicate(timeout=300)
        found.append(Result(process.returncode, out.decode(), err.decode()))
    return found


@pytest.mark.slow
def test_of_fifty_claims_at_once_one_wins(root: Root, whole: bool) -> None:
    """Case L5."""
    for turn in range(100 if whole else 3):
        name = f"T-{turn}"
        make(root, name)
        answers = race(root, [["task", "claim", "c", name, "--as", f"agent{n}"] for n in range(RACERS)])
        won = [n for n, answer in enumerate(answers) if answer.status == 0]
        assert len(won) == 1, answers
        for answer in answers:
            if answer.status:
                assert (answer.status, answer.code) == (2, "LEASE_CONFLICT") and f"agent{won[0]} until" in answer.err
        assert claims(root) == [f"{name}.agent{won[0]}"]
        assert [audit.sender for audit in audits(root) if audit.event == "lease.claimed"][turn:] == [f"agent{won[0]}"]
        do(root, "done", name, f"agent{won[0]}")
    assert_audited(root)


@pytest.mark.slow
def test_of_two_recoveries_at_once_one_wins(root: Root, whole: bool) -> None:
    """Case L6."""
    for turn in range(50 if whole else 6):
        name = f"T-{turn}"
        make(root, name)
        lease_expired(root, name, "dave")
        both = [["task", "recover", "c", name, "--as", who, "--reason", "r"] for who in ("bob", "carol")]
        answers = race(root, both)
        assert sorted(answer.code for answer in answers) == ["", "LEASE_NOT_EXPIRED"], answers
        winner = ("bob", "carol")[[answer.status for answer in answers].index(0)]
        assert task(root, name)["owner"] == winner and f"{name}.{winner}" in claims(root)
        assert_agree(root)
    assert_audited(root)


def test_ten_workers_who_ask_for_the_next_task_each_get_another(root: Root) -> None:
    for number in range(10):
        make(root, f"T-{number}")
    answers = race(root, [["task", "next", "c", "--as", f"agent{n}"] for n in range(12)])
    assert sorted(answer.code for answer in answers) == [""] * 10 + ["TASK_NOT_FOUND"] * 2
    assert len({answer.out for answer in answers if not answer.status}) == 10
    assert_agree(root)
    assert_audited(root)


def test_ten_creates_of_one_task_at_once_make_one(root: Root) -> None:
    answers = race(root, [["task", "create", "c", "T-1", "--from", f"agent{n}", "--title", "t"] for n in range(10)])
    assert sorted(answer.code for answer in answers) == [""] + ["TASK_ALREADY_EXISTS"] * 9
    assert_audited(root)


@pytest.mark.slow
def test_readers_beside_writers_see_records_that_agree(root: Root, whole: bool) -> None:
    """Four agents claim and give back; two readers list all the time and never see half of it."""
    for number in range(4):
        make(root, f"T-{number}")
    until = time.monotonic() + (30 if whole else 3)

    def work(number: int) -> list[Result]:
        answers, chance = [], random.Random(number)
        while time.monotonic() < until:
            name = f"T-{chance.randrange(4)}"
            answers.append(root.real("task", "claim", "c", name, "--as", f"agent{number}", environment=QUICK))
            if not answers[-1].status:
                verb = chance.choice(["release", "renew"])
                answers.append(root.real("task", verb, "c", name, "--as", f"agent{number}", environment=QUICK))
                root.real("task", "release", "c", name, "--as", f"agent{number}", environment=QUICK)
        return answers

    def read(_: int) -> list[Result]:
        found = []
        while time.monotonic() < until:
            found.append(root.real("task", "list", "c", "--json", environment=QUICK))
        return found

    with ThreadPoolExecutor(6) as pool:
        writing, reading = [pool.submit(work, n) for n in range(4)], [pool.submit(read, n) for n in range(2)]
        answers = [answer for one in writing for answer in one.result()]
        looks = [look for one in reading for look in one.result()]
    assert {answer.code for answer in answers} <= {"", "LEASE_CONFLICT"}
    assert len(looks) > 4
    for look in looks:
        assert look.status == 0 and not look.err, look
        for found in look.json["tasks"]:
            is_leased = found["status"] == "in_progress"
            assert is_leased == (found["owner"] is not None) == (found["lease_expires_at"] is not None), found
    assert_agree(root)
    assert_audited(root)
    assert_leases_never_overlap(root)


def assert_leases_never_overlap(root: Root) -> None:
    """The history of the messages: nobody got a task that somebody else had."""
    holder: dict[str, str] = {}
    for audit in audits(root):
        name = audit.body["task_id"]
        if audit.event == "lease.claimed":
            assert name not in holder, audit
            holder[name] = audit.sender
        elif audit.event == "lease.renewed":
            assert holder[name] == audit.sender, audit
        elif audit.event in ("lease.released", "lease.completed"):
            assert holder.pop(name) == audit.sender, audit


@pytest.mark.slow
def test_workers_that_are_killed_leave_work_that_goes_on(root: Root, whole: bool) -> None:
    """Case L10 with real processes: kill -9 at any moment, with recovery by itself nobody has to do anything."""
    (root.folder() / "_policy.json").write_text(json.dumps({"recovery": "auto"}))
    make(root, "T-1")
    chance = random.Random(1)
    for turn in range(200 if whole else 15):
        verb = "release" if claims(root) else "claim"
        process = root.spawn("task", verb, "c", "T-1", "--as", "bob", environment=QUICK)
        time.sleep(chance.uniform(0.02, 0.12))
        process.kill()
        process.communicate()
        if (root.folder() / ".journal/task.json").exists():
            root.ok("task", "create", "c", f"T-x{turn}", "--from", "alice", "--title", "t", **QUICK)
        assert_agree(root)
        assert_audited(root)
    assert records(root)
