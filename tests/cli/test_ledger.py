"""The ledger: one whole line for each attempt, for 90 days, and needed by nothing (extensions, section 9)."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import schema
from support import FrozenClock, Root, make_root, open_channel

from agent_chat import clock, ledger

QUICK = {"AGENT_CHAT_FSYNC": "0"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = make_root(tmp_path)
    (root.folder() / "_policy.json").write_text('{"ledger": "on", "guard_size": "100"}\n')
    return root


def post(root: Root, body: str, *more: str) -> int:
    words = ["post", "c", "--from", "alice", "--to", "bob", "--title", "t", "--body", body]
    return root.run(*words, *more, **QUICK).status


def files(root: Root) -> list[Path]:
    return sorted((root.folder() / ".ledger").glob("*.jsonl"))


def lines(root: Root) -> list[dict[str, Any]]:
    return [json.loads(line) for path in files(root) for line in path.read_text("utf-8").splitlines()]


def test_each_attempt_is_one_line(root: Root) -> None:
    assert [post(root, "b", "--request-id", "r-1") for _ in range(2)] == [0, 0]
    assert post(root, 'x"\\\n\t\u00e9\x01' * 50) == 2
    root.ok("ring", "c", "--from", "alice", "--to", "bob", "--ref", "seq:1", "look")
    root.ok("ring", "c", "--from", "alice", "--to", "bob", "--ref", "seq:1", "look")
    root.ok("turn", "open", "c", "--orchestrator", "alice", "--worker", "bob")
    root.ok("turn", "assign", "c", "--as", "alice", "--version", "1", "--title", "do", "--body", "it")
    root.run("turn", "assign", "c", "--as", "alice", "--version", "1", "--title", "do", "--body", "more")
    found = lines(root)
    shown = [(one["via"], one["to"], one["seq"], one["outcome"], one["code"]) for one in found]
    assert shown == [
        ("post", "bob", 1, "posted", ""),
        ("post", "bob", 1, "duplicate", ""),
        ("post", "bob", 0, "refused", "GUARD_SIZE"),
        ("ring", "bob", 2, "posted", ""),
        ("ring", "bob", 2, "duplicate", "duplicate"),
        ("turn", "bob", 0, "posted", ""),
        ("turn", "-", 0, "refused", "TURN_STALE"),
    ]
    assert found[0]["request_id"] == "r-1" and found[0]["bytes"] == 1
    assert found[2]["text"] == "t\n\n" + 'x"\\\n\t\u00e9\x01' * 50, "the text of a refused post is there"
    texts = {one["text"] for one in found if one["outcome"] != "refused"}
    assert texts == {""}, "what was posted is in its message"
    for one in found:
        assert tuple(one) == ledger.FIELDS and not schema.problems(schema.FOLDER / "ledger.schema.json", one)


def test_it_is_off_in_an_ordinary_channel_and_on_with_guards(tmp_path: Path) -> None:
    for at, options in enumerate(([], ["--guards"])):
        root = make_root(tmp_path / str(at), "--members", "alice,bob", *options)
        assert post(root, "b") == 0
        assert (root.folder() / ".ledger").exists() == bool(options)


def test_what_expired_unseen_is_noted_when_its_sender_is_told(root: Root) -> None:
    root.ok("read", "c", "--as", "bob")
    assert post(root, "b", "--expires-in", "0.001") == 0
    root.ok("read", "c", "--as", "bob")
    root.ok("read", "c", "--as", "alice")
    last = lines(root)[-1]
    assert (last["outcome"], last["from"], last["to"], last["seq"]) == ("expired", "alice", "bob", 1)


def test_months_are_files_and_old_ones_go(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    now = FrozenClock(clock.parse_stamp("2026-01-31T23:59:59+00:00"))
    monkeypatch.setattr(clock, "now", now)
    for day in (0, 1, 60, 90):
        now.instant = clock.parse_stamp("2026-01-31T23:59:59+00:00") + day * 24 * 3600 * clock.SECOND
        post(root, f"day {day}")
    assert [path.name for path in files(root)] == ["2026-01.jsonl", "2026-02.jsonl", "2026-04.jsonl", "2026-05.jsonl"]
    (root.folder() / ".ledger/notes.txt").write_text("mine")
    now.pass_seconds(31 * 24 * 3600)
    post(root, "june")
    assert [path.name for path in files(root)] == ["2026-04.jsonl", "2026-05.jsonl", "2026-06.jsonl"]
    assert (root.folder() / ".ledger/notes.txt").exists()


def test_a_torn_last_line_is_cut_off_by_the_next(root: Root) -> None:
    post(root, "one")
    (path,) = files(root)
    whole = path.read_bytes()
    for torn in (b'{"ts": "1999', b"x" * 70000):
        path.write_bytes(whole + torn)
        post(root, f"after {len(torn)}")
        assert path.read_bytes().startswith(whole) and torn not in path.read_bytes()
        whole = path.read_bytes()
    assert len(lines(root)) == 3


def test_lines_are_whole_under_many_writers_and_kills(root: Root) -> None:
    body = "long " * 2000
    for round_ in range(3):
        words = ["post", "c", "--from", "alice", "--title", "t", "--body"]
        processes = [root.spawn(*words, f"{round_} {number} {body}", environment=QUICK) for number in range(6)]
        if round_:
            for process in processes[:2]:
                process.send_signal(signal.SIGKILL)
        for process in processes:
            process.communicate(timeout=60)
    post(root, "the last")
    found = lines(root)
    assert {one["outcome"] for one in found} == {"refused", "posted"}
    texts = [one["text"].split(" long")[0] for one in found[:-1]]
    assert len(set(texts)) == len(texts) >= 14 and all(len(one["text"]) > 10000 for one in found[:-1])


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_nothing_needs_it(root: Root, kind: str, tmp_path: Path) -> None:
    post(root, "one")
    (path,) = files(root)
    path.unlink()
    if kind == "file":
        path.write_bytes(b"\x00nonsense\n[]\n{}\n")
    elif kind == "link":
        (tmp_path / "elsewhere").write_text("")
        os.symlink(tmp_path / "elsewhere", path)
    else:
        path.mkdir()
    result = root.ok("post", "c", "--from", "alice", "--title", "t", "--body", "two", **QUICK)
    assert "posted #2" in result.out and ("not noted in the ledger" in result.err) == (kind != "file")
    if kind == "file":
        assert root.ok("log", "c", "--ledger", "--json").json["ledger"] == []
    if kind == "link":
        assert (tmp_path / "elsewhere").read_text() == ""


def test_log_shows_both_as_one_history(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    now = FrozenClock()
    monkeypatch.setattr(clock, "now", now)
    for body in ("one", "x" * 101, "two"):
        post(root, body)
        now.pass_seconds(1)
    shown = root.ok("log", "c", "--ledger").out.splitlines()
    assert [line.split()[0] for line in shown] == ["#1", "-", "#2"]
    assert "refused GUARD_SIZE" in shown[1] and "x" * 50 in shown[1]
    assert len(root.ok("log", "c").out.splitlines()) == 2
    found = root.ok("log", "c", "--ledger", "--json").json
    assert len(found["messages"]) == 2 and [one["code"] for one in found["ledger"]] == ["GUARD_SIZE"]


def test_a_busy_ledger_keeps_no_post_waiting(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_chat.storage import oslock

    post(root, "one")
    monkeypatch.setattr(ledger, "_PATIENCE", 0.05)
    words = ["post", "c", "--from", "alice", "--title", "t", "--body", "two"]
    with open_channel(root) as channel, channel.folder.sub(ledger.FOLDER) as folder:
        held = oslock.hold(folder, ledger.LOCK, "somebody")
        result = root.ok(*words, **QUICK)
        held.release()
    assert "not noted in the ledger: somebody has its lock" in result.err and len(lines(root)) == 1
