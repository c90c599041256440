"""Posts that can be repeated, that do not cross others, and that expire (part 2, section 3; case M29)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import FrozenClock, Root, make_root

from agent_chat import clock


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> FrozenClock:
    frozen = FrozenClock()
    monkeypatch.setattr(clock, "now", frozen)
    return frozen


POST = ["post", "c", "--from", "alice", "--to", "bob", "--title", "Big: news", "--status", "idea", "--body", "text\n\n"]
SAME = [*POST, "--request-id", "r:1"]


# ---- repeats ---------------------------------------------------------------------------------------------


def test_a_repeat_writes_nothing_and_answers_the_first_number(root: Root) -> None:
    first = root.ok(*SAME, "--json").json
    root.post("carol")
    again = root.ok(*SAME, "--json").json
    assert (first["seq"], first["repeated"], again["seq"], again["repeated"]) == (1, False, 1, True)
    assert again["file"] == first["file"] and len(root.names()) == 2
    assert root.ok(*SAME).out.startswith("posted #1 -> c/0001-alice-big-news.md")
    assert root.messages()[0].header["request_id"] == "r:1"


@pytest.mark.parametrize(
    "change",
    [
        {"text\n\n": "other"},
        {"text\n\n": ""},
        {"Big: news": "Small"},
        {"idea": "decision"},
        {"bob": "carol"},
        {"bob": "all"},
        {"r:1": "r:1", "--title": "--topic=docs", "Big: news": "--title=Big: news"},
    ],
)
def test_the_same_id_with_something_else_is_refused(root: Root, change: dict[str, str]) -> None:
    root.ok(*SAME)
    result = root.refused("MESSAGE_REQUEST_MISMATCH", *(change.get(word, word) for word in SAME))
    assert "#1" in result.err and len(root.names()) == 1


def test_the_same_id_as_another_answer_is_refused(root: Root) -> None:
    root.post("bob")
    root.ok(*SAME)
    root.refused("MESSAGE_REQUEST_MISMATCH", *SAME, "--reply", 1)


def test_spellings_that_mean_the_same_are_the_same(root: Root) -> None:
    root.ok(*SAME)
    spelled = {"alice": "ALICE", "bob": " bob,BOB", "text\n\n": "\ufefftext\r\n", "Big: news": "Big: news "}
    assert root.ok(*(spelled.get(word, word) for word in SAME)).out.startswith("posted #1 ")


def test_an_id_belongs_to_its_sender(root: Root) -> None:
    root.ok(*SAME)
    assert "#2" in root.ok(*("carol" if word == "alice" else word for word in SAME)).out


def test_a_known_id_answers_before_anything_else_is_checked(root: Root) -> None:
    root.ok("init", "d")
    words = ["post", "d", "--from", "alice", "--to", "nobody", "--title", "t", "--body", "b", "--request-id", "x"]
    root.post("alice")
    root.ok(*words)
    root.put(1)
    (root.folder("d") / "_meta.json").write_bytes((root.folder() / "_meta.json").read_bytes())
    root.ok("post", "d", "--from", "bob", "--title", "t", "--body", "b")
    assert root.ok(*words, "--if-read", "--if-latest", "0").out.startswith("posted #1 ")
    parent = ["post", "d", "--from", "bob", "--title", "t", "--body", "b", "--request-id", "y", "--reply", "1"]
    root.ok(*parent)
    (root.folder("d") / "0001-alice-t.md").unlink()
    assert root.ok(*parent).out.startswith("posted #3 ")


def test_what_the_index_says_is_compared_with_the_file(root: Root) -> None:
    root.ok(*SAME)
    path = root.folder() / ".index" / "arrivals"
    path.write_bytes(path.read_bytes().replace(b"r:1", b"r:9"))
    assert "#2" in root.ok(*("r:9" if word == "r:1" else word for word in SAME)).out


@pytest.mark.parametrize("what", ["arrivals", "stamp", "all"])
def test_a_lost_index_forgets_no_request(root: Root, what: str) -> None:
    root.ok(*SAME)
    for name in os.listdir(root.folder() / ".index") if what == "all" else [what]:
        (root.folder() / ".index" / name).unlink()
    assert root.ok(*SAME).out.startswith("posted #1 ") and len(root.names()) == 1


def test_a_first_post_that_another_program_brought_counts(root: Root) -> None:
    path = root.put(5, "b")
    path.write_text(path.read_text().replace("title: t", "title: t\nrequest_id: x"))
    assert root.post("alice", "t", "b", "--request-id", "x").out.startswith("posted #5 ")


@pytest.mark.parametrize("id", ["", "a b", "é", "x" * 129, "a/b"])
def test_what_is_no_id_is_refused(root: Root, id: str) -> None:
    code = "MESSAGE_INVALID_REQUEST_ID" if id else "USAGE_ERROR"
    root.refused(code, *POST, f"--request-id={id}")


def test_an_ordinary_post_has_no_new_key(root: Root) -> None:
    root.ok(*POST)
    assert set(root.messages()[0].header) == {"seq", "from", "to", "channel", "ts", "status", "title"}


# ---- crossing --------------------------------------------------------------------------------------------


def test_if_read_is_refused_until_everything_was_read(root: Root) -> None:
    root.post("bob", "one")
    root.post("carol", "two")
    result = root.refused("MESSAGE_STALE", *POST, "--if-read")
    assert "#1, #2" in result.err and result.err.endswith(" read c --as alice\n")
    refusal = root.run(*POST, "--if-read", "--json").err
    assert '"numbers": [1, 2]' in refusal
    root.ok("read", "c", "--as", "alice")
    assert "#3" in root.ok(*POST, "--if-read").out
    assert "#4" in root.ok(*POST, "--if-read").out, "one's own message is no news"


def test_if_latest_looks_at_what_is_newer_and_relevant(root: Root) -> None:
    root.post("bob", "for carol", "b", "--to", "carol")
    root.post("bob", "for all")
    root.refused("MESSAGE_STALE", *POST, "--if-latest", "1")
    assert "#3" in root.ok(*POST, "--if-latest", "2").out
    root.post("bob", "for carol", "b", "--to", "carol")
    assert "#5" in root.ok(*POST, "--if-latest", "2").out


def test_what_is_late_is_news_too(root: Root) -> None:
    root.put(3, sender="bob")
    root.ok("read", "c", "--as", "alice")
    root.put(2, sender="bob")
    assert "#2" in root.refused("MESSAGE_STALE", *POST, "--if-read").err


def test_many_numbers_are_named_in_a_short_line_and_in_full_for_programs(root: Root) -> None:
    for number in range(1, 31):
        root.put(number, sender="bob")
    result = root.refused("MESSAGE_STALE", *POST, "--if-read")
    assert "#10 and 20 more" in result.err and "#11" not in result.err


def test_where_there_are_no_locks_nobody_promises_what_is_newest(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_chat.storage import oslock

    def none(*_: object) -> bool:
        raise oslock.NoLocks

    monkeypatch.setattr(oslock, "_try", none)
    root.refused("STORAGE_NO_LOCKS", *POST, "--if-read")
    assert "#1" in root.ok(*SAME).out and "#1" in root.ok(*SAME).out


# ---- expiry ----------------------------------------------------------------------------------------------


def test_what_expired_is_not_delivered_and_shown_to_whoever_looks(root: Root, now: FrozenClock) -> None:
    root.post("alice", "soon", "b", "--expires-in", "60")
    assert "soon" in root.ok("read", "c", "--as", "bob", "--peek").out
    assert "expired" not in root.ok("peek", "c").out
    now.pass_seconds(60)
    for words in (["read"], ["read", "--after", "0"], ["wait", "--timeout", "0"]):
        assert "soon" not in root.run(words[0], "c", "--as", "carol", *words[1:]).out
    for words in (
        ["peek", "c"],
        ["log", "c"],
        ["show", "c", "1"],
        ["thread", "c", "1"],
        ["read", "c", "--all", "--as", "bob"],
    ):
        out = root.ok(*words).out
        assert "soon" in out and "expired" in out.replace("expires_at", ""), words
    assert root.cursor("carol") == 1
    assert 'expired="yes"' in root.ok("show", "c", "1", "--format", "envelope").out
    assert root.ok("show", "c", "1", "--json").json["messages"][0]["expired"] is True


def test_the_expiry_is_exact_and_written_as_a_time(root: Root, now: FrozenClock) -> None:
    root.post("alice", "t", "b", "--expires-in", "1.5")
    assert root.messages()[0].header["expires_at"] == "2027-01-15T08:00:01.500000+00:00"
    now.pass_seconds(1.499999)
    assert root.ok("read", "c", "--as", "bob", "--peek", "--json").json["messages"]
    now.pass_seconds(0.000001)
    assert not root.ok("read", "c", "--as", "bob", "--peek", "--json").json["messages"]


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "x", "1e300", "999999999999"])
def test_what_is_no_duration_is_refused(root: Root, seconds: str) -> None:
    root.refused("MESSAGE_INVALID_DURATION", *POST, f"--expires-in={seconds}")
    assert root.names() == []


@pytest.mark.parametrize("written", ["soon", "2020-01-01", "", "2020-13-01T00:00:00Z"])
def test_what_is_no_time_never_expires(root: Root, written: str) -> None:
    path = root.put(1)
    path.write_text(path.read_text().replace("title: t", f"title: t\nexpires_at: {written}"))
    assert "t" in root.ok("read", "c", "--as", "bob").out and root.cursor("bob") == 1


def test_a_sender_is_told_once_who_did_not_see_it_in_time(root: Root, now: FrozenClock) -> None:
    root.post("alice", "soon", "b", "--expires-in", "60")
    root.ok("read", "c", "--as", "bob")
    root.ok("read", "c", "--as", "alice")
    now.pass_seconds(61)
    root.ok("read", "c", "--as", "carol")  # its cursor passes over it, and still it did not see it
    assert root.ok("receipts", "c", 1, "--json").json["receipts"][0]["delivery"] == {
        "bob": "passed",
        "carol": "expired",
    }
    root.ok("read", "c", "--as", "alice", "--peek")
    result = root.ok("read", "c", "--as", "alice", "--json").json
    assert result["expired"] == [{"seq": 1, "to": ["carol"]}]
    assert "expired" not in root.ok("read", "c", "--as", "alice", "--json").json
    assert list((root.folder() / ".cursors" / "alice.expiring").iterdir()) == []


def test_a_sender_is_told_in_words(root: Root, now: FrozenClock) -> None:
    root.post("alice", "soon", "b", "--expires-in", "60", "--to", "bob,carol")
    now.pass_seconds(61)
    out = root.ok("read", "c", "--as", "alice").out
    assert "expired: #1 was not seen in time by bob, carol; its text: " in out and out.endswith(" show c 1\n")


def test_nobody_is_told_of_what_everybody_saw(root: Root, now: FrozenClock) -> None:
    root.post("alice", "soon", "b", "--expires-in", "60", "--to", "bob")
    root.ok("read", "c", "--as", "bob")
    now.pass_seconds(61)
    assert "expired" not in root.ok("read", "c", "--as", "alice").out


def test_an_expired_message_is_no_reason_to_read_first(root: Root, now: FrozenClock) -> None:
    root.post("bob", "soon", "b", "--expires-in", "60")
    root.refused("MESSAGE_STALE", *POST, "--if-read")
    now.pass_seconds(61)
    root.ok(*POST, "--if-read")


def test_hooks_do_not_count_what_expired(root: Root, now: FrozenClock) -> None:
    from agent_chat import cursors
    from agent_chat.channel import find

    root.post("alice", "soon", "b", "--expires-in", "60")
    now.pass_seconds(61)
    with find(str(root.path), "c") as channel:
        assert cursors.look(channel, "bob").entries == []
