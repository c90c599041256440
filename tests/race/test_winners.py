"""Real processes want the same thing at once: exactly one gets it, and the others say so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import Root, make_root


@pytest.mark.slow
def test_of_four_inits_at_once_one_wins(tmp_path: Path, whole: bool) -> None:
    """Case M27."""
    root = Root(tmp_path / "root")
    for turn in range(20 if whole else 6):
        name = f"x{turn}"
        started = [root.spawn("init", name, "--members", f"m{n}", "--topic", f"t{n}") for n in range(4)]
        while any(process.poll() is None for process in started):
            meta = root.folder(name) / "_meta.json"
            assert not meta.exists() or meta.read_text().endswith("}\n"), "half made"
        errors = [process.communicate()[1].decode() for process in started]
        won = [n for n, process in enumerate(started) if process.returncode == 0]
        assert len(won) == 1, errors
        lost = [error for n, error in enumerate(errors) if n not in won]
        assert all(error.startswith("agent-chat: CHANNEL_EXISTS: ") for error in lost), lost
        assert root.ok("roster", name, "--json").json["members"] == [f"m{won[0]}"]
    assert len(root.ok("channels", "--json").json["channels"]) == turn + 1


def test_of_several_claims_of_one_marker_one_wins(tmp_path: Path) -> None:
    root = make_root(tmp_path)
    for turn in range(5):
        marker = f"task-{turn}.md"
        (root.folder() / marker).write_text("work\n")
        started = [root.spawn("claim", "c", marker, "--as", f"agent{n}") for n in range(6)]
        answers = [process.communicate(timeout=60) for process in started]
        statuses = [process.returncode for process in started]
        assert sorted(statuses) == [0, 3, 3, 3, 3, 3], answers
        owner = f"agent{statuses.index(0)}"
        for status, (_, err) in zip(statuses, answers):
            assert status == 0 or f"claimed by {owner};" in err.decode(), "the loser learns who has it"
        found = [name for name in os.listdir(root.folder()) if name.startswith(f"task-{turn}.")]
        assert found == [f"task-{turn}.CLAIMED-{owner}.md"]
        assert (root.folder() / found[0]).read_text() == "work\n"


def test_a_marker_goes_to_and_fro_and_is_never_lost(tmp_path: Path) -> None:
    root = make_root(tmp_path)
    (root.folder() / "task-1.md").write_text("work\n")
    for _ in range(5):
        started = [root.spawn("claim", "c", "task-1.md", "--as", agent) for agent in ("bob", "carol")]
        started += [root.spawn("unclaim", "c", "task-1.md", "--as", "bob")]
        for process in started:
            process.communicate(timeout=60)
            assert process.returncode in (0, 2, 3)
        found = [name for name in os.listdir(root.folder()) if name.startswith("task-1.")]
        assert len(found) == 1 and (root.folder() / found[0]).read_text() == "work\n"
        if found != ["task-1.md"]:
            root.ok("unclaim", "c", "task-1.md", "--as", "dave", "--reason", "the next round")
