"""storage/digests.py: an unchanged record is not opened again, a changed one always."""

from __future__ import annotations

import binascii
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from board import QUICK, do, edit, make
from locked import lock, lock_expired, make_workspace
from support import Result, Root, make_root, open_channel

from agent_chat import guard, task_audit, tasks
from agent_chat.change import Change, View
from agent_chat.log import Log
from agent_chat.storage import digests, disk

TICK = 0.01  # seconds, longer than one of the file system's clock


@pytest.fixture(autouse=True)
def _learn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_SETTLED", 0)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    root = make_root(tmp_path)
    monkeypatch.chdir(make_workspace(tmp_path))
    return root


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The records that were opened."""
    found: list[str] = []
    real = disk.Folder.read

    def read(folder: disk.Folder, name: str, *rest: int, **more: int) -> bytes:
        if name.endswith(".json") and name[0] not in "_." and not folder.path.endswith(".journal"):
            found.append(name)
        return real(folder, name, *rest, **more)

    monkeypatch.setattr(disk.Folder, "read", read)
    return found


def warm(root: Root) -> None:
    time.sleep(TICK)
    root.run("check", "c", "x")
    root.run("check", "c", "x")


def test_unchanged_records_are_not_opened(root: Root, opened: list[str]) -> None:
    for path in ("src/a", "src/b", "docs"):
        lock(root, path)
    warm(root)
    opened.clear()
    assert "owner=alice" in root.run("check", "c", "src/b", "--as", "bob").out
    root.ok("locks", "c")
    assert opened == []


def test_a_task_opens_only_those_that_wait_for_it(root: Root, opened: list[str]) -> None:
    make(root, "T-1")
    for number in range(2, 9):
        make(root, f"T-{number}", *(["--depends-on", "T-1", "--owner", "carol"] if number == 5 else []))
    time.sleep(TICK)
    do(root, "claim", "T-8", "bob")
    opened.clear()
    do(root, "claim", "T-1", "bob")
    assert set(opened) == {"T-1.json", "T-5.json", "T-8.json", "T-1.bob.json"}, "T-8 was just changed"
    assert root.messages()[-1].header["concerns"] == "alice,carol"


@pytest.mark.parametrize("held, wanted", [(".", "src/a"), ("src/a", "."), ("src", "src/a"), ("src/a", "src")])
def test_a_known_lock_of_a_folder_or_in_it_is_met(root: Root, held: str, wanted: str) -> None:
    lock(root, held)
    warm(root)
    assert "owner=alice" in root.run("check", "c", wanted, "--as", "bob").out
    root.refused("PATH_LOCK_CONFLICT", "lock", "c", wanted, "--as", "bob")


def in_place(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"alice"', b'"dave9"'))


def in_place_with_its_old_time(path: Path) -> None:
    found = path.stat()
    in_place(path)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def by_another_file(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes().replace(b'"alice"', b'"dave9"'))
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)


@pytest.mark.parametrize("edit", [in_place, in_place_with_its_old_time, by_another_file])
def test_an_edit_of_the_same_size_is_seen(root: Root, edit: Callable[[Path], None]) -> None:
    name = lock(root, "src/a")["lock_id"]
    warm(root)
    edit(root.folder() / f"locks/{name}.json")
    assert "owner=dave9" in root.run("check", "c", "src/a").out
    root.refused("PATH_LOCK_OWNER_MISMATCH", "unlock", "c", "src/a", "--as", "alice")


def test_what_changed_just_now_is_not_learned(root: Root, opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_SETTLED", 2_000_000_000)
    lock(root, "src/a")
    warm(root)
    opened.clear()
    root.run("check", "c", "src/a")
    assert len(opened) == 1


def test_what_a_journal_says_of_a_record_is_not_learned(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file holds what comes after the change already, and goes on holding it with the same stamp."""
    lock_expired(root, "src/a")
    publish = Log.publish

    def publish_after_a_look(log: Log, name: str, data: bytes) -> None:
        time.sleep(TICK)
        [doubt] = guard.judge(str(root.path), (), "carol", ["src/a"], None, os.getcwd()).doubts
        assert doubt.details["owner"] == "alice", "as before, until it is published"
        publish(log, name, data)

    monkeypatch.setattr(Log, "publish", publish_after_a_look)
    root.ok("recover", "c", "src/a", "--as", "bob", "--reason", "r")
    assert "owner=bob" in root.ok("locks", "c").out
    root.refused("PATH_LOCK_CONFLICT", "lock", "c", "src/a", "--as", "carol")


def test_a_record_that_changed_since_a_change_read_it_is_not_learned(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(root, "T-1", "--owner", "carol")
    make(root, "T-2", "--depends-on", "T-1")
    make(root, "T-3")
    waiters = task_audit.waiters

    def edited_meanwhile(change: Change, task: tasks.Task) -> list[tasks.Task]:
        if task.id == "T-2":
            edit(root, "tasks/T-1.json", depends_on=["T-3"])
            time.sleep(TICK)
        return waiters(change, task)

    monkeypatch.setattr(task_audit, "waiters", edited_meanwhile)
    do(root, "update", "T-2", "bob", "--title", "x")
    do(root, "update", "T-3", "bob", "--title", "x")
    assert "carol" in root.messages()[-1].header["concerns"].split(",")


def test_a_channel_that_was_renamed_has_locks_of_another_channel(root: Root) -> None:
    lock(root, "src/a")
    warm(root)
    root.folder().rename(root.folder("d"))
    root.refused("PATH_LOCK_INVALID_CHANNEL", "check", "d", "src/a")


@pytest.mark.parametrize("seed", range(10))
def test_a_damaged_index_is_no_index(root: Root, seed: int) -> None:
    lock(root, "src/a", "src/b")
    make(root, "T-1")
    warm(root)
    chance = random.Random(seed)
    for path in (root.folder() / ".index").iterdir():
        data = bytearray(path.read_bytes())
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data[: chance.randint(1, len(data))])
    assert "owner=alice" in root.run("check", "c", "src/b", "--as", "bob").out
    do(root, "claim", "T-1", "bob")


A_LOCK = "src/a\tfile\tsrc/a"
FORGED = ["", "c", f"c\t{A_LOCK}", "c" + "\tx" * 8 + f"\t{A_LOCK}", "c" + "\tx" * 9 + f"\t{A_LOCK}", "d" + "\tx" * 11]


@pytest.mark.parametrize("forged", FORGED)
def test_a_digest_that_is_none_is_not_believed(root: Root, forged: str) -> None:
    """With the right checksum: what nobody but this user on this machine could write."""
    lock(root, "src/a")
    warm(root)
    (root.folder() / ".index/locks").unlink()
    with disk.Folder.open(str(root.folder())) as folder, folder.sub("locks") as locks:
        known = digests.Digests(folder, "locks")
        [(name, _)] = known.names(locks, lambda name: True)
        known.learn(name, forged.split("\t"))
        known.save()
        assert digests.Digests(folder, "locks").names(locks, lambda name: True) == [(name, forged)]
    assert "owner=alice" in root.run("check", "c", "src/a", "--as", "bob").out
    assert root.ok("locks", "c").out.count("owner=alice") == 1


@pytest.mark.parametrize("names, words", [(-1, 0), (0, -1), (-1, -1), (1, 0)])
def test_an_index_of_another_number_of_names_or_words_than_it_says_is_not_believed(
    root: Root, names: int, words: int
) -> None:
    """With the right checksums: what anybody may put into a folder that others are to open."""
    lock(root, "src/a", "docs")
    lock(root, "src/b", "lib")
    warm(root)
    path = root.folder() / ".index/locks"
    head, rest = path.read_bytes().split(b" ", 1)[1].split(b"\n", 1)
    listed = [part.split("\n") for part in rest[48:].decode().split("\f")]
    texts = ["\n".join((lines * 2)[: 2 + more]) for lines, more in zip(listed, (names, words))]
    forged = head + b"\n" + rest[:48] + "\f".join(texts).encode()
    path.write_bytes(b"%08x " % binascii.crc32(forged) + forged)
    assert root.ok("locks", "c").out.count("owner=alice") == 2
    root.refused("PATH_LOCK_CONFLICT", "lock", "c", "src/b", "--as", "bob")


def test_digests_that_another_wrote_meanwhile_are_not_believed(root: Root, opened: list[str]) -> None:
    lock(root, "src/a")
    warm(root)
    path = root.folder() / ".index/locks.digests"
    path.write_bytes(path.read_bytes().replace(b"alice", b"carol"))
    opened.clear()
    for opens in (1, 0):
        assert "owner=alice" in root.run("check", "c", "src/a").out
        assert len(opened) == opens
        opened.clear()


def test_nothing_is_known_of_a_folder_that_became_empty(root: Root) -> None:
    lock(root, "src/a")
    warm(root)
    root.ok("unlock", "c", "src/a", "--as", "alice")
    for _ in range(3):
        assert root.ok("check", "c", "src/a").out == "available\n"
    lock(root, "src/a", who="bob")
    warm(root)
    assert "owner=bob" in root.run("check", "c", "src/a").out


def test_a_few_changes_among_many_records_are_read_again_and_not_written(root: Root) -> None:
    with disk.Folder.open(str(root.folder())) as folder:
        records = folder.sub("tasks", create=True)
        for number in range(1000):
            records.replace(f"{number}.json", b"{}", sync=False)

        def look() -> int:
            """How many are unknown."""
            known = digests.Digests(folder, "tasks")
            unknown = [name for name, digest in known.names(records, lambda name: True) if digest is None]
            for name in unknown:
                known.learn(name, ["x"])
            known.save()
            return len(unknown)

        time.sleep(TICK)
        assert [look(), look()] == [1000, 0]
        for few in (1, 3, 4):
            for number in range(few):
                records.replace(f"{number}.json", b"{} ", sync=False)
            time.sleep(TICK)
            assert [look(), look()] == [few, 0 if few == 4 else few]
        for number in range(130):
            records.remove(f"{number}.json")
        size = os.path.getsize(root.folder() / ".index/tasks")
        assert look() == 0 and os.path.getsize(root.folder() / ".index/tasks") < size
        records.close()


# ---- against commands without an index -----------------------------------------------------------------


def answers(root: Root) -> list[tuple[int, str, str]]:
    def plain(result: Result) -> tuple[int, str, str]:
        return result.status, result.out, result.err

    checks = (["check", "c", path, "--as", "bob"] for path in ("src/*", "b", "**", "src/a", "."))
    return [plain(root.run(*words)) for words in (["locks", "c", "--json"], *checks)]


def change_one(root: Root, chance: random.Random) -> None:
    paths = sorted((root.folder() / "locks").glob("[!.]*.json"))
    path = chance.choice(paths) if paths else None
    step = chance.randrange(8)
    if step < 3 or path is None:
        name = chance.choice(["src/a", "src/b", "b", "docs/**", "src", "x/y", "."])
        root.run("lock", "c", name, "--as", chance.choice(["alice", "bob"]), "--lease-seconds", 99, **QUICK)
    elif step == 3:
        in_place(path)
    elif step == 4:
        path.write_bytes(path.read_bytes()[:-2])
    elif step == 5:
        path.unlink()
    elif step == 6:
        path.rename(path.with_name("0" * 32 + ".json"))
    else:
        record = json.loads(path.read_bytes() or b"{}") if path.read_bytes().endswith(b"}\n") else {}
        record["owner"] = chance.choice(["carol", "", "a\tb", 7, None])
        path.write_text(json.dumps(record) + "\n")


@pytest.mark.parametrize("seed", range(6))
def test_every_answer_is_that_of_a_reading_without_an_index(tmp_path: Path, root: Root, whole: bool, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(400 if whole else 40):
        change_one(root, chance)
        time.sleep(0.005)
        found = answers(root)
        index = root.folder() / ".index/locks"
        index.rename(tmp_path / "kept") if index.exists() else None
        assert answers(root) == found
        index.unlink(missing_ok=True)
        (tmp_path / "kept").rename(index) if (tmp_path / "kept").exists() else None


def change_a_task(path: Path, record: dict[str, object], ids: list[str], chance: random.Random) -> None:
    record["depends_on"] = chance.sample([name for name in ids if name != path.stem], chance.randrange(4))
    record["status"] = chance.choice(["open", "in_progress", "done", "cancelled"])
    data = json.dumps(record).encode() if chance.randrange(8) else b"no JSON"
    if chance.randrange(2):
        path.write_bytes(data)
    else:
        path.with_name("other").write_bytes(data)
        path.with_name("other").replace(path)
    time.sleep(0.005)


@pytest.mark.parametrize("seed", range(3))
def test_who_waits_for_a_task_is_told_as_without_an_index(root: Root, whole: bool, seed: int) -> None:
    chance = random.Random(seed)
    ids = [f"T-{number}" for number in range(1, 8)]
    for name in ids:
        make(root, name)

    def wait_for(view: View) -> None:
        for task in tasks.everything(view)[0]:
            low = task.id.lower()
            expected = {
                other.id
                for other in tasks.everything(view)[0]
                if other.status not in tasks.FINAL and low in [one.lower() for one in other.depends_on]
            }
            assert {other.id for other in task_audit.waiters(view, task)} == expected

    paths = [root.folder() / f"tasks/{name}.json" for name in ids]
    recorded = [(path, json.loads(path.read_bytes())) for path in paths]
    with open_channel(root) as channel:
        for _ in range(300 if whole else 30):
            change_a_task(*chance.choice(recorded), ids, chance)
            channel.look("task", wait_for)
