"""cursors.py: what is unread and how far each agent has read (cases M5, M6, M15, M16 and section 4)."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from support import Result, Root, make_root, open_channel

from agent_chat import cursors
from agent_chat.errors import AgentChatError


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def put(root: Root, *numbers: int, **more: str) -> None:
    for number in numbers:
        root.put(number, f"body{number}.", **more)


def shown(result: Result) -> list[int]:
    return [int(line[4:-1]) for line in result.out.splitlines() if line.startswith("body")]


def read(root: Root, agent: str = "bob", *more: object) -> list[int]:
    return shown(root.ok("read", "c", "--as", agent, *more))


def set_cursor(root: Root, agent: str, text: str) -> Path:
    path = root.folder() / ".cursors" / f"{agent}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


# ---- relevance and the cursor --------------------------------------------------------------------


def test_a_read_shows_what_is_newer_and_moves_to_the_end_of_its_look(root: Root) -> None:
    put(root, 1, 2)
    put(root, 3, to="carol")
    put(root, 4, sender="bob")
    assert read(root) == [1, 2] and root.cursor("bob") == 4
    put(root, 5)
    assert read(root) == [5] and root.cursor("bob") == 5
    assert read(root) == [] and root.cursor("bob") == 5


def test_a_read_with_nothing_relevant_moves_too(root: Root) -> None:
    put(root, 1, to="carol")
    out = root.ok("read", "c", "--as", "bob").out
    assert out == "(no new messages for bob in 'c'; cursor at #1)\n" and root.cursor("bob") == 1


def test_names_compare_without_case(root: Root) -> None:
    """M5."""
    root.post("alice", "t", "body1.", "--to", "Bob")
    root.post("BOB", "t", "mine")
    assert read(root, "bob") == [1] and read(root, "BOB") == []
    assert os.listdir(root.folder() / ".cursors").count("bob.txt") == 1


def test_names_that_share_a_slug_have_their_own_cursors(root: Root) -> None:
    """M6."""
    put(root, 1)
    for agent in ("a.b", "a-b", "a_b"):
        assert read(root, agent) == [1]
    root.refused("AGENT_INVALID_NAME", "read", "c", "--as", "世界")


def test_looking_leaves_every_cursor(root: Root) -> None:
    put(root, 1, 2)
    for words in (
        ["read", "c", "--as", "bob", "--peek"],
        ["read", "c", "--as", "bob", "--all"],
        ["wait", "c", "--as", "bob", "--peek", "--timeout", "0"],
        ["peek", "c"],
        ["show", "c", "1"],
        ["channels"],
        ["roster", "c"],
    ):
        root.ok(*words)
    assert not (root.folder() / ".cursors").exists()
    assert read(root, "bob", "--peek") == read(root, "bob", "--peek") == [1, 2]


def test_the_whole_thread_shows_own_and_foreign_messages_too(root: Root) -> None:
    put(root, 1, to="carol")
    put(root, 2, sender="bob")
    assert read(root, "bob", "--all") == [1, 2]


def test_a_limit_moves_to_the_last_message_shown(root: Root) -> None:
    put(root, 1, 2)
    put(root, 3, to="carol")
    put(root, 4, 5)
    assert read(root, "bob", "--limit", "2") == [1, 2] and root.cursor("bob") == 2
    assert read(root, "bob", "--limit", "2") == [4, 5] and root.cursor("bob") == 5


# ---- late messages -------------------------------------------------------------------------------


def test_a_late_message_is_delivered_once_to_everyone_who_had_passed_it(root: Root) -> None:
    """M16."""
    put(root, 150)
    assert read(root, "bob") == read(root, "carol") == [150]
    root.put(12, "body12.", name="0012-dave-x.md")
    assert read(root, "bob") == [12] and read(root, "bob") == []
    assert read(root, "carol") == [12] and read(root, "carol") == []
    assert read(root, "erin") == [12, 150], "to a newcomer it is like any other"
    assert root.cursor("bob") == root.cursor("carol") == 150


def test_a_late_message_wakes_wait(root: Root) -> None:
    put(root, 5)
    read(root)
    root.put(3, "body3.", name="0003-dave-x.md")
    assert shown(root.ok("wait", "c", "--as", "bob", "--timeout", "5")) == [3]


def test_a_late_message_for_somebody_else_is_passed_over(root: Root) -> None:
    put(root, 5)
    read(root)
    root.put(3, "body3.", to="carol", name="0003-dave-x.md")
    assert read(root) == []
    assert os.listdir(root.folder() / ".cursors" / "bob.late") == []


def test_a_peek_at_a_late_message_leaves_it(root: Root) -> None:
    put(root, 5)
    read(root)
    root.put(3, "body3.", name="0003-dave-x.md")
    assert read(root, "bob", "--peek") == read(root, "bob", "--peek") == [3]
    assert read(root) == [3]


def test_late_messages_that_a_limit_left_come_next(root: Root) -> None:
    put(root, 5)
    read(root)
    for number in (2, 3, 4):
        root.put(number, f"body{number}.", name=f"{number:04d}-dave-x.md")
    put(root, 6)
    assert [read(root, "bob", "--limit", "1") for _ in range(5)] == [[2], [3], [4], [6], []]


def test_a_late_message_reaches_a_reader_who_is_far_behind_only_once(root: Root) -> None:
    put(root, 1, 5)
    read(root, "bob", "--limit", "1")
    read(root, "carol")
    root.put(3, "body3.", name="0003-dave-x.md")
    assert read(root, "carol") == [3]
    assert read(root, "bob") == [3, 5] and read(root, "bob") == []


def test_what_comes_below_an_acknowledged_number_is_late(root: Root) -> None:
    put(root, 5)
    root.ok("ack", "c", "--as", "bob", "--upto", "5")
    root.put(3, "body3.", name="0003-dave-x.md")
    assert read(root) == [3]


def test_a_deleted_late_message_is_forgotten(root: Root) -> None:
    put(root, 5)
    read(root, "bob")
    path = root.put(3, "body3.", name="0003-dave-x.md")
    read(root, "carol")
    path.unlink()
    result = root.ok("read", "c", "--as", "bob")
    assert shown(result) == [] and result.err == ""


# ---- cursors that are wrong ----------------------------------------------------------------------


@pytest.mark.parametrize("text", ["garbage", "-5", "", "\n", "5.0", "0x5", "5 6", "٣", "5\0", "\xff", "9" * 70, "+5"])
def test_a_cursor_that_is_no_number_is_refused_naming_the_cure_that_works(root: Root, text: str) -> None:
    """M15."""
    put(root, 1, 2)
    set_cursor(root, "bob", text)
    for words in (["read"], ["read", "--peek"], ["wait", "--timeout", "0"]):
        result = root.refused("CURSOR_INVALID", words[0], "c", "--as", "bob", *words[1:])
        assert "ack c --as bob --upto 0" in result.err
    assert read(root, "carol") == [1, 2], "it stops nobody else"
    root.ok("ack", "c", "--as", "bob", "--upto", "1")
    assert read(root) == [2]


@pytest.mark.parametrize("text", [" 1 \n", "1", "0001\n", "1\r\n"])
def test_white_space_and_zeros_around_a_number_are_no_damage(root: Root, text: str) -> None:
    put(root, 1, 2)
    set_cursor(root, "bob", text)
    assert read(root) == [2] and root.cursor("bob") == 2


@pytest.mark.parametrize("text", ["1000000000", "999", "9" * 18, "9" * 40])
def test_a_cursor_beyond_the_end_is_named_and_counts_as_the_end(root: Root, text: str) -> None:
    """M15: nothing is shown unasked, and what comes next is not lost."""
    put(root, 1, 2)
    set_cursor(root, "bob", text)
    result = root.ok("read", "c", "--as", "bob")
    assert shown(result) == [] and len(result.err.splitlines()) == 1 and text in result.err
    assert root.cursor("bob") == 2
    put(root, 3)
    result = root.ok("read", "c", "--as", "bob")
    assert shown(result) == [3] and result.err == ""


@pytest.mark.skipif(os.name == "nt", reason="needs links")
@pytest.mark.parametrize("command", [["read"], ["read", "--peek"], ["wait", "--timeout", "0"], ["ack", "--upto", "1"]])
def test_a_cursor_that_is_a_link_is_not_followed(root: Root, tmp_path: Path, command: list[str]) -> None:
    """M15."""
    put(root, 1)
    (tmp_path / "outside").write_text("0\n")
    set_cursor(root, "bob", "0").unlink()
    (root.folder() / ".cursors" / "bob.txt").symlink_to(tmp_path / "outside")
    root.refused("STORAGE_LINK_REFUSED", command[0], "c", "--as", "bob", *command[1:])
    assert (tmp_path / "outside").read_text() == "0\n"


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_a_folder_of_cursors_that_is_a_link_is_refused(root: Root, tmp_path: Path) -> None:
    """M25."""
    put(root, 1)
    (tmp_path / "outside").mkdir()
    (root.folder() / ".cursors").symlink_to(tmp_path / "outside", target_is_directory=True)
    for words in (["read"], ["read", "--peek"], ["wait", "--timeout", "0"], ["ack", "--upto", "1"]):
        root.refused("STORAGE_LINK_REFUSED", words[0], "c", "--as", "bob", *words[1:])
    assert os.listdir(tmp_path / "outside") == []


def test_other_agents_late_folders_that_are_links_do_not_lead_outside(root: Root, tmp_path: Path) -> None:
    put(root, 5)
    read(root, "bob")
    read(root, "carol")
    (tmp_path / "outside").mkdir()
    (root.folder() / ".cursors" / "carol.late").symlink_to(tmp_path / "outside", target_is_directory=True)
    root.put(3, "body3.", name="0003-dave-x.md")
    root.run("read", "c", "--as", "bob")
    assert os.listdir(tmp_path / "outside") == []


# ---- ack -----------------------------------------------------------------------------------------


def test_ack_moves_without_showing(root: Root) -> None:
    put(root, 1, 2, 3)
    result = root.ok("ack", "c", "--as", "bob", "--upto", "2")
    assert "body" not in result.out and root.cursor("bob") == 2
    assert read(root) == [3]


def test_ack_beyond_the_end_means_the_end(root: Root) -> None:
    put(root, 1, 2)
    root.ok("ack", "c", "--as", "bob", "--upto", "1000000")
    assert root.cursor("bob") == 2
    put(root, 3)
    assert read(root) == [3]


def test_ack_goes_back_only_with_force(root: Root) -> None:
    put(root, 1, 2, 3)
    read(root)
    result = root.refused("CURSOR_BACKWARDS", "ack", "c", "--as", "bob", "--upto", "1")
    assert "--force" in result.err and root.cursor("bob") == 3
    root.ok("ack", "c", "--as", "bob", "--upto", "3")
    root.ok("ack", "c", "--as", "bob", "--upto", "1", "--force")
    assert read(root) == [2, 3]


def test_ack_out_of_a_cursor_beyond_the_end_is_not_backwards(root: Root) -> None:
    put(root, 1, 2)
    set_cursor(root, "bob", "1000000000")
    root.ok("ack", "c", "--as", "bob", "--upto", "2")
    assert root.cursor("bob") == 2


def test_ack_takes_the_late_ones_below_it(root: Root) -> None:
    put(root, 5)
    read(root, "bob")
    for number in (2, 4):
        root.put(number, f"body{number}.", name=f"{number:04d}-dave-x.md")
    read(root, "carol")
    root.ok("ack", "c", "--as", "bob", "--upto", "5")
    assert read(root) == []


@pytest.mark.parametrize("upto", ["-1", "x", "", "1.5", "٣", "1e3"])
def test_ack_takes_whole_numbers(root: Root, upto: str) -> None:
    root.refused("USAGE_ERROR", "ack", "c", "--as", "bob", f"--upto={upto}")
    root.refused("USAGE_ERROR", "ack", "c", "--as", "bob")


# ---- cursors of the older format -----------------------------------------------------------------


def test_an_older_cursor_is_taken_over(root: Root) -> None:
    """0.7.5 named it by the slug of the name."""
    put(root, 1, 2)
    older = set_cursor(root, "a-b", "1")
    assert read(root, "a.b") == [2]
    assert not older.exists() and root.cursor("a.b") == 2


def test_a_peek_does_not_take_an_older_cursor_over(root: Root) -> None:
    put(root, 1, 2)
    older = set_cursor(root, "a-b", "1")
    root.ok("read", "c", "--as", "a.b", "--peek")
    assert older.read_text() == "1"


def test_ones_own_cursor_goes_before_an_older_one(root: Root) -> None:
    put(root, 1, 2, 3)
    older = set_cursor(root, "a-b", "1")
    set_cursor(root, "a.b", "2")
    assert read(root, "a.b") == [3] and older.read_text() == "1"


@pytest.mark.parametrize("how", ["member", "sender", "reader"])
def test_an_older_cursor_of_somebody_elses_name_is_left(tmp_path: Path, how: str) -> None:
    root = make_root(tmp_path, "--members", "a-b,bob" if how == "member" else "bob,carol")
    put(root, 1)
    root.put(2, "body2.", sender="a-b" if how == "sender" else "alice")
    if how == "reader":
        assert read(root, "a-b") == [1, 2]
    else:
        set_cursor(root, "a-b", "1")
    before = root.cursor("a-b")
    assert read(root, "a.b") == [1, 2], "everything from the start, and none of it twice"
    assert root.cursor("a-b") == before


# ---- one reading of an agent at a time -----------------------------------------------------------


def test_a_second_reading_of_an_agent_waits_and_then_names_the_holder(root: Root) -> None:
    put(root, 1)
    with open_channel(root) as channel:
        with cursors.reading(channel, "bob", 5):
            with pytest.raises(AgentChatError) as caught:
                cursors.reading(channel, "BOB", 0.1)
            assert caught.value.code == "CURSOR_BUSY" and f"pid {os.getpid()}" in caught.value.message
            with cursors.reading(channel, "carol", 0.1):
                pass
        with cursors.reading(channel, "bob", 0.1):
            pass


def test_every_message_reaches_exactly_one_of_several_readings(root: Root) -> None:
    put(root, *range(1, 41))
    found: list[int] = []

    def one_reader() -> None:
        for _ in range(8):
            result = root.real("read", "c", "--as", "bob", "--limit", "3")
            found.extend(shown(result))

    readers = [threading.Thread(target=one_reader) for _ in range(2)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert sorted(found) == list(range(1, 41))


def test_a_move_that_is_not_made_changes_nothing(root: Root) -> None:
    put(root, 1, 2)
    with open_channel(root) as channel, cursors.reading(channel, "bob"):
        cursors.begin(channel, "bob")
        unread = cursors.look(channel, "bob", persist=True)
        with cursors.prepare(channel, "bob", unread, 2):
            pass
    assert root.cursor("bob") == 0 and os.listdir(root.folder() / ".tmp") == []
    assert read(root) == [1, 2]
