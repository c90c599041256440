"""A root that may only be read (case M24), and one that may not even be read in part."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Result, Root

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX modes")
NOBODY = 65534

LOOKING = {
    "peek": ["peek", "c"],
    "read --peek": ["read", "c", "--as", "bob", "--peek"],
    "read --all": ["read", "c", "--as", "bob", "--all"],
    "wait --peek": ["wait", "c", "--as", "bob", "--peek", "--timeout", "0"],
    "show": ["show", "c", "1"],
    "channels": ["channels"],
    "roster": ["roster", "c"],
    "check": ["check", "c", "free.txt"],
    "state": ["state", "c"],
    "task list": ["task", "list", "c"],
}
CHANGING = {
    "post": ["post", "c", "--from", "alice", "--title", "t", "--body", "b"],
    "read": ["read", "c", "--as", "bob"],
    "wait": ["wait", "c", "--as", "bob", "--timeout", "0"],
    "ack": ["ack", "c", "--as", "bob", "--upto", "1"],
    "claim": ["claim", "c", "task-1.md", "--as", "bob"],
    "init": ["init", "d"],
}


def _in_child(path: Path, words: list[str], answers: multiprocessing.queues.Queue[tuple[int, str, str]]) -> None:
    if os.geteuid() == 0:  # whom no mode stops
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    result = Root(path).run(*words, HOME=str(path), AGENT_CHAT_WORKSPACE=str(path / "c"))
    answers.put((result.status, result.out, result.err))


def as_somebody(root: Root, *words: str) -> Result:
    """Run a command in a forked child that is not root: this interpreter may lie where only root can read."""
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_in_child, args=(root.path, list(words), answers))
    child.start()
    try:
        return Result(*answers.get(timeout=60))
    finally:
        child.join(60)


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What the commands import is loaded before a child changes its user."""
    root = Root(tmp_path_factory.mktemp("warm"))
    root.ok("init", "c")
    for words in [*LOOKING.values(), *CHANGING.values()]:
        root.run(*words)


@pytest.fixture
def root() -> Iterator[Root]:
    """A channel with two messages, read by carol, open to everybody; not in the test's own private folder."""
    place = Path(tempfile.mkdtemp(prefix="agent-chat-test-"))
    place.chmod(0o755)
    root = Root(place / "root")
    root.ok("init", "c", "--members", "alice,bob,carol")
    root.post(body="first one")
    root.post("carol", body="second one")
    root.ok("read", "c", "--as", "carol")
    (root.folder() / "task-1.md").write_text("")
    yield root
    set_modes(place, 0o755, 0o644)
    shutil.rmtree(place)


def set_modes(place: Path, folders: int, files: int) -> None:
    place.chmod(0o755)
    for path in (
        sorted(place.rglob("*"), key=str) if folders & 0o200 else sorted(place.rglob("*"), key=str, reverse=True)
    ):
        path.chmod(folders if path.is_dir() else files)


def snapshot(root: Root) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in root.path.rglob("*")}


@pytest.mark.parametrize("command", LOOKING)
def test_looking_works(root: Root, command: str) -> None:
    set_modes(root.path.parent, 0o555, 0o444)
    before = snapshot(root)
    result = as_somebody(root, *LOOKING[command])
    assert result.status == 0 and result.err == "", result
    if command.startswith("read") or command == "peek":
        assert "first one" in result.out and "second one" in result.out
    assert snapshot(root) == before


@pytest.mark.parametrize("command", CHANGING)
def test_changing_is_refused_before_any_output_and_names_the_root(root: Root, command: str) -> None:
    set_modes(root.path.parent, 0o555, 0o444)
    before = snapshot(root)
    result = as_somebody(root, *CHANGING[command])
    assert (result.status, result.code, result.out) == (2, "STORAGE_DENIED", ""), result
    assert str(root.path) in result.err and len(result.err.splitlines()) == 1
    assert snapshot(root) == before


def test_an_agent_that_has_read_before_is_refused_too(root: Root) -> None:
    set_modes(root.path.parent, 0o555, 0o444)
    for words in (["read", "c", "--as", "carol"], ["ack", "c", "--as", "carol", "--upto", "1"]):
        result = as_somebody(root, *words)
        assert (result.status, result.code, result.out) == (2, "STORAGE_DENIED", ""), result


def test_a_channel_that_may_not_be_read_stops_only_itself(root: Root) -> None:
    root.ok("init", "secret")
    root.ok("init", "closed")
    set_modes(root.path.parent, 0o755, 0o644)
    (root.folder("secret") / "_meta.json").chmod(0)
    root.folder("closed").chmod(0)
    result = as_somebody(root, "channels")
    assert result.status == 0 and "second one" not in result.out and "carol: t" in result.out, result
    assert "secret" in result.err and "Traceback" not in result.err
    assert as_somebody(root, "peek", "secret").code == "STORAGE_DENIED"
    assert as_somebody(root, "peek", "closed").status != 0


def test_a_message_that_may_not_be_read_stops_only_itself(root: Root) -> None:
    set_modes(root.path.parent, 0o777, 0o666)
    (root.folder() / "0001-alice-t.md").chmod(0)
    result = as_somebody(root, "read", "c", "--as", "bob")
    assert result.status == 0 and "second one" in result.out and "0001-alice-t.md" in result.err, result
    (root.folder() / "0001-alice-t.md").chmod(0o644)
    result = as_somebody(root, "read", "c", "--as", "bob")
    assert "first one" in result.out and "second one" not in result.out, "it is not lost"


def test_a_body_file_that_may_not_be_read_is_refused(root: Root) -> None:
    set_modes(root.path.parent, 0o777, 0o666)
    path = root.path / "body"
    path.write_text("secret")
    path.chmod(0)
    result = as_somebody(root, "post", "c", "--from", "alice", "--title", "t", "--body-file", str(path))
    assert (result.status, result.code) == (2, "MESSAGE_BODY_UNREADABLE")
