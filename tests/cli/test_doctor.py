"""doctor: what is wrong, one line each with the command that helps."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest
from board import Interrupted
from damage import snapshot
from support import Root, make_root, open_channel

from agent_chat import clock
from agent_chat.storage import oslock


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


# ---- every kind of thing that may lie in a channel ------------------------------------------------------


def find(root: Root, kind: str, *words: str) -> list[dict[str, str]]:
    found = root.run("doctor", "c", "--json", *words).json["findings"]
    return [one for one in found if one["kind"] == kind]


def cure(finding: dict[str, str]) -> None:
    """Run the shell's command that a finding names."""
    words = shlex.split(finding["next"])
    assert words[0] in ("mv", "rm", "chmod"), finding
    subprocess.run(words, check=True)


@pytest.mark.parametrize("name", ["tasks", "claims", "locks", ".cursors", ".numbers", ".index", ".journal", "requests"])
@pytest.mark.parametrize("what", ["file", "link", "pipe"])
def test_something_else_in_place_of_a_folder_is_named_and_the_rest_is_looked_at(
    root: Root, name: str, what: str
) -> None:
    root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t")
    (root.folder() / "0007-a-b.md").mkdir()
    path = root.folder() / name
    if path.is_dir():
        path.rename(root.path / f"{name}-away")
    if what == "file":
        path.write_text("x")
    elif what == "link":
        path.symlink_to("/etc")
    else:
        os.mkfifo(path)
    kind = "STORAGE_LINK_REFUSED" if what == "link" else "STORAGE_NOT_A_FILE"
    (finding,) = (one for one in find(root, kind) if one["message"].startswith(f"{name} is "))
    assert find(root, "MESSAGE_UNREADABLE"), "a later section found nothing because an earlier one stopped"
    cure(finding)
    assert f"{name} is " not in root.run("doctor", "c").out


@pytest.mark.parametrize("name", ["_policy.json", "state.md", ".lock", ".gitignore"])
def test_something_else_in_place_of_a_file_is_named(root: Root, name: str) -> None:
    (root.folder() / name).unlink(missing_ok=True)
    (root.folder() / name).mkdir()
    (finding,) = (one for one in find(root, "STORAGE_NOT_A_FILE") if one["message"].startswith(name))
    cure(finding)
    assert kinds(root, "c") == []


@pytest.mark.parametrize(
    "path",
    [
        ".cursors/bob (conflicted copy).txt",
        ".cursors/all of us.txt",
        "tasks/T-1.json.orig",
        "tasks/T-1.sync-conflict-20260101-120000-ABCDEFG",
        "claims/T-1.bob.json~",
        "locks/notes",
    ],
)
def test_what_an_editor_or_a_merge_leaves_beside_records_is_named(root: Root, path: str) -> None:
    (root.folder() / path).parent.mkdir(exist_ok=True)
    (root.folder() / path).write_text("x")
    (finding,) = find(root, "STRAY_FILE")
    assert path in finding["message"]
    cure(finding)
    assert kinds(root, "c") == []


def test_a_conflict_copy_of_a_record_is_named_and_put_aside(root: Root) -> None:
    root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t")
    data = (root.folder() / "tasks/T-1.json").read_bytes()
    (root.folder() / "tasks/T-1 (conflicted copy).json").write_bytes(data)
    (finding,) = find(root, "TASK_RECORD_ID_MISMATCH")
    cure(finding)
    assert kinds(root, "c") == [] and root.ok("task", "list", "c").out.count("T-1") == 1


@pytest.mark.skipif(os.path.exists(__file__.upper()), reason="needs a file system that keeps case apart")
def test_two_records_of_one_task_are_named(root: Root) -> None:
    root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t")
    data = (root.folder() / "tasks/T-1.json").read_bytes()
    (root.folder() / "tasks/t-1.json").write_bytes(data)
    (finding,) = find(root, "TASK_TWICE")
    assert "tasks/T-1.json, tasks/t-1.json" in finding["message"]
    cure(finding)
    assert (root.folder() / "tasks/T-1.json").exists() and not find(root, "TASK_TWICE")


def test_a_damaged_claim_of_no_task_is_named(root: Root) -> None:
    (root.folder() / "claims").mkdir()
    (root.folder() / "claims/T-7.bob.json").write_text("{")
    (finding,) = find(root, "LEASE_INVALID_RECORD")
    cure(finding)
    assert kinds(root, "c") == []


def test_each_damaged_record_is_named_once(root: Root) -> None:
    root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t")
    root.ok("task", "claim", "c", "T-1", "--as", "bob")
    (root.folder() / "claims/T-1.bob.json").write_text("{")
    assert len(find(root, "LEASE_INVALID_RECORD")) == 1


def test_a_bad_event_is_named(root: Root) -> None:
    path = root.put(7, "no JSON")
    path.write_text(path.read_text().replace("discussion", "event.status"))
    (finding,) = find(root, "EVENT_MALFORMED_BODY")
    assert finding["next"].endswith(" show c 7")


def test_an_unfinished_change_is_named_with_its_phase_and_its_command(root: Root) -> None:
    root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t")
    Interrupted(root, "task", "claim", "c", "T-1", "--as", "bob").leave("applied")
    (finding,) = find(root, "LEASE_TRANSACTION_PENDING")
    assert "(applied)" in finding["message"] and "task recover-pending c --as NAME" in finding["next"]
    root.ok("task", "recover-pending", "c", "--as", "alice")
    assert kinds(root, "c") == []


def test_a_damaged_journal_is_named_with_the_command_that_puts_it_aside(root: Root) -> None:
    (root.folder() / ".journal").mkdir()
    (root.folder() / ".journal/path.json").write_text("{")
    (finding,) = find(root, "PATH_LOCK_TRANSACTION_INVALID")
    assert "recover-pending c --as NAME --discard-journal --reason WHY" in finding["next"]


@pytest.mark.parametrize("text, kind", [("garbage", "CURSOR_INVALID"), ("-5", "CURSOR_INVALID"), ("1000000000", "")])
def test_the_commands_that_mend_a_cursor(root: Root, text: str, kind: str) -> None:
    root.post()
    (root.folder() / ".cursors").mkdir()
    (root.folder() / ".cursors/bob.txt").write_text(text)
    (finding,) = find(root, kind or "CURSOR_BEYOND_END")
    words = shlex.split(finding["next"])
    root.ok(*words[words.index("ack") :])
    assert kinds(root, "c") == [] and root.cursor("bob") in (0, 1)


def test_a_cursor_that_is_a_link_is_not_followed(root: Root) -> None:
    (root.folder() / ".cursors").mkdir()
    (root.folder() / ".cursors/bob.txt").symlink_to("/etc/hostname")
    assert find(root, "STORAGE_LINK_REFUSED")


@pytest.mark.parametrize("raw", [b" " * (50 << 20), b"{" * 2000, b'{"channel": "c", "members": 1}'])
def test_a_meta_far_too_large_or_odd_is_one_line_and_all_other_channels_work(root: Root, raw: bytes) -> None:
    root.ok("init", "d")
    (root.folder() / "_meta.json").write_bytes(raw)
    out = root.run("doctor").out.splitlines()
    assert len(out) == 2 and "_meta.json" in out[1] and "line 1" in out[1]
    root.ok("post", "d", "--from", "alice", "--title", "t", "--body", "b")
    assert "d" in root.ok("channels").out


def test_a_sender_whose_clock_is_ahead_is_named_once(root: Root) -> None:
    for number in (1, 2, 3):
        path = root.put(number)
        path.write_text(path.read_text().replace("2026-01-01", "2999-01-01"))
    (finding,) = find(root, "CLOCK")
    assert finding["message"].startswith("3 messages")


def test_a_file_system_whose_clock_is_off_is_named(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    present = clock.now
    monkeypatch.setattr(clock, "now", lambda: present() - 3600 * clock.SECOND)
    assert any("s off ours" in finding["message"] for finding in find(root, "CLOCK"))


def test_a_file_system_without_locks_is_named(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise oslock.NoLocks

    monkeypatch.setattr(oslock, "hold", none)
    (finding,) = find(root, "STORAGE_NO_LOCKS")
    assert "records cannot change" in finding["message"]


def test_who_holds_the_lock_is_named(root: Root) -> None:
    with open_channel(root) as channel, channel.writing("mallory"):
        (finding,) = find(root, "CHANNEL_BUSY")
    assert "mallory" in finding["message"]


# ---- --fix ----------------------------------------------------------------------------------------------------


def test_fix_sweeps_what_crashed_processes_left_and_nothing_younger(root: Root) -> None:
    (root.folder() / ".tmp").mkdir(exist_ok=True)
    for name, age in (("old", 7200), ("new", 60)):
        (root.folder() / ".tmp" / name).write_text("x")
        os.utime(root.folder() / ".tmp" / name, (time.time() - age,) * 2)
    assert kinds(root, "c") == ["STALE_FILES"]
    result = root.run("doctor", "c", "--fix")
    assert result.status == 0 and "; fixed" in result.out
    assert os.listdir(root.folder() / ".tmp") == ["new"] and kinds(root, "c") == []


def test_fix_that_does_not_work_leaves_the_finding(root: Root) -> None:
    root.post()
    (root.folder() / ".cursors").mkdir()
    (root.folder() / ".cursors/bob.txt").write_text("99")
    (root.folder() / ".cursors/bob.lock").mkdir()
    result = root.run("doctor", "c", "--fix")
    assert result.status == 3 and "CURSOR_BEYOND_END" in result.out and "; next: " in result.out


def test_without_fix_nothing_changes(root: Root) -> None:
    damage(root)
    before = snapshot(root.folder())
    root.run("doctor", "c")
    assert snapshot(root.folder()) == before
