"""guard pre-commit and guard install, with a real git."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from board import QUICK, write
from locked import lock, lock_expired
from support import CHAT, REPOSITORY, Root, clean_environment, make_root

pytestmark = pytest.mark.skipif(not shutil.which("git") or sys.platform == "win32", reason="needs git and sh")
BOB = {"AGENT_CHAT_NAME": "bob"}


class Repository:
    """A git repository, and git in it as an agent of a name would run it."""

    def __init__(self, path: Path, root: Root) -> None:
        self.path, self.root = path, root

    def git(self, *words: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        extra = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **environment}
        for who in ("AUTHOR", "COMMITTER"):
            extra.update({f"GIT_{who}_NAME": "n", f"GIT_{who}_EMAIL": "n@example.org"})
        return subprocess.run(
            ["git", *words],
            cwd=cwd or self.path,
            env=clean_environment(AGENT_CHAT_ROOT=str(self.root.path), **extra),
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    def ok(self, *words: str, **options: Any) -> str:
        done = self.git(*words, **options)
        assert done.returncode == 0, (words, done)
        return done.stdout

    def stage(self, **files: str) -> None:
        """Write files, named by what stands for a path in Python, and stage everything."""
        for name, text in files.items():
            write(self.path / name.replace("__", "/").replace("_", "."), text)
        self.ok("add", "-A")

    def commit(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.git("commit", "-q", "-m", "m", *words, **environment)

    @property
    def count(self) -> int:
        return int(self.ok("rev-list", "--all", "--count"))


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


@pytest.fixture
def repository(tmp_path: Path, root: Root, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """One commit with src/a.py and b.py, then the guard."""
    made = Repository(tmp_path / "work", root)
    made.path.mkdir()
    monkeypatch.chdir(made.path)
    made.ok("init", "-q", "-b", "main")
    made.stage(src__a_py="a" * 200 + "\n", b_py="b\n")
    assert made.commit().returncode == 0
    install(root)
    return made


def install(root: Root, *words: str, cwd: Path | None = None) -> dict[str, Any]:
    """`guard install` by `chat.py` of this checkout."""
    found: dict[str, Any] = root.real("guard", "install", "--json", *words, cwd=cwd or Path.cwd()).json
    return found


def assert_refused(done: subprocess.CompletedProcess[str], path: str, who: str = "alice") -> None:
    lines = done.stderr.splitlines()
    assert done.returncode != 0 and len(lines) == 1 and done.stdout == "", done
    assert lines[0].startswith(f"agent-chat: PATH_LOCK_CONFLICT: {path} is locked by {who} until "), done


# ---- pre-commit -------------------------------------------------------------------------------------------


def test_a_commit_of_a_path_that_another_has_locked_is_refused(repository: Repository, root: Root) -> None:
    record = lock(root, "src/a.py")
    repository.stage(src__a_py="new\n", b_py="new\n")
    done = repository.commit(**BOB)
    assert_refused(done, "src/a.py")
    assert record["expires_at"] in done.stderr and "in channel c" in done.stderr and "more" not in done.stderr
    following = done.stderr.rpartition("; next: ")[2].strip()
    there = subprocess.run(following, shell=True, cwd=repository.path, env=clean_environment(), capture_output=True)
    assert there.returncode == 3 and b"owner=alice" in there.stdout, following
    assert repository.count == 1
    repository.ok("reset", "-q", "--", "src/a.py")
    assert repository.commit(**BOB).returncode == 0, "the rest may go"


def test_its_holder_commits_it_and_after_unlock_everybody(repository: Repository, root: Root) -> None:
    lock(root, "src")
    repository.stage(src__a_py="1\n")
    assert repository.commit(AGENT_CHAT_NAME="Alice").returncode == 0
    repository.stage(src__a_py="2\n")
    assert_refused(repository.commit(**BOB), "src/a.py")
    root.ok("unlock", "c", "src", "--as", "alice", **QUICK)
    done = repository.commit(**BOB)
    assert (done.returncode, done.stderr) == (0, "")


def test_how_many_more_are_locked(repository: Repository, root: Root) -> None:
    lock(root, "**/*.md")
    repository.stage(a_md="", docs__b_md="", docs__c_md="", d_py="")
    assert "a.md is locked" in repository.commit(**BOB).stderr
    assert ", and 2 more of these paths are locked; next: " in repository.commit(**BOB).stderr


@pytest.mark.parametrize("held, path", [("src/a.py", "src/a.py"), ("new.py", "new.py")])
def test_both_sides_of_a_rename_count(repository: Repository, root: Root, held: str, path: str) -> None:
    lock(root, held)
    repository.ok("mv", "src/a.py", "new.py")
    assert "R100" in repository.ok("diff", "--cached", "--name-status", "-M")
    assert_refused(repository.commit(**BOB), path)


def test_deleting_adding_and_other_ways_to_commit_count(repository: Repository, root: Root) -> None:
    lock(root, "src/a.py", "fresh")
    (repository.path / "src/a.py").unlink()
    assert_refused(repository.commit("-a", **BOB), "src/a.py")
    assert_refused(repository.commit("src/a.py", **BOB), "src/a.py")
    assert_refused(repository.git("commit", "-q", "-a", "--amend", "--no-edit", **BOB), "src/a.py")
    assert_refused(repository.git("-C", "src/..", "commit", "-qam", "m", **BOB), "src/a.py")
    repository.ok("checkout", "-q", "--", ".")
    write(repository.path / "fresh/x", "")
    repository.ok("add", "-A")
    assert_refused(repository.commit(**BOB), "fresh/x")


def test_names_of_every_kind(repository: Repository, root: Root) -> None:
    for name in ("a b", "caf\u00e9", 'q"q', "new\nline", "tab\t", "aux.c", "-x", "[id]"):
        lock_of = {"new\nline": "new?line", "tab\t": "tab?", "aux.c": "?ux.c", "[id]": "[[]id]"}.get(name, name)
        record = lock(root, lock_of)
        write(repository.path / name, "")
        repository.ok("add", "-A")
        done = repository.commit(**BOB)
        assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, (name, done)
        root.ok("unlock", "c", record["lock_id"], "--as", "alice", **QUICK)
        assert repository.commit(**BOB).returncode == 0
    raw = os.fsencode(repository.path) + b"/\xff"
    lock(root, "*")
    with open(raw, "wb"):
        pass
    repository.ok("add", "-A")
    assert repository.commit(**BOB).returncode != 0


def test_the_first_commit_is_guarded_too(root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Repository(tmp_path / "first", root)
    made.path.mkdir()
    monkeypatch.chdir(made.path)
    made.ok("init", "-q")
    install(root)
    lock(root, "a")
    write(made.path / "a", "")
    made.ok("add", "-A")
    assert_refused(made.commit(**BOB), "a")


def test_of_a_merge_only_what_it_changes_itself_counts(repository: Repository, root: Root) -> None:
    repository.ok("checkout", "-q", "-b", "side")
    repository.stage(src__a_py="of alice\n", b_py="side\n")
    repository.ok("commit", "-qm", "side")
    repository.ok("checkout", "-q", "main")
    repository.stage(b_py="main\n")
    repository.ok("commit", "-qm", "main")
    lock(root, "src/a.py")
    assert repository.git("merge", "-q", "side", **BOB).returncode == 1, "a conflict in b.py"
    write(repository.path / "b.py", "both\n")
    repository.ok("add", "-A")
    write(repository.path / "src/a.py", "by bob\n")
    assert_refused(repository.commit("-a", **BOB), "src/a.py")
    repository.ok("checkout", "-q", "side", "--", "src/a.py")
    done = repository.commit(**BOB)
    assert (done.returncode, done.stderr) == (0, ""), "alice's own work, taken over as it is"


def test_a_commit_without_an_agents_name_is_a_persons_and_only_warned(repository: Repository, root: Root) -> None:
    lock(root, "src/a.py", "b.py")
    repository.stage(src__a_py="1\n", b_py="1\n")
    done = repository.commit()
    assert done.returncode == 0 and len(done.stderr.splitlines()) == 1, done
    assert done.stderr.startswith("agent-chat: warning: b.py is locked by alice until ") and "1 more" in done.stderr
    repository.stage(src__a_py="2\n")
    assert repository.commit(AGENT_CHAT_NAME="").returncode == 0


@pytest.mark.parametrize("word", ["off", "OFF"])
def test_the_bypass_variable(repository: Repository, root: Root, word: str) -> None:
    lock(root, "src/a.py")
    repository.stage(src__a_py="1\n")
    done = repository.commit(AGENT_CHAT_GUARD=word, **BOB)
    assert done.returncode == 0 and "AGENT_CHAT_GUARD=off" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_word_that_is_not_off_bypasses_nothing(repository: Repository, root: Root) -> None:
    lock(root, "src/a.py")
    repository.stage(src__a_py="1\n")
    assert_refused(repository.commit(AGENT_CHAT_GUARD="on", **BOB), "src/a.py")


UNSURE = {
    "expired": (lambda root: lock_expired(root, "src/a.py"), "PATH_LOCK_RECOVERY_REQUIRED", {}),
    "damaged": (lambda root: write(root.folder() / "locks/x.json", "{"), "PATH_LOCK_INVALID_RECORD", {}),
    "pending": (
        lambda root: [lock(root, "src/a.py"), write(root.folder() / ".journal/path.json", "{")],
        "PATH_LOCK_TRANSACTION_INVALID",
        {},
    ),
    "no name": (lambda root: lock(root, "src/a.py"), "AGENT_INVALID_NAME", {"AGENT_CHAT_NAME": "a b"}),
    "no workspace": (lambda root: lock(root, "src/a.py"), "PATH_LOCK_INVALID_PATH", {"AGENT_CHAT_WORKSPACE": "/no"}),
}


@pytest.mark.parametrize("kind", UNSURE)
def test_whatever_is_not_sure_is_allowed_and_said_in_one_line(repository: Repository, root: Root, kind: str) -> None:
    prepare, code, environment = UNSURE[kind]
    prepare(root)
    repository.stage(src__a_py="1\n")
    done = repository.commit(**{**BOB, **environment})
    assert done.returncode == 0 and len(done.stderr.splitlines()) == 1, done
    assert done.stderr.startswith(f"agent-chat: {code}: allowed, but not sure: ") and "; next: " in done.stderr


def test_only_the_channels_that_are_named_count(repository: Repository, root: Root) -> None:
    lock(root, "src/a.py")
    root.ok("init", "d")
    repository.stage(src__a_py="1\n")
    assert_refused(repository.commit(AGENT_CHAT_CHANNELS="d, c", **BOB), "src/a.py")
    assert repository.commit(AGENT_CHAT_CHANNELS="d", **BOB).returncode == 0


def test_by_hand_and_as_json(repository: Repository, root: Root) -> None:
    empty = {"allowed": True, "held": [], "doubts": []}
    assert root.ok("guard", "pre-commit", "--as", "bob", "--json").json == empty
    assert root.ok("guard", "pre-commit", "--as", "bob").out == ""
    record = lock(root, "src/a.py")
    repository.stage(src__a_py="1\n")
    shown = {"path": "src/a.py", "channel": "c", **{key: record[key] for key in ("lock_id", "owner", "expires_at")}}
    assert root.ok("guard", "pre-commit", "--json").json == {**empty, "held": [shown]}
    refused = root.run("guard", "pre-commit", "--as", "bob", "--json")
    assert refused.status == 2 and json.loads(refused.err)["error"]["details"] == {"held": [shown]}
    root.refused("PATH_LOCK_CONFLICT", "guard", "pre-commit", "--as", "bob")
    write(root.folder() / "locks/x.json", "{")
    doubts = root.ok("guard", "pre-commit", "--as", "alice", "--json").json["doubts"]
    assert [doubt["code"] for doubt in doubts] == ["PATH_LOCK_INVALID_RECORD"]


def test_outside_a_repository_and_without_git_nothing_is_refused(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = root.ok("guard", "pre-commit", "--as", "bob")
    assert found.err.startswith("agent-chat: GUARD_GIT_FAILED: allowed, but not sure: ")
    assert "cannot be asked" in root.ok("guard", "pre-commit", "--as", "bob", PATH="/nowhere").err
    root.refused("GUARD_GIT_FAILED", "guard", "install")


# ---- install ----------------------------------------------------------------------------------------------


def test_the_hook_runs_the_program_that_wrote_it(repository: Repository, root: Root) -> None:
    path = repository.path / ".git/hooks/pre-commit"
    assert os.access(path, os.X_OK) and stat.S_IMODE(path.stat().st_mode) & 0o111
    text = path.read_text()
    assert text.startswith("#!/bin/sh\n") and CHAT in text and sys.executable in text
    assert f"--root {root.path}" in text, "the root that was typed"
    assert not (path.parent / ".tmp").exists()
    again = install(root)
    assert again == {"hook": str(path), "line": text.splitlines()[-1], "installed": False}
    assert path.read_text() == text


def test_a_root_that_was_not_typed_is_left_to_the_environment(repository: Repository, root: Root) -> None:
    hook = repository.path / ".git/hooks/pre-commit"
    hook.unlink()
    words = [sys.executable, CHAT, "guard", "install"]
    environment = clean_environment(AGENT_CHAT_ROOT=str(root.path))
    subprocess.run(words, check=True, env=environment, cwd=repository.path, capture_output=True)
    assert "--root" not in hook.read_text()
    lock(root, "b.py")
    repository.stage(b_py="1\n")
    assert_refused(repository.commit(**BOB), "b.py")


def test_an_installed_program_is_found_and_not_one_in_the_repository(repository: Repository, root: Root) -> None:
    """`python -m agent_chat` in a hook would run what a stranger's repository calls agent_chat."""
    hook = repository.path / ".git/hooks/pre-commit"
    hook.unlink()
    words = [sys.executable, "-m", "agent_chat", "guard", "install"]
    environment = clean_environment(AGENT_CHAT_ROOT=str(root.path), PYTHONPATH=str(REPOSITORY))
    subprocess.run(words, check=True, env=environment, cwd=repository.path, capture_output=True)
    lock(root, "b.py")
    write(repository.path / "agent_chat/__init__.py", "raise SystemExit(0)")
    repository.stage(b_py="1\n")
    assert_refused(repository.commit(**BOB), "b.py")


def test_an_existing_hook_is_not_touched_and_the_line_for_it_works(repository: Repository, root: Root) -> None:
    hook = repository.path / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nset -e\necho mine >&2\n")
    found = root.refused("GUARD_HOOK_EXISTS", "guard", "install")
    assert hook.read_text() == "#!/bin/sh\nset -e\necho mine >&2\n" and str(hook) in found.err
    line = json.loads(root.real("guard", "install", "--json", cwd=repository.path).err)["error"]["details"]["line"]
    assert "add this line to it: if [ -e " in found.err
    hook.write_text(hook.read_text() + line + "\necho after >&2\n")
    assert install(root)["installed"] is False
    lock(root, "src/a.py")
    repository.stage(src__a_py="1\n")
    done = repository.commit(**BOB)
    assert done.returncode != 0 and "PATH_LOCK_CONFLICT" in done.stderr and "after" not in done.stderr
    assert repository.commit().stderr.splitlines()[-1] == "after"


def test_an_existing_link_is_not_touched_either(repository: Repository, root: Root, tmp_path: Path) -> None:
    hook = repository.path / ".git/hooks/pre-commit"
    hook.unlink()
    hook.symlink_to(tmp_path / "nowhere")
    root.refused("GUARD_HOOK_EXISTS", "guard", "install")
    assert hook.is_symlink() and not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("what", ["gone", "broken", "no python"])
def test_a_guard_that_cannot_run_stops_nobody(repository: Repository, root: Root, tmp_path: Path, what: str) -> None:
    hook = repository.path / ".git/hooks/pre-commit"
    broken = write(tmp_path / "chat.py", "raise RuntimeError")
    new = {"gone": "/nowhere/chat.py", "broken": str(broken), "no python": CHAT}[what]
    text = hook.read_text().replace(CHAT, new)
    hook.write_text(text.replace(sys.executable, "/nowhere/python") if what == "no python" else text)
    lock(root, "src/a.py")
    repository.stage(src__a_py="1\n")
    done = repository.commit(**BOB)
    assert done.returncode == 0 and done.stderr, "allowed, and said"
    assert what != "gone" or "not checked" in done.stderr


@pytest.mark.parametrize("typed", [".githooks", "absolute"])
def test_core_hooks_path_is_respected(repository: Repository, root: Root, tmp_path: Path, typed: str) -> None:
    (repository.path / ".git/hooks/pre-commit").unlink()
    folder = tmp_path / "hooks of mine" if typed == "absolute" else repository.path / typed
    repository.ok("config", "core.hooksPath", str(folder) if typed == "absolute" else typed)
    assert install(root, cwd=repository.path / "src") == {
        **install(root),
        "hook": str(folder / "pre-commit"),
        "installed": True,
    }
    lock(root, "b.py")
    repository.stage(b_py="1\n")
    assert_refused(repository.commit(**BOB), "b.py")
    assert_refused(repository.git("commit", "-qm", "m", cwd=repository.path / "src", **BOB), "b.py")


def test_linked_worktrees_share_the_hook_and_the_paths(repository: Repository, root: Root, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    repository.ok("worktree", "add", "-q", str(linked))
    assert install(root, cwd=linked) == {**install(root), "installed": False}
    (repository.path / ".git/hooks/pre-commit").unlink()
    assert install(root, cwd=linked)["hook"] == str(repository.path / ".git/hooks/pre-commit")
    lock(root, "src/a.py")
    write(linked / "src/a.py", "1\n")
    assert_refused(repository.git("commit", "-qam", "m", cwd=linked, **BOB), "src/a.py")


def test_a_hooks_folder_that_is_missing_or_a_link(repository: Repository, root: Root, tmp_path: Path) -> None:
    hooks = repository.path / ".git/hooks"
    shutil.rmtree(hooks)
    assert install(root)["installed"] is True and (hooks / "pre-commit").exists()
    hooks.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/pre-commit").unlink()
    hooks.symlink_to(tmp_path / "elsewhere")
    assert install(root)["hook"] == str(tmp_path / "elsewhere/pre-commit")


def test_a_bare_repository_has_nothing_to_guard(root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "bare")], check=True, env=clean_environment())
    monkeypatch.chdir(tmp_path / "bare")
    root.refused("GUARD_GIT_FAILED", "guard", "install")


def test_install_as_text(repository: Repository, root: Root) -> None:
    hook = repository.path / ".git/hooks/pre-commit"
    hook.unlink()
    assert root.ok("guard", "install").out == f"installed {hook}\n"
    assert root.ok("guard", "install").out == f"{hook} has the guard already\n"
