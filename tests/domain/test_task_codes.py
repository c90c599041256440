"""Every code of the tables in protocol.md, sections 8 and 9: produced by a real input or a hand-damaged file."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from board import (
    FAR_AHEAD,
    LONG_AGO,
    QUICK,
    assert_one_line,
    do,
    edit,
    everything,
    following,
    lease_expired,
    make,
    refused,
    write,
)
from support import REPOSITORY, Result, Root, make_root

from agent_chat.storage import oslock

# The tables as the protocol has them, and TASK_CHANGED of section 7.
CODES = set(
    """TASK_INVALID_COMMAND TASK_INVALID_ARGUMENT
    TASK_INVALID_CHANNEL TASK_CHANNEL_NOT_FOUND TASK_NOT_FOUND TASK_ALREADY_EXISTS
    TASK_INVALID_STATUS TASK_INVALID_UPDATE TASK_INVALID_TRANSITION
    TASK_DEPENDENCY_NOT_READY TASK_UNKNOWN_DEPENDENCY TASK_DEPENDENCY_CYCLE
    TASK_PATH_OUTSIDE_WORKSPACE TASK_LOCK_TIMEOUT TASK_IO_ERROR TASK_AUDIT_FAILED
    TASK_INVALID_ID TASK_INVALID_CREATED_BY TASK_INVALID_BRANCH TASK_INVALID_DEPENDENCY_ID
    TASK_DUPLICATE_DEPENDENCY TASK_RECORD_ID_MISMATCH TASK_CHANNEL_MISMATCH
    TASK_REQUIRED_FIELD_MISSING TASK_UNKNOWN_FIELD TASK_INVALID_TIMESTAMP TASK_INVALID_RECORD
    TASK_STORAGE_INVALID TASK_CHANGED
    LEASE_CONFLICT LEASE_RECOVERY_REQUIRED LEASE_OWNER_MISMATCH LEASE_NOT_EXPIRED
    LEASE_NOT_FOUND LEASE_INCONSISTENT LEASE_MUTATION_REQUIRED LEASE_INVALID_OWNER
    LEASE_INVALID_TASK_ID LEASE_INVALID_CHANNEL LEASE_INVALID_REASON LEASE_INVALID_DURATION
    LEASE_INVALID_TIMESTAMP LEASE_INVALID_RECORD LEASE_REQUIRED_FIELD_MISSING LEASE_UNKNOWN_FIELD
    LEASE_RECORD_ID_MISMATCH LEASE_STORAGE_INVALID LEASE_PATH_OUTSIDE_WORKSPACE
    LEASE_TRANSACTION_PENDING LEASE_TRANSACTION_CLEANUP_FAILED LEASE_TRANSACTION_PUBLICATION_UNKNOWN
    LEASE_TRANSACTION_INVALID LEASE_TRANSACTION_NOT_FOUND LEASE_TRANSACTION_RECOVERY_FAILED
    LEASE_AUDIT_FAILED LEASE_AUDIT_ROLLBACK_FAILED""".split()
)


def task(verb: str, *more: str, who: str = "alice") -> list[str]:
    """`task <verb> c T-1 --as <who> ...`"""
    return ["task", verb, "c", "T-1", "--as", who, *more]


def create(*more: str, task_id: str = "T-9", who: str = "alice") -> list[str]:
    return ["task", "create", "c", task_id, "--from", who, "--title", "t", *more]


CLAIM = task("claim", who="bob")
RECOVER = task("recover", "--reason", "r", who="carol")
PENDING = ["task", "recover-pending", "c", "--as", "alice"]
Damage = Callable[[Root], object]


def nothing(root: Root) -> None:
    """T-1, open, by alice; T-2, which waits for it."""


def claimed(root: Root) -> None:
    do(root, "claim", "T-1", "bob")


def expired(root: Root) -> None:
    lease_expired(root)


def task_has(**changes: Any) -> Damage:
    return lambda root: edit(root, "tasks/T-1.json", **changes)


def claim_has(**changes: Any) -> Damage:
    def damage(root: Root) -> None:
        claimed(root)
        edit(root, "claims/T-1.bob.json", **changes)

    return damage


def file_is(path: str, text: str) -> Damage:
    return lambda root: write(root.folder() / path, text)


def is_folder(path: str) -> Damage:
    def damage(root: Root) -> None:
        (root.folder() / path).unlink(missing_ok=True)
        (root.folder() / path).mkdir(parents=True)

    return damage


def is_link(path: str, target: str) -> Damage:
    def damage(root: Root) -> None:
        (root.folder() / path).parent.mkdir(exist_ok=True)
        if (root.folder() / path).exists():
            (root.folder() / path).rename(root.folder() / "moved")
        (root.folder() / path).symlink_to(root.folder() / target)

    return damage


def folder_is_file(path: str) -> Damage:
    def damage(root: Root) -> None:
        if (root.folder() / path).exists():
            (root.folder() / path).rename(root.folder() / "moved")
        write(root.folder() / path, "x")

    return damage


def marker(**changes: Any) -> Damage:
    """The journal of a `task claim T-1 --as bob` of agent-chat-plugin 0.7.5."""
    found = {"version": 2, "phase": "applied", "event": "lease.claimed", "transaction_id": "0" * 32, "task_id": "T-1"}
    found.update({"task_file": "tasks/T-1.json", "task_before": None, "task_after": None, "claim_changes": []})
    found["details"] = {"lease_owner": "bob"}
    data = {key: value for key, value in {**found, **changes}.items() if value is not ...}
    return file_is("claims/.lease-transaction.json", json.dumps(data))


def two_claims(root: Root) -> None:
    claimed(root)
    data = json.loads((root.folder() / "claims/T-1.bob.json").read_text())
    write(root.folder() / "claims/T-1.eve.json", json.dumps({**data, "owner": "eve"}))


def dotted(root: Root) -> None:
    """T-1.b claimed by c, and T-1, whose claim by b.c would have the same name."""
    make(root, "T-1.b")
    do(root, "claim", "T-1.b", "c")


# code -> the ways in which it comes about: what is there, and the command
REFUSALS: dict[str, list[tuple[Damage, list[str]]]] = {
    "TASK_INVALID_COMMAND": [(nothing, ["task", "frobnicate", "c"]), (nothing, ["task"])],
    "TASK_INVALID_ARGUMENT": [
        (nothing, ["task", "show", "c"]),
        (nothing, ["task", "list", "c", "--surprise"]),
        (nothing, ["task", "claim", "c", "T-1"]),
        (nothing, ["task", "create", "c", "T-9", "--from", "alice"]),
        (nothing, create("--title", "")),
        (nothing, [*PENDING, "--resolve-publication", "maybe"]),
        (nothing, [*PENDING, "--discard-journal"]),
    ],
    "TASK_INVALID_CHANNEL": [
        (nothing, ["task", "list", "../c"]),
        (nothing, ["task", "claim", ".c", "T-1", "--as", "bob"]),
    ],
    "TASK_CHANNEL_NOT_FOUND": [
        (nothing, ["task", "list", "nope"]),
        (nothing, ["task", "recover-pending", "no", "--as", "a"]),
    ],
    "TASK_NOT_FOUND": [
        (nothing, ["task", "show", "c", "T-9"]),
        (nothing, ["task", "claim", "c", "T-9", "--as", "bob"]),
        (lambda root: do(root, "claim", "T-1", "bob"), ["task", "next", "c", "--as", "carol"]),
    ],
    "TASK_ALREADY_EXISTS": [
        (nothing, create(task_id="T-1")),
        (nothing, create(task_id="t-1")),
        (is_folder("tasks/T-1.json"), create(task_id="T-1")),
        (file_is("tasks/T-1.json", "{"), create(task_id="T-1")),
    ],
    "TASK_INVALID_STATUS": [
        (nothing, task("update", "--status", "ready")),
        (nothing, task("update", "--status", "")),
        (nothing, ["task", "list", "c", "--status", "ready"]),
        (task_has(status="ready"), task("show")[:4]),
    ],
    "TASK_INVALID_UPDATE": [
        (nothing, task("update")),
        (nothing, task("update", "--owner", "bob", "--clear-owner")),
        (nothing, task("update", "--branch", "b", "--clear-branch")),
    ],
    "TASK_INVALID_TRANSITION": [
        (nothing, task("done")),
        (task_has(status="cancelled"), task("release")),
        (task_has(status="done"), task("block")),
        (task_has(status="done"), CLAIM),
        (task_has(status="done"), task("update", "--status", "open")),
    ],
    "TASK_DEPENDENCY_NOT_READY": [
        (nothing, ["task", "claim", "c", "T-2", "--as", "bob"]),
        (nothing, ["task", "update", "c", "T-2", "--as", "bob", "--status", "in_progress"]),
        (lambda root: edit(root, "tasks/T-2.json", status="in_progress"), ["task", "done", "c", "T-2", "--as", "bob"]),
        (lambda root: (root.folder() / "tasks/T-1.json").unlink(), ["task", "claim", "c", "T-2", "--as", "bob"]),
    ],
    "TASK_UNKNOWN_DEPENDENCY": [(nothing, create("--depends-on", "T-8"))],
    "TASK_DEPENDENCY_CYCLE": [
        (nothing, create("--depends-on", "T-9")),
        (nothing, task("update", "--depends-on", "t-1")),
        (nothing, task("update", "--depends-on", "T-2")),
        (lambda root: (root.folder() / "tasks/T-1.json").unlink(), create("--depends-on", "T-2", task_id="T-1")),
        (task_has(depends_on=["T-1"]), task("show")[:4]),
    ],
    "TASK_PATH_OUTSIDE_WORKSPACE": [
        *((nothing, create("--files-hint", hint)) for hint in ("/etc/passwd", "C:x", "a/../../b", "..")),
        (is_link("out", "../.."), [*create("--files-hint", "out/x"), "--workspace", "."]),
    ],
    "TASK_INVALID_ID": [
        (nothing, create(task_id=".x")),
        (nothing, ["task", "show", "c", "a/b"]),
        (nothing, ["task", "claim", "c", "con", "--as", "b"]),
        (task_has(id=".x"), task("show")[:4]),
    ],
    "TASK_INVALID_CREATED_BY": [(nothing, create(who="a b")), (task_has(created_by="all"), CLAIM)],
    "TASK_INVALID_BRANCH": [
        (nothing, create("--branch", "a..b")),
        (task_has(branch="-x"), CLAIM),
        (task_has(branch=""), CLAIM),
    ],
    "TASK_INVALID_DEPENDENCY_ID": [(nothing, create("--depends-on", "a/b")), (task_has(depends_on=["../x"]), CLAIM)],
    "TASK_DUPLICATE_DEPENDENCY": [
        (nothing, create("--depends-on", "T-1,t-1")),
        (task_has(depends_on=["T-2", "t-2"]), CLAIM),
    ],
    "TASK_RECORD_ID_MISMATCH": [(task_has(id="T-7"), CLAIM)],
    "TASK_CHANNEL_MISMATCH": [(task_has(channel="d"), CLAIM)],
    "TASK_REQUIRED_FIELD_MISSING": [(task_has(title=...), CLAIM), (file_is("tasks/T-1.json", "{}"), CLAIM)],
    "TASK_UNKNOWN_FIELD": [(task_has(surprise=1), CLAIM)],
    "TASK_INVALID_TIMESTAMP": [
        (task_has(updated_at="yesterday"), CLAIM),
        (task_has(updated_at="2026-01-01T00:00:00"), CLAIM),
        (task_has(lease_expires_at="2026-13-01T00:00:00Z"), CLAIM),
    ],
    "TASK_INVALID_RECORD": [
        *(
            (file_is("tasks/T-1.json", text), CLAIM)
            for text in ("", "{", "[]", "nul", '{"id": NaN}', '{"id": 1, "id": 2}')
        ),
        (task_has(depends_on="T-2"), CLAIM),
        (task_has(title=None), CLAIM),
        (task_has(acceptance=[1]), CLAIM),
    ],
    "TASK_STORAGE_INVALID": [
        (is_folder("tasks/T-1.json"), CLAIM),
        (is_link("tasks/T-1.json", "tasks/T-2.json"), CLAIM),
        (folder_is_file("tasks"), ["task", "list", "c"]),
        (folder_is_file("tasks"), create()),
    ],
    "LEASE_CONFLICT": [
        (claimed, task("claim", who="carol")),
        (claimed, CLAIM),
        (task_has(owner="dave"), CLAIM),
        (dotted, task("claim", who="b.c")),
    ],
    "LEASE_RECOVERY_REQUIRED": [
        *((expired, task(verb, who="bob")) for verb in ("claim", "renew", "done", "release", "block")),
        (expired, task("update", "--status", "done", who="bob")),
        (expired, task("claim", who="carol")),
    ],
    "LEASE_OWNER_MISMATCH": [
        *((claimed, task(verb, who="carol")) for verb in ("renew", "done", "release")),
        (claimed, task("update", "--title", "x", who="carol")),
    ],
    "LEASE_NOT_EXPIRED": [(claimed, RECOVER)],
    "LEASE_NOT_FOUND": [(nothing, RECOVER), (nothing, task("renew"))],
    "LEASE_INCONSISTENT": [
        (two_claims, task("renew", who="bob")),
        (task_has(lease_expires_at=FAR_AHEAD, owner="bob", status="in_progress"), CLAIM),
        (lambda root: [claimed(root), edit(root, "tasks/T-1.json", lease_expires_at=None)], task("done", who="bob")),
        (lambda root: [claimed(root), edit(root, "tasks/T-1.json", owner="eve")], task("done", who="bob")),
        (lambda root: [claimed(root), edit(root, "tasks/T-1.json", status="open")], task("done", who="bob")),
        (claim_has(channel="d"), CLAIM),
        (claim_has(lease_expires_at=FAR_AHEAD), task("update", "--title", "x", who="bob")),
        (lambda root: [claimed(root), (root.folder() / "tasks/T-1.json").unlink()], create(task_id="T-1")),
    ],
    "LEASE_MUTATION_REQUIRED": [
        *(
            (claimed, task("update", *more, who=who))
            for who in ("bob", "carol")
            for more in (["--status", "done"], ["--owner", "carol"], ["--clear-owner"])
        ),
        (claimed, task("block", who="bob")),
    ],
    "LEASE_INVALID_OWNER": [
        *(
            (nothing, ["task", verb, "c", "T-1", "--as", "a b", *more])
            for verb, more in (("claim", []), ("renew", []), ("recover", ["--reason", "r"]))
        ),
        (nothing, ["task", "next", "c", "--as", "all"]),
        (nothing, create("--owner", "a b")),
        (nothing, task("update", "--owner", "system")),
        (claim_has(owner="a b"), CLAIM),
        (task_has(owner="1e5"), CLAIM),
    ],
    "LEASE_INVALID_TASK_ID": [(claim_has(task_id="../x"), CLAIM)],
    "LEASE_INVALID_CHANNEL": [(claim_has(channel="../x"), CLAIM)],
    "LEASE_INVALID_REASON": [
        (expired, task("recover", "--reason", " \t")),
        (expired, task("recover")),
        (claim_has(recovery_reason=" "), CLAIM),
    ],
    "LEASE_INVALID_DURATION": [
        *((nothing, [*CLAIM, f"--lease={text}"]) for text in ("0", "-1", "nan", "inf", "1e999", "x", "", "1e12")),
        (expired, [*RECOVER, "--ttl=0"]),
        (claimed, task("renew", "--lease-seconds=-3", who="bob")),
        (nothing, ["task", "next", "c", "--as", "bob", "--ttl", "1e13"]),
    ],
    "LEASE_INVALID_TIMESTAMP": [
        (claim_has(claimed_at="now"), CLAIM),
        (claim_has(lease_expires_at="2026-01-01"), CLAIM),
    ],
    "LEASE_INVALID_RECORD": [
        (claim_has(owner=None), CLAIM),
        (claim_has(previous_owner=3), CLAIM),
        (lambda root: [claimed(root), write(root.folder() / "claims/T-1.bob.json", "{")], CLAIM),
    ],
    "LEASE_REQUIRED_FIELD_MISSING": [(claim_has(previous_owner=...), CLAIM)],
    "LEASE_UNKNOWN_FIELD": [(claim_has(surprise=1), CLAIM)],
    "LEASE_RECORD_ID_MISMATCH": [(claim_has(task_id="T-2"), CLAIM), (claim_has(owner="eve"), CLAIM)],
    "LEASE_STORAGE_INVALID": [
        (lambda root: [claimed(root), is_folder("claims/T-1.bob.json")(root)], task("renew", who="bob")),
        (is_link("claims/T-1.bob.json", "tasks/T-2.json"), CLAIM),
        (folder_is_file("claims"), CLAIM),
    ],
    "LEASE_PATH_OUTSIDE_WORKSPACE": [(task_has(files_hint=["../x"]), CLAIM)],
    "LEASE_TRANSACTION_PENDING": [
        *(
            (marker(), words)
            for words in (
                CLAIM,
                RECOVER,
                create(),
                task("update", "--title", "x"),
                ["task", "next", "c", "--as", "bob"],
                *(task(verb) for verb in ("renew", "done", "block", "release")),
                [*PENDING, "--discard-journal", "--reason", "r"],
            )
        ),
    ],
    "LEASE_TRANSACTION_PUBLICATION_UNKNOWN": [(marker(version=1, transaction_id=...), PENDING)],
    "LEASE_TRANSACTION_INVALID": [
        (marker(version=3), PENDING),
        (marker(phase="x"), PENDING),
        (file_is(".journal/task.json", "{"), CLAIM),
        (file_is(".journal/task.json", "{"), PENDING),
        (is_folder(".journal/task.json"), PENDING),
        (is_link(".journal/task.json", "tasks/T-1.json"), CLAIM),
        (is_link(".journal", "tasks"), CLAIM),
        (is_link(".journal/task.json", "tasks/T-1.json"), [*PENDING, "--discard-journal", "--reason", "r"]),
    ],
    "LEASE_TRANSACTION_NOT_FOUND": [
        (nothing, PENDING),
        (nothing, [*PENDING, "--resolve-publication", "rollback"]),
        (nothing, [*PENDING, "--discard-journal", "--reason", "r"]),
    ],
    "LEASE_TRANSACTION_RECOVERY_FAILED": [
        (marker(), PENDING),
        (lambda root: [marker()(root), is_folder("tasks/T-1.json")(root)], PENDING),
    ],
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    root = make_root(tmp_path)
    monkeypatch.chdir(root.folder())  # "." is the workspace
    make(root, "T-1")
    make(root, "T-2", "--depends-on", "T-1")
    return root


CASES = [(code, *way) for code, ways in REFUSALS.items() for way in ways]


@pytest.mark.parametrize("code, damage, words", CASES, ids=[f"{code}-{at}" for at, (code, *_) in enumerate(CASES)])
def test_it_is_refused_with_its_code_and_nothing_changes(
    root: Root, code: str, damage: Damage, words: list[str]
) -> None:
    damage(root)
    refused(root, code, *words)
    before = everything(root)
    found = root.run(*words, "--json", **QUICK)
    error = json.loads(found.err)["error"]
    assert (error["code"], found.out, found.status) == (code, "", 2), found
    assert set(error) == {"code", "message", "next", "details"} and len(found.err.splitlines()) == 1
    assert everything(root) == before


def test_who_acts_is_checked_where_no_lease_is_concerned(root: Root) -> None:
    for verb in ("update", "done", "block", "release"):
        more = ["--title", "x"] if verb == "update" else []
        refused(root, "AGENT_INVALID_NAME", "task", verb, "c", "T-1", "--as", "a b", *more)
    refused(root, "AGENT_INVALID_NAME", "task", "recover-pending", "c", "--as", "a b")


# ---- what only a disk or another process brings about -------------------------------------------------------


def test_a_lock_that_is_held_ends_in_a_timeout(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = oslock.hold
    monkeypatch.setattr(
        oslock, "hold", lambda folder, name, who, seconds=0.0, shared=False: hold(folder, name, who, 0.05, shared)
    )
    from support import open_channel

    with open_channel(root) as channel, channel.exclusive("mallory"):
        found = refused(root, "TASK_LOCK_TIMEOUT", *CLAIM)
        assert "mallory" in found.err
        assert "T-1" in root.ok("task", "list", "c").out, "reading goes on"
    root.ok(*CLAIM)


def faulty(root: Root, words: list[str], act: Any, only: list[str], at: int = 1, forever: bool = False) -> Result:
    faults = (
        pytest.importorskip("faults") if hasattr(os, "fork") else pytest.skip("faults are put into forked children")
    )
    return faults.run(root, words, faults.Fault(act(faults), at, only, forever))


def failing(number: int) -> Callable[[Any], Any]:
    return lambda faults: faults.fail(number)


@pytest.mark.parametrize("words", [create(), CLAIM, task("update", "--title", "x")], ids=lambda words: words[1])
def test_a_full_disk_is_an_input_output_error(root: Root, words: list[str]) -> None:
    before = everything(root)
    assert_one_line(faulty(root, words, failing(errno.ENOSPC), ["write"], at=2, forever=True), "TASK_IO_ERROR")
    assert everything(root) == before


@pytest.mark.parametrize(
    "words, code",
    [(create(), "TASK_AUDIT_FAILED"), (task("block"), "TASK_AUDIT_FAILED"), (CLAIM, "LEASE_AUDIT_FAILED")],
    ids=lambda found: found if isinstance(found, str) else found[1],
)
def test_a_change_that_cannot_be_published_is_undone(root: Root, words: list[str], code: str) -> None:
    before = everything(root)
    found = faulty(root, words, failing(errno.EIO), ["link"])
    assert_one_line(found, code)
    following(found)
    assert everything(root) == before


def test_one_that_cannot_be_undone_either_keeps_its_journal(root: Root) -> None:
    def from_link_on(faults: Any) -> Any:
        is_broken = []

        def act(call: Any) -> Any:
            is_broken.extend([True] if call.name == "link" else [])
            return faults.fail(errno.EIO)(call) if is_broken else call.go()

        return act

    found = faulty(root, CLAIM, from_link_on, ["link", "replace", "unlink"], forever=True)
    assert_one_line(found, "LEASE_AUDIT_ROLLBACK_FAILED")
    assert following(found)[:2] == ["task", "recover-pending"]
    refused(root, "LEASE_TRANSACTION_PENDING", *CLAIM)


def test_a_journal_that_cannot_be_removed_leaves_the_change_and_the_journal(root: Root) -> None:
    def stuck(faults: Any) -> Any:
        return lambda call: faults.fail(errno.EIO)(call) if call.where[0].endswith("task.json") else call.go()

    found = faulty(root, CLAIM, stuck, ["unlink"], forever=True)
    assert_one_line(found, "LEASE_TRANSACTION_CLEANUP_FAILED")
    assert following(found)[:2] == ["task", "recover-pending"] and "stands" in found.err
    assert b'"owner": "bob"' in (root.folder() / "claims/T-1.bob.json").read_bytes()
    refused(root, "LEASE_TRANSACTION_PENDING", *task("renew", who="bob"))


def test_a_record_that_another_program_changes_meanwhile_is_left_to_it(root: Root) -> None:
    path = root.folder() / "tasks/T-1.json"
    edited = path.read_bytes().replace(b'"title": "T-1"', b'"title": "edited"')

    def editor(faults: Any) -> Any:
        def act(call: Any) -> Any:
            if call.where[0].endswith(".journal"):
                path.write_bytes(edited)
            return call.go()

        return act

    messages = root.names()
    found = faulty(root, CLAIM, editor, ["fsync"], forever=True)
    assert_one_line(found, "TASK_CHANGED")
    following(found)
    assert path.read_bytes() == edited and root.names() == messages
    assert not list((root.folder() / ".journal").iterdir()) and not (root.folder() / "claims").exists()
    root.ok(*CLAIM)


OTHERWISE = {
    "TASK_LOCK_TIMEOUT",
    "TASK_IO_ERROR",
    "TASK_AUDIT_FAILED",
    "LEASE_AUDIT_FAILED",
    "LEASE_AUDIT_ROLLBACK_FAILED",
    "LEASE_TRANSACTION_CLEANUP_FAILED",
    "TASK_CHANGED",
}


def test_the_table_is_complete() -> None:
    assert {*REFUSALS} | OTHERWISE == CODES and not {*REFUSALS} & OTHERWISE


def test_the_code_has_no_other_codes() -> None:
    found: set[str] = set()
    for path in (REPOSITORY / "agent_chat").rglob("*.py"):
        if path.name == "doctor.py":
            continue  # its findings are no refusals, and some have a code of their own
        found.update(re.findall(r'"((?:TASK|LEASE)_[A-Z_]+)"', path.read_text("utf-8")))
    assert found <= CODES, found - CODES


def test_a_time_without_an_offset_is_damage_and_one_with_is_none(root: Root) -> None:
    for stamp in (LONG_AGO, "2020-01-01T00:00:00Z", "2020-01-01T07:00:00+07:00"):
        edit(root, "tasks/T-1.json", updated_at=stamp)
        root.ok("task", "show", "c", "T-1")
