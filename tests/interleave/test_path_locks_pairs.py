"""A path-lock command stops before its n-th call: whoever looks meanwhile sees before or after, and does not wait."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from board import QUICK
from faults import Child, Fault, copier, pause, run
from locked import assert_audited, lock, lock_expired, make_workspace
from support import Root, make_root

from agent_chat import guard

PATIENCE = 0.02  # seconds behind the lock of a command that does not go on
CHANGING: dict[str, list[str]] = {
    "lock": ["lock", "c", "a", "--as", "bob"],
    "unlock": ["unlock", "c", "a", "--as", "alice"],
    "renew-lock": ["renew-lock", "c", "a", "--as", "alice", "--ttl", "7777"],
    "recover": ["recover", "c", "a", "--as", "bob", "--reason", "r"],
}
HELD: dict[str, tuple[str, str]] = {  # who holds `a` before and after, as carol's guard sees it
    "lock": ("", "bob"),
    "unlock": ("alice", ""),
    "renew-lock": ("alice", "alice"),
    "recover": ("expired", "bob"),
}


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Root:
    monkeypatch.chdir(make_workspace(tmp_path))
    root = make_root(tmp_path)
    lock(root, "other", who="dave")
    if name == "recover":
        lock_expired(root, "a")
    elif name != "lock":
        lock(root, "a")
    return root


def holder(root: Root) -> str:
    """Who holds `a`. A change that goes on is no doubt."""
    verdict = guard.judge(str(root.path), (), "carol", ["a"], None, os.getcwd())
    codes = [doubt.code for doubt in verdict.doubts]
    assert codes in ([], ["PATH_LOCK_RECOVERY_REQUIRED"]), codes
    return "expired" if codes else next((held.lock.owner for held in verdict.held.values()), "")


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.slow
def test_nobody_sees_the_middle_of_a_change(template: Root, tmp_path: Path, name: str, whole: bool) -> None:
    copies, seen = copier(template, tmp_path), set()
    for n in range(1, 100, 1 if whole else 5):
        root = copies()
        with Child(root, CHANGING[name], Fault(pause, n), environment=QUICK) as child:
            if not child.is_paused():
                assert child.end().status == 0
                break
            now = holder(root)
            assert now in HELD[name], (n, now)
            listed = run(root, ["locks", "c"], patience=PATIENCE)
            assert listed.status == 0 and not listed.err, listed
            shown = [line for line in listed.out.splitlines() if line.split()[-1] == "a"]
            assert ["expired" if " expired a" in line else line.split()[2][6:] for line in shown] == (
                [now] if now else []
            )
            found = run(root, ["check", "c", "a"], patience=PATIENCE)
            assert found.code in ("", "PATH_LOCK_TIMEOUT"), found
            assert child.end().status == 0
        seen.add(now)
        assert holder(root) == HELD[name][1]
        assert_audited(root)
    assert HELD[name][0] in seen
