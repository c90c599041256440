"""Path locks under test: shortcuts, what a folder holds, and what must hold of records and audit messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from board import HOUR, QUICK, Audit
from support import Result, Root

from agent_chat import clock

TOLD = ("owner", "paths", "expires_at")


def make_workspace(path: Path) -> Path:
    """A git top level, as far as agent-chat looks: it has a `.git`."""
    work = path / "work"
    (work / ".git").mkdir(parents=True)
    (work / "src").mkdir()
    return work


# ---- making ---------------------------------------------------------------------------------------------


def lock(root: Root, *paths: str, who: str = "alice", seconds: float = 86400) -> dict[str, Any]:
    """The record of a new lock."""
    words = ["lock", "c", "--as", who, "--lease-seconds", seconds, "--json", "--", *paths]
    found: dict[str, Any] = root.ok(*words, **QUICK).json["lock"]
    return found


def lock_expired(root: Root, *paths: str, who: str = "alice", ago: int = HOUR) -> dict[str, Any]:
    """A lock of five minutes, taken an hour ago."""
    present, clock.now = clock.now, lambda: present() - ago
    try:
        return lock(root, *paths, who=who, seconds=300)
    finally:
        clock.now = present


def check(root: Root, *paths: str, who: str = "bob", **environment: str) -> Result:
    return root.run("check", "c", "--as", who, "--", *paths, **environment)


# ---- looking --------------------------------------------------------------------------------------------


def file_of(root: Root, record: dict[str, Any]) -> Path:
    return root.folder() / f"locks/{record['lock_id']}.json"


def records(root: Root) -> dict[str, bytes]:
    """The bytes of every lock record, by its name."""
    return {path.name: path.read_bytes() for path in sorted((root.folder() / "locks").glob("[!.]*.json"))}


def held(root: Root) -> list[dict[str, Any]]:
    return [json.loads(data) for data in records(root).values()]


def damaged(root: Root) -> list[Path]:
    """What was put aside."""
    return sorted((root.folder() / "locks/.damaged").glob("*"))


def audits(root: Root) -> list[Audit]:
    return [Audit(message) for message in root.messages() if message.status.startswith("path.")]


# ---- what must hold -------------------------------------------------------------------------------------


def assert_audited(root: Root) -> None:
    """An auditor who knows only the messages arrives at the records."""
    told: dict[str, dict[str, Any]] = {}
    for audit in audits(root):
        body = audit.body
        assert body["event"] == audit.event and body["channel"] == "c", audit
        assert audit.title == f"{audit.event} {body['lock_id']}"
        if audit.event == "path.lock.unlocked" or "put_aside" in body:
            assert told.pop(body["lock_id"], None) or "put_aside" in body, audit
        elif not audit.event.startswith("path.lock.transaction."):
            assert (audit.event == "path.locked") == (body["lock_id"] not in told), audit
            told[body["lock_id"]] = {key: body[key] for key in TOLD}
            assert body["lease_expires_at"] == body["expires_at"]
    assert told == {one["lock_id"]: {key: one[key] for key in TOLD} for one in held(root)}
