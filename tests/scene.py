"""A prepared channel, the commands that change it, and what must hold after whatever happened to them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from faults import Outcome
from support import Result, Root, make_root

from agent_chat import frontmatter, names

# What changes something, as one call or several; all other commands only look. tests/crash/test_commands.py
# compares these with cli.table, so that no new command is forgotten.
CHANGING: dict[str, list[list[str]]] = {
    "init": [["init", "d", "--members", "alice,bob", "--topic", "t"]],
    "post": [
        ["post", "c", "--from", "alice", "--title", "new", "--body", "<new> ... </new>"],
        ["post", "c", "--from", "carol", "--to", "bob", "--reply", "1", "--title", "new", "--body", "<new> ... </new>"],
    ],
    "ring": [["ring", "c", "--from", "alice", "--to", "bob", "--ref", "seq:1", "<new> ... </new>"]],
    "read": [["read", "c", "--as", "bob"]],
    "wait": [["wait", "c", "--as", "bob", "--timeout", "0"]],
    "ack": [["ack", "c", "--as", "bob", "--upto", "4"]],
    "claim": [["claim", "c", "task-1.md", "--as", "bob"]],
    "unclaim": [["unclaim", "c", "task-2.md", "--as", "bob"]],
    "event post": [["event", "post", "c", "--from", "alice", "--type", "capability", "--harness", "h"]],
    "state": [["state", "c", "--write", "--no-audit"]],
    "compact": [["compact", "c", "--as", "alice"]],
    "archive": [["archive", "c", "--before", "4"]],
}
LOOKING: dict[str, list[list[str]]] = {
    "channels": [["channels"]],
    "roster": [["roster", "c"]],
    "peek": [["peek", "c", "-n", "9"]],
    "show": [["show", "c", "2"]],
    "topics": [["topics", "c"]],
    "thread": [["thread", "c", "1"]],
    "receipts": [["receipts", "c", "1"]],
    "search": [["search", "c", "four"]],
    "log": [["log", "c"], ["log", "c", "--ledger"]],
    "read": [["read", "c", "--as", "bob", "--peek"], ["read", "c", "--as", "bob", "--all"]],
    "wait": [["wait", "c", "--as", "bob", "--timeout", "0", "--peek"]],
    "event read": [["event", "read", "c"]],
    "state": [["state", "c"]],
    "policy show": [["policy", "show", "c"]],
    "turn show": [["turn", "show", "c"]],
    "agents": [["agents", "c"]],
    "guards show": [["guards", "show", "c"]],
    "digest": [["digest", "c", "--of", "alice"]],
    "requests": [["requests", "c"]],
    "version": [["version"]],
}
# Changes of records have matrices of their own. demo runs the commands above in a root of its own.
ELSEWHERE = {f"task {word}" for word in "create list show update claim next renew done block release recover".split()}
ELSEWHERE |= {*"lock check unlock renew-lock recover locks recover-pending".split(), "task recover-pending", "demo"}
ELSEWHERE |= {"guard pre-commit", "guard install", "doctor", "watch", "setup", "policy set"}
ELSEWHERE |= {*"join leave approve deny".split(), "guards reset"}
ELSEWHERE |= {f"turn {word}" for word in "open assign report wait close reopen roles".split()}


def every(commands: dict[str, list[list[str]]]) -> list[list[str]]:
    return [words for several in commands.values() for words in several]


def label(words: str | Iterable[str]) -> str:
    """A short name for a test's parameter."""
    return words if isinstance(words, str) else "-".join(word for word in words if word[0].isalnum() and len(word) < 11)


QUICK = {"AGENT_CHAT_FSYNC": "0"}


def fresh(path: Path) -> Root:
    """A channel that nobody has read or posted in by us: none of the hidden folders is there yet."""
    root = make_root(path)
    for number in (1, 2, 3, 4):
        _put(root, number)
    _put_markers(root)
    return root


def used(path: Path) -> Root:
    """bob has read #1, #3 is not for him, and #2 and #4 have just come, #2 when he had passed it."""
    root = make_root(path)
    for number in (1, 3):
        _put(root, number)
        for agent in ("bob", "carol"):
            root.ok("read", "c", "--as", agent, **QUICK)
    _put(root, 2)
    root.post("alice", "four", "<four> ... </four>", **QUICK)
    _put_markers(root)
    return root


def seen(path: Path) -> Root:
    """The same when carol has read everything: nothing is new any more, and #2 is noted as late for bob."""
    root = used(path)
    root.ok("read", "c", "--as", "carol", **QUICK)
    return root


TEMPLATES = {"fresh": fresh, "used": used, "seen": seen}
UNREAD = {"fresh": {"one", "two", "four"}, "used": {"two", "four"}, "seen": {"two", "four"}}  # by bob


def _put(root: Root, number: int) -> None:
    word = ("", "one", "two", "three", "four")[number]
    sender, to = {2: ("carol", "bob"), 3: ("alice", "carol")}.get(number, ("alice", "all"))
    root.put(number, f"<{word}> ... </{word}>", sender, to)


def _put_markers(root: Root) -> None:
    (root.folder() / "task-1.md").write_text("work\n")
    (root.folder() / "task-2.CLAIMED-bob.md").write_text("more work\n")


# ---- what must hold -----------------------------------------------------------------------------------


def shown(*results: Result) -> Counter[str]:
    """How often each message stands in these outputs, whole; a part of one is an error."""
    found: Counter[str] = Counter()
    for result in results:
        begun = re.findall(r"<(\w+)> \.", result.out)
        assert begun == re.findall(r"\. </(\w+)>", result.out), ("a part of a message", result)
        found.update(begun)
    return found


def message_bytes(root: Root) -> dict[str, bytes]:
    """Every message by name, wherever it lies; one that is in the folder and in the archive is the same in both."""
    found = {path.name: path.read_bytes() for path in root.folder().glob("archive/*/*.md")}
    here = {name: (root.folder() / name).read_bytes() for name in root.names()}
    assert all(found.get(name, data) == data for name, data in here.items())
    return {**found, **here}


def assert_sound(root: Root, before: dict[str, bytes]) -> None:
    """All messages of before are there as they were, every message is whole, no number stands twice."""
    now = message_bytes(root)
    assert {name: now.get(name) for name in before} == before
    for name, data in now.items():
        frontmatter.parse(name, data)
    numbers = Counter(names.message_number(name) for name in now)
    assert not [number for number, count in numbers.items() if count > 1], sorted(now)


def assert_markers(root: Root) -> None:
    """Each marker is there once, with its text, free or claimed."""
    found = sorted(name for name in os.listdir(root.folder()) if name.startswith("task-"))
    assert [name.partition(".")[0] for name in found] == ["task-1", "task-2"], found
    assert [(root.folder() / name).read_text() for name in found] == ["work\n", "more work\n"]


def assert_state_or_none(root: Root) -> None:
    """state.md is not there, or whole."""
    path = root.folder() / "state.md"
    if path.exists():
        text = path.read_text()
        assert text.startswith("# State: c\n") and "\n## Verification Evidence\n" in text and text.endswith("\n"), text


def assert_channel_or_none(root: Root, members: Iterable[str] = ("alice, bob",), name: str = "d") -> None:
    """The channel is not there, or whole."""
    if (root.folder(name) / "_meta.json").exists():
        shown = root.ok("roster", name).out.splitlines()
        assert shown[:2] == [f"channel: {name}", "topic:   t"], shown
        assert shown[2][9:] in members, shown


def assert_clean_refusal(outcome: Outcome) -> None:
    """Exit 1 or 2, one line with a code, no defect of ours."""
    assert outcome.status in (1, 2), outcome
    lines = [line for line in outcome.err.splitlines() if not line.startswith("agent-chat: skipped ")]
    assert len(lines) == 1 and outcome.code and outcome.code != "INTERNAL_ERROR", outcome
    assert "Traceback" not in outcome.err, outcome


def read_to_end(root: Root, agent: str = "bob") -> Result:
    """Everything that is still unread, as one result."""
    texts = []
    for _ in range(20):
        result = root.ok("read", "c", "--as", agent, **QUICK)
        if not shown(result):
            return Result(0, "".join(texts), "")
        texts.append(result.out)
    raise AssertionError("reading does not come to an end")


def again(root: Root, words: list[str], is_done: bool) -> Result:
    """The same command once more. It works, or says that it is done already when `is_done` may be."""
    result = root.run(*words, **QUICK)
    done = {"init": "CHANNEL_EXISTS", "claim": "CLAIM_LOST", "unclaim": "CLAIM_NOT_FOUND"}.get(words[0])
    if words[0] == "wait" and result.status == 4:
        assert not shown(read_to_end(root)), "wait saw nothing, and there was something"
    elif result.status:
        assert is_done and result.code == done, (words, result)
    return result


def assert_nothing_lost(root: Root, words: list[str], unread: set[str], first: Result, *later: Result) -> None:
    """bob got every message, once; twice only what `first`, which went wrong, had shown before that."""
    safe = shown(*later, read_to_end(root))
    if words[0] == "archive" and unread == UNREAD["fresh"]:
        unread = {"four"}  # who has no cursor starts with what is not archived
    texts = [data.decode() for data in message_bytes(root).values()]
    for word in {*unread, "new"}:
        there = sum(f"<{word}>" in text for text in texts)
        assert safe[word] <= there, f"{word} came again"
        if words[0] != "ack" or word not in unread:
            assert shown(first)[word] + safe[word] >= there, f"{word} is lost"
