"""The path-lock commands as they are typed: answers, --json, exit statuses, the workspace, linked worktrees."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from board import QUICK, following, refused, write
from locked import check, lock, lock_expired, make_workspace
from support import Root, clean_environment, make_root

from agent_chat import path_locks

DAY = ["--lease-seconds", "86400"]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = make_workspace(tmp_path)
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def root(tmp_path: Path, work: Path) -> Root:
    return make_root(tmp_path)


# ---- answers --------------------------------------------------------------------------------------------


def test_what_each_command_answers(root: Root) -> None:
    first = root.ok("lock", "c", "src/a.py", "docs/", "--as", "alice", *DAY).out.split()
    assert (first[0], first[2], first[4:]) == ("locked", "owner=alice", ["src/a.py,", "docs"])
    lock_id, head = first[1], f"locked {first[1]} owner=alice"
    assert root.ok("renew-lock", "c", "docs", "--as", "alice", *DAY).out.startswith(f"{head} expires=")
    assert root.ok("locks", "c").out.startswith(head) and root.ok("locks", "c").out.endswith(" src/a.py, docs\n")
    assert root.ok("unlock", "c", lock_id, "--as", "alice").out == f"unlocked {lock_id} src/a.py, docs\n"
    assert root.ok("locks", "c").out == "(no locks in 'c')\n"
    old = lock_expired(root, "old.py")
    line = f"locked {old['lock_id']} owner=alice expires={old['expires_at']} expired old.py"
    assert root.ok("locks", "c").out == line + "\n"
    recovered = root.ok("recover", "c", "old.py", "--as", "bob", "--reason", "r").out
    assert recovered.startswith(f"locked {old['lock_id']} owner=bob expires=")


def test_what_each_command_answers_as_json(root: Root) -> None:
    made = root.ok("lock", "c", "a", "--as", "alice", *DAY, "--json").json
    assert set(made) == {"lock"} and set(made["lock"]) == set(path_locks.FIELDS)
    listed = root.ok("locks", "c", "--json").json
    assert listed == {"channel": "c", "locks": [{**made["lock"], "expired": False}]}
    found = root.run("check", "c", "a", "--json")
    assert found.json == {"available": False, "locks": listed["locks"]} and found.status == 3
    assert root.ok("check", "c", "b", "--json").json == {"available": True, "locks": []}
    assert root.ok("renew-lock", "c", "a", "--as", "alice", "--json").json["lock"]["lock_id"] == made["lock"]["lock_id"]
    assert root.ok("unlock", "c", "a", "--as", "alice", "--json").json["lock"]["owner"] == "alice"
    lock_expired(root, "a")
    got = root.ok("recover", "c", "a", "--as", "bob", "--reason", "r", "--json").json
    assert got["lock"]["previous_owner"] == "alice"
    write(root.folder() / "locks/x.json", "{")
    aside = root.ok("recover", "c", "x.json", "--as", "bob", "--reason", "r", "--json").json["put_aside"]
    assert (root.folder() / aside).read_text() == "{"
    assert root.ok("recover-pending", "c", "--as", "bob", "--json").json == {"channel": "c", "event": None}


def test_a_conflict_as_json_names_who_and_until_when(root: Root) -> None:
    record = lock(root, "a")
    found = root.run("lock", "c", "a", "--as", "bob", "--json")
    details = json.loads(found.err)["error"]["details"]
    assert details == {key: record[key] for key in ("lock_id", "owner", "expires_at")}


# ---- check ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_the_exit_status_of_check(root: Root, form: list[str]) -> None:
    lock(root, "mine", who="bob")
    lock(root, "theirs")
    lock_expired(root, "stale")
    lock_expired(root, "lapsed", who="bob")
    for path, who, status in (
        *(("free", "bob", 0), ("mine", "bob", 0), ("mine", "BOB", 0), ("theirs", "bob", 3), ("stale", "bob", 3)),
        *(("lapsed", "bob", 3), ("mine", "", 3), ("*", "bob", 3)),
    ):
        found = root.run("check", "c", path, *(["--as", who] if who else []), *form)
        assert (found.status, found.err) == (status, ""), (path, who, found)
    assert root.run("check", "c", "mine", *form, AGENT_CHAT_NAME="bob").status == 0
    assert root.run("check", "c", "mine", "free", "theirs", "--as", "bob", *form).status == 3
    assert check(root, "*").out.count("locked ") == 4


def test_check_changes_nothing_and_works_where_nothing_can_be_written(root: Root) -> None:
    """Case M24, as far as root may be kept from writing: by a lock file that is not there."""
    lock(root, "a")
    (root.folder() / ".lock").unlink()
    before = {path: path.stat().st_mtime_ns for path in root.folder().rglob("*")}
    assert check(root, "a").status == 3 and check(root, "b").status == 0
    assert {path: path.stat().st_mtime_ns for path in root.folder().rglob("*")} == before


# ---- the workspace ----------------------------------------------------------------------------------------


def test_a_typed_path_is_relative_to_the_workspace(root: Root, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case L17."""
    write(work / "src/main.py", "")
    monkeypatch.chdir(work / "src")
    assert root.ok("lock", "c", "src/main.py", "--as", "alice", *DAY).out.endswith(" src/main.py\n")
    refused(root, "PATH_LOCK_CONFLICT", "lock", "c", "./main.py", "--as", "bob")
    error = refused(root, "PATH_LOCK_INVALID_PATH", "lock", "c", "main.py", "--as", "bob").err
    assert "./main.py" in error and "src/main.py" in error
    refused(root, "PATH_LOCK_CONFLICT", "lock", "c", str(work / "src/main.py"), "--as", "bob")


def test_where_the_workspace_comes_from(root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, outside = tmp_path / "other", tmp_path / "outside"
    other.mkdir()
    outside.mkdir()
    for typed, environment, base in (
        *((["--workspace", str(other)], {"AGENT_CHAT_WORKSPACE": str(outside)}, other),),
        *(([], {"AGENT_CHAT_WORKSPACE": str(other)}, other), ([], {}, tmp_path / "work")),
    ):
        assert root.ok("check", "c", str(base / "x"), *typed, **environment).out == "available\n"
        refused(root, "PATH_LOCK_PATH_OUTSIDE_WORKSPACE", "check", "c", str(base.parent / "x"), *typed, **environment)
    monkeypatch.chdir(outside)
    assert root.ok("check", "c", str(root.folder() / "x")).out == "available\n", "else the channel's folder"
    refused(root, "PATH_LOCK_INVALID_PATH", "check", "c", "x", "--workspace", "")
    refused(root, "PATH_LOCK_INVALID_PATH", "check", "c", "x", AGENT_CHAT_WORKSPACE="nowhere")


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_linked_worktrees_share_the_same_paths(root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    for words in (
        ["init", "-q", str(main)],
        ["-C", str(main), "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
        ["-C", str(main), "worktree", "add", "-q", str(linked)],
    ):
        subprocess.run(["git", *words], check=True, env=clean_environment(), capture_output=True)
    for where in (main, linked):
        (where / "src").mkdir()
    monkeypatch.chdir(main / "src")
    root.ok("lock", "c", "./a.py", "--as", "alice", *DAY, **QUICK)
    monkeypatch.chdir(linked)
    assert check(root, "src/a.py").status == 3
    monkeypatch.chdir(linked / "src")
    words = following(refused(root, "PATH_LOCK_CONFLICT", "lock", "c", str(linked / "src/a.py"), "--as", "bob"))
    assert root.run(*words).status == 3
    refused(root, "PATH_LOCK_PATH_OUTSIDE_WORKSPACE", "check", "c", str(main / "src/a.py"))


# ---- spellings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["--as", "--from", "--owner"])
@pytest.mark.parametrize("length", ["--lease-seconds", "--lease", "--ttl"])
def test_every_spelling_of_an_option(root: Root, who: str, length: str) -> None:
    record = root.ok("lock", "c", "a", who, "alice", length, "60", "--json", **QUICK).json["lock"]
    renewed = root.ok("renew-lock", "c", "a", who, "alice", length, "7200", "--json", **QUICK).json["lock"]
    assert renewed["expires_at"] > record["expires_at"]
    root.ok("unlock", "c", "a", who, "alice", **QUICK)


def test_the_environment_says_who_acts(root: Root) -> None:
    root.ok("lock", "c", "a", AGENT_CHAT_NAME="alice", **QUICK)
    root.ok("unlock", "c", "a", AGENT_CHAT_NAME="alice", **QUICK)
    for verb in ("lock", "unlock", "renew-lock", "recover"):
        refused(root, "USAGE_ERROR", verb, "c", "a")


def test_what_a_terminal_must_not_see_is_shown_escaped(root: Root) -> None:
    lock(root, "a\u202eb")
    assert "\u202e" not in root.ok("locks", "c").out and "a\\u202eb" in root.ok("locks", "c").out
    assert os.linesep not in refused(root, "PATH_LOCK_INVALID_PATH", "check", "c", "a\x1b[2J").err.rstrip("\n")
