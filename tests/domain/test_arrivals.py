"""arrivals.py and log.py: the index answers as a plain listing would, and is believed only when it may be."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from support import Root, make_root, open_channel

from agent_chat import arrivals, frontmatter, log, names
from agent_chat.storage import disk

PAUSE = 0.03  # seconds: more than a tick, so that the folder's time is believed


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def all_whole(root: Root) -> dict[str, frontmatter.Message]:
    """Every whole message there, by a plain listing."""
    found = {}
    for name in os.listdir(root.folder()):
        if names.message_number(name):
            try:
                found[name] = frontmatter.parse(name, (root.folder() / name).read_bytes())
            except (frontmatter.NotWhole, OSError):
                continue
    return found


def noted(root: Root) -> None:
    """Let a reader look after a pause, so that the index is in step and may be believed."""
    time.sleep(PAUSE)
    root.ok("read", "c", "--as", "carol")


def is_believed(root: Root) -> bool:
    with open_channel(root) as channel:
        return channel.log.glance() is not None


def indexed(root: Root) -> list[str]:
    with open_channel(root) as channel:
        return [entry.name for entry in channel.log.look().above(0)]


# ---- a model that lists ---------------------------------------------------------------------------


class Model:
    """What each agent must be shown, told from plain listings at the moments when a command looks."""

    def __init__(self) -> None:
        self.known: dict[str, frontmatter.Message] = {}  # in the index: what each was when it was first seen
        self.cursors: dict[str, int] = {}
        self.late: dict[str, set[str]] = {}

    def look(self, root: Root, is_noted: bool) -> tuple[dict[str, frontmatter.Message], set[str]]:
        """What was whole once and is still there, and which of it is new and late."""
        new = all_whole(root)
        known = {name: first for name, first in self.known.items() if os.path.lexists(root.folder() / name)}
        top = max(map(names.message_number, known), default=0)
        late = {name for name in new.keys() - known.keys() if names.message_number(name) <= top}
        known = {**new, **known}
        if is_noted:
            self.known = known
            for agent in self.cursors:
                self.late[agent] |= late
        return known, late

    def unread(self, root: Root, agent: str, is_noted: bool) -> list[str]:
        known, late = self.look(root, is_noted)
        last = max(map(names.message_number, known), default=0)
        cursor = min(self.cursors.get(agent, 0), last)
        found = {name for name in known if names.message_number(name) > cursor}
        found |= (self.late.get(agent, set()) | (late if agent in self.cursors else set())) & known.keys()
        wanted = {name for name in found if known[name].sender != agent and known[name].recipients <= {agent}}
        readable = all_whole(root).keys()
        if is_noted:
            self.cursors[agent] = last
            self.late[agent] = (self.late[agent] - readable) | (wanted - readable)
        return sorted(wanted & readable, key=order)

    def read(self, root: Root, agent: str) -> list[str]:
        if agent not in self.cursors:
            self.cursors[agent], self.late[agent] = 0, set()
        return self.unread(root, agent, is_noted=True)


def order(name: str) -> tuple[int, str]:
    return names.message_number(name), name


def shown(root: Root, *words: str) -> list[str]:
    return [one["file"] for one in root.ok(*words, "--json").json["messages"]]


class World:
    """People, git and sync clients at work on the folder, and commands that are compared with the model."""

    AGENTS = ("alice", "bob", "carol")

    def __init__(self, root: Root, chance: random.Random) -> None:
        self.root, self.chance, self.model, self.count = root, chance, Model(), 0

    def _any(self) -> Path | None:
        found = [name for name in os.listdir(self.root.folder()) if names.message_number(name)]
        return self.root.folder() / self.chance.choice(sorted(found)) if found else None

    def comes(self) -> None:
        self.count += 1
        highest = max(map(names.claimed_number, os.listdir(self.root.folder())))
        number = max(1, highest + self.chance.choice([-3, -2, -1, 0, 1, 1, 2]))
        sender, to = self.chance.choice(self.AGENTS), self.chance.choice(["all", "all", *self.AGENTS])
        self.root.put(number, f"body {self.count}", sender, to, f"{number:04d}-{sender}-{self.count}.md")

    def comes_in_part(self) -> None:
        self.comes()
        self.is_cut()

    def is_cut(self) -> None:
        path = self._any()
        if path and path.stat().st_size:
            path.write_bytes(path.read_bytes()[:-1])

    def becomes_whole(self) -> None:
        path = self._any()
        if path and not path.read_bytes().endswith(b"\n"):
            path.write_bytes(path.read_bytes() + b"\n")

    def changes(self) -> None:
        path = self._any()
        if path and path.read_bytes().endswith(b"\n"):
            path.write_bytes(path.read_bytes() + b"one line more\n")

    def goes(self) -> None:
        path = self._any()
        if path:
            path.unlink()

    def is_renamed(self) -> None:
        path = self._any()
        if path:
            self.count += 1
            number = max(1, names.message_number(path.name) + self.chance.randint(-2, 2))
            path.rename(path.with_name(f"{number:04d}-x-{self.count}.md"))

    def time_passes(self) -> None:
        time.sleep(PAUSE)

    def post(self) -> None:
        self.model.look(self.root, is_noted=True)
        before = set(os.listdir(self.root.folder()))
        self.root.post(self.chance.choice(self.AGENTS), "t", "b", "--to", self.chance.choice(["all", *self.AGENTS]))
        (name,) = {one for one in set(os.listdir(self.root.folder())) - before if one[0] != "."}
        self.model.known[name] = all_whole(self.root)[name]

    def read(self) -> None:
        agent = self.chance.choice(self.AGENTS)
        expected = self.model.read(self.root, agent)
        assert shown(self.root, "read", "c", "--as", agent) == expected, agent
        assert self.root.cursor(agent) == self.model.cursors[agent]

    def look(self) -> None:
        agent = self.chance.choice(self.AGENTS)
        assert shown(self.root, "read", "c", "--as", agent, "--peek") == self.model.unread(self.root, agent, False)

    def peek(self) -> None:
        there, count = all_whole(self.root), self.chance.randint(1, 5)
        ordered = [name for name in sorted(self.model.look(self.root, False)[0], key=order)[-count:] if name in there]
        found = self.root.ok("peek", "c", "-n", count, "--json").json["messages"]
        assert [one["file"] for one in found] == ordered
        assert [one["body"] for one in found] == [there[name].body for name in ordered]

    def count_them(self) -> None:
        (found,) = self.root.ok("channels", "--json").json["channels"]
        assert found["count"] == len(self.model.look(self.root, False)[0])

    STEPS = (comes, comes, comes_in_part, is_cut, becomes_whole, changes, goes, is_renamed) + 2 * (
        time_passes,
        time_passes,
        post,
        read,
        read,
        look,
        peek,
        count_them,
    )


def names_are_kept(monkeypatch: pytest.MonkeyPatch, after: int = 1) -> None:
    """Let names have a file of their own after so many bytes of lines, not only in a long channel."""
    monkeypatch.setattr(arrivals, "_NAMES_DUE", after)


@pytest.mark.parametrize("seed", range(12))
def test_every_answer_is_that_of_a_plain_listing_whatever_comes_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool, seed: int
) -> None:
    if seed % 2:
        names_are_kept(monkeypatch, after=1 + 150 * (seed - 1))
    for more in range(50 if whole else 1):
        root = make_root(tmp_path / str(more))
        chance = random.Random(seed * 1000 + more)
        world, done = World(root, chance), []
        for _ in range(60):
            step = chance.choice(World.STEPS)
            done.append(step.__name__)
            try:
                step(world)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, {more}: {' '.join(done)}: {error}") from error


@pytest.mark.parametrize("seed", range(8))
def test_what_is_read_until_it_is_enough_are_the_highest_numbers_without_a_gap(root: Root, seed: int) -> None:
    chance = random.Random(seed)
    numbers = list(range(1, 61))
    for at in range(0, 60, 5) if seed else ():  # they arrive nearly in order, some late
        numbers[at : at + 12] = chance.sample(numbers[at : at + 12], len(numbers[at : at + 12]))
    for number in numbers:
        root.put(number)
        with open_channel(root) as channel, channel.writing("git"):
            channel.log.note()
    with open_channel(root) as channel:
        here = channel.log.look()
        everything = here.above(0)
        for wanted in (1, 9, 30, 59, 61):
            found = here.above(0, 1024, is_enough=lambda found, wanted=wanted: len(found) >= wanted)  # type: ignore[misc]
            assert [one.name for one in found] == [one.name for one in everything[-len(found) :]]
            assert len(found) >= min(wanted, 60) and (seed or len(found) < wanted + 8)


# ---- when the index is believed --------------------------------------------------------------------


def test_a_folder_that_did_not_change_is_not_listed(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.post("alice", "one")
    noted(root)  # makes .cursors, which changes the folder
    noted(root)
    time.sleep(PAUSE)
    listed: list[str] = []
    real = disk.Folder.names
    monkeypatch.setattr(disk.Folder, "names", lambda folder: [*real(folder), *(listed.append(folder.path) or [])])
    for words in (["peek", "c"], ["read", "c", "--as", "bob", "--peek"], ["wait", "c", "--as", "bob", "--peek"]):
        assert root.ok(*words).out
    root.post()
    assert str(root.folder()) not in listed


def test_a_post_keeps_the_index_in_step(root: Root) -> None:
    for _ in range(2):
        time.sleep(PAUSE)
        root.post()
    time.sleep(PAUSE)
    assert is_believed(root) and indexed(root) == root.names()


@pytest.mark.parametrize("where", ["arrivals", "stamp", "names"])
@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_index_stops_nobody_and_hides_nothing(
    root: Root, monkeypatch: pytest.MonkeyPatch, where: str, seed: int
) -> None:
    names_are_kept(monkeypatch)
    for number in range(1, 9):
        root.put(number)
    noted(root)
    noted(root)
    chance, path = random.Random(seed), root.folder() / ".index" / where
    data = bytearray(path.read_bytes())
    if chance.random() < 0.4:
        del data[chance.randrange(len(data)) :]
    elif chance.random() < 0.5:
        data += chance.choice([b"\n", b"\t", b"\xff\n", b"0009-alice-x.md\t9\n", bytes(data), b"9" * 40])
    else:
        at = chance.randrange(len(data) - 2)
        data[at : at + 2] = chance.choice([b"\0\0", b"\n\n", b"\t\t", b"--", b"\xff\xff"])
    path.write_bytes(data)
    for words in (["read", "c", "--as", "bob", "--peek"], ["channels"], ["peek", "c", "-n", "99"], ["show", "c", "8"]):
        root.ok(*words)
    assert root.post().out.startswith("posted #9 ")
    time.sleep(PAUSE)
    root.ok("read", "c", "--as", "bob")
    root.put(10, "the end")
    assert "the end" in root.ok("read", "c", "--as", "bob").out
    assert indexed(root)[-2:] == root.names()[-2:]


def test_the_names_of_a_long_channel_are_compared_without_its_lines(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_are_kept(monkeypatch, after=1000)
    for number in range(1, 201):
        root.put(number)
    noted(root)
    kept = (root.folder() / ".index/names").read_text().split("\n")
    assert kept[:-1] == root.names()
    read: list[tuple[str, int]] = []
    real = disk.Folder.read
    monkeypatch.setattr(
        disk.Folder,
        "read",
        lambda folder, name, limit=0, start=0: read.append((name, start)) or real(folder, name, limit or 9999, start),
    )
    root.put(201, "the end")
    assert "the end" in root.ok("read", "c", "--as", "carol").out
    assert ("arrivals", int(kept[-1].split("\t")[2])) in read and ("arrivals", 0) not in read


def test_names_that_belong_to_other_lines_are_not_believed(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    names_are_kept(monkeypatch)
    for number in range(1, 6):
        root.put(number)
    noted(root)
    old = (root.folder() / ".index/names").read_bytes()
    for name in ("arrivals", "stamp"):
        (root.folder() / ".index" / name).unlink()
    for name in root.names():
        (root.folder() / name).rename(root.folder() / f"{name[:4]}-other.md")
    noted(root)
    (root.folder() / ".index/names").write_bytes(old)
    root.put(1, "again", name="0001-x.md")
    time.sleep(PAUSE)
    assert indexed(root) == root.names()


@pytest.mark.parametrize(
    "old, new", [(b"\t2\t1\t", b"\t2\t1x"), (b"\t2\t1\t", b"\tz\t1\t"), (b"\t2\t1\t", b"\t2\tz\t")]
)
def test_a_damaged_line_is_found_when_the_index_is_made_anew(root: Root, old: bytes, new: bytes) -> None:
    for number in (1, 2, 3, 4):
        root.put(number)
    noted(root)
    path = root.folder() / ".index" / "arrivals"
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    (root.folder() / root.names()[2]).unlink()  # so that a line has to go
    assert root.ok("state", "c").out and root.ok("peek", "c", "-n", "9").out.count("title: ") == 3
    assert root.post().out.startswith("posted #5 ")
    assert sorted(indexed(root)) == root.names()


@pytest.mark.skipif(os.name == "nt", reason="needs links and pipes")
@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "dangling link"])
@pytest.mark.parametrize("where", ["", "arrivals", "stamp", "names"])
def test_what_is_no_index_is_not_followed_and_stops_no_reader(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, kind: str
) -> None:
    names_are_kept(monkeypatch)
    root.put(1, "one")
    noted(root)
    outside, path = tmp_path / "outside", root.folder() / ".index" / where
    outside.mkdir()
    shutil.rmtree(path) if where == "" else path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(outside if kind == "link" else tmp_path / "nowhere")
    for words in (["peek", "c"], ["read", "c", "--as", "bob", "--peek"], ["channels"], ["show", "c", "1"]):
        root.ok(*words)
    assert os.listdir(outside) == [] and not (tmp_path / "nowhere").exists()


class Folders:
    """Folder times as some file systems give them, in place of what ours says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, told: Any) -> None:
        real = disk.Folder.stamp
        monkeypatch.setattr(disk.Folder, "stamp", lambda folder: (told(real(folder)[0]), *real(folder)[1:]))


def was_listed_earlier(root: Root, seconds: int) -> None:
    with open_channel(root) as channel:
        stamp = arrivals.read_stamp(channel.folder)
        assert stamp
        stamp.listed -= seconds * 1_000_000_000
        arrivals.append(channel.folder, stamp, [])


LONG_AGO = 1_700_000_000_123_456_789


def test_frozen_times_are_noticed_and_then_every_look_lists(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    Folders(monkeypatch, lambda changed: LONG_AGO)
    root.post("alice", "one")
    assert not is_believed(root)
    for number in (2, 3):
        root.put(number, f"body {number}")
        assert f"body {number}" in root.ok("read", "c", "--as", "bob").out


def test_frozen_times_that_nobody_noticed_hide_a_message_for_a_minute_at_most(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    Folders(monkeypatch, lambda changed: LONG_AGO)
    root.ok("read", "c", "--as", "bob")
    root.put(1, "one")
    was_listed_earlier(root, 61)
    assert "one" in root.ok("read", "c", "--as", "bob").out


@pytest.mark.parametrize("told", [lambda changed: LONG_AGO, lambda changed: changed // 2_000_000_000 * 2_000_000_000])
def test_a_waiter_sees_a_message_within_seconds_whatever_the_folder_times_are(
    root: Root, monkeypatch: pytest.MonkeyPatch, told: Any
) -> None:
    import threading

    Folders(monkeypatch, told)
    root.ok("read", "c", "--as", "bob")
    started = time.monotonic()
    writer = threading.Timer(0.2, root.put, (1, "woken"))
    writer.start()
    assert "woken" in root.ok("wait", "c", "--as", "bob", "--timeout", "30").out
    writer.join()
    assert time.monotonic() - started < 15


def test_times_in_steps_of_two_seconds_are_believed_only_when_a_step_is_over(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    Folders(monkeypatch, lambda changed: changed // 2_000_000_000 * 2_000_000_000)
    for number in range(1, 6):
        root.put(number, f"body {number}")
        time.sleep(PAUSE)
        assert f"body {number}" in root.ok("read", "c", "--as", "bob").out
    assert not is_believed(root)


def test_what_comes_in_the_tick_in_which_the_folder_was_listed_is_seen_after_it(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted(root)
    noted(root)
    now = [time.time_ns()]
    began = now[0]
    monkeypatch.setattr(log.Log, "_now", lambda _: now[0])
    Folders(monkeypatch, lambda changed: began)
    now[0] += 1_000_000
    root.put(1, "body 1")
    assert "body 1" in root.ok("read", "c", "--as", "bob").out
    root.put(2, "body 2")
    now[0] += 1_000_000_000
    assert "body 2" in root.ok("read", "c", "--as", "bob").out


def test_who_looks_again_after_the_tick_takes_what_the_index_knows_until_then(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.post()
    noted(root)
    noted(root)
    root.post()
    monkeypatch.setattr(log.Log, "_now", lambda here: here.folder.stamp()[0] + 1_000_000)
    with open_channel(root) as channel:
        assert channel.log.glance() is None
        channel.log.looks_again = True
        here = channel.log.glance()
        assert here and here.last == 2
        root.put(3)
        assert channel.log.glance() is None, "not once the folder changed again"


def test_times_that_go_back_are_another_time(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [LONG_AGO]
    Folders(monkeypatch, lambda changed: now[0])
    for number in range(1, 5):
        root.ok("read", "c", "--as", "bob")
        root.put(number, f"body {number}")
        now[0] -= 3_000_000_001
        assert f"body {number}" in root.ok("read", "c", "--as", "bob").out


def test_a_time_in_the_future_is_never_believed(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    Folders(monkeypatch, lambda changed: LONG_AGO * 2)
    for number in range(1, 4):
        root.put(number, f"body {number}")
        assert f"body {number}" in root.ok("read", "c", "--as", "bob").out
        assert not is_believed(root)


# ---- what a line says ------------------------------------------------------------------------------


def test_an_entry_says_what_its_message_says(root: Root) -> None:
    root.post("alice", "a\\tb \\ c", "b", "--to", "bob,carol", "--status", "to\\do")
    time.sleep(PAUSE)
    with open_channel(root) as channel:
        (entry,) = channel.log.look().above(0)
        message = channel.log.message(entry.name)
    assert message
    assert (entry.name, entry.number, entry.sender, entry.to) == (message.name, 1, "alice", "bob,carol")
    assert (entry.status, entry.topic, entry.ts) == ("to\\do", "general", message.ts)
    assert entry.recipients == {"bob", "carol"}
    assert entry.size == len((root.folder() / entry.name).read_bytes()) and entry.about == ""


def test_an_entry_is_news_for_whom_it_names_but_never_for_its_sender(root: Root) -> None:
    for number, to in enumerate(("Bob", "all", "alice"), 1):
        root.put(number, sender="Alice", to=to, name=f"{number:04d}-x.md")
    with open_channel(root) as channel:
        to_bob, to_all, to_herself = channel.log.look().above(0)
    assert [to_bob.is_news(name) for name in ("bob", "BOB", "carol", "alice")] == [True, True, False, False]
    assert [to_all.is_news(name) for name in ("bob", "carol", "ALICE")] == [True, True, False]
    assert not to_herself.is_news("alice")


def test_any_text_survives_the_index() -> None:
    hypothesis = pytest.importorskip("hypothesis")
    texts = hypothesis.strategies.text(hypothesis.strategies.sampled_from("\\tn\t\n\0a\u2028 é"), max_size=12)

    @hypothesis.given(texts)
    def survives(text: str) -> None:
        written = arrivals._escaped(text)
        assert "\t" not in written and "\n" not in written
        assert arrivals._unescaped(written) == text

    survives()


def test_many_messages_that_nobody_has_noted_are_opened_once_even_by_those_who_only_look(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 101):
        root.put(number)
    opened: list[str] = []
    real = disk.Folder.read

    def read(folder: disk.Folder, name: str, *rest: int, **more: int) -> bytes:
        opened.extend([name] * (names.message_number(name) > 0))
        return real(folder, name, *rest, **more)

    monkeypatch.setattr(disk.Folder, "read", read)
    root.ok("channels")
    assert len(set(opened)) == 100
    time.sleep(PAUSE)
    opened.clear()
    root.ok("peek", "c", "-n", "2")
    root.ok("channels")
    assert len(opened) <= 4
