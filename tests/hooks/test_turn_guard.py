"""hooks/path_guard.py where turns are taken: who has not the turn reads, and writes nothing."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from locked import make_workspace
from support import Root, make_root
from test_path_guard import Guard


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = make_workspace(tmp_path)
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def root(tmp_path: Path, work: Path) -> Root:
    """alice directs, bob works and has joined; alice has the turn."""
    root = make_root(tmp_path)
    root.ok("turn", "open", "c", "--orchestrator", "alice", "--worker", "bob")
    root.ok("join", "c", "--as", "Bob", "--session", "s-1")
    return root


@pytest.fixture
def guard(root: Root, work: Path) -> Guard:
    return Guard(root, work)


def assign(root: Root, version: int = 1) -> None:
    root.ok("turn", "assign", "c", "--as", "alice", "--version", version, "--title", "t")


def policy(root: Root, **said: str) -> None:
    (root.folder() / "_policy.json").write_text(json.dumps(said))


@pytest.mark.parametrize("tool", ["Write", "Edit", "NotebookEdit", "apply_patch", "Bash"])
def test_writing_waits_for_the_turn_and_the_holder_is_named(guard: Guard, root: Root, tool: str) -> None:
    given = {
        "NotebookEdit": {"notebook_path": "n.ipynb"},
        "apply_patch": {"input": "*** Begin Patch\n*** Add File: x\n+x\n*** End Patch"},
        "Bash": {"command": "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: x\n+x\n*** End Patch\nEOF"},
    }.get(tool, {"file_path": "src/a.py"})
    reason = guard.denies(guard.event(tool=tool, **given))
    assert reason.startswith("agent-chat: TURN_NOT_YOURS: in channel c turn v1: alice has it")
    words = shlex.split(reason.partition("; next: ")[2])
    assert words[-5:] == ["turn", "wait", "c", "--as", "bob"]
    assign(root)
    assert guard.run(guard.event(tool=tool, **given)) is None


def test_reading_and_other_commands_stay_free(guard: Guard, root: Root) -> None:
    assert guard.run(guard.event(tool="Read", file_path="src/a.py")) is None
    assert guard.run(guard.event(tool="Bash", command="ls")) is None


def test_a_closed_turn_is_nobodys(guard: Guard, root: Root) -> None:
    assign(root)
    path = root.folder() / "_turn.json"
    path.write_text(path.read_text().replace('"state": "open"', '"state": "closed"'))
    assert "closed" in guard.denies(guard.event())


def test_it_is_for_those_who_have_joined(guard: Guard, root: Root) -> None:
    assert guard.run(guard.event(), AGENT_CHAT_NAME="carol") is None
    root.ok("join", "c", "--as", "carol")
    assert "alice has it" in guard.denies(guard.event(), AGENT_CHAT_NAME="carol")
    root.ok("leave", "c", "--as", "bob", "--session", "s-1")
    assert guard.run(guard.event()) is None


def test_the_policy_turns_it_off(guard: Guard, root: Root) -> None:
    policy(root, turn_guard="off")
    assert guard.run(guard.event()) is None
    policy(root, turn_guard="on")
    guard.denies(guard.event())
    policy(root, access="off")
    assert guard.run(guard.event()) is None
    assert guard.run(guard.event(), AGENT_CHAT_GUARD="off") is None


def test_a_channel_where_no_turns_are_taken_keeps_nobody(tmp_path: Path, work: Path) -> None:
    root = make_root(tmp_path / "other")
    root.ok("join", "c", "--as", "bob")
    guard = Guard(root, work)
    assert guard.run(guard.event()) is None


def test_what_is_not_sure_denies_nothing(guard: Guard, root: Root) -> None:
    (root.folder() / "_turn.json").write_text("{")
    assert "TURN_INVALID_RECORD" in guard.doubts(guard.event())


def test_a_commit_is_no_matter_of_turns(root: Root) -> None:
    """git's hook guards paths: what was written in one's turn is committed in the other's."""
    from agent_chat import guard as judging

    assert judging.judge(str(root.path), ["c"], "bob", ["src/a.py"], None, str(root.path)).refusal() is None
