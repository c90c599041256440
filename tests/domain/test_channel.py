"""channel.py: a channel's folder: made, found, listed; its lock (cases M19, M25 to M27, L1, L3, L4)."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest
from support import Root, make_root, open_channel

from agent_chat import channel as channels
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX links and modes")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


# ---- making --------------------------------------------------------------------------------------


def test_a_channel_is_a_folder_with_its_meta(root: Root) -> None:
    root.ok("init", "review", "--members", "alice, Bob,,bob", "--topic", " the\ntopic ")
    text = (root.folder("review") / "_meta.json").read_text()
    meta = json.loads(text)
    assert list(meta) == ["channel", "members", "topic", "created"]
    assert (meta["channel"], meta["members"], meta["topic"]) == ("review", ["alice", "Bob"], "the topic")
    assert meta["created"].endswith("+00:00") and text == json.dumps(meta, indent=2) + "\n"
    assert sorted(os.listdir(root.folder("review"))) == [".gitignore", ".index", ".lock", ".tmp", "_meta.json"]


def test_git_keeps_the_messages_and_the_cursors_only(root: Root) -> None:
    git = pytest.importorskip("shutil").which("git")
    if not git:
        pytest.skip("needs git")
    import subprocess

    root.post()
    root.ok("read", "c", "--as", "bob")
    subprocess.run([git, "init", "-q", str(root.path)], check=True)
    done = subprocess.run(
        [git, "-C", str(root.path), "status", "--porcelain", "-uall"], check=True, capture_output=True, text=True
    )
    assert sorted(line[3:] for line in done.stdout.splitlines()) == [
        "c/.cursors/bob.txt",
        "c/.gitignore",
        "c/0001-alice-t.md",
        "c/_meta.json",
    ]


@pytest.mark.parametrize("name", ["c", "C"])
def test_a_channel_is_made_once_whatever_the_case(root: Root, name: str) -> None:
    before = (root.folder() / "_meta.json").read_bytes()
    root.refused("CHANNEL_EXISTS", "init", name, "--members", "zed")
    assert (root.folder() / "_meta.json").read_bytes() == before
    assert os.listdir(root.path) == ["c"]


# fmt: off
BAD = ["CON", "nul", "Aux.txt", "-x", ".git", "_x", "a/b", "a\\b", "..", ".", "", "x" * 300, "a.", "a ", " a", "a\nb",
       "é"]
# fmt: on


@pytest.mark.parametrize("name", BAD)
def test_an_odd_name_is_refused_everywhere(root: Root, name: str) -> None:
    """M19: on every platform, for channels and agents."""
    for words in (["init"], ["roster"], ["peek"]):
        root.refused("CHANNEL_INVALID_NAME", *words, "--", name)
    root.refused("CHANNEL_INVALID_NAME", "post", "--from=alice", "--title=t", "--body=b", "--", name)
    root.refused("CHANNEL_INVALID_NAME", "wait", "--as=bob", "--timeout=0", "--", name)
    root.refused("AGENT_INVALID_NAME", "post", "c", f"--from={name}", "--title=t", "--body=b")
    root.refused("AGENT_INVALID_NAME", "read", "c", f"--as={name}")
    root.refused("AGENT_INVALID_NAME", "wait", "c", f"--as={name}", "--timeout=0")
    root.refused("AGENT_INVALID_NAME", "ack", "c", f"--as={name}", "--upto=0")
    root.refused("AGENT_INVALID_NAME", "claim", "c", "task-1.md", f"--as={name}")
    if name.strip() and "," not in name and name == name.strip():
        root.refused("AGENT_INVALID_NAME", "init", "d", f"--members=alice,{name}")
    assert os.listdir(root.path) == ["c"] and not (root.folder() / ".cursors").exists()


def test_init_makes_the_root(tmp_path: Path) -> None:
    root = Root(tmp_path / "not" / "yet" / "there")
    assert root.ok("channels").out.startswith("(no channels in ")
    root.refused("CHANNEL_NOT_FOUND", "read", "c", "--as", "bob")
    assert not root.path.parent.exists(), "a missing root is an empty one, and looking makes nothing"
    root.ok("init", "c")
    assert root.folder().is_dir()


@posix
def test_a_root_below_the_home_is_private(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    Root(home / "agent-chat").ok("init", "c", HOME=str(home))
    Root(tmp_path / "shared").ok("init", "c", HOME=str(home))
    assert stat.S_IMODE((home / "agent-chat").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) & 0o070


def test_a_folder_left_by_an_init_that_died_is_no_channel_and_can_be_made_one(root: Root) -> None:
    (root.path / "d" / ".tmp").mkdir(parents=True)
    (root.path / "d" / ".tmp" / "1-2").write_text('{\n  "chan')
    root.refused("CHANNEL_NOT_FOUND", "read", "d", "--as", "bob")
    assert "d " not in root.ok("channels").out
    root.ok("init", "d")
    root.ok("roster", "d")


def test_of_several_that_make_one_channel_exactly_one_wins(root: Root) -> None:
    """M27, in small."""
    for turn in range(3):
        results = []
        makers = [
            threading.Thread(
                target=lambda who=who, ch=f"n{turn}", to=results: to.append(root.real("init", ch, "--members", who))
            )
            for who in ("ann", "ben", "cid")
        ]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
        assert sorted(result.status for result in results) == [0, 2, 2], results
        assert [result.code for result in results if result.status] == ["CHANNEL_EXISTS"] * 2
        (winner,) = (result for result in results if result.status == 0)
        assert json.loads((root.folder(f"n{turn}") / "_meta.json").read_text())["members"][0] in winner.out


# ---- finding and listing -------------------------------------------------------------------------


def test_a_folder_that_is_no_channel_hides_none_of_another_case(root: Root) -> None:
    root.ok("init", "Foo")
    try:
        (root.path / "foo").mkdir()
    except FileExistsError:
        pytest.skip("the file system knows no case")
    for name in ("foo", "FOO", "Foo"):
        assert json.loads(root.ok("roster", name, "--json").out)["channel"] == "Foo"
    assert root.run("init", "foo").code == "CHANNEL_EXISTS"


def test_a_folder_that_may_not_be_looked_into_is_named_by_channels(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.ok("init", "shut")
    real_lstat, real_open = os.lstat, os.open

    def refusing(real: object) -> object:
        def call(path: object, *rest: object, **more: object) -> object:
            if "shut" in str(path):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *rest, **more)  # type: ignore[operator]

        return call

    monkeypatch.setattr(os, "lstat", refusing(real_lstat))
    monkeypatch.setattr(os, "open", refusing(real_open))
    done = root.run("channels")
    assert done.status == 0 and "c " in done.out and "shut" in done.err and "Permission denied" in done.err


def test_names_are_found_without_case(root: Root) -> None:
    root.ok("init", "Review")
    for name in ("Review", "review", "REVIEW"):
        assert "channel: Review" in root.ok("roster", name).out


def test_an_unknown_channel_is_refused_and_the_next_command_makes_it(root: Root) -> None:
    result = root.refused("CHANNEL_NOT_FOUND", "read", "nope", "--as", "bob")
    assert result.err.rstrip().endswith("init nope")


def test_channels_lists_name_count_members_and_last_message(root: Root) -> None:
    root.ok("init", "empty")
    root.post("alice", "First", "b")
    root.post("bob", "Second\tone", "b")
    (root.path / "no-channel").mkdir()
    (root.path / "file").write_text("")
    lines = root.ok("channels").out.splitlines()
    assert [line.split() for line in lines] == [
        ["CHANNEL", "COUNT", "MEMBERS", "LAST"],
        ["c", "2", "alice,bob,carol", "#2", "bob:", "Second", "one"],
        ["empty", "0", "-", "-"],
    ]
    found = root.ok("channels", "--json").json["channels"]
    assert [(one["channel"], one["count"]) for one in found] == [("c", 2), ("empty", 0)]
    assert found[0]["last"]["seq"] == 2 and found[1]["last"] is None


def test_a_title_of_another_program_forges_no_line_of_the_list(root: Root) -> None:
    path = root.put(1)
    path.write_text(path.read_text().replace("title: t", 'title: "t\\nevil  9  eve  #9 eve: x\\r\\e[2J"'))
    meta = {"members": ["a\nevil member"], "topic": "\nevil topic\x1b", "created": ""}
    (root.folder() / "_meta.json").write_text(json.dumps(meta))
    for words in (["channels"], ["roster", "c"], ["wait", "c", "--as", "bob", "--timeout", "0", "--peek"]):
        out = root.ok(*words).out
        assert "\x1b" not in out and "\r" not in out and not any(line.startswith("evil") for line in out.splitlines())


def test_roster_says_who_has_read_how_far(root: Root) -> None:
    root.post()
    root.ok("read", "c", "--as", "bob")
    root.ok("ack", "c", "--as", "carol", "--upto", "0")
    (root.folder() / ".cursors" / "dave.txt").write_text("garbage")
    out = root.ok("roster", "c").out
    assert "bob #1, carol #0, dave #?" in out and "alice, bob, carol" in out and "#1 alice: t" in out
    assert root.ok("roster", "c", "--json").json["cursors"] == {"bob": 1, "carol": 0, "dave": None}


# ---- _meta.json ----------------------------------------------------------------------------------


def with_meta(root: Root, data: bytes) -> None:
    (root.folder() / "_meta.json").write_bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"channel":"c","members":["alice","B\\u00f6b"],"topic":"","created":"x"}',
        b'\xef\xbb\xbf{\r\n  "channel": "c",\r\n  "members": ["alice", "B\xc3\xb6b"]\r\n}',
        b'{\n  "channel": "c",\n  "members": [\n    "alice",\n    "B\xc3\xb6b"\n  ],'
        b'\n  "topic": "",\n  "created": ""\n}',
        b'{"topic": "a \\"quoted\\" one", "more": {"members": []}, "members": ["alice", "B\xc3\xb6b"]}',
        b'{\n  "channel": "c",\n  "members": [\n    "alice",\n    "B\\u00f6b"\n  ],'
        b'\n  "topic": "",\n  "created": ""\n}\n',
    ],
)
def test_any_spelling_of_the_meta_is_read(root: Root, data: bytes) -> None:
    with_meta(root, data)
    with open_channel(root) as channel:
        assert channel.meta.members == ["alice", "Böb"]
        assert channel.meta.has("ALICE") and channel.meta.has("böb") and not channel.meta.has("bob")


def test_what_is_missing_in_the_meta_is_empty(root: Root) -> None:
    with_meta(root, b"{}")
    with open_channel(root) as channel:
        assert (channel.meta.members, channel.meta.topic, channel.meta.created) == ([], "", "")


@pytest.mark.parametrize(
    "value", ['a", "topic": "x', "\\", "é ", "\u2028", "\x00", '"', "a\nb", "]", "😀", '  "members": [],']
)
def test_what_init_writes_is_read_back_whatever_the_topic(root: Root, value: str) -> None:
    root.ok("init", "d", f"--topic={value}x", "--members=alice,bob")
    with open_channel(root, "d") as channel:
        meta = json.loads((root.folder("d") / "_meta.json").read_text("utf-8"))
        assert channel.meta.topic == meta["topic"] and channel.meta.members == meta["members"] == ["alice", "bob"]
        assert channel.meta.created == meta["created"]


DAMAGED = {
    "empty": b"",
    "an array": b"[]",
    "a number": b"5",
    "half": b'{\n  "channel": "c",\n  "members": [',
    "not UTF-8": b'{\n  "channel": "c",\n  "topic": "\xff"\n}',
    "UTF-16": '{"channel": "c"}'.encode("utf-16"),
    "conflict": b'{\n  "channel": "c",\n<<<<<<< HEAD\n  "members": [],\n=======\n  "members": ["a"],\n'
    b'>>>>>>> x\n  "topic": ""\n}',
    "members no list": b'{"members": "alice"}',
    "members no texts": b'{"members": [1]}',
    "topic no text": b'{"topic": 5}',
    "twice": b'{"topic": "a", "topic": "b"}',
    "zeros": b"\0" * 200,
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_meta_stops_its_channel_only_and_names_file_and_line(root: Root, kind: str) -> None:
    """M26."""
    root.ok("init", "other")
    root.ok("post", "other", "--from", "alice", "--title", "t", "--body", "b")
    with_meta(root, DAMAGED[kind])
    for words in (
        ["read", "c", "--as", "bob"],
        ["read", "c", "--as", "bob", "--peek"],
        ["wait", "c", "--as", "bob", "--timeout", "0"],
        ["peek", "c"],
        ["roster", "c"],
        ["post", "c", "--from", "alice", "--title", "t", "--body", "b"],
    ):
        result = root.refused("CHANNEL_META_INVALID", *words)
        assert os.path.join("c", "_meta.json") in result.err
        assert "line " in result.err or kind == "twice"
    listing = root.ok("channels")
    assert "other" in listing.out and "CHANNEL_META_INVALID" in listing.err and len(listing.err.splitlines()) == 1
    root.ok("read", "other", "--as", "bob")
    root.refused("CHANNEL_EXISTS", "init", "c")


def test_the_line_of_the_conflict_marker_is_named(root: Root) -> None:
    with_meta(root, DAMAGED["conflict"])
    assert "(line 3)" in root.refused("CHANNEL_META_INVALID", "peek", "c").err
    with_meta(root, DAMAGED["not UTF-8"])
    assert "(line 3)" in root.refused("CHANNEL_META_INVALID", "peek", "c").err


def test_a_huge_meta_is_not_read(root: Root) -> None:
    """M26: 50 MB, sparse."""
    with open(root.folder() / "_meta.json", "r+b") as file:
        file.truncate(50_000_000)
    assert "larger than" in root.refused("CHANNEL_META_INVALID", "peek", "c").err


@posix
@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_meta_that_is_no_file_is_refused_at_once(root: Root, kind: str) -> None:
    (root.folder() / "_meta.json").unlink()
    if kind == "folder":
        (root.folder() / "_meta.json").mkdir()
    else:
        os.mkfifo(root.folder() / "_meta.json")
    root.refused("STORAGE_NOT_A_FILE", "peek", "c")
    assert "STORAGE_NOT_A_FILE" in root.ok("channels").err


# ---- links (M25) ---------------------------------------------------------------------------------


@posix
def test_a_channel_that_is_a_link_is_refused(root: Root, tmp_path: Path) -> None:
    outside = make_root(tmp_path / "outside")
    (root.path / "linked").symlink_to(outside.folder(), target_is_directory=True)
    for words in (
        ["read", "linked", "--as", "bob"],
        ["peek", "linked"],
        ["post", "linked", "--from", "alice", "--title", "t", "--body", "b"],
    ):
        root.refused("STORAGE_LINK_REFUSED", *words)
    assert root.run("init", "linked").status == 2
    listing = root.ok("channels")
    assert "linked" in listing.err and "linked" not in listing.out
    assert outside.names() == []


@posix
def test_a_dangling_link_is_not_made_a_channel(root: Root, tmp_path: Path) -> None:
    (root.path / "linked").symlink_to(tmp_path / "nowhere", target_is_directory=True)
    assert root.run("init", "linked").status != 0
    assert not (tmp_path / "nowhere").exists()


@posix
def test_a_meta_that_is_a_link_is_refused(root: Root, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text('{"members": ["mallory"]}')
    (root.folder() / "_meta.json").unlink()
    (root.folder() / "_meta.json").symlink_to(tmp_path / "outside")
    result = root.refused("STORAGE_LINK_REFUSED", "roster", "c")
    assert "mallory" not in result.err
    root.refused("CHANNEL_EXISTS", "init", "c")
    assert (tmp_path / "outside").read_text() == '{"members": ["mallory"]}'


@posix
@pytest.mark.parametrize("name", [".cursors", ".numbers", ".tmp", ".index"])
def test_no_folder_of_a_channel_may_be_a_link(root: Root, tmp_path: Path, name: str) -> None:
    """A channel may come from a stranger's repository."""
    root.post()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("theirs")
    place = root.folder() / name
    if place.exists():
        for entry in place.iterdir():
            entry.unlink()
        place.rmdir()
    place.symlink_to(outside, target_is_directory=True)
    root.run("read", "c", "--as", "bob")
    root.run("post", "c", "--from", "alice", "--title", "t", "--body", "b")
    root.run("ack", "c", "--as", "carol", "--upto", "1")
    assert os.listdir(outside) == ["keep"]
    assert "b" in root.ok("peek", "c").out


# ---- the lock ------------------------------------------------------------------------------------


def test_posting_waits_for_the_lock_and_then_names_the_holder(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_channel(root) as channel:
        with channel.writing("alice", 1):
            with pytest.raises(AgentChatError) as caught:
                channel.writing("bob", 0.1)
            assert caught.value.code == "CHANNEL_BUSY"
            assert "alice (pid " in caught.value.message and str(os.getpid()) in caught.value.message
            for words in (["read", "c", "--as", "bob"], ["peek", "c"], ["channels"], ["roster", "c"]):
                root.ok(*words)  # reading goes on
        with channel.writing("bob", 0.1):
            pass


def test_where_locks_do_not_work_messages_go_on(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.name == "nt":
        pytest.skip("needs flock")
    import errno
    import fcntl

    def none_here(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none_here)
    for at in range(3):
        assert root.post(body=f"body {at}").out.startswith(f"posted #{at + 1} ")
    assert root.ok("read", "c", "--as", "bob").out.count("body") == 3
    assert root.cursor("bob") == 3


@posix
@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_lock_file_that_is_none_is_refused(root: Root, tmp_path: Path, kind: str) -> None:
    """L4."""
    (tmp_path / "outside").write_text("theirs")
    place = root.folder() / ".lock"
    place.unlink()
    if kind == "link":
        place.symlink_to(tmp_path / "outside")
    elif kind == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    code = "STORAGE_LINK_REFUSED" if kind == "link" else "STORAGE_NOT_A_FILE"
    root.refused(code, "post", "c", "--from", "alice", "--title", "t", "--body", "b")
    assert (tmp_path / "outside").read_text() == "theirs" and root.names() == []


def test_the_note_in_the_lock_is_one_printable_line(root: Root) -> None:
    root.post()
    text = (root.folder() / ".lock").read_text("ascii")
    assert text.startswith("alice (pid ") and text.isprintable()


def test_the_patience_is_ten_seconds() -> None:
    assert disk.LOCK_PATIENCE == 10.0


def test_an_open_channel_closes_its_folder(root: Root) -> None:
    with open_channel(root) as channel:
        assert channel.folder.fd is not None or os.name == "nt"
    assert channel.folder.fd is None
    assert channels.list_names(str(root.path)) == ["c"]
