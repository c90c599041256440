"""Channels damaged at random: no command fails with a traceback or hangs, and one that looks changes nothing.

A sample runs always; AGENT_CHAT_TEST_SCALE=20 runs twenty times as many. A seed makes the same damage again:
`-k "[17]"`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import records_scene
import tour
from damage import Damage, snapshot
from scene import LOOKING, every
from support import Result, Root

from agent_chat import points

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs pipes, links and alarms")

COUNT = int(200 * float(os.environ.get("AGENT_CHAT_TEST_SCALE") or 1))
PATIENCE = 20  # seconds for one command; a hang ends it
ALWAYS = [["state", "c"], ["state", "c", "--strict"], ["doctor", "c"], ["event", "read", "c"]]
OFTEN = [
    *every(LOOKING),
    ["doctor", "--json"],
    ["state", "c", "--json"],
    ["task", "list", "c"],
    ["task", "list", "c", "--json"],
    ["task", "list", "c", "--ready"],
    ["task", "show", "c", "T-1"],
    ["locks", "c"],
    ["check", "c", "src", "--as", "bob"],
    ["read", "c", "--as", "alice", "--peek", "--json"],
    ["requests", "c", "--all"],
]
CHANGING = [
    ["read", "c", "--as", "bob"],
    ["post", "c", "--from", "alice", "--title", "t", "--body", "b"],
    ["post", "c", "--from", "alice", "--title", "t", "--body", "b", "--request-id", "r", "--if-read"],
    ["post", "c", "--from", "carol", "--title", "t", "--body", "b", "--expires-in", "9", "--json"],
    ["archive", "c", "--before", "30"],
    ["ack", "c", "--as", "bob", "--upto", "3"],
    ["task", "create", "c", "T-50", "--from", "alice", "--title", "t"],
    ["task", "claim", "c", "T-2", "--as", "bob"],
    ["task", "next", "c", "--as", "bob"],
    ["task", "recover-pending", "c", "--as", "alice"],
    ["recover-pending", "c", "--as", "alice"],
    ["lock", "c", "src/z.py", "--as", "bob"],
    ["unlock", "c", "docs", "--as", "alice"],
    ["event", "post", "c", "--from", "alice", "--type", "capability", "--harness", "h"],
    ["compact", "c"],
    ["claim", "c", "task-1.md", "--as", "bob"],
    ["join", "c", "--as", "dave", "--session", "s"],
    ["doctor", "c", "--fix"],
    ["ring", "c", "--from", "alice", "--to", "bob", "--ref", "seq:12", "come"],
    ["turn", "open", "c", "--orchestrator", "alice", "--worker", "bob", "--as", "alice"],
    ["turn", "assign", "c", "--as", "alice", "--version", "1", "--title", "t", "--body", "b"],
    ["leave", "c", "--as", "alice", "--session", "s-1"],
]


def numbered(found: dict[str, object]) -> dict[str, object]:
    """What has a number, in the folder or moved to the archive."""
    here = ((name.rpartition("/"), what) for name, what in found.items())
    return {name: what for (where, _, name), what in here if name[:4].isdigit() and where[:8] in ("", "archive/")}


class Template:
    """A channel after the tour, and journals that a crash may leave in it."""

    def __init__(self, path: Path) -> None:
        tour.run(path)
        self.root = Root(path / "root")
        self.journals: dict[str, bytes] = {}
        for name, line in {
            "task create": "task create c T-60 --from bob --title t",
            "task claim": "task claim c T-2 --as bob",
            "path lock": "lock c src/y.py --as alice",
        }.items():
            tour.interrupted(line, is_published=False)(self.root)  # type: ignore[operator]
            family = name.partition(" ")[0]
            file = self.root.folder() / f".journal/{family}.json"
            self.journals[name] = file.read_bytes()
            words = ["task", "recover-pending"] if family == "task" else ["recover-pending"]
            self.root.ok(*words, "c", "--as", "alice")
        (self.root.folder() / "0099-alice-x.md").unlink()  # a bad event
        self.root.ok("state", "c", "--strict")
        assert self.root.run("doctor", "c").status == 0, "what is damaged is not the template's fault"
        older = Root(path / "older")
        shutil.copytree(self.root.path, older.path)
        records_scene.legacy(older)
        legacy = "claims/.lease-transaction.json"
        self.journals[legacy] = (older.folder() / legacy).read_bytes()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return Template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def copy(template: Template, tmp_path: Path) -> Iterator[Root]:
    target = tmp_path / "root"
    shutil.copytree(template.root.path, target)
    yield Root(target)
    shutil.rmtree(target, ignore_errors=True)  # thousands of them would fill the disk


class Hangs(BaseException):
    pass


def hangs(*_: object) -> None:
    raise Hangs


def run(root: Root, words: list[str]) -> Result:
    """A command's answer, which must come, and in the form of one."""
    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(PATIENCE)
    try:
        result = root.run(*words, AGENT_CHAT_FSYNC="0")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert result.status in (0, 1, 2, 3, 4), (words, result)
    for line in result.err.splitlines():
        assert line.startswith(("agent-chat: ", '{"error"')) and "INTERNAL_ERROR" not in line, (words, result)
    assert result.status in (0, 3, 4) or "; next: " in result.err or '"next"' in result.err, (words, result)
    if "--json" in words and result.out:
        json.loads(result.out)
    return result


def without_cursors(found: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    return {name: what for name, what in found.items() if not name.startswith(".cursors")}


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_damaged_channel_is_looked_at_and_left_alone(
    template: Template, copy: Root, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:  # as a long channel does it
        monkeypatch.setattr(points, "WORTH", 1)
        monkeypatch.setattr(points, "_SETTLED", 0)
    damage = Damage(copy.folder(), seed, template.journals)
    chosen = random.Random(-seed - 1)
    before = snapshot(copy.folder())
    for words in [*ALWAYS, *chosen.sample(OFTEN, 5)]:
        run(copy, words)
        assert snapshot(copy.folder()) == before, (words, damage.done)
    messages = numbered(before)
    earlier = before
    for words in chosen.sample(CHANGING, 3):
        run(copy, words)
        after = snapshot(copy.folder())
        assert {name: numbered(after).get(name) for name in messages} == messages, (words, damage.done)
        if "--fix" in words:
            assert without_cursors(after) == without_cursors(earlier), damage.done
        earlier = after
