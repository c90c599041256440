"""Topics, and what a reader leaves out (part 2, section 1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Result, Root, make_root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def titles(result: Result) -> list[str]:
    return [message["title"] for message in result.json["messages"]]


def read(root: Root, *more: object) -> list[str]:
    return titles(root.ok("read", "c", "--as", "bob", "--json", *more))


@pytest.mark.parametrize("topic", ["a", "0", "docs/review", "a.b_c-d/9", "x" * 100])
def test_a_topic_is_written_and_shown(root: Root, topic: str) -> None:
    root.post("alice", "t", "b", "--topic", topic)
    assert root.messages()[0].header["topic"] == topic
    assert root.ok("read", "c", "--as", "bob", "--json").json["messages"][0]["topic"] == topic


@pytest.mark.parametrize("topic", ["", "A", "/a", ".a", "-a", "a b", "x" * 101, "é", "a\n", "docs:1"])
def test_what_is_no_topic_is_refused(root: Root, topic: str) -> None:
    root.refused("MESSAGE_INVALID_TOPIC", "post", "c", "--from", "alice", "--title=t", "--body=b", f"--topic={topic}")
    root.refused("MESSAGE_INVALID_TOPIC", "read", "c", "--as", "bob", f"--exclude-topic={topic}")
    assert root.names() == []


def test_without_a_topic_nothing_is_written(root: Root) -> None:
    root.post("alice")
    root.post("alice", "t", "b", "--topic", "general")
    assert all("topic" not in message.header for message in root.messages())


def test_a_reply_is_about_what_it_answers(root: Root) -> None:
    root.post("alice", "t", "b", "--topic", "docs")
    root.post("bob", "re", "b", "--reply", 1)
    root.post("carol", "re", "b", "--reply", 2, "--topic", "docs")
    assert [message.topic for message in root.messages()] == ["docs"] * 3


def test_a_reply_about_something_else_is_refused_and_named_how_to_post_it(root: Root) -> None:
    root.post("alice", "t", "b", "--topic", "docs")
    words = ["post", "c", "--from", "bob", "--title", "re", "--body", "b", "--reply", "1", "--topic"]
    result = root.refused("MESSAGE_TOPIC_MISMATCH", *words, "code")
    assert "'docs'" in result.err and "--topic" not in result.err.partition("; next: ")[2]
    root.refused("MESSAGE_TOPIC_MISMATCH", *words, "general")
    root.post("alice", "general")
    words[words.index("1")] = "2"
    root.refused("MESSAGE_TOPIC_MISMATCH", *words, "docs")
    assert len(root.names()) == 2


def test_a_foreign_topic_that_is_none_is_not_handed_on(root: Root) -> None:
    path = root.put(1)
    path.write_text(path.read_text().replace("title: t", 'title: t\ntopic: "No Topic!"'))
    root.post("bob", "re", "b", "--reply", 1)
    assert root.messages()[1].topic == "general"
    assert root.ok("topics", "c").out.splitlines()[1:] and root.ok("read", "c", "--as", "bob").status == 0


def test_topics_lists_each_with_its_count_its_last_number_and_time(root: Root) -> None:
    assert root.ok("topics", "c").out == "(no messages in 'c')\n"
    root.put(1)
    root.post("alice", "t", "b", "--topic", "docs")
    root.post("alice", "t", "b", "--topic", "docs")
    found = root.ok("topics", "c", "--json").json["topics"]
    assert [(one["topic"], one["count"], one["last_seq"]) for one in found] == [("docs", 2, 3), ("general", 1, 1)]
    assert found[1]["ts"] == "2026-01-01T00:00:00+00:00"
    lines = root.ok("topics", "c").out.splitlines()
    assert lines[0].split() == ["TOPIC", "COUNT", "LAST", "TIME"] and lines[2].split()[:3] == ["general", "1", "#1"]


def test_what_is_excluded_is_passed_over_and_never_comes_back(root: Root) -> None:
    for title, topic in (("one", "noise"), ("two", "general"), ("three", "noise")):
        root.post("alice", title, "b", "--topic", topic)
    assert read(root, "--exclude-topic", "noise") == ["two"]
    assert root.cursor("bob") == 3
    assert read(root) == []
    assert len(root.names()) == 3, "it stays in the folder"
    assert len(root.ok("read", "c", "--as", "bob", "--all", "--json").json["messages"]) == 3


def test_a_new_topic_is_always_delivered(root: Root) -> None:
    root.post("alice", "help", "b", "--topic", "fire")
    assert read(root, "--exclude-topic", "noise", "--exclude-topic", "fir", "--exclude-from", "carol") == ["help"]


def test_a_sender_is_excluded_by_name_or_by_session(root: Root) -> None:
    root.post("alice", "one")
    root.post("carol", "two", "b", "--session", "s-1")
    root.post("carol", "three", "b", "--session", "s-2")
    assert titles(root.ok("read", "c", "--as", "bob", "--peek", "--json", "--exclude-from", "ALICE")) == [
        "two",
        "three",
    ]
    assert titles(root.ok("read", "c", "--as", "bob", "--peek", "--json", "--exclude-from", "s-1")) == ["one", "three"]
    assert read(root, "--exclude-from", "alice", "--exclude-from", "s-1") == ["three"]
    root.refused("USAGE_ERROR", "read", "c", "--as", "bob", "--exclude-from", "no name")


def test_an_excluded_late_message_never_comes_back(root: Root) -> None:
    root.put(3)
    assert len(read(root)) == 1
    path = root.put(2)
    path.write_text(path.read_text().replace("title: t", "title: late\ntopic: noise"))
    assert root.ok("read", "c", "--as", "bob", "--peek", "--json").json["messages"][0]["title"] == "late"
    root.ok("read", "c", "--as", "bob", "--exclude-topic", "noise")
    assert read(root) == []


def test_with_a_limit_what_is_excluded_behind_it_is_not_passed_yet(root: Root) -> None:
    for title, topic in (("one", "general"), ("two", "noise"), ("three", "general"), ("four", "noise")):
        root.post("alice", title, "b", "--topic", topic)
    result = root.ok("read", "c", "--as", "bob", "--limit", 1, "--exclude-topic", "noise", "--json").json
    assert (result["cursor"], result["has_more"]) == (1, True)
    result = root.ok("read", "c", "--as", "bob", "--limit", 1, "--exclude-topic", "noise", "--json").json
    assert (titles_of(result), result["cursor"], result["has_more"]) == (["three"], 4, False)


def titles_of(result: dict[str, list[dict[str, str]]]) -> list[str]:
    return [message["title"] for message in result["messages"]]


def test_the_next_command_keeps_the_choice(root: Root) -> None:
    for _ in range(2):
        root.post("alice")
    words = ["--exclude-topic", "noise", "--exclude-from", "carol", "--audit"]
    text = root.ok("read", "c", "--as", "bob", "--limit", 1, *words).out
    assert text.splitlines()[-1].endswith("read c --as bob " + " ".join(words))
    text = root.ok("read", "c", "--as", "bob", "--after", 0, "--limit", 1, *words[:2]).out
    assert text.splitlines()[-1].endswith("read c --as bob --after 1 --exclude-topic noise")


def test_what_is_excluded_ends_no_wait_and_rings_no_bell(root: Root) -> None:
    root.post("alice", "one", "b", "--topic", "noise")
    result = root.run("wait", "c", "--as", "bob", "--timeout", 0, "--exclude-topic", "noise")
    assert result.status == 4
    assert root.run("wait", "c", "--as", "bob", "--timeout", 0, "--exclude-from", "alice").status == 4
    watched = ("watch", "c", "--as", "bob", "--timeout", "0.05")
    assert root.run(*watched, "--exclude-topic", "noise").out == ""
    assert root.run(*watched, "--notify", "--exclude-from", "alice").out == ""
    assert "one" in root.run(*watched).out


def test_peek_shows_the_last_ones_of_what_is_not_excluded(root: Root) -> None:
    for title, topic in (("one", "general"), ("two", "noise"), ("three", "general"), ("four", "noise")):
        root.post("alice", title, "b", "--topic", topic)
    assert titles(root.ok("peek", "c", "-n", 2, "--json", "--exclude-topic", "noise")) == ["one", "three"]
    assert titles(root.ok("peek", "c", "--json", "--exclude-from", "alice")) == []


def test_there_is_no_list_of_what_to_include() -> None:
    from agent_chat.cli.table import COMMANDS

    for command in ("read", "wait", "watch", "ack"):
        assert not {option for option in COMMANDS[command][3] if option.startswith(("--topic", "--only", "--include"))}
