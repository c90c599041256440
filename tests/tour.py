"""Every command with --json, in one channel, so that each kind of answer comes up: what schemas/answers/ describes.

A new command needs a line here. A line is a command; `-> 3` at its end is an exit status other than 0, and `person: `
before it sits a person at a terminal, who types the channel's name. A function does to the root what no command would.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Union

from support import Result, Root, make_root, open_channel
from terminal import at_terminal

from agent_chat import decisions
from agent_chat.cli.table import COMMANDS, GROUPS
from agent_chat.storage import disk, journal

Step = Union[str, Callable[[Root], object]]
PERSON = "person: "


class Answer:
    """What a command answered with --json."""

    def __init__(self, line: str, command: str, result: Result) -> None:
        self.line, self.command, self.result = line, command, result

    @property
    def value(self) -> object:
        """The answer; None for a refusal or a timeout."""
        return json.loads(self.result.out) if self.result.out else None

    @property
    def refusals(self) -> list[object]:
        """The refusals on standard error."""
        return [json.loads(line) for line in self.result.err.splitlines() if line.startswith("{")]


def expire(root: Root) -> None:
    """What was taken with a lease of a moment is over."""
    time.sleep(0.02)


def stage(root: Root) -> None:
    """A file that alice has locked is about to be committed."""
    Path("src").mkdir()
    Path("src/a.py").write_text("x")
    if shutil.which("git"):
        subprocess.run(["git", "add", "src/a.py"], check=True)


def set_policy(root: Root) -> None:
    with open_channel(root) as channel:
        decisions.set_policy(channel, "retention", f"{time.monotonic_ns() % 999 + 1}d")


def interrupted(change: str | Callable[[Root], object], is_published: bool) -> Step:
    """A change that died before its journal was removed, or already before its message was published."""

    def step(root: Root) -> None:
        kept: dict[str, bytes] = {}
        write, before = journal.write, root.names()

        def keeping(folder: disk.Folder, family: str, entry: journal.Journal) -> None:
            kept[family] = entry.encode()
            write(folder, family, entry)

        journal.write = keeping
        try:
            _ = root.ok(*shlex.split(change)) if isinstance(change, str) else change(root)
        finally:
            journal.write = write
        for family, data in kept.items():
            (root.folder() / f".journal/{family}.json").write_bytes(data)
        for name in [] if is_published else {*root.names()} - {*before}:
            (root.folder() / name).unlink()

    return step


def damage_records(root: Root) -> None:
    (root.folder() / "tasks/T-9.json").write_text("{}")
    (root.folder() / f"locks/{'0' * 32}.json").write_text("[]")


def damage_journal(root: Root) -> None:
    (root.folder() / ".journal/task.json").write_text("{}")


def mend_records(root: Root) -> None:
    (root.folder() / "tasks/T-9.json").unlink()


def post_bad_event(root: Root) -> None:
    root.put(99, "no event").write_text(root.put(99).read_text().replace("discussion", "event.status"))


def set_cursor_beyond(root: Root) -> None:
    (root.folder() / ".cursors/bob.txt").write_text("7777\n")


MESSAGES: list[Step] = [
    "version",
    "channels",
    "init d --members alice,bob --topic 'a topic'",
    "init d -> 2",
    "roster c",
    "post c --from alice --title 'what is open' --to bob --body hello",
    "post c --from bob --title 'Decision: files' --status decision --reply 1 --body yes",
    "post c --from carol --title stuck --to dave --force --status blocker --body why",
    "post c --from carol --title done --status verification --body tested",
    "post c --from carol --title 'for a moment' --to alice --topic docs/x --request-id r-1 --expires-in 0.01 --body b",
    "post c --from carol --title 'for a moment' --to alice --topic docs/x --request-id r-1 --body b",
    "post c --from carol --title other --topic docs/x --request-id r-1 --body b -> 2",
    "post c --from carol --title other --if-latest 0 --body b -> 2",
    expire,
    "ring c --from alice --to bob --ref seq:1 'please look now'",
    "ring c --from alice --to bob --ref seq:1 'please look now'",
    "ring c --from alice --to bob --ref seq:99 'please look now' -> 2",
    "topics c",
    "thread c 2",
    "receipts c 5",
    "search c hello",
    "log c",
    "show c 5",
    "read c --as carol",
    "read c --as bob --after 1 --exclude-topic docs/x",
    "wait c --as alice --timeout 0 --peek",
    "read c --as alice",
    "wait c --as bob --timeout 0",
    "wait c --as bob --timeout 0 -> 4",
    "watch c --as frank --timeout 0.05 -> 4",
    "watch --as erin --notify --timeout 0.05 -> 4",
    "read c --as carol --all",
    "ack c --as dave --upto 2",
    "peek c -n 9",
    "show c 2",
    "show c 77 -> 2",
    "roster c",
    "channels",
    lambda root: (root.folder() / "task-1.md").write_text("work\n"),
    "claim c task-1.md --as bob",
    "claim c task-1.md --as alice -> 3",
    "unclaim c task-1.md --as bob",
]
TASKS: list[Step] = [
    "task create c T-1 --from alice --title first --acceptance works --branch b --files-hint src/a.py",
    "task create c T-2 --from alice --title second --depends-on T-1 --owner bob",
    "task create c T-3 --from alice --title third",
    "task create c decision-1 --from alice --title 'which one' --acceptance this",
    "task update c T-1 --as alice --title 'the first'",
    "task claim c T-1 --as bob",
    "task claim c T-1 --as alice -> 2",
    "task renew c T-1 --as bob",
    "task list c --ready",
    "task show c T-2",
    "state c",
    "task release c T-1 --as bob",
    "task next c --as bob",
    "task done c T-1 --as bob",
    "task done c decision-1 --as alice -> 2",
    "task update c decision-1 --as alice --status in_progress",
    "task done c decision-1 --as alice",
    "task claim c T-3 --as bob --ttl 0.01",
    expire,
    "task recover c T-3 --as alice --reason gone",
    "task release c T-3 --as alice",
    "task block c T-3 --as alice",
    "task recover-pending c --as alice -> 2",
    interrupted("task create c T-7 --from bob --title t", is_published=True),
    "task list c",
    "task recover-pending c --as alice",
    interrupted("task create c T-8 --from bob --title t", is_published=False),
    "state c",
    "task create c T-9 --from alice --title t -> 2",
    "task recover-pending c --as alice",
]
LOCKS: list[Step] = [
    "locks c",
    "check c src --as bob",
    "lock c src/a.py docs/ --as alice",
    "check c src --as bob -> 3",
    "locks c",
    "renew-lock c src/a.py --as alice",
    "guard install",
    "guard install",
    stage,
    "guard pre-commit",
    "state c",
    "unlock c src/a.py --as alice",
    "lock c src/b.py --as alice --ttl 0.01",
    expire,
    "recover c src/b.py --as bob --reason gone",
    "recover-pending c --as bob",
    interrupted("lock c src/c.py --as alice", is_published=True),
    "recover-pending c --as bob",
    interrupted("lock c src/d.py --as alice", is_published=False),
    "recover-pending c --as bob",
]
GUARDS: list[Step] = [
    "guards show c",
    "person: policy set c guards on",
    "post c --from dave --to erin --title t --body dave --force",
    "post c --from erin --to dave --title t --body erin --force",
    "post c --from erin --to dave --title t --body erin",
    *(
        f"post c --from {one} --to {other} --title t --body {number} --force"
        for number in range(5)
        for one, other in (("dave", "erin"), ("erin", "dave"))
    ),
    "post c --from dave --to erin --title t --body more -> 2",
    "guards show c",
    "log c --ledger",
    "agents c",
    "state c",
    "person: guards reset c dave,erin",
    "person: guards reset c dave,erin",
    "person: policy set c guards off",
]
TROUBLE: list[Step] = [
    "event post c --from alice --type capability --harness h",
    "event post c --from alice --type status --harness h --status busy --detail 'at work'",
    post_bad_event,
    "event read c -> 2",
    damage_records,
    "task list c -> 2",
    "guard pre-commit",
    "state c",
    f"recover c {'0' * 32}.json --as bob --reason damaged",
    damage_journal,
    "task recover-pending c --as alice -> 2",
    "state c",
    "task recover-pending c --as alice --discard-journal --reason damaged",
    mend_records,
    "compact c --as alice",
    set_cursor_beyond,
    "doctor c -> 3",
    "doctor --fix -> 3",
    "setup --host codex --dry-run",
    "demo",
    "nonsense -> 2",
]
PEOPLE: list[Step] = [
    "policy show c",
    "archive c --before 3",
    "person: archive c --before 8 --delete",
    "person: policy set c retention 14d",
    "policy set c access off -> 2",
    interrupted(set_policy, is_published=True),
    "recover-pending c --as bob",
    interrupted(set_policy, is_published=False),
    "recover-pending c --as bob",
    "join c --as alice --session s-1 --harness h",
    "join c --as bob --session s-1",
    "join c --as bob --session s-2 -> 2",
    "join c --as bob --session s-2 --takeover --reason 'it hangs'",
    "join c --as bob --session s-3 --takeover --reason 'so do I'",
    "requests c",
    "person: approve c R-1",
    "person: deny c R-2 --reason 'one is enough'",
    "requests c --all",
    "leave c --as alice --session s-1",
    "agents c",
    "digest c --of bob",
    "digest c --of nobody -> 2",
    "digest c --of bob --wait --timeout 0 -> 4",
    "turn show c",
    "turn open c --orchestrator alice --worker bob",
    "turn wait c --as alice --timeout 0",
    "turn assign c --as alice --version 1 --title t --body b --request-id r-1",
    "turn assign c --as alice --version 1 --title t --body b --request-id r-1",
    "turn assign c --as alice --version 1 --title t -> 2",
    "turn wait c --as alice --timeout 0 -> 4",
    "turn wait c --as bob --timeout 0",
    "turn report c --as bob --version 2 --outcome blocked",
    "turn show c",
    "turn close c --as bob --reason 'all is done'",
    "turn reopen c --as bob --reason 'not yet'",
    "turn roles c --as bob --worker carol --reason 'she can'",
    "person: approve c R-3",
    "person: deny c R-4 --reason 'it is closed'",
    "person: approve c R-5",
    "person: turn close c",
    "person: turn reopen c",
    "person: turn roles c --worker carol",
    "person: turn close c",
    "person: turn reopen c",
    "person: turn roles c --worker bob",
    "turn assign c --as alice --version 9 --title t --body b",
    "turn wait c --as bob --have 10 --timeout 0 -> 4",
]
TOUR: list[Step] = [*MESSAGES, *TASKS, *LOCKS, *PEOPLE, *GUARDS, *TROUBLE]


def run(path: Path) -> list[Answer]:
    """The answers of the tour in the fresh root `path`/root, each beside its line."""
    root, work = make_root(path), path / "work"
    work.mkdir()
    has_git = shutil.which("git") is not None
    if has_git:
        subprocess.run(["git", "init", "-q", str(work)], check=True)
    before = os.getcwd()
    os.chdir(work)
    try:
        return [
            _answer(root, step)
            for step in TOUR
            if (isinstance(step, str) or not _do(step, root)) and (has_git or not str(step).startswith("guard"))
        ]
    finally:
        os.chdir(before)


def _do(step: Callable[[Root], object], root: Root) -> bool:
    step(root)
    return True


def _answer(root: Root, step: Step) -> Answer:
    line, _, status = str(step).removeprefix(PERSON).partition(" -> ")
    words = shlex.split(line)
    if str(step).startswith(PERSON):
        result = at_terminal(root, *words, "--json", environment={"AGENT_CHAT_FSYNC": "0"})
    else:
        result = root.run(*words, "--json", AGENT_CHAT_FSYNC="0")
    assert result.status == int(status or 0), (line, result)
    command = " ".join(words[: 2 if words[0] in GROUPS else 1])
    assert command in COMMANDS or result.status == 2, line
    return Answer(line, command, result)
