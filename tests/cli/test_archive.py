"""archive: old messages leave the folder and stay within reach (part 2, section 10)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import FrozenClock, Root, make_root, open_channel
from terminal import at_terminal, decide

from agent_chat import archive, clock
from agent_chat.storage import journal


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def seqs(root: Root, *words: object) -> list[int]:
    return [message["seq"] for message in root.ok(*words, "--json").json["messages"]]


def archived(root: Root) -> dict[str, bytes]:
    return {str(path.relative_to(root.folder())): path.read_bytes() for path in root.folder().glob("archive/*/*")}


def posts(root: Root, count: int) -> None:
    for number in range(1, count + 1):
        root.post("alice", f"t{number}")


# ---- what moves --------------------------------------------------------------------------------------------


def test_messages_move_byte_for_byte_into_a_folder_of_their_thousand(root: Root) -> None:
    posts(root, 3)
    before = {name: (root.folder() / name).read_bytes() for name in root.names()}
    assert root.ok("archive", "c", "--before", 3).out == "archived 2 messages of c (#1 to #2)\n"
    assert archived(root) == {f"archive/0001-1000/{name}": before[name] for name in sorted(before)[:2]}
    assert root.names() == ["0003-alice-t3.md"]


def test_each_thousand_has_a_folder(root: Root) -> None:
    for number in (1, 1000, 1001, 20_500, 20_501):
        root.put(number)
    root.ok("archive", "c", "--before", 99_999)
    assert sorted(os.listdir(root.folder() / "archive")) == ["0001-1000", "1001-2000", "20001-21000"]


def test_no_folder_has_more_than_a_thousand_files(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "FULL", 3)
    for name in ("a", "b", "c", "d"):
        root.put(2, name=f"0002-{name}-x.md")
    root.put(3)
    root.put(4)
    root.ok("archive", "c", "--before", 9)
    counts = {path.name: len(list(path.iterdir())) for path in (root.folder() / "archive").iterdir()}
    assert sum(counts.values()) == 5 and max(counts.values()) <= 3, counts
    assert seqs(root, "read", "c", "--as", "bob", "--all") == [2, 2, 2, 2, 3, 4]


def test_the_newest_always_stays_and_numbers_never_start_again(root: Root) -> None:
    posts(root, 3)
    root.ok("archive", "c", "--before", 99)
    assert root.names() == ["0003-alice-t3.md"]
    assert root.ok("archive", "c", "--before", 99).out == "archived 0 messages of c\n"
    assert "#4" in root.post("alice").out


def test_a_number_in_the_archive_is_never_given_again_whatever_the_folder_holds(root: Root) -> None:
    posts(root, 3)
    root.ok("archive", "c", "--before", 3)
    (root.folder() / "0003-alice-t3.md").unlink()
    (root.folder() / "archive/0001-1000/0007-alice-x.md").write_text("not whole")
    assert "#8" in root.post("alice").out
    assert seqs(root, "read", "c", "--as", "bob", "--all") == [1, 2, 8]


def test_age_goes_by_the_time_written(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    now = FrozenClock()
    monkeypatch.setattr(clock, "now", now)
    posts(root, 1)
    now.pass_seconds(10 * 86400)
    root.put(2)  # of 2026, long ago
    path = root.put(3)
    path.write_text(path.read_text().replace("ts: 2026-01-01T00:00:00+00:00", "ts: some time ago"))
    root.post("alice", "t4")
    root.post("alice", "t5")
    assert "1 message " in root.ok("archive", "c", "--older-than", "14d").out
    assert "1 message " in root.ok("archive", "c", "--older-than", "239h").out
    assert [name[:4] for name in root.names()] == ["0003", "0004", "0005"]


@pytest.mark.parametrize("age", ["", "14", "d", "-1d", "0d", "1.5d", "1y", "٣d", "9999999999d"])
def test_what_is_no_age_is_refused(root: Root, age: str) -> None:
    root.refused("USAGE_ERROR", "archive", "c", f"--older-than={age}")


def test_the_policy_gives_the_age_and_doctor_names_what_is_past_it(root: Root) -> None:
    root.put(1)
    root.post("alice")
    root.refused("USAGE_ERROR", "archive", "c")
    root.refused("USAGE_ERROR", "archive", "c", "--before", 2, "--older-than", "1d")
    (root.folder() / "_policy.json").write_text('{"retention": "14d"}')
    found = root.run("doctor", "c")
    assert "RETENTION" in found.out and " archive c" in found.out
    root.ok("archive", "c")
    assert [name[:4] for name in root.names()] == ["0002"]
    assert "RETENTION" not in root.run("doctor", "c").out


def test_without_retention_doctor_says_nothing_of_age(root: Root) -> None:
    root.put(1)
    root.put(2)
    assert "RETENTION" not in root.run("doctor", "c").out


# ---- readers -------------------------------------------------------------------------------------------------


def test_everybody_who_looks_back_sees_archived_messages(root: Root) -> None:
    root.post("alice", "Decision: files", "we use files")
    root.post("bob", "re", "fine", "--reply", 1, "--topic", "general")
    root.post("alice", "last")
    before = root.ok("state", "c").out
    root.ok("archive", "c", "--before", 3)
    assert seqs(root, "read", "c", "--as", "bob", "--all") == [1, 2, 3]
    assert seqs(root, "show", "c", 1) == [1] and seqs(root, "search", "c", "files") == [1]
    assert seqs(root, "log", "c") == seqs(root, "peek", "c", "-n", 9) == [1, 2, 3]
    assert root.ok("thread", "c", 2).out.splitlines() == ["#1 alice: Decision: files", "  #2 bob: re"]
    assert root.ok("state", "c").out == before and "Decision: files" in before
    assert root.ok("topics", "c", "--json").json["topics"][0]["count"] == 3
    assert root.ok("receipts", "c", 1, "--json").status == 0
    assert root.ok("channels", "--json").json["channels"][0]["count"] == 3
    root.post("carol", "re", "b", "--reply", 1)


def test_what_is_above_a_cursor_is_delivered_wherever_it_lies(root: Root) -> None:
    root.ok("read", "c", "--as", "bob")
    posts(root, 4)
    assert seqs(root, "read", "c", "--as", "bob", "--limit", 1) == [1]
    root.ok("archive", "c", "--before", 4)
    assert seqs(root, "read", "c", "--as", "bob", "--peek") == [2, 3, 4]
    assert seqs(root, "wait", "c", "--as", "bob", "--limit", 2) == [2, 3]
    assert seqs(root, "read", "c", "--as", "bob") == [4] and seqs(root, "read", "c", "--as", "bob") == []


def test_who_has_no_cursor_starts_with_what_is_not_archived(root: Root) -> None:
    posts(root, 4)
    root.ok("archive", "c", "--before", 3)
    assert seqs(root, "read", "c", "--as", "bob", "--peek") == [3, 4]
    assert seqs(root, "read", "c", "--as", "bob") == [3, 4]
    assert root.cursor("bob") == 4


def test_also_where_what_is_archived_is_no_beginning(root: Root) -> None:
    """By age: a lower number may be younger."""
    for number in (1, 2, 3, 4):
        path = root.put(number)
        if number in (1, 4):
            path.write_text(path.read_text().replace("2026-01-01", "2999-01-01"))
    root.ok("archive", "c", "--older-than", "1d")
    assert [name[:4] for name in root.names()] == ["0001", "0004"]
    assert seqs(root, "read", "c", "--as", "bob", "--limit", 1) == [1]
    assert seqs(root, "read", "c", "--as", "bob") == [4] and seqs(root, "read", "c", "--as", "bob") == []


def test_what_moves_is_neither_late_nor_new(root: Root) -> None:
    posts(root, 5)
    for agent in ("bob", "carol"):
        root.ok("read", "c", "--as", agent)
    root.ok("archive", "c", "--before", 4)
    (root.folder() / ".index" / "stamp").unlink()
    for agent in ("bob", "carol"):
        assert seqs(root, "read", "c", "--as", agent) == []
        assert not list((root.folder() / ".cursors").glob("*.late/*"))


def test_a_late_message_is_late_before_it_moves(root: Root) -> None:
    root.put(3)
    root.put(4)
    root.ok("read", "c", "--as", "bob")
    root.put(2)
    root.ok("archive", "c", "--before", 4)
    assert seqs(root, "read", "c", "--as", "bob") == [2] and seqs(root, "read", "c", "--as", "bob") == []


def test_an_archived_request_is_known(root: Root) -> None:
    words = ["post", "c", "--from", "alice", "--title", "t", "--body", "b", "--request-id", "r"]
    root.ok(*words)
    root.post("alice")
    root.ok("archive", "c", "--before", 2)
    assert root.ok(*words).out.startswith("posted #1 ")
    (root.folder() / ".index" / "archived").unlink()
    assert root.ok(*words).out.startswith("posted #1 ")


def test_one_that_lies_in_both_counts_once_and_the_next_run_mends_it(root: Root) -> None:
    posts(root, 3)
    root.ok("archive", "c", "--before", 2)
    (path,) = root.folder().glob("archive/*/*")
    (root.folder() / path.name).write_bytes(path.read_bytes())
    root.ok("read", "c", "--as", "bob", "--peek")
    assert seqs(root, "read", "c", "--as", "bob", "--all") == [1, 2, 3]
    root.ok("archive", "c", "--before", 2)
    assert [name[:4] for name in root.names()] == ["0002", "0003"]


def test_another_file_of_the_same_name_is_kept(root: Root) -> None:
    posts(root, 3)
    root.ok("archive", "c", "--before", 2)
    (path,) = root.folder().glob("archive/*/*")
    (root.folder() / path.name).write_bytes(path.read_bytes() + b"more\n")
    result = root.ok("archive", "c", "--before", 2)
    assert "stays" in result.err and (root.folder() / path.name).exists() and len(archived(root)) == 1


@pytest.mark.parametrize("kind", ["file", "link", "odd names"])
def test_a_strange_archive_stops_nobody(root: Root, tmp_path: Path, kind: str) -> None:
    posts(root, 2)
    path = root.folder() / "archive"
    if kind == "file":
        path.write_text("x")
    elif kind == "link":
        (tmp_path / "elsewhere/0001-1000").mkdir(parents=True)
        (tmp_path / "elsewhere/0001-1000/0001-eve-x.md").write_bytes((root.folder() / root.names()[0]).read_bytes())
        path.symlink_to(tmp_path / "elsewhere")
    else:
        for name in ("x", "0001-", "2000-1001", "0001-1000/0001-eve-x.md", "0000-0000", "1001-2000"):
            (path / name).mkdir(parents=True)
        (path / "1001-2000/1001-alice-x.md").symlink_to("/etc/hostname")
        (path / "1001-2000/1002-alice-x.md").write_text("damaged")
    assert seqs(root, "read", "c", "--as", "bob") == [1, 2]
    expected = 1003 if kind == "odd names" else 3
    assert f"#{expected}" in root.post("alice").out
    assert seqs(root, "read", "c", "--as", "bob") == [expected]


# ---- transactions --------------------------------------------------------------------------------------------


def test_a_pending_change_keeps_its_message_and_finds_an_archived_one(root: Root) -> None:
    kept: list[bytes] = []
    write = journal.write

    def keeping(folder: object, family: str, entry: journal.Journal) -> None:
        kept.append(entry.encode())
        write(folder, family, entry)  # type: ignore[arg-type]

    journal.write = keeping
    try:
        root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t")
    finally:
        journal.write = write
    posts(root, 2)
    path = root.folder() / ".journal/task.json"
    path.write_bytes(kept[0])  # its removal did not survive a power cut
    root.ok("archive", "c", "--before", 3)
    assert [name[:4] for name in root.names()] == ["0001", "0003"]
    path.unlink()
    root.ok("archive", "c", "--before", 3)
    path.write_bytes(kept[0])
    root.ok("task", "recover-pending", "c", "--as", "alice")
    assert "T-1" in root.ok("task", "show", "c", "T-1").out, "it was committed, and stays so"


# ---- deleting ------------------------------------------------------------------------------------------------


def test_only_a_person_deletes(root: Root) -> None:
    posts(root, 3)
    result = root.refused("OPERATOR_REQUIRED", "archive", "c", "--before", 3, "--delete")
    assert result.err.endswith("archive c --before 3 --delete\n") and len(root.names()) == 3
    root.refused("OPERATOR_REQUIRED", "archive", "c", "--before", 1, "--delete")
    root.refused("USAGE_ERROR", "archive", "c", "--before", 3, "--force")


def choose(root: Root) -> dict[int, str]:
    """What would be kept of everything but the newest, and why."""
    with open_channel(root) as channel:
        needed = archive.needs(channel)
        found = {}
        for entry in archive.old(channel, archive.Age(before=10**8), True):
            message = channel.log.message(entry.name)
            assert message
            found[entry.number] = needed(entry, message)
        return {number: why for number, why in found.items() if why}


def test_what_somebody_still_needs_is_kept(root: Root) -> None:
    root.ok("read", "c", "--as", "carol")
    root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t")
    root.ok("task", "create", "c", "T-10", "--from", "alice", "--title", "t")
    for words in (["update", "--status", "in_progress"], ["done"]):
        root.ok("task", words[0], "c", "T-10", "--as", "alice", *words[1:])
    root.post("alice", "about T-1", "b", "--to", "bob")
    root.post("alice", "about T-10 only", "b", "--to", "bob")
    root.post("alice", "which?", "b", "--to", "bob", "--status", "question")
    root.post("alice", "for carol", "b", "--to", "carol")
    root.post("alice", "newest")
    found = choose(root)
    assert {number: found[number] for number in (1, 5, 7, 8)} == {
        1: "open task T-1",
        5: "open task T-1",
        7: "unanswered",
        8: "unread by carol",
    }
    assert 6 not in found, "it is not for carol, and names a task that is done"
    root.ok("read", "c", "--as", "carol")
    root.post("bob", "this", "b", "--reply", 7, "--to", "alice")
    root.ok("read", "c", "--as", "carol")
    assert set(choose(root)) == {1, 5}


def test_a_late_message_that_nobody_was_shown_is_kept(root: Root) -> None:
    root.put(3)
    root.ok("read", "c", "--as", "bob")
    root.put(2)
    root.ok("read", "c", "--as", "carol", "--limit", 1)
    assert choose(root)[2] == "unread by bob"


def test_a_person_deletes_what_nobody_needs(root: Root) -> None:
    root.ok("read", "c", "--as", "carol")
    posts(root, 3)
    root.ok("read", "c", "--as", "carol")
    root.post("alice", "for carol", "b", "--to", "carol")
    root.post("bob", "re", "b", "--reply", 1)
    root.ok("archive", "c", "--before", 2)
    out = decide(root, "archive", "c", "--before", 5, "--delete").out
    assert out.startswith("deleted 3 messages of c (#1 to #3); kept 1: #4 unread by carol")
    assert archived(root) == {} and [name[:4] for name in root.names()] == ["0004", "0005", "0006"]
    told = root.messages()[-1]
    assert (told.status, told.sender, told.title) == ("archive.deleted", "system", "archive.deleted 1-3")
    assert root.ok("thread", "c", 5).out.splitlines() == ["#1 (not there any more)", "  #5 bob: re"]
    assert seqs(root, "show", "c", 5) == [5] and seqs(root, "read", "c", "--as", "carol") == [4, 5]
    assert "#7" in root.post("alice").out
    root.refused("MESSAGE_NOT_FOUND", "show", "c", 1)


def test_with_force_all_but_the_newest_go_and_nobody_waits_for_them(root: Root) -> None:
    root.put(3)
    root.ok("read", "c", "--as", "bob")
    root.put(2)
    root.ok("read", "c", "--as", "carol", "--limit", 1)
    root.put(4)
    decide(root, "archive", "c", "--before", 99, "--delete", "--force")
    assert [name[:4] for name in root.names()] == ["0004", "0005"]
    result = root.ok("read", "c", "--as", "bob", "--json")
    assert [message["seq"] for message in result.json["messages"]] == [4] and result.err == ""


def test_whoever_types_something_else_deletes_nothing(root: Root) -> None:
    posts(root, 3)
    result = at_terminal(root, "archive", "c", "--before", 3, "--delete", typed="no\n")
    assert result.status == 2 and len(root.names()) == 3


def test_nothing_is_deleted_while_a_change_is_pending(root: Root) -> None:
    root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t")
    posts(root, 2)
    (root.folder() / ".journal").mkdir(exist_ok=True)
    (root.folder() / ".journal/task.json").write_text("{}")
    result = at_terminal(root, "archive", "c", "--before", 3, "--delete", "--force")
    assert result.status == 2 and "LEASE_TRANSACTION" in result.err and len(root.names()) == 3
