"""Every code of the table in protocol.md, section 10: produced by a real input or a hand-damaged file."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from board import LONG_AGO, QUICK, assert_one_line, edit, everything, following, refused, write
from locked import damaged, file_of, held, lock, lock_expired, make_workspace, records
from support import REPOSITORY, Result, Root, make_root, open_channel

from agent_chat import names
from agent_chat.storage import oslock

# The table as the protocol has it, and PATH_LOCK_CHANGED of section 7.
CODES = set(
    """PATH_LOCK_INVALID_PATH
    PATH_LOCK_PATH_OUTSIDE_WORKSPACE PATH_LOCK_CONFLICT PATH_LOCK_RECOVERY_REQUIRED
    PATH_LOCK_OWNER_MISMATCH PATH_LOCK_NOT_FOUND PATH_LOCK_NOT_STALE PATH_LOCK_INVALID_OWNER
    PATH_LOCK_INVALID_LOCK_ID PATH_LOCK_INVALID_CHANNEL PATH_LOCK_CHANNEL_NOT_FOUND
    PATH_LOCK_INVALID_REASON PATH_LOCK_INVALID_DURATION PATH_LOCK_INVALID_TIMESTAMP
    PATH_LOCK_INVALID_RECORD PATH_LOCK_STORAGE_INVALID PATH_LOCK_STORAGE_ERROR PATH_LOCK_TIMEOUT
    PATH_LOCK_TRANSACTION_PENDING PATH_LOCK_TRANSACTION_CLEANUP_FAILED
    PATH_LOCK_TRANSACTION_INVALID PATH_LOCK_AUDIT_FAILED PATH_LOCK_AUDIT_ROLLBACK_FAILED
    PATH_LOCK_CHANGED""".split()
)
MADE_BELOW = set(
    """PATH_LOCK_TIMEOUT PATH_LOCK_STORAGE_ERROR PATH_LOCK_AUDIT_FAILED PATH_LOCK_AUDIT_ROLLBACK_FAILED
    PATH_LOCK_TRANSACTION_CLEANUP_FAILED PATH_LOCK_CHANGED""".split()
)

Damage = Callable[[Root], object]
ID = "0" * 32
PENDING = ["recover-pending", "c", "--as", "bob"]


def words(verb: str, *paths: str, who: str = "bob", more: tuple[str, ...] = ()) -> list[str]:
    """`VERB c --as bob ... -- PATHS`"""
    more = ("--reason", "r", *more) if verb == "recover" and "--reason" not in more else more
    return [verb, "c", "--as", who, *more, "--", *paths]


CHECK, LOCK = words("check", "free"), words("lock", "free")


def each(*paths: str) -> list[tuple[Damage, list[str]]]:
    """These paths, typed to every command that takes one."""
    verbs = ("check", "lock", "unlock", "renew-lock", "recover")
    return [(nothing, words(verb, path, who="alice")) for path in paths for verb in verbs]


def nothing(root: Root) -> None:
    """alice holds src/a.py and docs, dave held old.py."""


def the_lock(root: Root) -> dict[str, Any]:
    return next(one for one in held(root) if one["owner"] == "alice")


def record_has(**changes: Any) -> Damage:
    return lambda root: edit(root, f"locks/{the_lock(root)['lock_id']}.json", **changes)


def path_has(**changes: str) -> Damage:
    return lambda root: record_has(paths=[{**the_lock(root)["paths"][0], **changes}])(root)


def record_is(data: str | bytes) -> Damage:
    return lambda root: write(file_of(root, the_lock(root)), data)


def record_is_folder(root: Root) -> None:
    path = file_of(root, the_lock(root))
    path.unlink()
    path.mkdir()
    write(path / "inside", "kept")


def record_is_link(root: Root) -> None:
    path = file_of(root, the_lock(root))
    write(root.path / "outside.json", path.read_bytes())
    path.unlink()
    path.symlink_to(root.path / "outside.json")


def record_is_pipe(root: Root) -> None:
    path = file_of(root, the_lock(root))
    path.unlink()
    os.mkfifo(path)


def named(name: str, text: str = "{}") -> Damage:
    return lambda root: write(root.folder() / "locks" / name, text)


def folder_is_link(root: Root) -> None:
    (root.folder() / "locks").rename(root.path / "elsewhere")
    (root.folder() / "locks").symlink_to(root.path / "elsewhere")


def journal_is(text: str) -> Damage:
    return lambda root: write(root.folder() / ".journal/path.json", text)


def marker(**changes: Any) -> Damage:
    """The journal of an `unlock` of agent-chat-plugin 0.7.5."""
    found = {"version": 1, "actor": "alice", "operation": "unlock", "event": "path.lock.unlocked", "phase": "applied"}
    found.update({"target": f"{ID}.json", "before": None, "after": None, "transaction_id": "1" * 32})
    data = {key: value for key, value in {**found, **changes}.items() if value is not ...}
    return lambda root: write(root.folder() / "locks/.path-lock-transaction.json", json.dumps(data))


BAD_PATHS = ["", "a\nb", "a\x01b", "a\x7f", "C:/x", "a:b", "a/../b", "a/..", "con", "src/NUL.txt", "x.", "a /b", "a\\b"]
BAD_RECORDS = ["", "{", "[]", "nul", "{}", '{"owner": NaN}', '{"owner": 1, "owner": 2}', b"\xff", "[" * 100_000]
ALL = ("check", "lock", "unlock", "renew-lock", "recover")
CHANGING = ALL[1:]

# code -> the ways in which it comes about: what is there, and the command
REFUSALS: dict[str, list[tuple[Damage, list[str]]]] = {
    "PATH_LOCK_INVALID_PATH": [
        *each(*BAD_PATHS),
        (nothing, [*words("check", "free")[:4], "--workspace", "/nowhere/at/all", "--", "free"]),
        (path_has(normalized_path=""), CHECK),
        (path_has(normalized_path="/etc"), CHECK),
        (path_has(normalized_path="a/../../b"), LOCK),
        (path_has(kind="socket"), CHECK),
    ],
    "PATH_LOCK_PATH_OUTSIDE_WORKSPACE": each("/etc/passwd", "../x", "./../x", "out/x"),
    "PATH_LOCK_CONFLICT": [
        *((nothing, words("lock", path)) for path in ("src/a.py", "src", ".", "src/*", "**/a.py", "docs/x", "./docs")),
        (nothing, words("lock", "docs", who="alice")),
        (nothing, words("lock", "free", "src/a.py")),
        (nothing, words("lock", "new", "new/x")),
        (nothing, words("lock", "old.py", "src")),
    ],
    "PATH_LOCK_RECOVERY_REQUIRED": [
        (nothing, words("lock", "old.py")),
        (nothing, words("lock", "old.py", who="dave")),
        (nothing, words("lock", "free", "*.py")),
        (nothing, words("renew-lock", "old.py", who="dave")),
    ],
    "PATH_LOCK_OWNER_MISMATCH": [(nothing, words(verb, "docs")) for verb in ("unlock", "renew-lock")],
    "PATH_LOCK_NOT_FOUND": [
        (nothing, words(verb, target, who="alice"))
        for verb in ("unlock", "renew-lock", "recover")
        for target in ("src", "docs/x", "nope", ID, "0" * 8, "package.json", f"{ID}.json")
    ],
    "PATH_LOCK_NOT_STALE": [(nothing, words("recover", "docs", who=who)) for who in ("alice", "bob")],
    "PATH_LOCK_INVALID_OWNER": [
        *((nothing, words(verb, "free", who=who)) for verb in ALL for who in ("a b", "all", "../x", "1e5")),
        (record_has(owner="a b"), CHECK),
        (record_has(previous_owner="all"), LOCK),
    ],
    "PATH_LOCK_INVALID_LOCK_ID": [
        (record_has(lock_id="../x"), CHECK),
        (record_has(lock_id=ID), LOCK),
    ],
    "PATH_LOCK_INVALID_CHANNEL": [
        *((nothing, [verb, "../c", "--as", "bob", "x"]) for verb in CHANGING[:3]),
        (nothing, ["locks", ".c"]),
        (nothing, ["recover-pending", "a/b", "--as", "bob"]),
        (record_has(channel="d"), CHECK),
    ],
    "PATH_LOCK_CHANNEL_NOT_FOUND": [
        *((nothing, [verb, "nope", "--as", "bob", "x"]) for verb in CHANGING[:3]),
        (nothing, ["check", "nope", "x"]),
        (nothing, ["locks", "nope"]),
        (nothing, ["recover-pending", "nope", "--as", "bob"]),
    ],
    "PATH_LOCK_INVALID_REASON": [
        (nothing, words("recover", "old.py", more=("--reason", " \t"))),
        (nothing, ["recover", "c", "old.py", "--as", "bob"]),
        (record_has(recovery_reason=" "), CHECK),
    ],
    "PATH_LOCK_INVALID_DURATION": [
        (nothing, words(verb, path, who=who, more=(f"--ttl={text}",)))
        for verb, path, who in (("lock", "free", "bob"), ("renew-lock", "docs", "alice"), ("recover", "old.py", "bob"))
        for text in ("0", "-1", "nan", "inf", "1e999", "x", "", "1e12")
    ],
    "PATH_LOCK_INVALID_TIMESTAMP": [
        *((record_has(expires_at=text), CHECK) for text in ("soon", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z")),
        (record_has(locked_at="2026-01-01"), LOCK),
        (record_has(updated_at=""), ["locks", "c"]),
        (record_has(previous_expires_at="x"), CHECK),
    ],
    "PATH_LOCK_INVALID_RECORD": [
        *((record_is(data), CHECK) for data in BAD_RECORDS),
        (record_is("{"), ["locks", "c"]),
        (record_is("{"), words("unlock", "docs", who="alice")),
        (record_has(surprise=1), LOCK),
        (record_has(owner=...), CHECK),
        (record_has(owner=None), CHECK),
        (record_has(paths=[]), CHECK),
        (record_has(paths={}), CHECK),
        (record_has(paths=[{"kind": "file"}]), CHECK),
        (record_has(paths=[{"kind": "file", "display_path": 1, "normalized_path": "a"}]), CHECK),
        (named("notes.json"), CHECK),
    ],
    "PATH_LOCK_STORAGE_INVALID": [
        *((damage, use) for damage in (record_is_folder, record_is_link, record_is_pipe) for use in (CHECK, LOCK)),
        (folder_is_link, CHECK),
    ],
    "PATH_LOCK_TRANSACTION_PENDING": [
        *((marker(), words(verb, "docs")) for verb in ALL),
        (marker(), [*PENDING, "--discard-journal", "--reason", "r"]),
    ],
    "PATH_LOCK_TRANSACTION_INVALID": [
        (marker(version=2), PENDING),
        (marker(target="../x.json"), CHECK),
        (marker(transaction_id=...), LOCK),
        (journal_is("{"), LOCK),
        (journal_is("{}"), CHECK),
        (journal_is("{"), PENDING),
        # what it would settle is neither as before nor as after the change
        (lambda root: [marker(target=f"{the_lock(root)['lock_id']}.json")(root)], PENDING),
    ],
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    root = make_root(tmp_path)
    work = make_workspace(tmp_path)
    monkeypatch.chdir(work)
    (work / "out").symlink_to(tmp_path)
    lock(root, "src/a.py", "docs")
    lock_expired(root, "old.py", who="dave")
    return root


CASES = [(code, *way) for code, ways in REFUSALS.items() for way in ways]


@pytest.mark.parametrize("code, damage, command", CASES, ids=[f"{code}-{at}" for at, (code, *_) in enumerate(CASES)])
def test_it_is_refused_with_its_code_and_nothing_changes(
    root: Root, code: str, damage: Damage, command: list[str]
) -> None:
    damage(root)
    refused(root, code, *command)
    before = everything(root)
    at = command.index("--") if "--" in command else len(command)
    found = root.run(*command[:at], "--json", *command[at:], **QUICK)
    error = json.loads(found.err)["error"]
    assert (error["code"], found.out, found.status) == (code, "", 2), found
    assert set(error) == {"code", "message", "next", "details"} and len(found.err.splitlines()) == 1
    assert everything(root) == before


def test_every_code_of_the_table_is_made_and_there_is_no_other(root: Root) -> None:
    assert {*REFUSALS} | MADE_BELOW == CODES
    files = [path for path in (REPOSITORY / "agent_chat").rglob("*.py") if path.name != "doctor.py"]  # its findings
    text = "\n".join(path.read_text("utf-8") for path in files)
    written = set(re.findall(r"PATH_LOCK_[A-Z]+(?:_[A-Z]+)*", text))
    assert written <= {*CODES, "PATH_LOCK_TRANSACTION_NOT_FOUND"}, "an unknown code (that one is caught: exit 0)"


# ---- every damaged record closes the family, is named, and has one way out ----------------------------------

DAMAGES = [damage for damage, _ in REFUSALS["PATH_LOCK_INVALID_RECORD"]]
DAMAGES += [record_is_folder, record_is_link, record_is_pipe, record_has(owner="a b"), path_has(kind="socket")]
DAMAGES += [named("-x.json"), named("we ird.json"), named("x" * 180 + ".json"), named("a.b.json", "[]")]


@pytest.mark.parametrize("damage", DAMAGES, ids=range(len(DAMAGES)))
def test_a_damaged_record_is_cleared_by_the_one_command_that_is_named(root: Root, damage: Damage) -> None:
    damage(root)
    told = json.loads(root.run("check", "c", "free", "--json").err)["error"]["details"]["file"]
    path = root.folder() / told
    kept = path.read_bytes() if path.is_file() and not path.is_symlink() else os.lstat(path).st_ino
    for command in (CHECK, ["locks", "c"], LOCK):
        found = root.run(*command, **QUICK)
        assert found.status == 2 and path.name in found.err and len(found.err.splitlines()) == 1, found
        clear = following(found)
        assert clear[:2] == ["recover", "c"] and path.name in clear, clear
    assert "bob" in clear
    assert root.ok(*clear, **QUICK).out.startswith("put the damaged record aside: c/locks/.damaged/")
    assert not os.path.lexists(path)
    (aside,) = damaged(root)
    assert names.is_record(aside.name), "a name that a journal takes"
    assert (aside.read_bytes() if isinstance(kept, bytes) else os.lstat(aside).st_ino) == kept
    assert root.ok(*CHECK).out == "available\n"
    last = root.messages()[-1]
    assert (last.status, last.sender) == ("path.lock.recovered", "bob")
    assert json.loads(last.body)["put_aside"] == f"locks/.damaged/{aside.name}"


def test_a_sound_record_is_never_put_aside(root: Root) -> None:
    before = records(root)
    refused(root, "PATH_LOCK_NOT_FOUND", "recover", "c", f"{the_lock(root)['lock_id']}.json", "--as", "b", "--reason=r")
    assert records(root) == before and not damaged(root)


def test_a_path_that_ends_like_a_record_is_a_path(root: Root) -> None:
    lock_expired(root, "package.json")
    assert "package.json" in root.ok("recover", "c", "package.json", "--as", "bob", "--reason", "r", **QUICK).out


def test_one_damaged_record_stops_neither_the_other_families_nor_unlock_by_id(root: Root) -> None:
    mine = lock(root, "mine", who="bob")["lock_id"]
    record_is("{")(root)
    root.post()
    root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t")
    root.ok("unlock", "c", mine, "--as", "bob")


# ---- what only a disk or another process brings about -------------------------------------------------------


def test_a_lock_that_is_held_ends_in_a_timeout(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = oslock.hold
    monkeypatch.setattr(
        oslock, "hold", lambda folder, name, who, seconds=0.0, shared=False: hold(folder, name, who, 0.05, shared)
    )
    with open_channel(root) as channel, channel.exclusive("mallory"):
        for command in (CHECK, LOCK, words("unlock", "docs", who="alice"), PENDING):
            found = refused(root, "PATH_LOCK_TIMEOUT", *command)
            assert "mallory" in found.err
        assert "docs" in root.ok("locks", "c").out, "reading goes on"
    root.ok(*LOCK)


def faulty(
    root: Root, command: list[str], act: Callable[[Any], Any], only: list[str], at: int = 1, forever: bool = False
) -> Result:
    faults = (
        pytest.importorskip("faults") if hasattr(os, "fork") else pytest.skip("faults are put into forked children")
    )
    return faults.run(root, command, faults.Fault(act(faults), at, only, forever))


def failing(number: int) -> Callable[[Any], Any]:
    return lambda faults: faults.fail(number)


def failing_at(part: str, number: int = errno.EIO) -> Callable[[Any], Any]:
    """Calls fail that are about a path with `part` in it."""

    def act(faults: Any) -> Any:
        return lambda call: faults.fail(number)(call) if part in call.where[0] else call.go()

    return act


UNLOCK, RENEW = words("unlock", "docs", who="alice"), words("renew-lock", "docs", who="alice")
RECOVER = words("recover", "old.py")
EVERY_CHANGE = pytest.mark.parametrize("command", [LOCK, UNLOCK, RENEW, RECOVER], ids=lambda command: command[0])


@EVERY_CHANGE
def test_a_full_disk_is_a_storage_error(root: Root, command: list[str]) -> None:
    before = everything(root)
    found = faulty(root, command, failing(errno.ENOSPC), ["write"], at=2, forever=True)
    assert_one_line(found, "PATH_LOCK_STORAGE_ERROR")
    following(found)
    assert everything(root) == before


def test_a_record_that_the_disk_does_not_give_is_named_with_what_clears_it(root: Root) -> None:
    name = file_of(root, the_lock(root)).name
    for command in (CHECK, LOCK, ["locks", "c"]):
        found = faulty(root, command, failing_at(name), ["open"], forever=True)
        assert_one_line(found, "PATH_LOCK_STORAGE_ERROR")
        assert name in found.err and "recover c " + name in found.err
    # Nor can its bytes be had for a journal, so it is renamed.
    clear = ["recover", "c", name, "--as", "bob", "--reason", "r"]
    assert faulty(root, clear, failing_at(name), ["open"], forever=True).status == 0
    assert [json.loads(path.read_bytes())["owner"] for path in damaged(root)] == ["alice"]


def test_a_rename_whose_message_fails_says_where_the_record_lies_now(root: Root) -> None:
    record_is_link(root)
    found = faulty(root, following(root.run(*LOCK)), failing(errno.EIO), ["link"])
    assert_one_line(found, "PATH_LOCK_AUDIT_FAILED")
    assert str(damaged(root)[0].relative_to(root.folder())) in found.err
    root.ok(*LOCK)


@EVERY_CHANGE
def test_a_change_that_cannot_be_published_is_undone(root: Root, command: list[str]) -> None:
    before = everything(root)
    found = faulty(root, command, failing(errno.EIO), ["link"])
    assert_one_line(found, "PATH_LOCK_AUDIT_FAILED")
    following(found)
    assert everything(root) == before


@EVERY_CHANGE
def test_one_that_cannot_be_undone_either_keeps_its_journal(root: Root, command: list[str]) -> None:
    def from_link_on(faults: Any) -> Any:
        is_broken = []

        def act(call: Any) -> Any:
            is_broken.extend([True] if call.name == "link" else [])
            return faults.fail(errno.EIO)(call) if is_broken else call.go()

        return act

    before = records(root)
    found = faulty(root, command, from_link_on, ["link", "replace", "unlink"], forever=True)
    assert_one_line(found, "PATH_LOCK_AUDIT_ROLLBACK_FAILED")
    refused(root, "PATH_LOCK_TRANSACTION_PENDING", *LOCK)
    root.ok(*following(found), **QUICK)
    assert records(root) == before


@EVERY_CHANGE
def test_a_journal_that_cannot_be_removed_leaves_the_change_and_the_journal(root: Root, command: list[str]) -> None:
    before = records(root)
    found = faulty(root, command, failing_at("path.json"), ["unlink"], forever=True)
    assert_one_line(found, "PATH_LOCK_TRANSACTION_CLEANUP_FAILED")
    after = records(root)
    assert after != before and "stands" in found.err
    refused(root, "PATH_LOCK_TRANSACTION_PENDING", *CHECK)
    root.ok(*following(found), **QUICK)
    assert records(root) == after


def test_a_record_that_another_program_changes_meanwhile_is_left_to_it(root: Root) -> None:
    path = file_of(root, the_lock(root))
    edited = path.read_bytes().replace(b'"alice"', b'"eve"')

    def editor(faults: Any) -> Any:
        def act(call: Any) -> Any:
            if call.where[-1].endswith("path.json"):
                path.write_bytes(edited)
            return call.go()

        return act

    found = faulty(root, UNLOCK, editor, ["replace"], forever=True)
    assert_one_line(found, "PATH_LOCK_CHANGED")
    assert following(found) == ["locks", "c"] and path.read_bytes() == edited
    assert root.ok("locks", "c").out.count("owner=eve") == 1


def test_a_clock_far_ahead_made_it_so_it_can_be_recovered_but_not_silently(root: Root) -> None:
    record_has(updated_at="2099-01-01T00:00:00+00:00", expires_at="2099-01-02T00:00:00+00:00")(root)
    found = refused(root, "PATH_LOCK_RECOVERY_REQUIRED", *words("lock", "docs"))
    assert "ahead" in found.err and "is over" not in found.err
    root.ok(*following(found), **QUICK)
    record = next(one for one in held(root) if one["owner"] == "bob")
    assert record["previous_owner"] == "alice" and record["expires_at"] < "2099" and record["expires_at"] > LONG_AGO
