"""A summary that remembers is the one that reads everything, whatever happened to the files in between."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st
from support import Root, make_root, open_channel

from agent_chat import frontmatter, messages, names, points, state
from agent_chat.log import Log
from agent_chat.storage import digests

INDEX, WHOLE = ".index/state", ".index/points"
FILES = [WHOLE, INDEX]
STATUSES = ["discussion", "decision", "Blocker", "verified", "task.updated", "lease.completed"]
BODIES = [
    "b",
    "## Decision\nx",
    "# Evidence\n# Blocker",
    '{"event": "task.updated", "status": "done", "task_id": "T-1"}',
    '{"event": "lease.completed", "status": "done", "task_id": "t-1", "updated_at": "then"}',
    "Zoë → 日本語\x1b\u2028\ttab\\n",
]


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remember even one message, and at once."""
    monkeypatch.setattr(points, "WORTH", 1)
    for module in (digests, points):
        monkeypatch.setattr(module, "_SETTLED", -(10**18))


def derive(root: Root) -> dict[str, Any]:
    with open_channel(root) as channel:
        found = state.derive(channel)
    del found["generated_at"]
    return found


def derive_anew(root: Root) -> dict[str, Any]:
    """The summary without what is remembered, which stays as it is."""
    kept = root.folder() / ".index"
    aside = root.path / "kept"
    if kept.exists():
        kept.rename(aside)
    found = derive(root)
    shutil.rmtree(kept, ignore_errors=True)
    if aside.exists():
        aside.rename(kept)
    return found


def assert_as_read(root: Root) -> None:
    """What is remembered is what every message says that a reader finds."""
    with open_channel(root) as channel:
        found = messages.everything(channel)
        expected = [(message.name, points._values(message)) for message in found if points._values(message)]
        told = points.of_messages(channel)
    assert [(point.name, point.values()) for point in told.found] == expected
    assert told.last == max((message.number for message in found), default=0)


def message(number: int, chance: random.Random) -> bytes:
    title = chance.choice(["t", "Decision: x", "[Evidence] y", "Blocker: z"])
    sender, body = chance.choice(["alice", "bob"]), chance.choice(BODIES) + "\n"
    stamp = "2026-01-01T00:00:00+00:00"
    return frontmatter.compose(number, sender, "all", 0, "c", stamp, chance.choice(STATUSES), title, body)


def change(root: Root, what: str, chance: random.Random) -> None:
    """Something that people, git and crashes do to message files, and some time."""
    before = root.folder().stat().st_mtime_ns
    _change(root, what, chance)
    while root.folder().stat().st_mtime_ns == before:
        (root.folder() / "passing").write_text("")
        (root.folder() / "passing").unlink()


def _change(root: Root, what: str, chance: random.Random) -> None:
    folder = root.folder()
    there = root.names()
    number = chance.choice([1, 2, 3, 50, 9999, 10000])
    if what == "add" or not there:
        (folder / f"{number:04d}-alice-{chance.randrange(3)}.md").write_bytes(message(number, chance))
        return
    path = folder / chance.choice(there)
    data = path.read_bytes()
    if what == "remove":
        path.unlink()
    elif what == "rename":
        path.rename(folder / f"{number:04d}-bob-x.md")
    elif what == "swap":
        other = folder / chance.choice(there)
        path.rename(folder / "swap")
        if other != path:
            other.rename(path)
        (folder / "swap").rename(other)
    elif what == "replace":
        (folder / "new").write_bytes(message(number, chance))
        (folder / "new").rename(path)
    elif what == "copy":
        shutil.copytree(folder, root.path / "copy", symlinks=True)
        shutil.rmtree(folder)
        (root.path / "copy").rename(folder)
    elif what == "archive":
        root.ok("archive", "c", "--before", names.message_number(path.name) + 1, AGENT_CHAT_FSYNC="0")
    elif what == "link":
        path.unlink()
        path.symlink_to("/etc/hostname")
    else:
        edit(path, what, data, message(number, chance))


def edit(path: Path, what: str, data: bytes, other: bytes) -> None:
    """Change a file in place; `sly` keeps its size and sets its time back."""
    before = path.stat()
    new = {"cut": data[: len(data) // 2], "sly": (other + b"\n" * len(data))[: len(data) - 1] + b"\n"}.get(what, other)
    while True:  # until the file system's clock has moved on, as it has between two commands
        path.write_bytes(new)
        if what == "sly":
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        if path.stat().st_ctime_ns != before.st_ctime_ns:
            return
        time.sleep(0.001)


KINDS = [
    "archive",
    "archive",
    "add",
    "add",
    "add",
    "remove",
    "rename",
    "swap",
    "replace",
    "copy",
    "link",
    "edit",
    "cut",
    "sly",
]


@pytest.mark.skipif(os.name == "nt", reason="needs links")
@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2**32)), min_size=1, max_size=12))
def test_what_is_remembered_gives_the_bytes_of_a_full_derivation(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as path:
        root = make_root(Path(path))
        for what, seed in steps:
            change(root, what, random.Random(seed))
            assert derive(root) == derive_anew(root), what
            assert_as_read(root)


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_a_damaged_memory_is_no_memory(seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as path:
        root = make_root(Path(path))
        for number in range(1, 9):
            (root.folder() / f"{number:04d}-alice-x.md").write_bytes(message(number, chance))
        whole = derive(root)
        file = root.folder() / chance.choice(FILES)
        for other in FILES[: chance.randrange(2)]:
            (root.folder() / other).unlink()  # so that the one below it is asked
        assert derive(root) == whole
        data = bytearray(file.read_bytes())
        what = chance.randrange(4)
        if what == 0:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif what == 1:
            del data[chance.randrange(len(data)) :]
        elif what == 2:
            data += chance.choice([b"x", b"\n", b"\xff", bytes(data)])
        else:
            at = data.index(10)
            data[at + 1 :] = bytes(chance.randrange(256) for _ in range(60))
        file.write_bytes(data)
        assert derive(root) == whole
        assert derive(root) == derive_anew(root)


HOSTILE = [
    "[]",
    "[1, 2, 3, 4, 5, 6, 7]",
    '["decision", "a", "t", "x", "y", "", "", ""]',
    '["decision", "a\\n## Decisions", "t", "x", "y", "", ""]',
    '["decision", "a", "t", "\\ud800", "y", "", ""]',
    "[" * 100_000,
    "null",
    "no JSON",
]


@pytest.mark.parametrize("digest", HOSTILE, ids=lambda text: text[:20])
def test_a_memory_that_holds_something_else_is_not_believed(tmp_path: Path, digest: str) -> None:
    """With the right checksum and stamps: what nobody but this user on this machine could write."""
    root = make_root(tmp_path)
    (root.folder() / "0001-alice-x.md").write_bytes(message(1, random.Random(1)))
    whole = derive(root)
    (root.folder() / WHOLE).unlink()
    (root.folder() / INDEX).unlink()
    with open_channel(root) as channel:
        known = digests.Digests(channel.folder, "state", version=points._RULES)
        [(name, _)] = known.names(channel.folder, points._is_message)
        known.learn(name, [digest])
        known.save()
    assert (root.folder() / f"{INDEX}.digests").read_text("utf-8") == digest
    assert derive(root) == whole and root.ok("state", "c").out


@pytest.mark.parametrize("digest", HOSTILE, ids=lambda text: text[:20])
def test_one_of_the_whole_folder_stops_nobody(tmp_path: Path, digest: str) -> None:
    root = make_root(tmp_path)
    (root.folder() / "0001-alice-x.md").write_bytes(message(1, random.Random(1)))
    derive(root)
    head, text = (root.folder() / WHOLE).read_text("utf-8").split("\n")
    look, odd, last, _ = json.loads(text)
    for forged in (
        digest,
        f"[{json.dumps(look)},{digest},1,[]]",
        f"[{json.dumps(look)},{json.dumps(odd)},1,[{digest}]]",
    ):
        (root.folder() / WHOLE).write_text(f"{points._head(forged)}\n{forged}")
        shown = root.ok("state", "c").out
        assert [line for line in shown.splitlines() if line.startswith("## ")].count("## Decisions") == 1
    assert head == points._head(text) and last == 1


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the messages that are opened."""
    found: list[str] = []
    real = Log.message

    def noting(log: Log, name: str) -> Any:
        found.append(name)
        return real(log, name)

    monkeypatch.setattr(Log, "message", noting)
    return found


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A channel of 29 messages, whose points are remembered."""
    root = make_root(tmp_path)
    for number in range(1, 30):
        (root.folder() / f"{number:04d}-alice-x.md").write_bytes(message(number, random.Random(number)))
    derive(root)
    return root


def test_only_what_is_new_is_opened(root: Root, opened: list[str]) -> None:
    assert derive(root)["last_seq"] == 29 and opened == []
    (root.folder() / "0030-alice-x.md").write_bytes(message(30, random.Random(30)))
    (root.folder() / "0007-alice-x.md").unlink()
    assert derive(root)["last_seq"] == 30 and opened == ["0030-alice-x.md"]


def test_a_folder_that_did_not_change_is_not_looked_through(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    expected = derive(root)
    derive(root)
    monkeypatch.setattr(digests.Digests, "names", never)
    assert derive(root) == expected


def test_a_message_that_becomes_whole_in_its_place_is_seen(root: Root) -> None:
    whole, path = message(30, random.Random(30)), root.folder() / "0030-alice-x.md"
    path.write_bytes(whole[:-1])
    for _ in range(2):
        assert derive(root)["last_seq"] == 29
    with open(path, "ab") as file:
        file.write(whole[-1:])
    assert derive(root)["last_seq"] == 30


def test_strict_opens_every_message(root: Root, opened: list[str]) -> None:
    path = root.folder() / "0029-alice-x.md"
    with open(path, "r+b") as file:
        file.write(path.read_bytes().replace(b"title: ", b"title: Decision: EDITED "))
    assert "EDITED" in root.ok("state", "c", "--strict").out and len(set(opened)) == 29


def test_what_is_younger_than_the_clocks_tick_is_not_remembered(
    root: Root, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    for module in (digests, points):
        monkeypatch.setattr(module, "_SETTLED", 2_000_000_000)
    for name in FILES:
        (root.folder() / name).unlink()
    derive(root)
    assert not (root.folder() / WHOLE).exists() and len(opened) == 29
    derive(root)
    assert len(opened) == 58


def test_a_short_channel_remembers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "WORTH", 256)
    root = make_root(tmp_path)
    for number in range(1, 200):
        root.put(number)
    root.ok("state", "c")
    assert not [name for name in FILES if (root.folder() / name).exists()]


def test_another_version_believes_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    root = make_root(tmp_path)
    root.put(1)
    derive(root)
    opened.clear()
    before = [(root.folder() / name).read_bytes() for name in FILES]
    monkeypatch.setattr(points, "_RULES", "9.9.9 3.9")
    derive(root)
    assert opened == ["0001-alice-x.md"]
    assert not {(root.folder() / name).read_bytes() for name in FILES} & {*before}
