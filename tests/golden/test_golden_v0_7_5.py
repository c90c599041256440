"""Folders that agent-chat-plugin 0.7.5 left: they open, list, read, and go on with the next number.

`v0_7_5/review` holds 38 messages (a thread, Unicode, a sender outside our grammar, a title and a body that look like a
header), audit messages without `concerns:`, one claimed and one free marker, bob's cursor at 37. `v0_7_5/empty` is a
channel that nobody has used.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support import Root

GOLDEN = Path(__file__).with_name("v0_7_5")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    shutil.copytree(GOLDEN, tmp_path / "root")
    return Root(tmp_path / "root")


def snapshot(root: Root) -> dict[str, tuple[bytes, int]]:
    """Bytes and time of every file, and of every folder the time."""
    return {
        str(path.relative_to(root.path)): (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns)
        for path in root.path.rglob("*")
    }


def test_the_golden_files_are_all_there() -> None:
    assert sum(1 for path in GOLDEN.rglob("*") if path.is_file()) == 61


def test_the_channels_are_listed(root: Root) -> None:
    result = root.ok("channels")
    rows = [line.split() for line in result.out.splitlines()]
    assert rows[1][:4] == ["empty", "0", "-", "-"] and result.err == ""
    assert rows[2][:4] == ["review", "38", "alice,bob,carol", "#38"]


def test_the_roster_knows_members_topic_and_cursors(root: Root) -> None:
    found = root.ok("roster", "review", "--json").json
    assert found["members"] == ["alice", "bob", "carol"] and found["cursors"] == {"bob": 37} and found["count"] == 38


def test_every_message_is_read_whole(root: Root) -> None:
    result = root.ok("read", "review", "--as", "bob", "--all")
    assert result.err == ""
    for path in sorted((root.path / "review").glob("0*.md")):
        assert f"{'=' * 70}\n{path.read_text('utf-8')}\n" in result.out
    found = root.ok("read", "review", "--as", "bob", "--all", "--json").json["messages"]
    assert [message["seq"] for message in found] == list(range(1, 39))
    odd = found[6]
    assert (odd["from"], odd["title"], odd["body"]) == ("Zoë Ünï", "---like: front matter", "--- \nseq: 99\n---\n")
    assert found[1]["reply_to"] == 1 and found[5]["title"] == "世界"


def test_bob_has_nothing_new(root: Root) -> None:
    """#38 is the audit message of a compaction, which concerns nobody."""
    assert "(no new messages for bob in 'review'; cursor at #38)" in root.ok("read", "review", "--as", "bob").out
    assert root.cursor("bob", "review") == 38
    assert root.run("wait", "review", "--as", "bob", "--timeout", "0").status == 4


def test_bobs_cursor_is_honoured_and_every_audit_message_shown_on_demand(root: Root) -> None:
    out = root.ok("read", "review", "--as", "bob", "--audit").out
    assert out.count("=" * 70) == 1 and "state.compacted" in out


def test_a_newcomer_reads_the_whole_thread(root: Root) -> None:
    result = root.ok("read", "review", "--as", "zed", "--json")
    seen = [message["seq"] for message in result.json["messages"]]
    # 1 and 2 are for others; of the audit messages those that say of a task that anybody may take it
    assert seen == [3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 18, 20, 23, 25, 27, 36, 37]
    assert root.cursor("zed", "review") == 38
    audit = root.ok("read", "review", "--as", "yan", "--audit", "--json").json["messages"]
    assert [message["seq"] for message in audit] == list(range(3, 39))
    assert "no new messages" in root.ok("read", "review", "--as", "zed").out


def test_looking_changes_nothing_not_even_a_time(root: Root) -> None:
    before = snapshot(root)
    for words in (
        ["channels"],
        ["roster", "review"],
        ["roster", "empty"],
        ["peek", "review"],
        ["peek", "empty"],
        ["peek", "review", "-n", "50"],
        ["show", "review", "7"],
        ["read", "review", "--as", "bob", "--peek"],
        ["read", "review", "--as", "zed", "--peek"],
        ["read", "review", "--as", "bob", "--all"],
        ["wait", "review", "--as", "zed", "--peek", "--timeout", "0"],
    ):
        root.ok(*words)
    assert snapshot(root) == before


def test_reading_and_posting_change_no_file_that_was_there_but_the_cursor(root: Root) -> None:
    before = snapshot(root)
    root.ok("read", "review", "--as", "bob")
    root.ok("read", "review", "--as", "zed")
    root.ok("post", "review", "--from", "alice", "--title", "t", "--body", "b")
    root.ok("ack", "empty", "--as", "bob", "--upto", "0")
    after = snapshot(root)
    folders = {name for name in before if (GOLDEN / name).is_dir()}
    changed = {name for name in before if name not in folders and after.get(name) != before[name]}
    assert changed == {os.path.join("review", ".cursors", "bob.txt")}


def test_the_next_message_is_39(root: Root) -> None:
    out = root.ok("post", "review", "--from", "alice", "--title", "Next", "--body", "b", "--reply", "38").out
    assert out == "posted #39 -> review/0039-alice-next.md\n"
    assert "Next" in root.ok("read", "review", "--as", "bob").out and root.cursor("bob", "review") == 39
    assert root.ok("post", "empty", "--from", "alice", "--title", "t", "--body", "b").out.startswith("posted #1 ")


def test_the_markers_go_on(root: Root) -> None:
    assert "bob" in root.refused("CLAIM_LOST", "claim", "review", "task-7.md", "--as", "carol", status=3).err
    root.ok("unclaim", "review", "task-7.md", "--as", "bob")
    root.ok("claim", "review", "task-8.md", "--as", "carol")
    assert (root.path / "review" / "task-8.CLAIMED-carol.md").exists()


def test_who_has_posted_there_is_known_and_who_cannot_be_addressed_gets_a_reply_to_all(root: Root) -> None:
    root.ok("post", "review", "--from", "alice", "--title", "t", "--body", "b", "--to", "erin,dave")
    shown = root.ok("show", "review", "7", "--format", "envelope").out
    assert 'from="Zoë Ünï"' in shown and 'reply-with="post review --reply 7"' in shown
    root.ok("post", "review", "--reply", "7", "--from", "bob", "--title", "Re", "--body", "b")
