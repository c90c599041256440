"""A board of tasks, the commands that change it, and what must hold whatever happened to one of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from board import (
    QUICK,
    Interrupted,
    assert_agree,
    assert_audited,
    audits,
    do,
    edit,
    journals,
    lease_expired,
    make,
    records,
    write,
)
from scene import assert_sound, message_bytes
from support import Result, Root, make_root

AUTO = {**QUICK, "AGENT_CHAT_RECOVERY": "auto"}
_PASSING = ("updated_at", "lease_expires_at", "claimed_at", "previous_lease_expires_at")


def task(verb: str, task_id: str, who: str, *more: str) -> list[str]:
    return ["task", verb, "c", task_id, "--as", who, *more]


# Every command that changes records, in every shape that takes another way through the code.
CHANGING: dict[str, list[str]] = {
    "create": task("create", "T-9", "alice", "--title", "t", "--owner", "carol"),
    "update": task("update", "T-1", "dave", "--title", "new"),
    "update-leased": task("update", "T-3", "bob", "--branch", "b"),
    "claim": task("claim", "T-1", "dave"),
    "next": ["task", "next", "c", "--as", "erin"],
    "renew": task("renew", "T-3", "bob", "--ttl", "7777"),
    "done": task("done", "T-3", "bob"),
    "done-plain": task("done", "T-5", "erin"),
    "block": task("block", "T-1", "alice"),
    "release": task("release", "T-3", "bob"),
    "release-plain": task("release", "T-6", "alice"),
    "recover": task("recover", "T-4", "carol", "--reason", "r"),
}
RECOVER = ["task", "recover-pending", "c", "--as", "alice"]
NEXT = task("create", "T-10", "zoe", "--title", "next")  # what somebody does afterwards
LOOKING: dict[str, list[str]] = {
    "list": ["task", "list", "c"],
    "show": ["task", "show", "c", "T-3"],
    "peek": ["peek", "c", "-n", "30"],
    "read": ["read", "c", "--as", "alice", "--all"],
    "wait": ["wait", "c", "--as", "carol", "--timeout", "0", "--peek"],
}


def board(path: Path) -> Root:
    """T-1 free; T-2 carol's, waits for it; T-3 leased by bob; T-4 expired; T-5 erin's; T-6 blocked; T-7 after T-3."""
    root = make_root(path)
    for number in (1, 3, 4, 6):
        make(root, f"T-{number}")
    make(root, "T-2", "--depends-on", "T-1", "--owner", "carol")
    make(root, "T-5", "--owner", "erin")
    make(root, "T-7", "--depends-on", "T-3")
    do(root, "claim", "T-3", "bob", "--ttl", "86400")
    lease_expired(root, "T-4", "dave")
    do(root, "update", "T-5", "erin", "--status", "in_progress")
    do(root, "block", "T-6", "alice")
    return root


# ---- a transaction that somebody left, and how it is settled --------------------------------------------------


class Left:
    """A folder with an unfinished transaction, the command that settles it, and whether it goes forward."""

    def __init__(self, path: Path, change: str, phase: str, *more: str, spoilt: bool = False) -> None:
        self.root = board(path)
        self._crashed = Interrupted(self.root, *CHANGING[change])
        self._crashed.leave(phase)
        if spoilt:
            edit(self.root, "tasks/T-1.json", title="edited")
        self.words = [*RECOVER, *more]
        self.is_forward = "published" in more or (phase == "published" and "rollback" not in more)
        self.event = f"lease.transaction.{'cleaned' if self.is_forward else 'recovered'}"
        self.wanted = self._crashed.after if self.is_forward else self._crashed.before
        self.was_published, self.is_published = phase == "published", phase == "published" or self.is_forward
        self.interrupted = json.loads(self._crashed.journal)["event"]


PENDING: dict[str, tuple[Any, ...]] = {
    "prepared": ("claim", "prepared"),
    "half": ("recover", "half"),
    "applied": ("done", "applied"),
    "published": ("claim", "published"),
    "published-create": ("create", "published"),
    "said-rollback": ("claim", "applied", "--resolve-publication", "rollback"),
    "said-published": ("claim", "half", "--resolve-publication", "published"),
}
SPOILT: dict[str, tuple[Any, ...]] = {
    "spoilt-rollback": ("claim", "half", "--resolve-publication", "rollback"),
    "spoilt-published": ("claim", "prepared", "--resolve-publication", "published"),
}


# The parameters of a matrix: with --whole all of them, else a sample.
MATRIX: dict[str, tuple[Iterable[str], Iterable[str]]] = {
    "name": (CHANGING, ("create", "claim", "recover")),
    "pending": ([*PENDING, *SPOILT], ("half", "published", "spoilt-published")),
    "looking": (LOOKING, ("list",)),
}


def choose(metafunc: pytest.Metafunc) -> None:
    """To be a module's pytest_generate_tests; a test that is sampled asks for `whole`."""
    for parameter, (every, sample) in MATRIX.items():
        if parameter in metafunc.fixturenames and "whole" in metafunc.fixturenames:
            metafunc.parametrize(parameter, list(every if metafunc.config.getoption("whole") else sample))


def left(name: str, path: Path) -> Left:
    return Left(path, *(PENDING.get(name) or SPOILT[name]), spoilt=name in SPOILT)


# ---- what must hold -----------------------------------------------------------------------------------------


def timeless(found: dict[str, bytes]) -> dict[str, Any]:
    """Records without the times in them, so that two runs of a command can be compared."""
    shown = {}
    for path, data in found.items():
        record = json.loads(data)
        shown[path] = {key: bool(value) if key in _PASSING else value for key, value in record.items()}
    return shown


def told(root: Root) -> list[str]:
    """The events of the audit messages, those of recoveries left out."""
    return [audit.event for audit in audits(root) if not audit.event.startswith("lease.transaction.")]


def recoveries(root: Root) -> list[str]:
    return [audit.event for audit in audits(root) if audit.event.startswith("lease.transaction.")]


class Before:
    """A template as it is, and as a command leaves it."""

    def __init__(self, template: Root, after: Root, words: list[str]) -> None:
        self.records, self.messages, self.told = records(template), message_bytes(template), told(template)
        after.ok(*words, **QUICK)
        self.after, self.event = timeless(records(after)), told(after)[-1]

    def assert_old_or_new(self, root: Root) -> bool:
        """Whether the change took place: wholly, with one audit message, or not at all."""
        assert_sound(root, self.messages)
        assert_agree(root)
        assert_audited(root)
        is_new = len(told(root)) > len(self.told)
        assert told(root) == [*self.told, *([self.event] if is_new else [])]
        if is_new:
            assert timeless(records(root)) == self.after
        else:
            assert records(root) == self.records
        return is_new


def settle(root: Root) -> Result | None:
    """recover-pending, if something is pending; by default somebody has to."""
    refusal = root.run(*NEXT, **QUICK)
    if refusal.status == 0:
        return None
    assert refusal.code == "LEASE_TRANSACTION_PENDING", refusal
    return root.ok(*RECOVER, **QUICK)


def assert_open(root: Root) -> None:
    """The family is open: a change goes through, and nothing is left lying about."""
    root.run(*NEXT, **QUICK)
    assert root.run(*NEXT, **QUICK).code == "TASK_ALREADY_EXISTS"
    assert journals(root) == []
    remove_next(root)


def remove_next(root: Root) -> None:
    """Take back what NEXT made, so that the rest can be compared."""
    (root.folder() / "tasks/T-10.json").unlink(missing_ok=True)
    for name in root.names():
        if "zoe-task-created" in name:
            (root.folder() / name).unlink()


def legacy(root: Root) -> None:
    """An `applied` journal of 0.7.5 that nothing proves."""
    found = {"version": 2, "phase": "applied", "event": "lease.claimed", "transaction_id": "0" * 32, "task_id": "T-1"}
    before = (root.folder() / "tasks/T-1.json").read_bytes()
    after = before.replace(b'"T-1",\n  "status"', b'"older",\n  "status"')
    images = [base64.b64encode(data).decode() for data in (before, after)]
    found.update({"task_file": "tasks/T-1.json", "task_before": images[0], "task_after": images[1]})
    found.update({"claim_changes": [], "details": {"lease_owner": "bob"}})
    write(root.folder() / "tasks/T-1.json", after)
    write(root.folder() / "claims/.lease-transaction.json", json.dumps(found))
