"""Turns, registrations, requests and policies under test: the commands that change them, and what must hold afterwards.

Some are a person's: `person()` is done first in the child that runs one, as if a person sat at a terminal.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from board import QUICK, journals
from faults import Outcome, run
from scene import assert_sound, message_bytes
from support import Result, Root, make_root

from agent_chat.cli import operator

AUTO = {**QUICK, "AGENT_CHAT_RECOVERY": "auto"}
_PASSING = ("updated_at", "joined_at", "last_seen_at", "filed_at", "decided_at", "key", "at")
_FAMILY = ("turn.", "policy.", "request.", "agent.")
_SETTLED = "turn.transaction."


def person() -> None:
    operator.missing = lambda: ""
    sys.stdin = io.StringIO("c\n")


class Step:
    """A command, the template that it changes, and whether a person runs it."""

    def __init__(self, template: str, line: str, is_person: bool = False) -> None:
        self.template, self.words = template, line.split()
        self.first: Callable[[], object] | None = person if is_person else None

    def run(self, root: Root, *fault: Any, **options: Any) -> Outcome:
        return run(root, self.words, *fault, first=self.first, **options)


# Every command of the family, in every shape that takes another way through the code.
CHANGING: dict[str, Step] = {
    "open": Step("bare", "turn open c --orchestrator alice --worker bob"),
    "join": Step("bare", "join c --as dave --session s-1"),
    "assign": Step("opened", "turn assign c --as alice --version 1 --title t --body b --request-id r-1"),
    "report": Step("assigned", "turn report c --as bob --version 2 --outcome done --request-id r-1"),
    "return": Step("assigned", "turn wait c --as bob --have 2 --timeout 0"),
    "join-again": Step("assigned", "join c --as bob --session s-1"),
    "leave": Step("assigned", "leave c --as bob --session s-1"),
    "ask": Step("assigned", "turn close c --as bob --reason r"),
    "ask-name": Step("assigned", "join c --as bob --session s-3 --takeover --reason r"),
    "approve": Step("assigned", "approve c R-1", True),
    "deny": Step("assigned", "deny c R-1 --reason no", True),
    "close": Step("assigned", "turn close c", True),
    "roles": Step("assigned", "turn roles c --worker carol", True),
    "policy": Step("assigned", "policy set c retention 14d", True),
}
SAMPLE = ("assign", "join", "approve", "return")
RECOVER = ["recover-pending", "c", "--as", "zoe"]
NEXT = ["join", "c", "--as", "zed", "--session", "s-9"]  # what somebody does afterwards


def templates(path: Path) -> dict[str, Root]:
    """`bare`: no turn; `opened`: alice has it; `assigned`: bob has, joined, and another session asks for his name."""
    found = {}
    for kind in ("bare", "opened", "assigned"):
        root = found[kind] = make_root(path / kind)
        if kind != "bare":
            root.ok("turn", "open", "c", "--orchestrator", "alice", "--worker", "bob", **QUICK)
        if kind == "assigned":
            root.ok("join", "c", "--as", "bob", "--session", "s-1", **QUICK)
            root.ok("join", "c", "--as", "bob", "--session", "s-2", "--takeover", "--reason", "r", **QUICK)
            root.ok("turn", "assign", "c", "--as", "alice", "--version", "1", "--title", "t", **QUICK)
    return found


def choose(metafunc: pytest.Metafunc) -> None:
    """To be a module's pytest_generate_tests: with --whole every command, else a sample."""
    if "name" in metafunc.fixturenames and "whole" in metafunc.fixturenames:
        metafunc.parametrize("name", CHANGING if metafunc.config.getoption("whole") else SAMPLE)


# ---- looking --------------------------------------------------------------------------------------------------


def records(root: Root) -> dict[str, bytes]:
    """The bytes of every record of the family, by its path in the channel."""
    folder = root.folder()
    paths = [folder / name for name in ("_turn.json", "_policy.json", "_meta.json")]
    paths += [path for where in (".sessions", "requests") for path in sorted((folder / where).glob("*.json"))]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.exists()}


def state(root: Root) -> dict[str, Any]:
    """The records without times and keys, so that two runs can be compared, and without zed."""
    found = {path: _timeless(json.loads(data)) for path, data in records(root).items() if "zed" not in path}
    found["_meta.json"]["members"] = [name for name in found["_meta.json"]["members"] if name != "zed"]
    return found


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: bool(inner) if key in _PASSING else _timeless(inner) for key, inner in value.items()}
    return value


def told(root: Root) -> list[str]:
    """The events of the audit messages, those of recoveries and of zed left out."""
    found = (message for message in root.messages() if message.sender != "zed")
    events = (message.status for message in found)
    return [event for event in events if event.startswith(_FAMILY) and not event.startswith(_SETTLED)]


def recoveries(root: Root) -> list[str]:
    return [message.status for message in root.messages() if message.status.startswith(_SETTLED)]


def turn(root: Root) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root.folder() / "_turn.json").read_text())
    return found


def versions(root: Root) -> Iterator[tuple[int, str]]:
    """Version and holder of every change of the turn, as the messages tell them."""
    for message in root.messages():
        if message.status.startswith(("turn.", "request.approved")) and not message.status.startswith(_SETTLED):
            body = json.loads(message.body)
            if "version" in body:
                yield body["version"], body["holder"]


# ---- what must hold -------------------------------------------------------------------------------------------


def assert_counted(root: Root) -> None:
    """The messages tell every version once, in order, and the last one is the record's."""
    found = list(versions(root))
    assert [version for version, _ in found] == list(range(1, len(found) + 1)), found
    if found:
        record = turn(root)
        assert found[-1] == (record["version"], record["holder"])


class Before:
    """A template as it is, and as a command leaves it."""

    def __init__(self, template: Root, after: Root, step: Step) -> None:
        self.state, self.messages, self.told = state(template), message_bytes(template), told(template)
        outcome = step.run(after, environment=QUICK)
        assert outcome.status in (0, 4) and not outcome.code, outcome
        self.after, self.event = state(after), told(after)[-1]
        assert len(told(after)) == len(self.told) + 1

    def assert_old_or_new(self, root: Root) -> bool:
        """Whether the change took place: wholly, with one audit message, or not at all."""
        assert_sound(root, self.messages)
        is_new = len(told(root)) > len(self.told)
        assert told(root) == [*self.told, *([self.event] if is_new else [])]
        assert state(root) == (self.after if is_new else self.state)
        assert_counted(root)
        return is_new


def settle(root: Root) -> Result | None:
    """recover-pending, if something is pending: then the family is closed until somebody says so."""
    if not journals(root):
        return None
    assert journals(root) == ["turn.json"]
    refusal = root.run(*NEXT, **QUICK)
    assert refusal.code == "TURN_TRANSACTION_PENDING" and refusal.status == 2, refusal
    assert "recover-pending c" in refusal.err
    root.ok("task", "list", "c")
    assert root.run("turn", "show", "c").status == 0
    return root.ok(*RECOVER, **QUICK)


def assert_open(root: Root) -> None:
    """The family is open, and nothing is left lying about."""
    root.ok(*NEXT, **QUICK)
    assert journals(root) == []
