"""Journals of agent-chat-plugin 0.7.5: recognised, proved by their audit message, settled only when asked."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from board import (
    FAR_AHEAD,
    LONG_AGO,
    audits,
    claims,
    do,
    following,
    journals,
    last,
    make,
    records,
    refused,
    task,
    write,
)
from support import Root, make_root, open_channel

from agent_chat import recovery

RECOVER = ["task", "recover-pending", "c", "--as", "alice"]
CLAIM = ["task", "claim", "c", "T-1", "--as", "carol"]
MARKER = "claims/.lease-transaction.json"
TRANSACTION = "0123456789abcdef0123456789abcdef"


def packed(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


class Older:
    """`task claim T-1 --as bob` of the older program, in some phase."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.before = (root.folder() / "tasks/T-1.json").read_bytes()
        lease = {"owner": "bob", "lease_expires_at": FAR_AHEAD}
        found = {**json.loads(self.before), **lease, "status": "in_progress"}
        self.task = json.dumps(found, indent=2).encode() + b"\n"
        claim = {"task_id": "T-1", "channel": "c", **lease, "claimed_at": LONG_AGO, "updated_at": LONG_AGO}
        claim.update(dict.fromkeys(["previous_owner", "previous_lease_expires_at", "recovery_reason"]))
        self.claim = json.dumps(claim, indent=2).encode() + b"\n"

    def leave(self, in_phase: str, version: int = 2, records: str = "after", **changes: Any) -> Root:
        change = {"file": "T-1.bob.json", "previous": None, "next": packed(self.claim)}
        found = {"version": version, "phase": in_phase, "event": "lease.claimed", "transaction_id": TRANSACTION}
        found.update({"task_id": "T-1", "task_file": "tasks/T-1.json", "task_before": packed(self.before)})
        found.update({"task_after": packed(self.task), "claim_changes": [change]})
        found["details"] = {"lease_owner": "bob", "lease_expires_at": FAR_AHEAD}
        if version == 1:
            del found["transaction_id"]
        found.update(changes)
        write(self.root.folder() / MARKER, json.dumps({key: one for key, one in found.items() if one is not ...}))
        if records == "after":
            write(self.root.folder() / "tasks/T-1.json", self.task)
            write(self.root.folder() / "claims/T-1.bob.json", self.claim)
        return self.root

    def publish(self, sender: str = "bob", status: str = "lease.claimed", text: str | None = None, **body: Any) -> None:
        """The audit message, or one that is not quite it."""
        found = {"event": "lease.claimed", "channel": "c", "task_id": "T-1", "transaction_id": TRANSACTION, **body}
        text = text or json.dumps({key: one for key, one in found.items() if one is not ...})
        path = self.root.put(7, text, sender, name="0007-x-x.md")
        path.write_text(path.read_text().replace("status: discussion", f"status: {status}"))

    def assert_settled(self, forward: bool) -> None:
        found = task(self.root)
        assert (found["status"], claims(self.root)) == (("in_progress", ["T-1.bob"]) if forward else ("open", []))
        event = f"lease.transaction.{'cleaned' if forward else 'recovered'}"
        assert (last(self.root).event, last(self.root).sender) == (event, "alice")
        assert last(self.root).body["task_id"] == "T-1" and last(self.root).concerns == {"bob"}
        assert not (self.root.folder() / MARKER).exists() and journals(self.root) == []
        refused(self.root, "LEASE_TRANSACTION_NOT_FOUND", *RECOVER)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = make_root(tmp_path)
    make(root, "T-1")
    return root


@pytest.fixture
def older(root: Root) -> Older:
    return Older(root)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("records", ["before", "after"])
@pytest.mark.parametrize("phase, forward", [("prepared", False), ("published", True)])
def test_prepared_goes_back_and_published_forward(
    older: Older, version: int, records: str, phase: str, forward: bool
) -> None:
    older.leave(phase, version, records)
    refused(older.root, "LEASE_TRANSACTION_PENDING", *CLAIM)
    older.root.ok(*RECOVER)
    older.assert_settled(forward)


def test_applied_goes_forward_when_its_message_proves_it(older: Older) -> None:
    older.leave("applied")
    older.publish()
    assert older.root.ok(*RECOVER).out == "settled: lease.transaction.cleaned\n"
    older.assert_settled(True)
    do(older.root, "done", "T-1", "bob")


@pytest.mark.parametrize("who, status", [("BOB", "lease.claimed"), ("bob", "Lease.Claimed")])
def test_the_proof_is_without_case(older: Older, who: str, status: str) -> None:
    older.leave("applied")
    older.publish(sender=who, status=status)
    older.root.ok(*RECOVER)
    older.assert_settled(True)


NO_PROOF: list[dict[str, Any]] = [
    {"sender": "mallory"},
    {"status": "lease.renewed"},
    {"status": "discussion"},
    {"event": "lease.renewed"},
    {"transaction_id": "f" * 32},
    {"transaction_id": ...},
    {"transaction_id": [TRANSACTION]},
    {"task_id": "T-2"},
    {"task_id": ...},
    {"text": f"I claimed it, {TRANSACTION}"},
    {"text": "[]"},
    {"text": '{"event": 1e999}'},
]


@pytest.mark.parametrize("message", NO_PROOF, ids=str)
def test_applied_goes_back_without_exactly_that_message(older: Older, message: dict[str, Any]) -> None:
    older.leave("applied")
    older.publish(**message)
    older.root.ok(*RECOVER)
    older.assert_settled(False)


def test_damaged_messages_are_no_proof_and_no_obstacle(older: Older) -> None:
    older.leave("applied")
    write(older.root.folder() / "0008-bob-x.md", b"\xff")
    (older.root.folder() / "0009-bob-x.md").mkdir()
    assert older.root.ok(*RECOVER).out == "settled: lease.transaction.recovered\n"
    assert task(older.root)["status"] == "open" and claims(older.root) == []


def test_version_1_has_nothing_to_prove_it_with(older: Older) -> None:
    older.leave("applied", version=1)
    older.publish(transaction_id=...)
    found = refused(older.root, "LEASE_TRANSACTION_PUBLICATION_UNKNOWN", *RECOVER)
    assert following(found)[:4] == RECOVER[:4] and "published" in found.err and "rollback" in found.err
    refused(older.root, "LEASE_TRANSACTION_PENDING", *CLAIM)
    refused(older.root, "LEASE_TRANSACTION_PENDING", *CLAIM, AGENT_CHAT_RECOVERY="auto")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("phase", ["prepared", "applied", "published"])
@pytest.mark.parametrize("word, forward", [("rollback", False), ("published", True)])
def test_the_operators_word_decides(older: Older, version: int, phase: str, word: str, forward: bool) -> None:
    older.leave(phase, version)
    older.root.ok(*RECOVER, "--resolve-publication", word)
    older.assert_settled(forward)
    assert [audit.event for audit in audits(older.root)].count("lease.claimed") == 0, "it stored no message"


@pytest.mark.parametrize("phase", ["prepared", "applied", "published"])
def test_it_is_never_settled_by_itself(older: Older, phase: str) -> None:
    older.leave(phase)
    before = records(older.root)
    refused(older.root, "LEASE_TRANSACTION_PENDING", *CLAIM, AGENT_CHAT_RECOVERY="auto")
    assert records(older.root) == before and (older.root.folder() / MARKER).exists()


@pytest.mark.parametrize("phase, forward", [("prepared", False), ("published", True)])
def test_readers_see_what_it_will_be_settled_to(older: Older, phase: str, forward: bool) -> None:
    root = older.leave(phase, records="before" if forward else "after")
    found = root.ok("task", "show", "c", "T-1")
    assert ("owner: bob" in found.out) == forward and "LEASE_TRANSACTION_PENDING" in found.err


def test_a_record_that_is_neither_fails_closed_until_somebody_says(older: Older) -> None:
    root = older.leave("published")
    write(root.folder() / "claims/T-1.bob.json", "mine")
    refused(root, "LEASE_TRANSACTION_RECOVERY_FAILED", *RECOVER)
    root.ok(*RECOVER, "--resolve-publication", "published")
    older.assert_settled(True)
    assert [path.read_text() for path in (root.folder() / ".journal").glob("*.conflict-*")] == ["mine"]


DAMAGED: list[dict[str, Any]] = [
    {"version": 3},
    {"version": ...},
    {"phase": "begun"},
    {"phase": ...},
    {"event": None},
    {"details": []},
    {"task_id": "../x"},
    {"task_id": 5},
    {"task_file": "../../x"},
    {"task_file": "tasks/T-2.json"},
    {"transaction_id": ""},
    {"transaction_id": ...},
    {"transaction_id": 5},
    {"task_before": "%"},
    {"task_before": ...},
    {"task_after": 5},
    {"claim_changes": None},
    {"claim_changes": ["x"]},
    {"claim_changes": [{"file": 1}]},
    {"claim_changes": [{"file": "../x.json", "previous": None, "next": None}]},
    {"claim_changes": [{"file": "a/b.json", "previous": None, "next": None}]},
    {"claim_changes": [{"file": ".x.json", "previous": None, "next": None}]},
    {"claim_changes": [{"file": "x.txt", "previous": None, "next": None}]},
    {"claim_changes": [{"file": "x.json", "previous": None}]},
    {"claim_changes": [{"file": "x.json", "previous": None, "next": "%"}]},
    {"claim_changes": [{"file": "x.json", "previous": None, "next": None}] * 2},
]


@pytest.mark.parametrize("changes", DAMAGED, ids=str)
def test_a_damaged_one_is_refused_and_can_be_put_aside(older: Older, changes: dict[str, Any]) -> None:
    root = older.leave("prepared", **changes)
    for words in (RECOVER, CLAIM, [*RECOVER, "--resolve-publication", "rollback"]):
        found = refused(root, "LEASE_TRANSACTION_INVALID", *words)
        assert "--discard-journal" in following(found)
    root.ok(*RECOVER, "--discard-journal", "--reason", "r")
    (kept,) = (root.folder() / ".journal/.damaged").glob("lease-transaction.json.*[0-9]")
    assert json.loads(kept.read_text())["claim_changes"] is not ... and not (root.folder() / MARKER).exists()
    do(root, "done", "T-1", "bob")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\0", '{"version": 2, "version": 2}'])
def test_what_is_no_object_is_a_damaged_one(older: Older, text: str) -> None:
    write(older.root.folder() / MARKER, text)
    refused(older.root, "LEASE_TRANSACTION_INVALID", *RECOVER)


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_what_is_no_file_is_a_damaged_one(older: Older, kind: str) -> None:
    path = write(older.root.folder() / MARKER, "{}")
    path.unlink()
    path.mkdir() if kind == "folder" else path.symlink_to("../_meta.json")
    refused(older.root, "LEASE_TRANSACTION_INVALID", *RECOVER)
    refused(older.root, "LEASE_TRANSACTION_INVALID", *RECOVER, "--discard-journal", "--reason", "r")


def test_ours_goes_first_when_both_are_there(older: Older) -> None:
    """A death between publishing the recovery of an older journal and removing it."""
    root = older.leave("prepared")
    root.ok(*RECOVER)
    name = root.names()[-1]
    message = {"name": name, "text": packed((root.folder() / name).read_bytes())}
    ours = {"version": 1, "channel": "c", "id": TRANSACTION, "event": "lease.claimed", "actor": "bob"}
    ours.update({"subject": {"task_id": "T-1"}, "records": [], "message": None})
    ours.update({"recovery": message, "replaces": MARKER})
    older.leave("prepared", records="before")
    write(root.folder() / ".journal/task.json", json.dumps(ours))
    count = len(root.names())
    root.ok(*RECOVER)
    older.assert_settled(False)
    assert len(root.names()) == count


def test_the_path_journal_is_another_family(older: Older) -> None:
    root = older.root
    root.ok("lock", "c", "x", "--as", "bob", "--workspace", str(root.folder()))
    (lock,) = (root.folder() / "locks").glob("*.json")
    found = {"version": 1, "phase": "applied", "operation": "lock", "event": "path.locked", "actor": "bob"}
    found.update(
        {"target": lock.name, "transaction_id": TRANSACTION, "before": None, "after": packed(lock.read_bytes())}
    )
    write(root.folder() / "locks/.path-lock-transaction.json", json.dumps(found))
    do(root, "claim", "T-1", "carol")
    with open_channel(root) as channel:
        pending = recovery.pending(channel, recovery.PATH)
        assert pending and (pending.phase, pending.legacy_outcome, pending.broken) == ("applied", "before", "")
        assert recovery.pending(channel, recovery.TASK) is None
    root.ok("recover-pending", "c", "--as", "alice")
    assert not lock.exists() and root.messages()[-1].status == "path.lock.transaction.recovered"
