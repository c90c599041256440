"""doctor: what is wrong, one line each with the command that helps."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest
from support import Root, make_root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def kinds(root: Root, *words: str) -> list[str]:
    result = root.run("doctor", "--json", *words)
    found = [finding["kind"] for finding in result.json["findings"]]
    assert result.status == (3 if found else 0)
    return found


def damage(root: Root) -> dict[str, str]:
    """A channel with one of each; what doctor calls them, by a word of the finding."""
    folder = root.folder()
    for number in (1, 2, 3):
        root.put(number)
    text = (folder / "0001-alice-x.md").read_text()
    (folder / "0001-alice-x (conflicted copy).md").write_text(text)
    (folder / "0002-alice-y.md").write_text(text)
    (folder / "1234567890-alice-x.md").write_text(text)
    (folder / "0003-bob-cut.md").write_text("---\nseq: 3")
    old = time.time() - 3600
    os.utime(folder / "0003-bob-cut.md", (old, old))
    (folder / "notes.md").symlink_to("/etc/hostname")
    (folder / ".cursors").mkdir(exist_ok=True)
    (folder / ".cursors" / "bob.txt").write_text("99\n")
    (folder / ".cursors" / "carol.txt").write_text("garbage\n")
    (folder / "tasks").mkdir()
    (folder / "tasks" / "T-9.json").write_text("{")
    (folder / "locks").mkdir()
    (folder / "locks" / f"{'0' * 32}.json").write_text("[]")
    return {
        "conflicted copy": "MESSAGE_UNREADABLE",
        "0003-bob-cut.md": "MESSAGE_UNREADABLE",
        "says it is #1": "MESSAGE_NUMBER_DIFFERS",
        "2 messages are #2": "MESSAGE_NUMBER_TWICE",
        "1234567890": "MESSAGE_ODD_NUMBER",
        "notes.md": "STORAGE_LINK_REFUSED",
        "#99": "CURSOR_BEYOND_END",
        "garbage": "CURSOR_INVALID",
        "T-9": "TASK_INVALID_RECORD",
        "0" * 32: "PATH_LOCK_INVALID_RECORD",
    }


def test_a_sound_channel_is_clean(root: Root) -> None:
    root.post()
    root.ok("read", "c", "--as", "bob")
    root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t")
    result = root.ok("doctor")
    assert result.out.rstrip().endswith("nothing found") and kinds(root, "c") == []


def test_each_thing_that_is_wrong_has_its_line_and_its_command(root: Root) -> None:
    expected = damage(root)
    result = root.run("doctor", "c")
    assert result.status == 3 and result.err == ""
    lines = result.out.splitlines()[1:]
    for word, kind in expected.items():
        (line,) = (line for line in lines if word in line.partition("; next:")[0] and f": {kind}:" in line)
        assert "; next: " in line
    assert len(lines) == len(expected)


def test_the_commands_that_it_names_make_the_channel_clean(root: Root) -> None:
    damage(root)
    for finding in root.run("doctor", "--json").json["findings"]:
        words = shlex.split(finding["next"].replace("NAME", "alice"))
        if words[0] in ("mv", "rm"):
            subprocess.run(words, check=True)
        elif "show" not in words:
            root.ok(
                *words[words.index("--root") + 2 :] if "--root" in words else words[words.index("agent_chat") + 1 :]
            )
    assert set(kinds(root)) <= {"MESSAGE_NUMBER_TWICE", "MESSAGE_NUMBER_DIFFERS"}  # both are delivered: no harm


def test_fix_mends_only_what_loses_nothing(root: Root) -> None:
    damage(root)
    before = {path: path.read_bytes() for path in root.folder().glob("*/*.json")}
    found = root.run("doctor", "--fix", "--json").json["findings"]
    assert [finding["kind"] for finding in found if finding["fixed"]] == ["CURSOR_BEYOND_END"]
    assert root.cursor("bob") == 3 and before == {path: path.read_bytes() for path in before}


def test_what_is_over_is_named_with_the_command_that_takes_it_over(root: Root) -> None:
    root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t")
    root.ok("task", "claim", "c", "T-1", "--as", "bob", "--ttl", "0.05")
    root.ok("lock", "c", "src/a.py", "--as", "bob", "--ttl", "0.05")
    time.sleep(0.1)
    out = root.run("doctor").out
    assert "task recover c T-1" in out and "LEASE_EXPIRED" in out and "PATH_LOCK_EXPIRED" in out


def test_a_claim_from_the_future_is_named(root: Root) -> None:
    root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t")
    root.ok("task", "claim", "c", "T-1", "--as", "bob")
    path = root.folder() / "claims" / "T-1.bob.json"
    record = {**json.loads(path.read_text()), "updated_at": "2999-01-01T00:00:00+00:00"}
    path.write_text(json.dumps(record))
    assert "made in the future" in root.run("doctor").out


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b"<<<<<<< HEAD\n{}\n", b'{"members": 3}'])
def test_a_damaged_meta_stops_only_its_channel(root: Root, raw: bytes) -> None:
    root.ok("init", "d")
    (root.folder() / "_meta.json").write_bytes(raw)
    result = root.run("doctor")
    assert result.status == 3 and "c: CHANNEL_META_INVALID" in result.out and "\nd: " not in result.out


def test_an_unknown_channel_is_refused(root: Root) -> None:
    root.refused("CHANNEL_NOT_FOUND", "doctor", "nope")


def test_a_name_with_a_line_break_forges_no_line(root: Root) -> None:
    (root.folder() / "0007-x\nc: FORGED: y.md").write_text("x")
    out = root.run("doctor").out
    assert len(out.splitlines()) == 2
