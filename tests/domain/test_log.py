"""log.py: what counts as a message, what comes late, which number is next (cases M3, M13, M14, M17)."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Root, make_root, open_channel

from agent_chat import channel as channels
from agent_chat import cursors, log, names
from agent_chat.errors import AgentChatError

OLD = (time.time() - 60,) * 2


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


@pytest.fixture
def channel(root: Root) -> Iterator[channels.Channel]:
    with open_channel(root) as opened:
        yield opened


def numbers(channel: channels.Channel) -> list[int]:
    return [entry.number for entry in channel.log.look().above(0)]


def late(channel: channels.Channel) -> list[int]:
    return [names.message_number(name) for name in channel.log.look().late]


def index(channel: channels.Channel) -> None:
    """Let a reader look, so that all that is there is known."""
    cursors.look(channel, "carol", persist=True)


def test_order_is_by_number_whatever_its_width(root: Root, channel: channels.Channel) -> None:
    for number in (10000, 2, 9999, 999_999_999, 10):
        root.put(number)
    assert numbers(channel) == [2, 10, 9999, 10000, 999_999_999]
    assert channel.log.look().last == 999_999_999


def test_what_is_there_at_the_first_look_is_not_late(root: Root, channel: channels.Channel) -> None:
    for number in (5, 1):
        root.put(number)
    assert late(channel) == []
    index(channel)
    root.put(6)
    assert late(channel) == [] and numbers(channel) == [1, 5, 6]


@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_name_not_above_the_highest_known_is_late(root: Root, channel: channels.Channel, number: int) -> None:
    root.put(2)
    root.put(5)
    index(channel)
    root.put(number, name=f"{number:04d}-carol-new.md")
    assert late(channel) == [number]
    index(channel)
    assert late(channel) == [], "it is known now"


def test_a_name_is_late_for_every_agent_with_a_cursor(root: Root, channel: channels.Channel) -> None:
    root.put(5)
    for agent in ("alice", "bob"):
        root.ok("read", "c", "--as", agent)
    root.put(3, name="0003-dave-x.md")
    index(channel)
    folder = root.folder() / ".cursors"
    assert [os.listdir(folder / f"{agent}.late") for agent in ("alice", "bob")] == [["0003-dave-x.md"]] * 2


def test_a_deleted_index_comes_back_and_repeats_nothing(root: Root, channel: channels.Channel) -> None:
    root.put(5)
    root.ok("read", "c", "--as", "bob")
    shutil.rmtree(root.folder() / ".index")
    assert "no new messages" in root.ok("read", "c", "--as", "bob").out
    root.put(3)
    assert "#" not in root.ok("peek", "c").err
    assert late(channel) == [3]


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"0005-alice-x.m", b"", b"no name\n\n\n9999999999-a-b.md\n"])
def test_a_damaged_index_stops_nobody(root: Root, channel: channels.Channel, data: bytes) -> None:
    root.put(5)
    index(channel)
    (root.folder() / ".index" / "arrivals").write_bytes(data)
    assert numbers(channel) == [5]
    assert "b" in root.ok("read", "c", "--as", "bob").out
    root.put(6)
    root.ok("read", "c", "--as", "bob")
    assert root.cursor("bob") == 6


# ---- what is no message --------------------------------------------------------------------------


def odd_file(path: Path, kind: str, outside: Path) -> None:
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "binary":
        path.write_bytes(bytes(range(256)) * 4)
    elif kind == "half written":
        path.write_bytes(b"---\nseq: 51\nfrom: alice\nto: all\ntitle: t\n---\nhalf a li")
    elif kind == "no title":
        path.write_bytes(b"---\nseq: 51\nfrom: alice\nto: all\n---\nbody\n")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(outside)
    elif kind == "dangling link":
        path.symlink_to(path.with_name("nowhere"))
    if kind not in ("folder", "pipe", "link", "dangling link"):
        os.utime(path, OLD)


KINDS = ["empty", "binary", "half written", "no title", "folder", "pipe", "link", "dangling link"]


@pytest.mark.skipif(os.name == "nt", reason="needs links and pipes")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_message_is_skipped_named_once_and_never_given_its_number_again(
    root: Root, tmp_path: Path, kind: str
) -> None:
    """M13: every command works and ends, nothing outside is shown."""
    outside = tmp_path / "outside"
    outside.write_text("---\nfrom: alice\nto: all\ntitle: t\n---\nsecret\n")
    root.put(50, "before")
    odd_file(root.folder() / "0051-a-x.md", kind, outside)
    root.put(52, "after")
    for command in (
        ["read", "c", "--as", "bob", "--peek"],
        ["read", "c", "--as", "bob", "--all"],
        ["peek", "c"],
        ["read", "c", "--as", "bob"],
    ):
        result = root.ok(*command)
        assert "before" in result.out and "after" in result.out and "secret" not in result.out
        assert result.err.count("0051-a-x.md") == len(result.err.splitlines()) == 1, (command, result)
    root.ok("wait", "c", "--as", "carol", "--timeout", "0")
    for command in (["channels"], ["roster", "c"], ["ack", "c", "--as", "dave", "--upto", "52"]):
        root.ok(*command)
    root.refused("MESSAGE_NOT_FOUND", "show", "c", "51")
    assert root.post().out.startswith("posted #53 ")


@pytest.mark.skipif(os.name == "nt", reason="needs links and pipes")
def test_it_is_the_last_number_and_still_taken(root: Root) -> None:
    (root.folder() / "0051-a-x.md").mkdir()
    assert root.post().out.startswith("posted #52 ")


def test_a_file_on_its_way_is_not_named_before_ten_seconds_and_delivered_when_whole(root: Root) -> None:
    """M3: it is not there yet; later ones are delivered, and it comes late."""
    path = root.put(1, "slow one")
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    root.put(2, "quick one")
    first = root.ok("read", "c", "--as", "bob")
    assert "quick one" in first.out and "slow" not in first.out and first.err == ""
    os.utime(path, OLD)
    second = root.ok("read", "c", "--as", "carol")
    assert "0001-alice-x.md" in second.err and "slow" not in second.out
    path.write_bytes(whole)
    for agent in ("bob", "carol"):
        assert "slow one" in root.ok("read", "c", "--as", agent).out
        assert "no new messages" in root.ok("read", "c", "--as", agent).out


def test_a_file_from_the_future_is_named_at_once(root: Root) -> None:
    path = root.folder() / "0001-a-x.md"
    path.write_bytes(b"")
    os.utime(path, (time.time() + 3600,) * 2)
    assert "0001-a-x.md" in root.ok("read", "c", "--as", "bob").err


def test_three_are_named_and_the_rest_counted(root: Root) -> None:
    for number in range(1, 8):
        (root.folder() / f"{number:04d}-a-x.md").mkdir()
    lines = root.ok("read", "c", "--as", "bob").err.splitlines()
    assert len(lines) == 4 and "4 more" in lines[3]


def test_a_conflicted_copy_is_not_delivered_twice(root: Root) -> None:
    """M17."""
    root.put(150, "the text")
    root.put(150, "the text", name="0150-x (conflicted copy).md")
    result = root.ok("read", "c", "--as", "bob")
    assert result.out.count("the text") == 1 and "conflicted copy" in result.err
    assert root.post().out.startswith("posted #151 ")


def test_two_files_with_one_number_are_both_delivered(root: Root) -> None:
    """M14: from git, or from a live 0.7.5 writer."""
    root.put(1, "one")
    root.put(1, "other", name="0001-carol-y.md")
    out = root.ok("read", "c", "--as", "bob").out
    assert "one" in out and "other" in out
    both = root.ok("show", "c", "1").out
    assert "one" in both and "other" in both


def test_two_files_with_one_number_are_not_parted_by_a_limit(root: Root) -> None:
    """The cursor holds a number: what stayed behind with it would be lost."""
    root.put(1, "one")
    root.put(1, "other", name="0001-carol-y.md")
    root.put(2, "third")
    out = root.ok("read", "c", "--as", "bob", "--limit", "1").out
    assert "one" in out and "other" in out and "third" not in out
    assert "third" in root.ok("read", "c", "--as", "bob", "--limit", "1").out


def test_ten_digits_are_no_number(root: Root) -> None:
    """M14."""
    root.put(1, "ten", name="1234567890-alice-x.md")
    assert "no new messages" in root.ok("read", "c", "--as", "bob").out
    assert root.post().out.startswith("posted #1 ")


@pytest.mark.parametrize("name", ["_0007-alice-x.md", ".0007-alice-x.md", "state.md", "task-0007.md", "notes.txt"])
def test_other_files_are_nobodys_business(root: Root, name: str) -> None:
    root.put(7, name=name)
    result = root.ok("read", "c", "--as", "bob")
    assert "no new messages" in result.out and result.err == ""
    assert root.post().out.startswith("posted #1 ")


# ---- numbers -------------------------------------------------------------------------------------


def test_the_next_number_follows_the_highest_of_all_that_lies_there(root: Root, channel: channels.Channel) -> None:
    assert channel.log.take_number() == 1
    root.put(7)
    assert channel.log.take_number() == 8
    (root.folder() / "0020-Stray Name.md").write_bytes(b"")
    assert channel.log.take_number() == 21
    root.put(9999)
    assert channel.log.take_number() == 10000


def test_a_number_is_taken_by_a_file_of_its_name(root: Root, channel: channels.Channel) -> None:
    assert channel.log.take_number() == 1
    assert os.listdir(root.folder() / ".numbers") == ["0001"]
    assert channel.log.take_number() == 2, "nothing was published under the first, but its taker may be slow"


def test_a_number_given_back_is_taken_again(channel: channels.Channel) -> None:
    assert channel.log.take_number() == 1
    channel.log.give_back(1)
    assert channel.log.take_number() == 1


def test_a_post_leaves_one_taken_number_behind_at_most(root: Root) -> None:
    for _ in range(3):
        root.post()
    assert len(os.listdir(root.folder() / ".numbers")) <= 1


def test_a_taker_that_slept_never_gets_a_number_below_a_published_one(
    root: Root, channel: channels.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look and its taking others posted and dropped their takings."""
    real, done = os.open, []

    def others_were_quicker(path: object, flags: int, *rest: object, **more: object) -> int:
        if path == "0001" and not done:
            done.append(path)
            for _ in range(3):
                root.post()
        return real(path, flags, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", others_were_quicker)
    assert channel.log.take_number() == 4 and done


def test_a_channel_that_used_up_its_numbers_says_so(root: Root) -> None:
    root.put(999_999_998)
    root.post()
    result = root.run("post", "c", "--from", "alice", "--title", "t", "--body", "b")
    assert (result.status, result.code) == (2, "CHANNEL_FULL")
    assert len(root.names()) == 2


def test_a_link_in_place_of_the_numbers_is_refused(root: Root, tmp_path: Path, channel: channels.Channel) -> None:
    (tmp_path / "outside").mkdir()
    (root.folder() / ".numbers").symlink_to(tmp_path / "outside", target_is_directory=True)
    with pytest.raises(AgentChatError) as caught:
        channel.log.take_number()
    assert caught.value.code == "STORAGE_LINK_REFUSED" and os.listdir(tmp_path / "outside") == []


def test_readers_are_those_with_a_cursor(root: Root, channel: channels.Channel) -> None:
    folder = root.folder() / ".cursors"
    folder.mkdir()
    for name in ("bob.txt", "a.b.txt", "bob.lock", ".gitkeep", "-x.txt", "notes", "x y.txt"):
        (folder / name).write_bytes(b"0\n")
    (folder / "bob.late").mkdir()
    with channel.folder.sub(".cursors") as opened:
        assert log.readers(opened) == ["a.b", "bob"]
