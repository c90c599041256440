"""Refusals: one line with a stable code and a next command that runs; the exit statuses of the protocol."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support import CHAT, Result, Root, clean_environment, make_root

from agent_chat import cli
from agent_chat.cli.table import COMMANDS
from agent_chat.errors import EXIT, AgentChatError

# Commands of a later issue that refusals name already.
LATER = {"doctor"} - set(COMMANDS)
POST = ["post", "c", "--from", "alice", "--title", "t", "--body", "b"]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """Two messages, bob's cursor at the end, one free and one claimed marker, some damage."""
    root = make_root(tmp_path)
    root.post()
    root.post("carol")
    root.ok("read", "c", "--as", "bob")
    for name in ("task-1.md", "task-2.CLAIMED-alice.md"):
        (root.folder() / name).write_text("")
    (root.folder() / ".cursors" / "dave.txt").write_text("garbage")
    root.ok("init", "broken")
    (root.folder("broken") / "_meta.json").write_text("{")
    return root


REFUSALS = {
    "CHANNEL_NOT_FOUND": ["read", "nope", "--as", "bob"],
    "CHANNEL_EXISTS": ["init", "c"],
    "CHANNEL_INVALID_NAME": ["peek", "a/b"],
    "CHANNEL_META_INVALID": ["peek", "broken"],
    "AGENT_INVALID_NAME": ["read", "c", "--as", "a b"],
    "MESSAGE_NOT_FOUND": ["show", "c", "9"],
    "MESSAGE_UNKNOWN_RECIPIENT": [*POST, "--to", "alce"],
    "MESSAGE_RESERVED_STATUS": [*POST, "--status", "ring"],
    "MESSAGE_EMPTY_BODY": [*POST, "--body", ""],
    "MESSAGE_BODY_UNREADABLE": [*POST[:-2], "--body-file", "/nonexistent/x"],
    "MESSAGE_INVALID_TEXT": [*POST, "--title", "\udce9"],
    "CURSOR_INVALID": ["read", "c", "--as", "dave"],
    "CURSOR_BACKWARDS": ["ack", "c", "--as", "bob", "--upto", "1"],
    "CLAIM_INVALID_MARKER": ["claim", "c", "other.md", "--as", "bob"],
    "CLAIM_LOST": ["claim", "c", "task-2.md", "--as", "bob"],
    "CLAIM_NOT_FOUND": ["unclaim", "c", "task-1.md", "--as", "bob"],
    "CLAIM_OWNER_MISMATCH": ["unclaim", "c", "task-2.md", "--as", "bob"],
    "USAGE_ERROR": ["post", "c"],
}


def following(result: Result) -> list[str]:
    """The words of the next command, without the program and the root."""
    words = shlex.split(result.err.rstrip("\n").split("; next: ")[1])
    return words[words.index("--root") + 2 :]


@pytest.mark.parametrize("code", REFUSALS)
def test_the_next_command_runs(root: Root, code: str) -> None:
    result = root.refused(code, *REFUSALS[code], status=EXIT.get(code, 2))
    words = following(result)
    if words[0] in LATER:
        return
    done = root.run(*words)
    assert done.status == 0 and "Traceback" not in done.err, (words, done)


def test_where_the_next_command_is_a_cure_the_refused_one_works_afterwards(root: Root) -> None:
    for code in ("CHANNEL_NOT_FOUND", "CURSOR_INVALID"):
        root.ok(*following(root.refused(code, *REFUSALS[code])))
        root.ok(*REFUSALS[code])


def test_the_next_command_runs_as_it_stands_in_a_shell(root: Root, tmp_path: Path) -> None:
    """With the root typed before the command, a folder with a space, and no shell word of a stranger in it."""
    odd = make_root(tmp_path / "a folder; $(touch owned) `x`")
    process = subprocess.run(
        [sys.executable, CHAT, "--root", str(odd.path), "read", "nope", "--as", "bob"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    line = process.stderr.rstrip("\n").split("; next: ")[1]
    if os.name == "nt":
        pytest.skip("quoted for a POSIX shell")
    done = subprocess.run(["sh", "-c", line], env=clean_environment(), cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done
    assert odd.folder("nope").is_dir() and not (tmp_path / "owned").exists()


def test_every_code_has_a_line_that_a_terminal_shows(root: Root) -> None:
    for name in ("a\nb", "a\x1b[2Jb", "a\u202eb", "a\u2028b", "\udce9"):
        result = root.refused("CHANNEL_INVALID_NAME", "peek", name)
        assert result.err.rstrip("\n").isprintable(), result.err


def test_a_refusal_goes_on_without_anybody_listening(root: Root) -> None:
    if os.name == "nt":
        pytest.skip("needs a POSIX shell")
    for redirection in ("2>&-", "2>/dev/full", ">&- 2>&-"):
        line = f"'{sys.executable}' '{CHAT}' --root '{root.path}' read nope --as bob {redirection}"
        done = subprocess.run(["sh", "-c", line], env=clean_environment(), capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (2, b"")


def test_a_defect_of_ours_is_one_line_too(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(words: list[str]) -> int:
        raise ZeroDivisionError("some\nthing")

    monkeypatch.setattr(cli, "_run", defect)
    result = root.refused("INTERNAL_ERROR", "peek", "c", status=1)
    assert "ZeroDivisionError" in result.err and "Traceback" not in result.err


# ---- exit statuses (protocol, section 2) ------------------------------------------------------------


def test_done_is_zero_also_with_nothing_to_show(tmp_path: Path, root: Root) -> None:
    for words in (POST, ["read", "c", "--as", "bob"], ["read", "c", "--as", "bob"], ["peek", "c"], ["channels"]):
        assert root.run(*words).status == 0
    empty = Root(tmp_path / "empty")
    assert empty.run("channels").status == 0
    empty.ok("init", "c")
    assert empty.ok("peek", "c").out == "(no messages in 'c')\n"
    assert empty.ok("read", "c", "--as", "bob").out == "(no new messages for bob in 'c'; cursor at #0)\n"


def test_refused_is_two(root: Root) -> None:
    for code, words in REFUSALS.items():
        assert root.run(*words).status == (3 if code == "CLAIM_LOST" else 2)


def test_what_somebody_else_has_is_three(root: Root) -> None:
    assert root.run("claim", "c", "task-2.md", "--as", "bob").status == 3


def test_a_timeout_is_four(root: Root) -> None:
    assert root.run("wait", "c", "--as", "bob", "--timeout", "0").status == 4


def test_could_not_is_one(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*names: str, **folders: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "link", broken)
    result = root.refused("STORAGE_IO_ERROR", *POST, status=1)
    assert "Input/output error" in result.err and str(root.path) in result.err


@pytest.mark.parametrize("number", [1, 13, 30])
def test_what_the_system_does_not_allow_names_the_root(
    root: Root, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """EPERM, EACCES, EROFS."""
    real = os.open

    def denied(path: object, flags: int, *rest: object, **more: object) -> int:
        if flags & os.O_CREAT:
            raise OSError(number, os.strerror(number), str(path))
        return real(path, flags, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", denied)
    for words in (POST, ["read", "c", "--as", "bob"], ["ack", "c", "--as", "bob", "--upto", "1"]):
        result = root.run(*words)
        assert (result.code, result.status, result.out) == ("STORAGE_DENIED", 2, ""), result
        assert str(root.path) in result.err


def test_an_interrupt_is_130(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    result = root.run("peek", "c")
    assert (result.status, result.out) == (130, "") and len(result.err.splitlines()) <= 1


def test_a_code_without_a_line_of_its_own_is_a_refusal() -> None:
    assert AgentChatError("SOMETHING_NEW", "x").exit_status == 2
    assert {EXIT[code] for code in ("INTERNAL_ERROR", "MESSAGE_NOT_DURABLE", "STORAGE_IO_ERROR")} == {1}
