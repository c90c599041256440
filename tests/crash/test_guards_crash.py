"""A guarded post dies or fails at any call: what is cut stays cut, is told once, and the ledger stays whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from faults import Call, at_each_call, copier, die, fail, tear
from scene import QUICK, assert_sound, message_bytes
from support import Root, make_root


def post(sender: str, to: str, body: str) -> list[str]:
    return ["post", "c", "--from", sender, "--to", to, "--title", "t", "--body", body]


@pytest.fixture
def talking(tmp_path: Path) -> Root:
    """Two who have said all that they may."""
    root = make_root(tmp_path / "talking", "--members", "alice,bob", "--guards")
    for number in range(12):
        sender, to = ("alice", "bob") if number % 2 == 0 else ("bob", "alice")
        root.ok(*post(sender, to, str(number)), **QUICK)
    return root


@pytest.mark.parametrize("act", [die, tear, fail(5)], ids=["die", "tear", "fail"])
def test_a_pair_is_cut_once_whatever_happens(talking: Root, tmp_path: Path, act: Callable[[Call], object]) -> None:
    before = message_bytes(talking)
    words = post("alice", "bob", "once more")
    for n, root, outcome in at_each_call(copier(talking, tmp_path), words, act, ["write"] if act is tear else []):
        assert outcome.died or (outcome.status in (1, 2) and outcome.code != "INTERNAL_ERROR"), (n, outcome)
        assert_sound(root, before)
        root.refused("GUARD_PINGPONG", *words, **QUICK)
        root.refused("GUARD_PINGPONG", *post("bob", "alice", "no"), **QUICK)
        assert [message.status for message in root.messages()][12:] == ["guard.cut"], (n, outcome)
        for path in (root.folder() / ".ledger").glob("*.jsonl"):
            assert all(json.loads(line) for line in path.read_text("utf-8").splitlines()), (n, outcome)
