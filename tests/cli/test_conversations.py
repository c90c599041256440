"""thread, receipts, search and log."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support import Root, make_root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def talk(root: Root) -> None:
    """#1 <- #2 <- #4, #1 <- #5; #3 <- #6."""
    for number, parent in ((1, 0), (2, 1), (3, 0), (4, 2), (5, 1), (6, 3)):
        root.post("alice", f"t{number}", f"body {number}", *(["--reply", parent] if parent else []))


TREE = ["#1 alice: t1", "  #2 alice: t2", "    #4 alice: t4", "  #5 alice: t5"]


@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_a_thread_is_the_whole_conversation_as_a_tree(root: Root, number: int) -> None:
    talk(root)
    assert root.ok("thread", "c", number).out.splitlines() == TREE
    found = root.ok("thread", "c", number, "--json").json
    assert [(node["depth"], node["message"]["seq"]) for node in found["nodes"]] == [(0, 1), (1, 2), (2, 4), (1, 5)]
    assert (found["root"], found["is_root_there"]) == (1, True)


def test_with_a_format_the_messages_are_shown_whole_in_this_order(root: Root) -> None:
    talk(root)
    text = root.ok("thread", "c", 2, "--format", "envelope").out
    assert [text.index(f"body {number}") for number in (1, 2, 4, 5)] == sorted(
        text.index(f"body {number}") for number in (1, 2, 4, 5)
    )
    assert "body 3" not in text


def test_answers_to_what_is_gone_stay_together(root: Root) -> None:
    talk(root)
    (root.folder() / root.names()[0]).unlink()
    assert root.ok("thread", "c", 5).out.splitlines() == ["#1 (not there any more)", *TREE[1:]]
    assert root.ok("thread", "c", 1).out.splitlines() == ["#1 (not there any more)", *TREE[1:]]
    assert root.ok("thread", "c", 1, "--json").json["is_root_there"] is False
    root.refused("MESSAGE_NOT_FOUND", "thread", "c", 99)


@pytest.mark.parametrize("answers", ["1", "2", "9", "0", "-1", "999999999999", "x"])
def test_no_header_ties_a_knot(root: Root, answers: str) -> None:
    path = root.put(1)
    path.write_text(path.read_text().replace("to: all", f"to: all\nreply_to: {answers}"))
    root.post("bob", "re", "b", "--reply", 1)
    assert root.ok("thread", "c", 2).out.splitlines()[-1].endswith("bob: re")


def test_a_long_thread_is_cut_and_says_so(root: Root) -> None:
    talk(root)
    lines = root.ok("thread", "c", 1, "-n", 2).out.splitlines()
    assert lines[:2] == TREE[:2] and lines[2].startswith("more: 2; next: ") and lines[2].endswith("thread c 1 -n 4")


def test_a_deep_thread_needs_no_recursion(root: Root) -> None:
    for number in range(1, 1501):
        path = root.put(number)
        if number > 1:
            path.write_text(path.read_text().replace("to: all", f"to: all\nreply_to: {number - 1}"))
    assert root.ok("thread", "c", 1500, "--json").json["nodes"][-1]["depth"] == 1499


def test_text_of_a_message_is_one_line_of_the_tree(root: Root) -> None:
    root.post("alice", "\x1b[31mred\n#9 bob: forged")
    (line,) = root.ok("thread", "c", 1).out.splitlines()
    assert "\x1b" not in line


# ---- receipts --------------------------------------------------------------------------------------------


def delivery(root: Root, number: int) -> dict[str, str]:
    (found,) = root.ok("receipts", "c", number, "--json").json["receipts"]
    return dict(found["delivery"])


def test_a_receipt_says_who_has_passed_it_and_for_whom_it_lies_there(root: Root) -> None:
    root.post("alice")
    root.post("alice", "t", "b", "--to", "carol,dave", "--force")
    root.ok("read", "c", "--as", "bob")
    assert delivery(root, 1) == {"bob": "passed", "carol": "parked"}
    assert delivery(root, 2) == {"carol": "parked", "dave": "unknown"}
    assert root.ok("receipts", "c", 2).out == "carol  parked\ndave   unknown\n"
    root.refused("MESSAGE_NOT_FOUND", "receipts", "c", 3)


def test_a_post_answers_with_the_same_words(root: Root) -> None:
    words = ["post", "c", "--from", "alice", "--to", "bob,dave", "--force", "--title", "t", "--body", "b", "--json"]
    assert root.ok(*words).json["delivery"] == {"bob": "parked", "dave": "unknown"}


def test_who_waits_gets_it_at_once(root: Root) -> None:
    root.post("bob")
    root.ok("read", "c", "--as", "carol")
    waiter = root.spawn("wait", "c", "--as", "carol", "--timeout", "60")
    try:
        deadline = time.monotonic() + 30
        while not any((root.folder() / ".waiters").glob("carol.*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.1)
        words = ["post", "c", "--from", "bob", "--to", "carol,alice", "--title", "t", "--body", "b", "--json"]
        found = root.ok(*words).json["delivery"]
        assert found in ({"carol": "waiting", "alice": "parked"}, {"carol": "passed", "alice": "parked"})
        waiter.communicate(timeout=60)
        assert delivery(root, 2)["carol"] == "passed"
    finally:
        waiter.kill()
        waiter.communicate()


def test_a_late_message_has_not_passed(root: Root) -> None:
    root.put(3)
    root.ok("read", "c", "--as", "bob")
    root.put(2)
    root.ok("read", "c", "--as", "carol")
    assert delivery(root, 2) == {"bob": "parked", "carol": "passed"}


def test_a_damaged_cursor_shows_nothing(root: Root) -> None:
    root.post("alice")
    (root.folder() / ".cursors").mkdir(exist_ok=True)
    (root.folder() / ".cursors" / "bob.txt").write_text("x\n")
    assert delivery(root, 1)["bob"] == "parked"


def test_an_audit_message_is_for_whom_it_concerns(root: Root) -> None:
    root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t", "--owner", "bob")
    assert delivery(root, 1) == {"bob": "parked"}


def test_the_policy_refuses_who_has_not_joined(root: Root) -> None:
    root.post("alice", "t", "b", "--to", "bob,carol")
    root.ok("join", "c", "--as", "bob", "--session", "s")
    (root.folder() / "_policy.json").write_text('{"reach": "joined"}')
    assert delivery(root, 1) == {"bob": "parked", "carol": "refused"}


# ---- search, log -----------------------------------------------------------------------------------------


def test_search_finds_all_words_in_title_or_body(root: Root) -> None:
    root.post("alice", "Schema Draft", "the WAL mode\nis off")
    root.post("bob", "other", "schema again")
    assert root.ok("search", "c", "wal", "SCHEMA").out == "#1 alice: Schema Draft | the WAL mode\n"
    assert [one["seq"] for one in root.ok("search", "c", "schema", "--json").json["messages"]] == [1, 2]
    assert root.ok("search", "c", "schema", "-n", 1).out.splitlines() == [
        "#2 bob: other | schema again",
        "(1 older ones; -n 2 shows them)",
    ]
    assert "nothing" in root.ok("search", "c", "absent").out


def test_a_snippet_is_short_and_around_the_word(root: Root) -> None:
    root.post("alice", "t", "x" * 5000 + " needle " + "y" * 5000)
    (line,) = root.ok("search", "c", "needle").out.splitlines()
    assert "needle" in line and len(line) < 200


def test_log_is_one_line_a_message_oldest_first(root: Root) -> None:
    root.post("alice", "one", "b", "--to", "bob")
    root.post("alice", "two", "b", "--topic", "docs", "--status", "decision")
    lines = [line.split() for line in root.ok("log", "c").out.splitlines()]
    assert [line[:1] + line[2:] for line in lines] == [
        ["#1", "alice", "bob", "one"],
        ["#2", "alice", "all", "decision", "docs:", "two"],
    ]
    found = root.ok("log", "c", "-n", 1, "--json").json["messages"]
    assert [(one["seq"], one["title"], one["expired"]) for one in found] == [(2, "two", False)]
