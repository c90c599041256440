"""Tasks and leases under test: shortcuts, what a folder holds, and what must hold of records and audit messages."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support import Result, Root

from agent_chat import clock, frontmatter
from agent_chat.cli import parser, table
from agent_chat.storage import disk, journal

QUICK = {"AGENT_CHAT_FSYNC": "0"}
HOUR = 3600 * clock.SECOND
LONG_AGO = "2020-01-01T00:00:00.000000+00:00"
_TOLD = ("status", "owner", "lease_expires_at", "updated_at")
FAR_AHEAD = "2099-01-01T00:00:00.000000+00:00"


# ---- making ---------------------------------------------------------------------------------------------


def make(root: Root, task_id: str, *options: object, by: str = "alice") -> Result:
    return root.ok("task", "create", "c", task_id, "--from", by, "--title", task_id, *options, **QUICK)


def do(root: Root, verb: str, task_id: str, who: str, *options: object) -> Result:
    """A task command that must work."""
    return root.ok("task", verb, "c", task_id, "--as", who, *options, **QUICK)


def lease_expired(root: Root, task_id: str = "T-1", who: str = "bob", ago: int = HOUR) -> None:
    """A lease of five minutes, claimed an hour ago."""
    present, clock.now = clock.now, lambda: present() - ago
    try:
        do(root, "claim", task_id, who)
    finally:
        clock.now = present


def edit(root: Root, path: str, **changes: Any) -> None:
    """Change fields of a record by hand; `...` takes one out."""
    file = root.folder() / path
    record = {**json.loads(file.read_text("utf-8")), **changes}
    file.write_text(json.dumps({key: value for key, value in record.items() if value is not ...}), "utf-8")


# ---- looking --------------------------------------------------------------------------------------------


def task(root: Root, task_id: str = "T-1") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root.folder() / f"tasks/{task_id}.json").read_text("utf-8"))
    return found


def claim(root: Root, name: str = "T-1.bob") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root.folder() / f"claims/{name}.json").read_text("utf-8"))
    return found


def claims(root: Root) -> list[str]:
    """The names of the claims, without their ending."""
    return sorted(path.stem for path in (root.folder() / "claims").glob("[!.]*.json"))


def records(root: Root) -> dict[str, bytes]:
    """The bytes of every task and claim, by its path in the channel."""
    found = [path for where in ("tasks", "claims") for path in (root.folder() / where).glob("[!.]*.json")]
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in sorted(found)}


def everything(root: Root) -> dict[str, bytes]:
    """All that a refusal must leave alone: every file but locks, taken numbers and what is derived."""
    passing = {".lock", ".numbers", ".tmp", ".index"}
    found = (path for path in root.folder().rglob("*") if not passing & {*path.relative_to(root.folder()).parts})
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in found if not is_plain_folder(path)}


def is_plain_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not path.name.endswith(".json")


def journals(root: Root) -> list[str]:
    return sorted(path.name for path in (root.folder() / ".journal").glob("*.json"))


class Audit:
    """An audit message: who did what, whom it concerns, its body."""

    def __init__(self, message: frontmatter.Message) -> None:
        self.event, self.sender, self.title = message.status, message.sender, message.title
        self.body: dict[str, Any] = json.loads(message.body)
        self.concerns = {name for name in message.header.get("concerns", "").split(",") if name}

    def __repr__(self) -> str:
        return f"<{self.title} by {self.sender} concerns {self.concerns} {self.body}>"


def audits(root: Root) -> list[Audit]:
    found = (message for message in root.messages() if message.status.startswith(("task.", "lease.")))
    return [Audit(message) for message in found if message.body.startswith("{")]


def last(root: Root) -> Audit:
    return audits(root)[-1]


def following(result: Result) -> list[str]:
    """The command after `next:`, without program and root. It must be one that the parser takes."""
    words = shlex.split(result.err.rpartition("; next: ")[2])
    words = words[words.index("--root") + 2 :]
    assert_command(words)
    return words


def assert_command(words: list[str]) -> None:
    if words[0] in ("--help", "doctor"):  # doctor is a later issue's
        return
    command = words[0] if words[0] in table.COMMANDS else " ".join(words[:2])
    if "--help" in words:
        assert command in table.COMMANDS or words[0] in table.GROUPS, words
        return
    parser.parse(words[len(command.split()) :], command)


# ---- what a crash leaves --------------------------------------------------------------------------------


class Interrupted:
    """A change that was made, and can be put into each state that a crash may leave of it."""

    PHASES = ("prepared", "half", "applied", "published")

    def __init__(self, root: Root, *words: object) -> None:
        self.root, self.before, messages = root, records(root), root.names()
        write, kept = journal.write, []

        def writing(folder: disk.Folder, family: str, entry: journal.Journal) -> None:
            kept.append(entry.encode())
            write(folder, family, entry)

        journal.write = writing
        try:
            root.ok(*words, **QUICK)
        finally:
            journal.write = write
        (self.journal,) = kept
        self.after = records(root)
        (self.message,) = [name for name in root.names() if name not in messages]
        self.text = (root.folder() / self.message).read_bytes()

    def leave(self, phase: str) -> Root:
        """`half`: the claims as after, the tasks as before."""
        folder = self.root.folder()
        for path in {*self.before, *self.after}:
            is_after = phase in ("applied", "published") or (phase == "half" and path.startswith("claims/"))
            data = (self.after if is_after else self.before).get(path)
            if data is None:
                (folder / path).unlink(missing_ok=True)
            else:
                write(folder / path, data)
        if phase == "published":
            write(folder / self.message, self.text)
        else:
            (folder / self.message).unlink(missing_ok=True)
            write(folder / ".numbers" / self.message[:4], "")
        write(folder / ".journal/task.json", self.journal)
        return self.root

    def changed_journal(self, **changes: Any) -> None:
        """The journal as it lies there, with other values; `...` takes one out."""
        found = {**json.loads(self.journal), **changes}
        text = json.dumps({key: value for key, value in found.items() if value is not ...})
        write(self.root.folder() / ".journal/task.json", text)


# ---- what must hold -------------------------------------------------------------------------------------


def assert_agree(root: Root) -> None:
    """Each lease stands in its task and in exactly one claim, and in both the same."""
    tasks = [json.loads(data) for path, data in records(root).items() if path.startswith("tasks/")]
    held = [json.loads(data) for path, data in records(root).items() if path.startswith("claims/")]
    leases = {(one["id"], one["owner"], one["lease_expires_at"]) for one in tasks if one["lease_expires_at"]}
    assert leases == {(one["task_id"], one["owner"], one["lease_expires_at"]) for one in held}, (tasks, held)
    assert len(held) == len(leases), held
    assert all(one["status"] == "in_progress" for one in tasks if one["lease_expires_at"]), tasks


def assert_audited(root: Root, hand_made: tuple[str, ...] = ()) -> None:
    """An auditor who knows only the messages arrives at the records."""
    told: dict[str, dict[str, Any]] = {}
    for audit in audits(root):
        body = audit.body
        assert body["event"] == audit.event and body["channel"] == "c", audit
        assert audit.title == f"{audit.event} {body['task_id']}"
        if audit.event.startswith("lease.transaction."):
            continue
        known = told.get(body["task_id"])
        assert (audit.event == "task.created") == (known is None), (audit, known)
        if known:
            assert body["previous_status"] == known["status"], (audit, known)
        told[body["task_id"]] = {key: body[key] for key in _TOLD}
    for path, data in records(root).items():
        if path.startswith("tasks/") and path not in hand_made:
            record = json.loads(data)
            assert told.pop(record["id"]) == {key: record[key] for key in _TOLD}, path
    assert not told, ("told of tasks that are not there", told)


def assert_one_line(result: Result, code: str) -> None:
    """The form of a refusal."""
    assert (result.code, result.status, result.out) == (code, 2, ""), result
    assert len(result.err.splitlines()) == 1 and "Traceback" not in result.err, result


def refused(root: Root, code: str, *words: object, **environment: str) -> Result:
    """A refusal that changes nothing and names a command that helps."""
    before = everything(root)
    result = root.run(*words, **{**QUICK, **environment})
    assert_one_line(result, code)
    following(result)
    assert everything(root) == before, ("a refusal changed something", words)
    return result


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


Prepare = Callable[[Root], object]
