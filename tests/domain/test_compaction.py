"""state.md: written whole or kept, with its message or without; --strict names the first damage of any source."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from board import Interrupted, do, edit, make, write
from locked import lock
from support import Root, make_root, open_channel

from agent_chat import clock, compaction, state

QUICK = {"AGENT_CHAT_FSYNC": "0"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A leased task and one that waits for it, a lock, an event, a cursor."""
    root = make_root(tmp_path)
    root.post(title="Decision: files", **QUICK)
    make(root, "T-1", "--acceptance", "works")
    make(root, "T-2", "--depends-on", "T-1")
    do(root, "claim", "T-1", "bob")
    lock(root, "src/a.py")
    root.ok("event", "post", "c", "--from", "alice", "--type", "capability", "--harness", "h", **QUICK)
    root.ok("read", "c", "--as", "bob", **QUICK)
    return root


def sources(root: Root) -> dict[str, bytes]:
    """Every file but what is derived."""
    derived = {"state.md", ".index", ".tmp", ".numbers", ".lock", ".waiters"}
    found = [path for path in root.folder().rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in found if path.relative_to(root.folder()).parts[0] not in derived}


# ---- state.md ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["compact", "c"], ["state", "c", "--write"], ["state", "c", "--save"]])
def test_it_holds_what_state_prints_and_nothing_else_changes(root: Root, words: list[str]) -> None:
    before, shown = sources(root), root.ok("state", "c").out
    assert not (root.folder() / "state.md").exists()
    root.ok(*words, "--no-audit", **QUICK)
    assert (root.folder() / "state.md").read_text("utf-8") == shown and sources(root) == before
    assert sorted(path.name for path in (root.folder() / ".tmp").iterdir()) == []


def test_its_message_counts_what_is_in_it(root: Root) -> None:
    root.ok("compact", "c", "--as", "carol", **QUICK)
    message = root.messages()[-1]
    body = json.loads(message.body)
    assert (message.sender, message.status, message.title) == ("carol", "state.compacted", "state.compacted")
    assert clock.parse_stamp(body.pop("compacted_at"))
    counts = {"open_tasks_count": 2, "path_locks_count": 1, "decisions_count": 1, "blockers_count": 1}
    assert body == {"channel": "c", "event": "state.compacted", "last_seq": message.number - 1, **counts}
    assert "concerns" not in message.header, "it wakes nobody"


def test_without_a_name_the_program_itself_wrote_it(root: Root) -> None:
    root.ok("compact", "c", **QUICK)
    assert root.messages()[-1].sender == "system"
    root.ok("compact", "c", AGENT_CHAT_NAME="dave", **QUICK)
    assert root.messages()[-1].sender == "dave"


def test_its_message_and_the_file_itself_leave_the_summary_as_it_is(root: Root) -> None:
    root.ok("compact", "c", **QUICK)
    first = (root.folder() / "state.md").read_text()
    root.ok("compact", "c", **QUICK)
    second = (root.folder() / "state.md").read_text()
    number = root.messages()[-1].number
    assert first.replace(f"#{number - 2:04d}", f"#{number - 1:04d}") == second


@pytest.mark.parametrize(
    "make_odd", [lambda path: path.mkdir(), lambda path: path.symlink_to("/etc/hostname"), os.mkfifo]
)
def test_what_is_no_file_in_its_place_stays_and_nothing_is_published(
    root: Root, make_odd: Callable[[Path], object]
) -> None:
    make_odd(root.folder() / "state.md")
    before = root.names()
    root.refused("STATE_IO_ERROR", "compact", "c")
    assert root.names() == before
    root.ok("state", "c")


def test_when_its_message_fails_the_old_file_is_put_back(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*names: object, **folders: object) -> None:
        raise OSError(28, "No space left on device")

    root.ok("compact", "c", "--no-audit", **QUICK)
    old = (root.folder() / "state.md").read_bytes()
    root.post(**QUICK)
    before = root.names()
    monkeypatch.setattr(os, "link", fail)
    root.refused("STATE_AUDIT_FAILED", "compact", "c")
    assert (root.folder() / "state.md").read_bytes() == old and root.names() == before
    (root.folder() / "state.md").unlink()
    root.refused("STATE_AUDIT_FAILED", "compact", "c")
    assert not (root.folder() / "state.md").exists()


def test_its_message_takes_the_next_number_when_a_file_of_its_name_came_first(root: Root) -> None:
    with open_channel(root) as channel:
        channel.log.take_number()
    root.ok("compact", "c", **QUICK)
    assert root.messages()[-1].status == "state.compacted" and len({m.number for m in root.messages()}) == len(
        root.names()
    )


@pytest.mark.parametrize("words, code", [(["nope"], "STATE_CHANNEL_NOT_FOUND"), (["a/b"], "STATE_INVALID_CHANNEL")])
@pytest.mark.parametrize("command", ["state", "compact"])
def test_no_channel(root: Root, command: str, words: list[str], code: str) -> None:
    root.refused(code, command, *words)


# ---- --strict ------------------------------------------------------------------------------------------------


def put_event(root: Root, body: str) -> None:
    path = root.put(90, body)
    path.write_text(path.read_text().replace("status: discussion", "status: event.status"))


def age(path: Path) -> None:
    os.utime(path, (1_700_000_000, 1_700_000_000))


def half_message(root: Root) -> None:
    path = root.folder() / "0091-alice-x.md"
    path.write_text("---\nseq: 91")
    age(path)


def message_that_is_a_link(root: Root) -> None:
    (root.folder() / "0091-alice-x.md").symlink_to(root.folder() / root.names()[0])


def unreadable(path: str, text: str | bytes = "{") -> Callable[[Root], object]:
    return lambda root: write(root.folder() / path, text)


def linked(path: str) -> Callable[[Root], object]:
    return lambda root: (root.folder() / path).symlink_to("/etc/hostname")


EXPIRED = "2020-01-01T00:00:00+00:00"
DAMAGE: dict[str, tuple[str, Callable[[Root], object]]] = {
    "a half message": ("STATE_MALFORMED_SOURCE", half_message),
    "a message that is a link": ("STATE_MALFORMED_SOURCE", message_that_is_a_link),
    "a task that is no JSON": ("STATE_MALFORMED_SOURCE", unreadable("tasks/T-9.json")),
    "a task that is no UTF-8": ("STATE_MALFORMED_SOURCE", unreadable("tasks/T-9.json", b"\xff")),
    "a task that is a link": ("STATE_MALFORMED_SOURCE", linked("tasks/T-9.json")),
    "a task with a key too many": ("STATE_INVALID_RECORD", lambda root: edit(root, "tasks/T-2.json", more=1)),
    "a task with a key too few": ("STATE_INVALID_RECORD", lambda root: edit(root, "tasks/T-2.json", title=...)),
    "a task of another channel": ("STATE_INVALID_RECORD", lambda root: edit(root, "tasks/T-2.json", channel="d")),
    "a claim that is no JSON": ("STATE_MALFORMED_SOURCE", unreadable("claims/T-2.bob.json")),
    "a claim with a wrong value": (
        "STATE_INVALID_RECORD",
        lambda root: edit(root, "claims/T-1.bob.json", lease_expires_at="soon"),
    ),
    "a lease that does not agree": (
        "STATE_INVALID_RECORD",
        lambda root: edit(root, "claims/T-1.bob.json", lease_expires_at=EXPIRED),
    ),
    "a lease without its claim": (
        "STATE_INVALID_RECORD",
        lambda root: (root.folder() / "claims/T-1.bob.json").unlink(),
    ),
    "a claim without its task": ("STATE_RECORD_NOT_FOUND", lambda root: (root.folder() / "tasks/T-1.json").unlink()),
    "a dependency that is gone": (
        "STATE_RECORD_NOT_FOUND",
        lambda root: edit(root, "tasks/T-2.json", depends_on=["T-7"]),
    ),
    "a lock that is no JSON": ("STATE_MALFORMED_SOURCE", unreadable(f"locks/{'0' * 32}.json")),
    "a lock that is wrong": ("STATE_INVALID_RECORD", unreadable(f"locks/{'0' * 32}.json", "{}")),
    "an event that is no JSON": ("STATE_MALFORMED_SOURCE", lambda root: put_event(root, "no event")),
    "an event that is wrong": ("STATE_INVALID_RECORD", lambda root: put_event(root, "{}")),
    "a cursor that is no number": ("STATE_INVALID_RECORD", unreadable(".cursors/bob.txt", "garbage")),
    "a cursor that is a link": ("STATE_MALFORMED_SOURCE", linked(".cursors/carol.txt")),
    "a _meta.json that is no JSON": ("STATE_MALFORMED_SOURCE", unreadable("_meta.json")),
    "a pending transaction": (
        "STATE_INVALID_RECORD",
        lambda root: Interrupted(root, "task", "create", "c", "T-5", "--from", "alice", "--title", "t").leave("half"),
    ),
    "a damaged journal": ("STATE_INVALID_RECORD", unreadable(".journal/path.json")),
    "a link in place of tasks": ("STATE_MALFORMED_SOURCE", lambda root: link_folder(root, "tasks")),
    "a link in place of claims": ("STATE_MALFORMED_SOURCE", lambda root: link_folder(root, "claims")),
    "a file in place of locks": ("STATE_MALFORMED_SOURCE", lambda root: file_for_folder(root, "locks")),
    "a link in place of cursors": ("STATE_MALFORMED_SOURCE", lambda root: link_folder(root, ".cursors")),
}


def link_folder(root: Root, name: str) -> None:
    (root.folder() / name).rename(root.path / f"{name}-moved")
    (root.folder() / name).symlink_to(root.path / f"{name}-moved")


def file_for_folder(root: Root, name: str) -> None:
    (root.folder() / name).rename(root.path / f"{name}-moved")
    (root.folder() / name).write_text("")


@pytest.mark.parametrize("what", DAMAGE)
def test_strict_names_the_first_damage(root: Root, what: str) -> None:
    code, damage = DAMAGE[what]
    damage(root)
    for words in (["state", "c", "--strict"], ["compact", "c", "--strict"]):
        root.refused(code, *words)
    assert not (root.folder() / "state.md").exists()


@pytest.mark.parametrize("what", sorted(set(DAMAGE) - {"a _meta.json that is no JSON"}))
def test_without_strict_the_rest_is_shown(root: Root, what: str) -> None:
    DAMAGE[what][1](root)
    assert "**Decision: files**" in root.ok("state", "c").out


def test_strict_takes_sound_sources_and_says_the_same(root: Root) -> None:
    (root.folder() / "0091-alice-x.md").write_text("---\nseq: 91")  # still on its way
    assert root.ok("state", "c", "--strict").out == root.ok("state", "c").out
    root.ok("compact", "c", "--strict", **QUICK)


def test_a_refusal_of_strict_names_doctor(root: Root) -> None:
    DAMAGE["a task that is no JSON"][1](root)
    assert " doctor c" in root.run("state", "c", "--strict").err.rpartition("next: ")[2]


def test_compaction_reads_under_its_own_lock(root: Root) -> None:
    """Taking the channel's lock for the reading as well would wait for itself."""
    with open_channel(root) as channel:

        def derived(look: Any) -> tuple[dict[str, object], bytes]:
            summary = state.derive(channel, look)
            return summary, b"x"

        summary = compaction.compact(channel, "alice", derived, audit=False)
    assert len(summary["open_tasks"]) == 2 and (root.folder() / "state.md").read_bytes() == b"x"
