"""messages.py: posting and finding messages (cases M4, M5, M9 to M11, M18, M22, M28)."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

import pytest
from support import FrozenClock, Root, make_root, open_channel

from agent_chat import clock, messages
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def post(*more: str) -> list[str]:
    return ["post", "c", "--from", "alice", "--title", "t", "--body", "b", *more]


# ---- what is written -----------------------------------------------------------------------------


def test_a_post_is_one_file_named_by_number_sender_and_title(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", FrozenClock())
    assert root.post("Alice", "Big, News!", "text").out == "posted #1 -> c/0001-alice-big-news.md\n"
    assert (root.folder() / "0001-alice-big-news.md").read_text() == (
        "---\nseq: 1\nfrom: Alice\nto: all\nchannel: c\nts: 2027-01-15T08:00:00+00:00\nstatus: discussion\n"
        "title: Big, News!\n---\ntext\n"
    )


def test_the_name_of_the_channel_is_written_as_it_was_made_and_found_in_any_case(tmp_path: Path) -> None:
    root = make_root(tmp_path)
    root.ok("init", "Review")
    out = root.ok("post", "review", "--from", "alice", "--title", "t", "--body", "b").out
    assert out == "posted #1 -> Review/0001-alice-t.md\n"
    assert root.messages("Review")[0].header["channel"] == "Review"


def test_a_file_of_a_message_is_private_only_where_the_umask_says_so(root: Root) -> None:
    if os.name == "nt":
        pytest.skip("needs POSIX modes")
    before = os.umask(0o077)
    try:
        root.post()
    finally:
        os.umask(before)
    assert stat.S_IMODE((root.folder() / root.names()[0]).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "body, stored",
    [
        ("\ufeffone\r\ntwo\r\n", "one\ntwo\n"),
        ("  indent\ntext  \n\n \t\n", "  indent\ntext\n"),
        ("---\nfrom: eve\n---", "---\nfrom: eve\n---\n"),
        ("a\rb\x0bc\u2028d", "a\rb\x0bc\u2028d\n"),
    ],
)
def test_a_body_is_stored_with_one_newline_at_its_end(root: Root, body: str, stored: str) -> None:
    """M10, M12."""
    root.post(body=body)
    data = (root.folder() / root.names()[0]).read_bytes()
    assert data.endswith(b"\n---\n" + stored.encode())
    message = root.messages()[0]
    assert (message.sender, message.to) == ("alice", "all")


@pytest.mark.parametrize("body", ["", " ", "\n", " \t\r\n \n", "\ufeff", "\ufeff\n", "\u3000"])
def test_an_empty_body_is_refused(root: Root, body: str) -> None:
    """M22."""
    root.refused("MESSAGE_EMPTY_BODY", "post", "c", "--from", "alice", "--title", "t", f"--body={body}")
    assert root.names() == [] and root.post().out.startswith("posted #1 ")


def test_a_body_that_no_reader_would_open_is_refused(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "MESSAGE_LIMIT", 66_000)
    root.refused("MESSAGE_TOO_LARGE", "post", "c", "--from", "alice", "--title", "t", "--body", "x" * 1000)
    root.post(body="x" * 400)
    assert root.names() == ["0001-alice-t.md"]


@pytest.mark.parametrize(
    "title", ["a\nfrom: evil", "Hi\rto: eve", "Hi\u2028to: eve", "Hi\x85to: eve", "Hi\x00\x1b[2Jx"]
)
def test_no_title_and_no_status_forges_a_header(root: Root, title: str) -> None:
    """M9."""
    root.ok("post", "c", "--from", "alice", f"--title={title}", f"--status={title}", "--body", "b", "--to", "bob")
    message = root.messages()[0]
    assert (message.sender, message.to) == ("alice", "bob")
    lines = (root.folder() / root.names()[0]).read_text().split("\n---\n")[0].splitlines()
    assert [line.split(":")[0] for line in lines] == ["---", "seq", "from", "to", "channel", "ts", "status", "title"]


def test_a_long_title_is_kept_whole(root: Root) -> None:
    """M18."""
    for _ in range(2):
        root.post(title="한" * 400)
    assert root.names() == ["0001-alice-msg.md", "0002-alice-msg.md"]
    assert root.messages()[1].title == "한" * 400


def test_a_text_that_is_no_unicode_is_refused(root: Root) -> None:
    """M20: what Python makes of the byte 0xE9 in a word."""
    for words in (post("--title", "caf\udce9"), post("--status", "\udce9"), post("--body", "\udce9")):
        root.refused("MESSAGE_INVALID_TEXT", *words)
    assert root.names() == []


@pytest.mark.parametrize(
    "status", ["task.created", "LEASE.x", "path.locked", "state.", "turn.a", "Event.status", "Ring"]
)
def test_what_the_program_says_itself_is_reserved(root: Root, status: str) -> None:
    root.refused("MESSAGE_RESERVED_STATUS", *post("--status", status))
    assert root.names() == []


@pytest.mark.parametrize("status", ["task", "tasks.x", "ringing", "decision", "done!", "yes"])
def test_any_other_status_is_the_senders_own(root: Root, status: str) -> None:
    root.post("alice", "t", "b", "--status", status)
    assert root.messages()[0].status == status


# ---- recipients ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "to, stored",
    [
        ("bob", "bob"),
        ("Bob", "Bob"),
        ("bob,carol", "bob,carol"),
        (" bob , carol ,", "bob,carol"),
        ("bob,BOB", "bob"),
        ("", "all"),
        ("all", "all"),
        ("ALL", "all"),
        ("*", "all"),
        ("bob,all", "all"),
        ("bob,*", "all"),
        (",", "all"),
    ],
)
def test_recipients_are_kept_as_typed_each_once(root: Root, to: str, stored: str) -> None:
    root.post("alice", "t", "b", f"--to={to}")
    assert root.messages()[0].to == stored


@pytest.mark.parametrize("to", ["bob carol", "a/b", "bob;carol", "system", "1", "yes", "-x", "bob\ncarol"])
def test_a_recipient_that_is_no_name_is_refused(root: Root, to: str) -> None:
    root.refused("AGENT_INVALID_NAME", *post(f"--to={to}"))
    assert root.names() == []


def test_an_unknown_recipient_is_refused_with_a_near_match(root: Root) -> None:
    """M4: and the command named next is the right one, for all of a list."""
    result = root.refused("MESSAGE_UNKNOWN_RECIPIENT", *post("--to", "bob,carrol", "--status", "question"))
    assert "did you mean carol?" in result.err and root.names() == []
    following = shlex.split(result.err.split("; next: ")[1])
    root.ok(*following[following.index("post") :])
    message = root.messages()[0]
    assert (message.to, message.title, message.body, message.status) == ("bob,carol", "t", "b\n", "question")


def test_an_unknown_recipient_that_resembles_nobody_may_be_forced(root: Root) -> None:
    result = root.refused(
        "MESSAGE_UNKNOWN_RECIPIENT", "post", "c", "--from", "alice", "--title=-x", "--body=- b", "--to", "zz"
    )
    following = shlex.split(result.err.split("; next: ")[1])
    assert following[-1] == "--force"
    root.ok(*following[following.index("post") :])
    assert (root.messages()[0].to, root.messages()[0].title, root.messages()[0].body) == ("zz", "-x", "- b\n")


def test_a_near_match_may_be_somebody_who_only_posts_or_reads(root: Root) -> None:
    root.post("engineer")
    root.ok("read", "c", "--as", "reviewer")
    for typed, meant in (("enginer", "engineer"), ("Reviewr", "reviewer")):
        assert f"mean {meant}?" in root.refused("MESSAGE_UNKNOWN_RECIPIENT", *post("--to", typed)).err


def test_who_has_posted_or_read_here_is_known(root: Root) -> None:
    root.post("zed")
    root.ok("read", "c", "--as", "yan")
    for agent in ("zed", "ZED", "yan", "Yan"):
        root.post("alice", "t", "b", "--to", agent)
    root.refused("MESSAGE_UNKNOWN_RECIPIENT", *post("--to", "ze"))


def test_who_shares_a_slug_with_a_sender_is_not_known_by_that(root: Root) -> None:
    root.post("a.b")
    root.refused("MESSAGE_UNKNOWN_RECIPIENT", *post("--to", "a-b"))
    root.post("alice", "t", "b", "--to", "a.b")


def test_an_open_channel_only_warns(tmp_path: Path) -> None:
    """M4."""
    root = make_root(tmp_path, "--topic", "open to all")
    result = root.post("alice", "t", "b", "--to", "zed")
    assert result.out.startswith("posted #1 ") and "zed" in result.err and len(result.err.splitlines()) == 1


def test_an_own_name_is_a_recipient_like_any(root: Root) -> None:
    root.post("alice", "t", "b", "--to", "alice,bob")
    assert "no new messages" in root.ok("read", "c", "--as", "alice").out


# ---- replies -------------------------------------------------------------------------------------


def test_a_reply_names_its_parent(root: Root) -> None:
    root.post()
    root.post("bob", "Re: t", "b", "--reply", "1")
    root.post("bob", "Re: t", "b", "--reply", "0001")
    assert [message.reply_to for message in root.messages()] == [0, 1, 1]
    assert "reply_to: 1\n" in (root.folder() / root.names()[2]).read_text()


def test_a_parent_that_never_was_is_refused(root: Root) -> None:
    """M28."""
    root.post()
    for number in ("2", "9999", "999999999", "9" * 18):
        root.refused("MESSAGE_NOT_FOUND", *post("--reply", number))
    for number in ("0", "-1", "x", "1.0", "", "9" * 19):
        root.refused("USAGE_ERROR", *post(f"--reply={number}"))
    assert len(root.names()) == 1


# ---- finding -------------------------------------------------------------------------------------


def test_show_finds_by_number(root: Root) -> None:
    for at in range(1, 4):
        root.post(body=f"body {at}")
    assert "body 2" in root.ok("show", "c", "2").out and "body 2" in root.ok("show", "c", "0002").out
    root.refused("MESSAGE_NOT_FOUND", "show", "c", "4")
    for number in ("x", "-1", "0", "1.0", "", "²"):
        root.refused("USAGE_ERROR", "show", "c", "--", number)


def test_peek_shows_the_last_ones_in_order(root: Root) -> None:
    for number in (1, 2, 9999, 10000):
        root.put(number, f"body {number}")
    out = root.ok("peek", "c").out
    assert [out.find(f"body {number}\n") >= 0 for number in (1, 2, 9999, 10000)] == [False, True, True, True]
    assert out.find("body 9999") < out.find("body 10000")
    assert root.ok("peek", "c", "-n", "1").out.count("body") == 1
    assert root.ok("peek", "c", "--last=2").out.count("body") == 2
    assert root.ok("peek", "c", "-n", "100").out.count("body") == 4
    for count in ("0", "-1", "x", "1.5"):
        root.refused("USAGE_ERROR", "peek", "c", f"--last={count}")


def test_a_post_that_cannot_be_published_gives_its_number_back(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """M23 in small: nothing visible, no number used up, nothing left behind."""
    import errno

    real = os.write

    def full(fd: int, data: bytes) -> int:
        if bytes(data).startswith(b"---\n"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(os, "write", full)
    root.refused("STORAGE_IO_ERROR", *post(), status=1)
    monkeypatch.undo()
    assert root.names() == [] and os.listdir(root.folder() / ".tmp") == []
    assert root.post().out.startswith("posted #1 ")


def test_a_post_whose_last_sync_fails_says_that_it_is_posted(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def failing(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode) and root.names():
            raise OSError(5, "Input/output error")
        real(fd)

    if not disk.HAS_FOLDER_DESCRIPTORS:
        pytest.skip("folders cannot be synced here")
    monkeypatch.setattr(os, "fsync", failing)
    result = root.refused("MESSAGE_NOT_DURABLE", *post(), status=1)
    monkeypatch.undo()
    assert "#1" in result.err and "do not repeat" in result.err and root.names() == ["0001-alice-t.md"]


def test_a_name_that_another_program_took_meanwhile_is_not_replaced(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, done = os.link, []

    def foreign_writer(old: str, new: str, **folders: int) -> None:
        if not done:
            done.append(new)
            (root.folder() / new).write_text("theirs\n")
        real(old, new, **folders)

    monkeypatch.setattr(os, "link", foreign_writer)
    assert root.post().out == "posted #2 -> c/0002-alice-t.md\n"
    assert (root.folder() / "0001-alice-t.md").read_text() == "theirs\n"


def test_the_domain_alone_refuses_the_same(root: Root) -> None:
    with open_channel(root) as channel:
        for draft, code in (
            (messages.Draft("a b", "t", "b"), "AGENT_INVALID_NAME"),
            (messages.Draft("alice", "t", ""), "MESSAGE_EMPTY_BODY"),
            (messages.Draft("alice", "t", "b", "zed"), "MESSAGE_UNKNOWN_RECIPIENT"),
            (messages.Draft("alice", "t", "b", reply_to=9), "MESSAGE_NOT_FOUND"),
            (messages.Draft("alice", "t", "b", status="ring"), "MESSAGE_RESERVED_STATUS"),
        ):
            with pytest.raises(AgentChatError) as caught:
                messages.post(channel, draft)
            assert caught.value.code == code
        assert messages.newest(channel, 3) == messages.everything(channel) == []
