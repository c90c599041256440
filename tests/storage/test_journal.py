"""journal.py: phases read from the disk, settling of every mixture, and what is refused as no journal."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_chat.storage import disk, journal
from agent_chat.storage.journal import Image, Journal

BEFORE, AFTER, OTHER = b"before\n", b"after\n", b"other\n"
MESSAGE = ("0005-a-x.md", b"message\n")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[disk.Folder]:
    with disk.Folder.open(str(tmp_path)) as opened:
        yield opened


def make(*images: Image, message: tuple[str, bytes] | None = MESSAGE, **more: Any) -> Journal:
    return Journal("c", "1" * 32, "event", "alice", {"task_id": "T-1"}, images, message, **more)


def put(path: Path, data: bytes | None) -> None:
    path.parent.mkdir(exist_ok=True)
    if data is not None:
        path.write_bytes(data)


def found(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


# ---- phases ---------------------------------------------------------------------------------------------


def test_the_steps_lead_through_the_phases(folder: disk.Folder, tmp_path: Path) -> None:
    put(tmp_path / "tasks/a.json", BEFORE)
    put(tmp_path / "claims/a.json", BEFORE)
    entry = make(
        Image("tasks/a.json", BEFORE, AFTER), Image("claims/a.json", BEFORE, None), Image("new/b.json", None, b"")
    )
    assert journal.load(folder, "task") is None
    journal.write(folder, "task", entry)
    assert entry.phase(folder) == "prepared" and journal.load(folder, "task") == entry.encode()
    journal.apply(folder, "task", entry)
    assert entry.phase(folder) == "applied" and not entry.is_committed(folder)
    assert [found(tmp_path / name) for name in ("tasks/a.json", "claims/a.json", "new/b.json")] == [AFTER, None, b""]
    folder.publish(*MESSAGE)
    assert entry.phase(folder) == "published" and entry.is_committed(folder)
    journal.remove(folder, "task")
    journal.remove(folder, "task")
    assert journal.load(folder, "task") is None and journal.load(folder, "path") is None


def test_a_mixture_of_before_and_after_is_prepared(folder: disk.Folder, tmp_path: Path) -> None:
    put(tmp_path / "tasks/a.json", AFTER)
    put(tmp_path / "tasks/b.json", BEFORE)
    assert make(Image("tasks/a.json", BEFORE, AFTER), Image("tasks/b.json", BEFORE, AFTER)).phase(folder) == "prepared"


@pytest.mark.parametrize("kind", ["other bytes", "folder", "link", "missing"])
def test_only_exactly_these_bytes_under_the_name_are_committed(folder: disk.Folder, tmp_path: Path, kind: str) -> None:
    name = tmp_path / MESSAGE[0]
    if kind == "other bytes":
        name.write_bytes(MESSAGE[1] + b" ")
    elif kind == "folder":
        name.mkdir()
    elif kind == "link":
        put(tmp_path / "x", MESSAGE[1])
        name.symlink_to("x")
    assert not make().is_committed(folder)


def test_without_records_or_message_it_is_applied_and_never_committed(folder: disk.Folder) -> None:
    assert make(message=None).phase(folder) == "applied" and not make(message=None).is_committed(folder)


@pytest.mark.parametrize("kind", ["other bytes", "gone", "there", "folder", "link"])
def test_a_record_that_another_program_changed_is_left_to_it(folder: disk.Folder, tmp_path: Path, kind: str) -> None:
    put(tmp_path / "tasks/a.json", BEFORE)
    put(tmp_path / "tasks/b.json", BEFORE)
    path = tmp_path / "tasks/b.json"
    before = None if kind == "there" else BEFORE
    if kind != "there":
        path.unlink()
    if kind == "other bytes":
        path.write_bytes(OTHER)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("a.json")
    entry = make(Image("tasks/a.json", BEFORE, AFTER), Image("tasks/b.json", before, AFTER))
    journal.write(folder, "task", entry)
    with pytest.raises(journal.Changed, match=r"tasks/b\.json"):
        journal.apply(folder, "task", entry)
    assert found(tmp_path / "tasks/a.json") == BEFORE and journal.load(folder, "task") is None


# ---- settling ---------------------------------------------------------------------------------------------

STATES = (BEFORE, AFTER, OTHER, None)
# each record of three: one that is changed, one that is made, one that is removed
KINDS = ((BEFORE, AFTER), (None, AFTER), (BEFORE, None))


@pytest.mark.parametrize("want_after", [False, True], ids=["back", "forward"])
@pytest.mark.parametrize("present", list(itertools.product(STATES, repeat=3)), ids=str)
def test_every_mixture_is_settled_or_refused_untouched(
    folder: disk.Folder, tmp_path: Path, present: tuple[bytes | None, ...], want_after: bool
) -> None:
    paths = [tmp_path / f"tasks/{at}.json" for at in range(3)]
    for path, data in zip(paths, present):
        put(path, data)
    entry = make(*(Image(f"tasks/{at}.json", before, after) for at, (before, after) in enumerate(KINDS)))
    wanted = [kind[want_after] for kind in KINDS]
    if all(data in kind for data, kind in zip(present, KINDS)):
        journal.settle(folder, entry, want_after)
        assert list(map(found, paths)) == wanted
        journal.settle(folder, entry, want_after)
        assert list(map(found, paths)) == wanted
        return
    with pytest.raises(journal.Unclear, match="neither as before nor as after event"):
        journal.settle(folder, entry, want_after)
    assert list(map(found, paths)) == list(present), "nothing was written"
    journal.settle(folder, entry, want_after, force="now")
    assert list(map(found, paths)) == wanted
    kept = {path.name: path.read_bytes() for path in (tmp_path / ".journal").glob("*")}
    strange = {at: data for at, (data, kind) in enumerate(zip(present, KINDS)) if data not in kind and data is not None}
    assert kept == {f"tasks.{at}.json.conflict-now": data for at, data in strange.items()}


def test_conflict_copies_of_a_task_and_a_claim_of_one_name_are_two(folder: disk.Folder, tmp_path: Path) -> None:
    for where in ("tasks", "claims"):
        put(tmp_path / where / "a.b.json", where.encode())
    journal.settle(folder, make(Image("tasks/a.b.json", None, None), Image("claims/a.b.json", None, None)), True, "now")
    assert {path.read_bytes() for path in (tmp_path / ".journal").glob("*.conflict-now")} == {b"tasks", b"claims"}


@pytest.mark.parametrize("force", ["", "now"])
def test_what_is_no_file_is_never_settled(folder: disk.Folder, tmp_path: Path, force: str) -> None:
    put(tmp_path / "tasks/a.json", AFTER)
    (tmp_path / "tasks/b.json").mkdir()
    entry = make(Image("tasks/a.json", BEFORE, AFTER), Image("tasks/b.json", None, AFTER))
    with pytest.raises(journal.Unclear, match="is a folder; move it away"):
        journal.settle(folder, entry, False, force)
    assert found(tmp_path / "tasks/a.json") == AFTER


# ---- the bytes --------------------------------------------------------------------------------------------


def is_task(path: str) -> bool:
    return path.startswith("tasks/")


def sound(**changes: Any) -> dict[str, Any]:
    text = make(Image("tasks/a.json", None, b"\xff\0"), recovery=("0006-b-y.md", b"r"), replaces="x").encode()
    return {key: value for key, value in {**json.loads(text), **changes}.items() if value is not ...}


def test_a_journal_is_read_as_it_was_written() -> None:
    found = journal.decode(json.dumps(sound()).encode(), "c", is_task)
    assert json.loads(found.encode()) == sound()
    assert (found.channel, found.id, found.event, found.actor) == ("c", "1" * 32, "event", "alice")
    assert (found.message, found.recovery, found.replaces) == (MESSAGE, ("0006-b-y.md", b"r"), "x")
    assert found.subject == {"task_id": "T-1"}
    (image,) = found.images
    assert (image.path, image.before, image.after) == ("tasks/a.json", None, b"\xff\0")


def record(**changes: Any) -> list[dict[str, Any]]:
    found = {"path": "tasks/a.json", "before": None, "after": None, **changes}
    return [{key: value for key, value in found.items() if value is not ...}]


WRONG: dict[str, list[dict[str, Any]]] = {
    "unknown version": [{"version": 2}, {"version": "1"}, {"version": None}],
    "its fields are not those": [{"surprise": 1}, {"actor": ...}, {"records": ...}],
    "wrong type": [{"event": 1}, {"subject": []}, {"replaces": None}, {"id": {}}, {"actor": None}],
    "belongs to channel 'd'": [{"channel": "d"}],
    "a record is none": [{"records": {}}, {"records": [1]}, {"records": record(path=1)}, {"records": record(after=...)},
                         {"records": record(more=1)}],
    "is no record of this channel": [{"records": record(path="locks/a.json")}],
    "a record stands twice": [{"records": record() * 2}],
    "no base64": [{"records": record(before="%%%")}, {"records": record(after=3)}, {"records": record(after="YQ")},
                  {"message": {"name": "0005-a-x.md", "text": "é"}}],
    "it has no message": [{"message": None, "recovery": None}],
    "a message is none": [{"message": []}, {"recovery": {"name": "0005-a-x.md"}}],
    "no name or text": [{"message": {"name": 5, "text": "YQ=="}}, {"message": {"name": "0005-a-x.md", "text": None}}],
}  # fmt: skip


@pytest.mark.parametrize("why, changes", [(why, one) for why, several in WRONG.items() for one in several])
def test_what_is_no_journal_of_this_channel_is_refused(why: str, changes: dict[str, Any]) -> None:
    with pytest.raises(journal.Invalid, match=why):
        journal.decode(json.dumps(sound(**changes)).encode(), "c", is_task)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b'{"version": 1, "version": 1}', b"[" * 100_000])
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(journal.Invalid):
        journal.decode(data, "c", is_task)


@pytest.mark.parametrize("data", [None, b"", b"\0\xff" * 1000])
def test_an_image_is_packed_without_loss(data: bytes | None) -> None:
    text = None if data is None else base64.b64encode(data).decode()
    assert journal.unpacked(text) == data


# ---- putting aside ----------------------------------------------------------------------------------------


def test_a_damaged_journal_is_put_aside_with_the_reason(folder: disk.Folder, tmp_path: Path) -> None:
    put(tmp_path / ".journal/task.json", b"{")
    path = journal.set_aside(folder, ".journal/task.json", "now", "alice: why")
    assert path == ".journal/.damaged/task.json.now" and (tmp_path / path).read_bytes() == b"{"
    assert (tmp_path / (path + ".why")).read_text() == "alice: why\n"
    assert journal.load(folder, "task") is None
    with pytest.raises(FileNotFoundError):
        journal.set_aside(folder, ".journal/task.json", "now", "alice: why")
